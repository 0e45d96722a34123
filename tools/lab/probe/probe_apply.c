/* Writes a change into the inputs of a graph for probes: biases of scores, and the map of
 * experts. Outside of mf_probe_apply and mf_probe_clear_of, every layer is at no change. */
#include "lab/probe/probe_parts.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "plugin/load/open.h"

static int inputs(const mf_model_graph *mg, int32_t at, float **ret_bias, float **ret_map)
{
    const mf_moe_out *o = &mg->moe[at];
    *ret_map = mf_tensor_input(o->expert_map);
    *ret_bias = o->route_bias ? mf_tensor_input(o->route_bias) : NULL;
    return *ret_map && (*ret_bias || !o->route_bias) ? MF_OK : MF_ENOMEM;
}

static int clear(const mf_model *m, mf_model_graph *mg, int32_t at)
{
    const int64_t E = m->moe[at].config.experts, T = mg->moe[at].routing.tokens;
    float *bias, *map;
    const int rc = inputs(mg, at, &bias, &map);
    if (rc != MF_OK) return rc;
    for (int64_t e = 0; e < E; e++)
        map[e] = (float)(e + 1);
    if (bias) memset(bias, 0, (size_t)(T * E) * sizeof *bias);
    return MF_OK;
}

int mf_probe_clear(const mf_model *m, mf_model_graph *mg)
{
    int rc = MF_OK;
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++)
        rc = clear(m, mg, i);
    return rc;
}

int mf_probe_clear_of(const mf_model *m, mf_model_graph *mg, const mf_probe_change *c)
{
    int rc = MF_OK;
    for (; rc == MF_OK && c; c = c->also)
        if (c->kind != MF_PROBE_TOP_K) rc = clear(m, mg, c->at);
    return rc;
}

/* Adds `value` to the bias of expert e for all tokens. */
static void add_bias(float *bias, int64_t T, int64_t E, int64_t e, float value)
{
    for (int64_t t = 0; t < T; t++)
        bias[t * E + e] += value;
}

/* Of earlier changes of the same layer, too: their experts are exchanged. */
static void exchange(float *map, int32_t a, int32_t b)
{
    const float was = map[a];
    map[a] = map[b];
    map[b] = was;
}

/* The experts that a change removes from the choice. */
static bool removes(const mf_probe_change *c, int64_t e)
{
    return (c->kind == MF_PROBE_NEXT && c->set[e]) || (c->kind == MF_PROBE_FORCE && !c->set[e]);
}

int mf_probe_apply(const mf_model *m, mf_model_graph *mg, const mf_probe_change *c,
                   const mf_probe_base *base)
{
    for (; c; c = c->also) {
        const mf_routing *r = &mg->moe[c->at].routing;
        const int64_t E = m->moe[c->at].config.experts, T = r->tokens, k = r->rows / T;
        float *bias, *map;
        const int rc = c->kind == MF_PROBE_TOP_K ? MF_OK : inputs(mg, c->at, &bias, &map);
        if (rc != MF_OK) return rc;
        switch (c->kind) {
        case MF_PROBE_NEXT:
        case MF_PROBE_FORCE:
            for (int64_t e = 0; e < E; e++)
                if (removes(c, e)) add_bias(bias, T, E, e, -INFINITY);
            break;
        case MF_PROBE_DROP:
            for (int64_t e = 0; e < E; e++)
                if (c->set[e]) map[e] = 0;
            break;
        case MF_PROBE_EXCHANGE:
            exchange(map, c->a, c->b);
            break;
        case MF_PROBE_RANK:
            for (int64_t t = 0; t < T; t++) {
                const int32_t e = base[c->at].chosen[t * k + c->a - 1];
                if (e >= 0) bias[t * E + e] = -INFINITY;
            }
            break;
        case MF_PROBE_BIAS:
            add_bias(bias, T, E, c->a, (float)(c->d * base[c->at].sd));
            break;
        case MF_PROBE_TOP_K:
        case MF_PROBE_KINDS:
            break;
        }
    }
    return MF_OK;
}

static int64_t left_of(const mf_probe_change *c, int64_t E)
{
    int64_t n = 0;
    for (int64_t e = 0; e < E; e++)
        n += !removes(c, e);
    return c->kind == MF_PROBE_RANK ? E - 1 : n;
}

int mf_probe_judge(const mf_model *m, const mf_model_graph *mg, const mf_probe_change *c)
{
    for (; c; c = c->also) {
        const mf_moe_layer *l = &m->moe[c->at];
        const mf_moe_out *o = &mg->moe[c->at];
        const char *router = mf_instance_plugin(l->router)->name;
        const bool map = c->kind == MF_PROBE_DROP || c->kind == MF_PROBE_EXCHANGE;
        if (o->routing.dispatch)
            return mf_fail(
                MF_EUSAGE,
                "layer %d: router %s mixes all tokens into each expert; a probe wants "
                "a router that assigns tokens to experts",
                (int)l->layer, router);
        if (!map && !o->route_bias)
            return mf_fail(MF_EUSAGE,
                           "layer %d: router %s selects experts by itself, not by scores that "
                           "core reads; with it experts can only be dropped (moefw probe --how "
                           "drop) and exchanged",
                           (int)l->layer, router);
        const int64_t E = l->config.experts, k = o->routing.rows / o->routing.tokens;
        if (!map && c->kind != MF_PROBE_TOP_K && left_of(c, E) < k)
            return mf_fail(MF_EUSAGE,
                           "layer %d: %s leaves %d of %d experts; expected at least %d, the "
                           "number for each token",
                           (int)l->layer, c->name, (int)left_of(c, E), (int)E, (int)k);
    }
    return MF_OK;
}

/* Whether a bias of the first token is finite. */
static int64_t open_experts(const float *bias, int64_t E)
{
    int64_t n = 0;
    for (int64_t e = 0; e < E; e++)
        n += isfinite(bias[e]);
    return n;
}

int mf_probe_judge_all(const mf_model *m, mf_model_graph *mg, const mf_probe_list *l,
                       const mf_probe_base *base)
{
    int rc = mf_probe_clear(m, mg);
    for (int i = 0; rc == MF_OK && i < l->n; i++) {
        rc = mf_probe_judge(m, mg, &l->change[i]);
        if (rc == MF_OK) rc = mf_probe_apply(m, mg, &l->change[i], base);
    }
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        float *bias, *map;
        if (!mg->moe[i].route_bias) continue;
        rc = inputs(mg, i, &bias, &map);
        const int64_t E = m->moe[i].config.experts, k = r->rows / r->tokens,
                      n = rc == MF_OK ? open_experts(bias, E) : k;
        if (n < k)
            rc = mf_fail(MF_EUSAGE,
                         "layer %d: together the changes leave %d of %d experts; expected at "
                         "least %d, the number for each token",
                         (int)m->moe[i].layer, (int)n, (int)E, (int)k);
    }
    return rc;
}
