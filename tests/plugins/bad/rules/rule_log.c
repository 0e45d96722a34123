/* This regularizer computes the logarithm of probabilities, which may be 0. */
#include <moefw/moefw.h>

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)self;
    (void)ctx;
    (void)n;
    mf_tensor *p = routing[0]->prob;
    *ret_loss = mf_scale(g, mf_mean(g, mf_mul(g, p, mf_ln(g, p)), MF_ALL, false), -1);
    return mf->status(g);
}

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self, (void)ctx, (void)c, (void)dims;
    return MF_OK;
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "bad_log", "1", "MIT",
                                  "spoiled on purpose", options, char, char, &vtable);
