/* top_p: as many experts as make up a share of the probability (Huang et al. 2024, Harder Tasks
 * Need More Experts, eq. 4).
 *
 * A token takes each expert for which the larger probabilities of the other experts sum to less
 * than p. A gemm with a triangle of ones, from mf_arange and mf_greater, gives the sums. */
#include <moefw/moefw.h>

typedef struct {
    double p;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.3));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((router *)self_)->c;
    const int64_t E = in->experts, T = (int64_t)in->batch * in->seq;
    const float p = (float)c->p;
    mf_tensor *index, *n = mf_arange(g, E);
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits);
    mf_tensor *sorted = mf_sort(g, out->prob, true, &index);
    /* before[i,j] = 1 where i < j */
    mf_tensor *before = mf_cast(
        g, mf_greater(g, mf_reshape(g, n, mf_shape2(1, E)), mf_reshape(g, n, mf_shape2(E, 1))),
        MF_F32);
    mf_tensor *sum = mf_matmul(g, mf_stop_gradient(g, sorted), false, before, false, 1);
    mf_tensor *share = mf->constant(g, MF_F32, mf_shape1(1), &p);
    mf_tensor *taken = mf_cast(g, mf_greater(g, share, sum), MF_I32); /* [T,E] 1: taken */
    const int32_t one = 1;
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    /* (index + 1) taken - 1: the expert, or -1 */
    mf_tensor *expert = mf_sub(g, mf_mul(g, mf_add(g, index, ones), taken), ones);
    out->expert = mf_reshape(g, expert, mf_shape1(T * E));
    out->gate = mf_reshape(g, mf_mul(g, sorted, mf_cast(g, taken, MF_F32)), mf_shape1(T * E));
    out->own_top_k = (int32_t)E;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, p, "0.5", 0.01, 1, 0, "share of the probability"), MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "top_p", "1.0", "MIT",
                   "experts up to a share of the probability", options, conf, router, &vtable);
