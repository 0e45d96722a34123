/* z_loss: keeps router logits small (Zoph et al. 2022, ST-MoE, eq. 5).
 *
 *     loss = mean over real tokens of (ln sum_i e^logit_i)^2, averaged over layers
 *
 * Layers whose router has no logits do not count. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)conf;
    (void)dims;
    return MF_OK;
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)self;
    (void)ctx;
    mf_tensor *total = NULL;
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->logits) continue;
        mf_tensor *z = mf_square(g, mf_logsumexp(g, r->logits)); /* [T,1] */
        mf_tensor *l;
        if (r->mask) {
            mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
            l = mf_div(g, mf_sum(g, mf_mul(g, z, m), MF_ALL, false),
                       mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
        } else {
            l = mf_mean(g, z, MF_ALL, false);
        }
        total = total ? mf_add(g, total, l) : l;
        used++;
    }
    if (used) {
        *ret_loss = mf_scale(g, total, 1.0 / used);
    } else {
        const float zero = 0;
        *ret_loss = mf->constant(g, MF_F32, mf_shape0(), &zero);
    }
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_UNEQUAL,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "z_loss", "1.0", "MIT",
                   "mean square of the logits' log-sum-exp", options, char, char, &vtable);
