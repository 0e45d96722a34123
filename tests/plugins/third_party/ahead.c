/* ahead: an expert that adds the mean of the whole sequence to each token. So it reads later
 * tokens, and declares this.
 *
 *     y = W (x + mean of its sequence) */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)conf;
    return mf->param(ctx, "weight", mf_shape3(dims->experts, dims->dim, dims->dim),
                     mf_init_of(MF_INIT_NORMAL, 0.1, MF_PARAM_BY_EXPERT));
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const int64_t B = in->batch, n = in->seq, d = mf->shape(in->x).dim[1];
    mf_tensor *x = mf_reshape(g, in->seq_x, mf_shape3(B, n, d)), *mean;
    (void)self;
    if (in->mask) {
        mf_tensor *real = mf_reshape(g, in->mask, mf_shape3(B, n, 1));
        mean = mf_div(g, mf_sum(g, mf_mul(g, x, real), 2u, true),
                      mf_clamp(g, mf_sum(g, real, 2u, true), 1, 1e30));
    } else {
        mean = mf_mean(g, x, 2u, true); /* [B,1,d] */
    }
    mean = mf_reshape(g, mf_broadcast(g, mean, mf_shape3(B, n, d)), mf_shape2(B * n, d));
    mf_tensor *sum = mf_add(g, in->x, mf_gather_rows(g, mean, in->token));
    *ret_y = mf_grouped_linear(g, sum, mf->use(ctx, g, "weight"), in->offset, NULL);
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_expert vtable = {.size = sizeof(mf_expert),
                                 .flags = MF_EXPERT_SEQUENCE | MF_EXPERT_NOT_CAUSAL,
                                 .init = init,
                                 .forward = forward};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "ahead", "1.0", "MIT", "adds the mean of the sequence",
                   options, char, char, &vtable);
