/* head_norm: divides the outputs of attention heads by their L2 norms (Adaptive Transformer
 * with Sentinel Gates, section 5.3, "Activation Stability").
 *
 *     per = token:  y_th / |y_th|
 *     per = batch:  y_th / mean over real tokens of |y_h|
 *
 * Norms, and their mean, are at least 1e-5. The mean is a constant for the gradient, as in the
 * published code. It includes later tokens, so decoding cannot use a cache. The plugin has
 * no parameters. */
#include <moefw/moefw.h>

enum { TOKEN, BATCH };
static const char *const pers[] = {"token", "batch", NULL};

typedef struct {
    int64_t per;
} conf;
typedef struct {
    int64_t per;
} state;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    state *s = self;
    (void)dims;
    s->per = ((const conf *)conf_)->per;
    return s->per == BATCH ? mf->want(ctx, MF_ADAPTER_SEQUENCE) : MF_OK;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    const state *s = self;
    const double least = 1e-5;
    (void)ctx;
    if (s->per == TOKEN) {
        *ret_y = mf_l2_normalize(g, in->y, least);
        return mf->status(g);
    }
    mf_tensor *length = mf_sqrt(g, mf_sum(g, mf_square(g, in->y), 4u, true)), *mean;
    if (in->mask) {
        mf_tensor *mask =
            mf_reshape(g, in->mask, mf_shape3((int64_t)in->batch * in->seq, 1, 1));
        mf_tensor *n = mf_clamp(g, mf_sum(g, mask, MF_ALL, false), 1, 1e30);
        mean = mf_div(g, mf_sum(g, mf_mul(g, length, mask), 1u, true), n);
    } else {
        mean = mf_mean(g, length, 1u, true);
    }
    *ret_y = mf_div(g, in->y, mf_stop_gradient(g, mf_clamp(g, mean, least, 1e30)));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, per, "token", pers,
                   "over each token's own length, or over the mean length of all tokens of the "
                   "batch, later ones too (a constant to the gradient; no cache)"),
    MF_END_OPTIONS,
};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_HEADS),
                                  .at = "heads"};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "head_norm", "1.0", "MIT",
                                  "outputs of attention heads over their lengths", options,
                                  conf, state, &vtable);
