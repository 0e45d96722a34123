/* silent.c: a router with one expert per token that also learns from the second best expert.
 *
 *     cc -shared -fPIC -O2 $(pkg-config --cflags moefw) -o silent.so silent.c
 *     moefw plugin check ./silent.so --set moe.top_k=1
 *     moefw --plugin ./silent.so --set moe.top_k=1 --steps 50
 *
 * In graphs that train, each token has a second assignment that is silent: its expert computes
 * it, and its gate has the value 0 and the gradient of p_second. So p_second grows where that
 * expert would have helped. The assignment is not counted, and its expert learns nothing from
 * it. In evaluation core chooses, as for any router with logits. */
#include <moefw/moefw.h>

typedef struct {
    double init_std;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    if (dims->top_k != 1)
        return mf->fail(ctx, MF_ECONFIG, "expected moe.top_k = 1, found %d", (int)dims->top_k);
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(((const conf *)c)->init_std));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->renormalize = 0; /* the gate is p */
    if (!mf->training(g) || in->experts == 1) return mf->status(g);

    out->prob = mf_softmax(g, out->logits);
    mf_tensor *expert = mf_topk(g, out->prob, 2); /* [T,2] i32 */
    mf_tensor *p = mf_take(g, out->prob, expert); /* [T,2] */
    mf_tensor *first = mf_slice(g, p, 1, 0, 1), *second = mf_slice(g, p, 1, 1, 1);
    /* value 0, gradient of p_second */
    mf_tensor *gate[2] = {first, mf_sub(g, second, mf_stop_gradient(g, second))};
    /* 0: the assignment counts, 1: it is silent */
    mf_tensor *still = mf_stop_gradient(g, first);
    mf_tensor *silent[2] = {mf_affine(g, still, 0, 0), mf_affine(g, still, 0, 1)};
    out->expert = mf_reshape(g, expert, mf_shape1(2 * T));
    out->gate = mf_reshape(g, mf_concat(g, 2, gate, 1), mf_shape1(2 * T));
    out->silent = mf_reshape(g, mf_concat(g, 2, silent, 1), mf_shape1(2 * T));
    out->own_top_k = 2;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "silent", "1.0", "MIT",
                                  "top 1 that also learns from the second best expert", options,
                                  conf, char, &vtable);
