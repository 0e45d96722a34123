/* head_mean: divides the output of attention, including its bias, by the number of heads.
 * Inactive heads are counted, too. The result is the mean of the heads' outputs instead of
 * their sum (Adaptive Transformer with Sentinel Gates, section 5.3, "Attention
 * Head Normalization").
 *
 *      a' = a / H
 *
 * No parameters. */
#include <moefw/moefw.h>

typedef struct {
    int64_t heads;
} state;

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)ctx;
    (void)conf;
    ((state *)self)->heads = dims->heads;
    return MF_OK;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    (void)ctx;
    *ret_y = mf_scale(g, in->y, 1 / (double)((const state *)self)->heads);
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_ATTENTION),
                                  .at = "attention"};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "head_mean", "1.0", "MIT",
                                  "attention is the mean of its heads' outputs, not their sum",
                                  options, char, state, &vtable);
