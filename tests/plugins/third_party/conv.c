/* conv: a router on a causal convolution of the sequence.
 *
 *     u_t = sum over j = 0, 1, 2 of kernel[j] * x_(t-j), by channel; x is 0 before position 0
 *     logits = u W^T
 *
 * kernel [3,d]: one weight for each channel and each offset j (a depthwise convolution). */
#include <moefw/moefw.h>

enum { WIDTH = 3 };

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)conf;
    int rc = mf->param(ctx, "kernel", mf_shape2(WIDTH, dims->dim), MF_NORMAL(0.5));
    return rc == MF_OK
               ? mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.5))
               : rc;
}

/* The rows of x [T,d] that are `back` tokens earlier; 0 if the sequence has no such token. */
static mf_tensor *rows_before(mf_graph *g, const mf_router_in *in, int32_t back)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const int32_t one = 1, least = back - 1, minus = 1 - back;
    mf_tensor *shift = mf->constant(g, MF_I32, mf_shape1(1), &minus);
    mf_tensor *has =
        mf_greater(g, in->positions, mf->constant(g, MF_I32, mf_shape1(1), &least));
    /* (t - back + 1) [position >= back] - 1: the index of the row, or -1 */
    mf_tensor *row = mf_mul(g, mf_add(g, mf_arange(g, T), shift), has);
    row = mf_sub(g, row, mf->constant(g, MF_I32, mf_shape1(1), &one));
    return mf_gather_rows(g, in->x, row);
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_tensor *kernel = mf->use(ctx, g, "kernel");
    mf_tensor *u = mf_mul(g, in->x, mf_slice(g, kernel, 0, 0, 1));
    (void)self;
    for (int32_t j = 1; j < WIDTH; j++)
        u = mf_add(g, u, mf_mul(g, rows_before(g, in, j), mf_slice(g, kernel, 0, j, 1)));
    out->logits = mf_linear(g, u, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_router vtable = {
    .size = sizeof(mf_router), .flags = MF_ROUTER_SEQUENCE, .init = init, .route = route};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "conv", "1.0", "MIT",
                   "a causal convolution of the last 3 tokens", options, char, char, &vtable);
