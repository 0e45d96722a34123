/* by_id: a regularizer that increases the probability that equal tokens are assigned to the
 * same expert (Roller et al. 2021, as a penalty).
 *
 *     loss = mean over layers and tokens of -ln P(token id mod E) */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)ctx, (void)conf, (void)dims;
    return MF_OK;
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    mf_tensor *sum = NULL;
    (void)self;
    for (int32_t l = 0; l < n; l++) {
        const mf_routing *r = routing[l];
        const int32_t experts = r->experts;
        if (!MF_HAS(r, mf_routing, token_ids))
            return mf->fail(ctx, MF_EPLUGIN, "this moefw has no token ids in its records");
        mf_tensor *E = mf->constant(g, MF_I32, mf_shape1(1), &experts), *ids = r->token_ids;
        mf_tensor *rest = mf_sub(g, ids, mf_mul(g, mf_div(g, ids, E), E)); /* ids mod E */
        mf_tensor *p = mf_take(g, r->prob, mf_reshape(g, rest, mf_shape2(r->tokens, 1)));
        mf_tensor *each =
            mf_reshape(g, mf_ln(g, mf_clamp(g, p, 1e-20, 1)), mf_shape1(r->tokens));
        mf_tensor *mean;
        if (r->mask) {
            mf_tensor *real = mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30);
            mean = mf_div(g, mf_sum(g, mf_mul(g, each, r->mask), MF_ALL, false), real);
        } else {
            mean = mf_mean(g, each, MF_ALL, false);
        }
        sum = sum ? mf_add(g, sum, mean) : mean;
    }
    *ret_loss = mf_scale(g, sum, -1.0 / n);
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "by_id", "1.0", "MIT",
                                  "an expert for each token id", options, char, char, &vtable);
