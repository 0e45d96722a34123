/* lab/harness_block.c: a block with all points for adapters, for checks.
 *
 *     x -> [block_in] -> x + [attention](o([heads](q + k + v)) + [bias]) -> [block_mid]
 *       -> x + [ffn](MoE) -> [block_out]
 *
 * In the block itself no token depends on another token. So any such dependence comes from the
 * adapter under check. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "lab/harness.h"
#include "ops/ops.h"

static const char *const parts[] = {"attention.q", "attention.k", "attention.v"};
enum { PARTS = 3 };

static mf_param *stub(const mf_harness *h, int32_t layer, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.%s", (int)layer, what);
    return mf_store_find(h->store, name);
}

static int declare(mf_harness *h, int32_t layer, const char *what, mf_shape shape, mf_init init,
                   bool buffer)
{
    char name[96];
    mf_param *p;
    snprintf(name, sizeof name, "layers.%d.%s", (int)layer, what);
    return mf_store_declare(h->store, name, shape, init, buffer, &p);
}

/* Writes the linear layers that the adapter's section selects to out, an array of 6. Returns
 * their number. */
static int32_t find_sites(const mf_harness *h, mf_adapter_at *at, mf_linear_site *out)
{
    const int64_t d = h->spec.dim;
    const mf_linear_site all[] = {{"attention.q", d, d, 0, MF_HARNESS_HEADS},
                                  {"attention.k", d, d, 0, MF_HARNESS_HEADS},
                                  {"attention.v", d, d, 0, MF_HARNESS_HEADS},
                                  {"attention.o", d, d, 0, MF_HARNESS_HEADS},
                                  {"expert.weight", d, d, h->spec.experts, 0},
                                  {"router.weight", d, h->spec.experts, 0, 0}};
    int32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (mf_adapter_chooses(at, all[i].name)) out[n++] = all[i];
    return n;
}

int mf_harness_adapter_new(mf_harness *h, int32_t layer, const mf_dims *dims)
{
    static const mf_init one = {MF_INIT_CONST, 0, 1}, normal = {MF_INIT_NORMAL, 0, 0.3};
    const mf_loaded *plugin = h->spec.plugin;
    const mf_adapter *table = &plugin->table.adapter;
    const mf_plugin_section section = {
        .section = "adapter.check", .plugin = plugin->name, .at = h->spec.at};
    const int64_t d = h->spec.dim;
    mf_arena *arena = h->arena;
    mf_adapter_use *u = &h->use[layer];
    mf_linear_site *sites = mf_arena_alloc(arena, 6 * sizeof *sites);
    mf_adapter_at at;
    char path[64];
    if (!sites) return MF_ENOMEM;
    int rc = mf_adapter_parse_at(&section, table, arena, &at);
    for (int i = 0; i < PARTS && rc == MF_OK; i++) {
        snprintf(path, sizeof path, "stub.%c", "qkv"[i]);
        rc = declare(h, layer, path, mf_shape2(d, d), normal, false);
    }
    if (rc == MF_OK) rc = declare(h, layer, "stub.o", mf_shape2(d, d), normal, false);
    if (rc == MF_OK) rc = declare(h, layer, "attention.out.bias", mf_shape1(d), normal, false);
    *u = (mf_adapter_use){.points = at.points, .sites = sites};
    u->n_sites = find_sites(h, &at, sites);
    u->met = mf_arena_alloc(arena, 8);
    const char *own = table->path ? table->path : "check";
    snprintf(path, sizeof path, "layers.%d.%s", (int)layer, own);
    snprintf(h->adapter_path, sizeof h->adapter_path, "layers.*.%s", own);
    if (rc == MF_OK)
        rc = u->met ? mf_adapter_new(h->host, plugin, path, h->ini, "check", NULL,
                                     "adapter.check", dims, sites, u->n_sites, 1, &u->ctx)
                    : MF_ENOMEM;
    h->adapters[layer] = (mf_adapters){u, h->spec.unadapted ? 0 : 1};
    h->layer[layer].adapters = &h->adapters[layer];
    if (rc == MF_OK && mf_instance_notes(u->ctx)->wants & MF_ADAPTER_HEADS) {
        rc = declare(h, layer, "attention.active", mf_shape1(MF_HARNESS_HEADS), one, true);
        if (rc == MF_OK)
            rc =
                declare(h, layer, "attention.lr_scale", mf_shape1(MF_HARNESS_HEADS), one, true);
    }
    return rc;
}

bool mf_harness_sees_sequences(const mf_harness *h)
{
    return h->use[0].ctx && mf_instance_notes(h->use[0].ctx)->wants & MF_ADAPTER_SEQUENCE;
}

/* The columns of n heads of y [..,d], from head `first` on. Returns y itself if n is the number
 * of all heads. */
static mf_tensor *active_columns(const mf_harness *h, mf_tensor *y, int32_t first, int32_t n)
{
    const int64_t width = h->spec.dim / MF_HARNESS_HEADS;
    return n == MF_HARNESS_HEADS ? y : mf_slice(h->g, y, 1, first * width, n * width);
}

static void tell(mf_adapt_env *env, bool on, int32_t n, const int32_t *active)
{
    env->heads_cut = on;
    env->heads = on ? MF_HARNESS_HEADS : 0;
    env->n_active = on ? n : 0;
    env->active = on ? active : NULL;
}

static mf_tensor *first_half(mf_harness *h, int32_t layer, mf_adapt_env *env, mf_tensor *x)
{
    static const int32_t heads[] = {0, 1};
    const int32_t first = h->spec.one_head ? 1 : 0, n = MF_HARNESS_HEADS - first;
    const int64_t T = (int64_t)h->spec.batch * h->spec.seq,
                  width = h->spec.dim / MF_HARNESS_HEADS;
    mf_graph *g = h->g;
    mf_tensor *sum = NULL;
    tell(env, true, n, heads + first);
    for (int i = 0; i < PARTS; i++) {
        char what[16];
        snprintf(what, sizeof what, "stub.%c", "qkv"[i]);
        mf_tensor *y = mf_linear(g, x, mf_graph_param(g, stub(h, layer, what)), NULL);
        y = mf_adapt_linear(env, parts[i], x, active_columns(h, y, first, n));
        mf_graph_keep(h->by_head[layer][i] = y);
        sum = sum ? mf_add(g, sum, y) : y;
    }
    mf_tensor *y = mf_adapt(env, MF_AT_HEADS, mf_reshape(g, sum, mf_shape3(T, n, width)), NULL);
    mf_graph_keep(h->by_head[layer][PARTS] = y);
    y = mf_reshape(g, y, mf_shape2(T, n * width));
    mf_tensor *w = mf_graph_param(g, stub(h, layer, "stub.o"));
    mf_tensor *bias = mf_adapt(env, MF_AT_ATTENTION_BIAS,
                               mf_graph_param(g, stub(h, layer, "attention.out.bias")), NULL);
    if (mf_graph_status(g) != MF_OK) return NULL;
    mf_tensor *a = mf_linear(g, y, active_columns(h, w, first, n), bias);
    a = mf_adapt_linear(env, "attention.o", y, a);
    tell(env, false, 0, NULL);
    return mf_add(g, x, mf_adapt(env, MF_AT_ATTENTION, a, NULL));
}

mf_tensor *mf_harness_block(mf_harness *h, int32_t layer, mf_tensor *x,
                            const mf_moe_settings *settings)
{
    mf_adapt_env env = {.g = h->g,
                        .layer = layer,
                        .batch = h->spec.batch,
                        .seq = h->spec.seq,
                        .experts = h->spec.experts,
                        .adapters = &h->adapters[layer],
                        .mask = h->in.mask,
                        .positions = h->in.positions,
                        .sequence_ids = h->in.sequence_ids,
                        .values = h->values};
    mf_moe_settings own = *settings;
    mf_router_in in = h->in;
    own.env = &env;
    mf_graph_push(h->g, "layers.%d", (int)layer);
    mf_plughost_set_linear(h->host, mf_adapt_hook, &env);
    x = mf_adapt(&env, MF_AT_BLOCK_IN, x, NULL);
    if (x) x = first_half(h, layer, &env, x);
    if (x) x = mf_adapt(&env, MF_AT_BLOCK_MID, x, NULL);
    in.x = x;
    if (x && mf_moe_build(&h->layer[layer], &own, h->g, &in, &h->out[layer]) == MF_OK) {
        x = mf_add(h->g, x, mf_adapt(&env, MF_AT_FFN, h->out[layer].y, NULL));
        x = mf_adapt(&env, MF_AT_BLOCK_OUT, x, NULL);
    }
    mf_plughost_set_linear(h->host, NULL, NULL);
    mf_graph_pop(h->g);
    return mf_graph_status(h->g) == MF_OK ? x : NULL;
}
