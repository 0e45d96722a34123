/* score_variance: rewards routing decisions that differ between tokens (Guo et al. 2025,
 * Advancing Expert Specialization for Better MoE).
 *
 *     loss = -mean over experts of the variance over real tokens of P_te
 *
 * The variance is divided by the number of tokens. The paper's second loss, orthogonal outputs
 * of the experts, is the regularizer `orthogonality`.
 * The losses of layers are averaged. The variance is over a micro-batch, so it depends on how a
 * batch is divided. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)ctx, (void)conf, (void)dims;
    return MF_OK;
}

/* mean over real tokens of v [T,E] -> [1,E] */
static mf_tensor *mean_of(mf_graph *g, const mf_routing *r, mf_tensor *v)
{
    if (!r->mask) return mf_mean(g, v, 1u, true);
    mf_tensor *sum =
        mf_sum(g, mf_mul(g, v, mf_reshape(g, r->mask, mf_shape2(r->tokens, 1))), 1u, true);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)self, (void)ctx;
    const float zero = 0;
    mf_tensor *total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    int32_t layers = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob) continue;
        mf_tensor *away = mf_sub(g, r->prob, mean_of(g, r, r->prob));
        mf_tensor *variance = mean_of(g, r, mf_square(g, away));
        total = mf_sub(g, total, mf_mean(g, variance, MF_ALL, false));
        layers++;
    }
    *ret_loss = mf_scale(g, total, 1.0 / (layers > 0 ? layers : 1));
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_UNEQUAL,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "score_variance", "1.0", "MIT",
                   "probabilities that differ between tokens", options, char, char, &vtable);
