/* even: a regularizer over all layers.
 *
 *     loss = mean over layers of E sum_e (P_e - 1/E)^2 + E sum_e load_e P_e / k
 *
 * P_e is the mean probability, load_e the share of admitted assignments that core measured.
 */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)c;
    (void)dims;
    return MF_OK;
}

/* P [E]: the mean over real tokens */
static mf_tensor *mean_prob(mf_graph *g, const mf_routing *r)
{
    if (!r->mask) return mf_mean(g, r->prob, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    return mf_div(g, mf_sum(g, mf_mul(g, r->prob, m), 1u, false),
                  mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)self;
    const float zero = 0;
    mf_tensor *sum = mf->constant(g, MF_F32, mf_shape0(), &zero);
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob) continue;
        const double E = r->experts;
        mf_tensor *p = mean_prob(g, r);
        mf_tensor *away = mf_square(g, mf_affine(g, p, 1, -1 / E));
        mf_tensor *meet =
            mf_scale(g, mf_mul(g, mf_stop_gradient(g, r->load), p), 1.0 / r->top_k);
        sum =
            mf_add(g, sum, mf_scale(g, mf_sum(g, mf_add(g, away, meet), MF_ALL, false), E / n));
    }
    mf->metric(ctx, g, "evenness", sum);
    *ret_loss = sum;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {sizeof(mf_regularizer), 0, init, NULL, loss, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "even", "1.0", "MIT",
                   "even probabilities, and even loads", options, char, char, &vtable);
