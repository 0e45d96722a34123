/* model/adapters.c: calls adapters while a graph is built, at each point of a block. The
 * adapters of a point are called in the order of their sections; each adapter receives the
 * value that the previous adapter returned. */
#include "model/adapters.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "model/model.h"

static const char *const point_names[MF_AT_POINTS] = {
    [MF_AT_BLOCK_IN] = "block_in",
    [MF_AT_BLOCK_MID] = "block_mid",
    [MF_AT_BLOCK_OUT] = "block_out",
    [MF_AT_ATTENTION] = "attention",
    [MF_AT_FFN] = "ffn",
    [MF_AT_HEADS] = "heads",
    [MF_AT_ATTENTION_BIAS] = "attention_bias",
    [MF_AT_EXPERT_IN] = "expert_in",
    [MF_AT_EXPERT_OUT] = "expert_out",
    [MF_AT_LINEAR] = "linear",
};

const char *mf_point_name(mf_point point)
{
    return point_names[point];
}

bool mf_adapters_at(const mf_adapters *a, mf_point point)
{
    for (int i = 0; a && i < a->n; i++)
        if (a->use[i].points & MF_POINT_BIT(point)) return true;
    return false;
}

static int site_of(const mf_adapter_use *u, const char *site)
{
    for (int i = 0; i < u->n_sites; i++)
        if (strcmp(u->sites[i].name, site) == 0) return i;
    return -1;
}

bool mf_adapters_at_linear(const mf_adapters *a, const char *site)
{
    for (int i = 0; a && i < a->n; i++)
        if (site_of(&a->use[i], site) >= 0) return true;
    return false;
}

/* ---- calling ---- */

static void describe(const mf_adapt_env *env, mf_point point, mf_adapter_in *in)
{
    in->size = sizeof *in;
    in->point = point;
    in->layer = env->layer;
    in->batch = env->batch;
    in->seq = env->seq;
    in->mask = env->mask;
    in->positions = env->positions;
    in->sequence_ids = env->sequence_ids;
    if (!env->heads_cut) return;
    in->heads = env->heads;
    in->n_active = env->n_active;
    in->active = env->active;
    in->head_mask = env->head_mask;
}

static void fill_taps(const mf_adapt_env *env, const mf_adapter_notes *n, mf_adapter_in *in)
{
    for (int32_t i = 0; i < MF_ADAPTER_TAPS; i++)
        in->tap[i] = i < n->n_taps && env->values
                         ? env->values[n->tap[i].layer * MF_AT_POINTS + n->tap[i].point]
                         : NULL;
}

static mf_tensor *call(mf_adapt_env *env, const mf_adapter_use *u, mf_adapter_in *in)
{
    mf_tensor *y = NULL;
    const mf_adapter_notes *n = mf_instance_notes(u->ctx);
    fill_taps(env, n, in);
    for (int32_t i = 0; i < n->n_taps; i++)
        if (!in->tap[i]) {
            mf_graph_fail(
                env->g, MF_EPLUGIN,
                "%s (plugin %s): the tap at %s of block %d comes after %s of block %d",
                mf_instance_path(u->ctx), u->section->plugin, point_names[n->tap[i].point],
                (int)n->tap[i].layer, point_names[in->point], (int)env->layer);
            return NULL;
        }
    return mf_instance_apply(u->ctx, env->g, in, &y) == MF_OK ? y : NULL;
}

mf_tensor *mf_adapt(mf_adapt_env *env, mf_point point, mf_tensor *y, const mf_adapter_in *more)
{
    mf_adapter_in in = more ? *more : (mf_adapter_in){0};
    describe(env, point, &in);
    in.y = y;
    for (int i = 0; in.y && env->adapters && i < env->adapters->n; i++)
        if (env->adapters->use[i].points & MF_POINT_BIT(point))
            in.y = call(env, &env->adapters->use[i], &in);
    if (env->values && env->layer >= 0) env->values[env->layer * MF_AT_POINTS + point] = in.y;
    return in.y;
}

static mf_tensor *adapt_linear(mf_adapt_env *env, const char *site, mf_tensor *y,
                               mf_adapter_in *in)
{
    describe(env, MF_AT_LINEAR, in);
    in->y = y;
    for (int i = 0; in->y && env->adapters && i < env->adapters->n; i++) {
        const mf_adapter_use *u = &env->adapters->use[i];
        const int at = site_of(u, site);
        if (at < 0) continue;
        in->site = &u->sites[at];
        u->met[at] = true;
        in->y = call(env, u, in);
    }
    return in->y;
}

mf_tensor *mf_adapt_linear(mf_adapt_env *env, const char *site, mf_tensor *x, mf_tensor *y)
{
    mf_adapter_in in = {.x = x};
    return adapt_linear(env, site, y, &in);
}

mf_tensor *mf_adapt_hook(void *arg, mf_graph *g, const mf_opdef *op, mf_tensor *const *in,
                         mf_tensor *y)
{
    mf_adapt_env *env = arg;
    const char *name = in[1]->param->name, *dot;
    if (g != env->g || !env->adapters) return y;
    if (strncmp(name, "layers.", 7) == 0 && (dot = strchr(name + 7, '.'))) name = dot + 1;
    const bool grouped = op->role == MF_ROLE_GROUPED_LINEAR;
    mf_adapter_in at = {.x = in[0],
                        .offset = grouped ? in[2] : NULL,
                        .token = grouped ? env->token : NULL,
                        .experts = grouped ? (int32_t)in[1]->shape.dim[0] : 0};
    return adapt_linear(env, name, y, &at);
}
