/* top_p: a token has as many experts as are needed for a share of the probability (Huang et al.
 * 2024, Harder Tasks Need More Experts, eq. 4).
 *
 *     P = softmax(W x), sorted: p_1 >= p_2 >= ...
 *     experts 1 .. t, the fewest whose p sum to at least `p`;   gate = p (renormalize = yes: p
 *     divided by the sum over the chosen experts)
 *
 * The expert with which the sum reaches the share is included, so a token has at least one
 * expert. Of equal p the lower index comes first. top_k has no effect. With most = m a token
 * has at most m experts, and memory is allocated for only m assignments; 0: up to E. A capacity
 * is computed from top_k if m is 0, else from m.
 *
 * The paper adds a loss of the mean entropy of P. Without it P becomes flat and all experts are
 * chosen. This loss is the regularizer `entropy`, weight 1e-4. Parameters: E d. */
#include <moefw/moefw.h>

typedef struct {
    double p, init_std;
    int64_t most, renormalize;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

/* [n,n] matrix: 1 where row < column, else 0. A row vector times this matrix is the sums of all
 * earlier elements. */
static mf_tensor *triangle(mf_graph *g, int64_t n)
{
    mf_tensor *i = mf_arange(g, n);
    return mf_cast(
        g, mf_greater(g, mf_reshape(g, i, mf_shape2(1, n)), mf_reshape(g, i, mf_shape2(n, 1))),
        MF_F32);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t E = in->experts, T = (int64_t)in->batch * in->seq;
    const int64_t m = c->most > 0 && c->most < E ? c->most : E;
    const int32_t one = 1;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits);
    mf_tensor *index = mf_topk(g, out->prob, m), *sorted = mf_take(g, out->prob, index);
    mf_tensor *before =
        mf_matmul(g, mf_stop_gradient(g, sorted), false, triangle(g, m), false, 1);
    mf_tensor *taken = mf_greater(g, mf->live(ctx, g, "p"), before); /* [T,m] 0 or 1 */
    mf_tensor *gate = mf_mul(g, sorted, taken);
    if (c->renormalize)
        gate = mf_div(g, gate, mf_clamp(g, mf_sum(g, gate, 2u, true), 1e-20, 1e30));
    out->gate = mf_reshape(g, gate, mf_shape1(T * m));
    /* the expert number is (index + 1) taken - 1, or -1 */
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    mf_tensor *expert = mf_mul(g, mf_add(g, index, ones), mf_cast(g, taken, MF_I32));
    out->expert = mf_reshape(g, mf_sub(g, expert, ones), mf_shape1(T * m));
    out->own_top_k = (int32_t)m;
    out->renormalize = (int32_t)c->renormalize;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, p, "0.4", 0.01, 1, MF_OPT_LIVE, "share of the probability"),
    MF_OPTION_INT(conf, most, "0", 0, 4096, 0, "most experts of a token; 0: all"),
    MF_OPTION_BOOL(conf, renormalize, "no", 0, "gates of a token sum to 1"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "top_p", "1.0", "MIT",
                                  "the fewest experts with a share of the probability", options,
                                  conf, router, &vtable);
