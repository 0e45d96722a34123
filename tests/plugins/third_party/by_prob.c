/* by_prob: an expert that reads the router's probabilities, for tests. Its output is y = x p,
 * where p is the token's probability of the expert, times a learned number of the expert that
 * begins at 1. Rows past the last assignment are NaN, which nobody may read. */
#include <moefw/moefw.h>

static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *d)
{
    (void)s, (void)c;
    return mf->param(ctx, "scale", mf_shape2(d->experts, 1),
                     mf_init_of(MF_INIT_CONST, 1, MF_PARAM_BY_EXPERT));
}

/* [R,E]: 1 where the row belongs to the expert */
static mf_tensor *member(mf_graph *g, const mf_expert_in *in, int64_t rows)
{
    const int64_t E = in->experts;
    mf_tensor *row = mf_affine(g, mf_cast(g, mf_arange(g, rows), MF_F32), 1, 0.5);
    row = mf_reshape(g, row, mf_shape2(rows, 1));
    mf_tensor *at = mf_reshape(g, mf_cast(g, in->offset, MF_F32), mf_shape2(1, E + 1));
    mf_tensor *from = mf_greater(g, row, mf_slice(g, at, 1, 0, E)),
              *after = mf_greater(g, row, mf_slice(g, at, 1, 1, E));
    return mf_sub(g, from, after);
}

static int forward(void *s, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in, mf_tensor **ret)
{
    (void)s;
    if (!MF_HAS(in, mf_expert_in, logits) || !in->prob)
        return mf->fail(ctx, MF_ECONFIG, "expected a router with probabilities");
    const int64_t rows = mf->shape(in->x).dim[0];
    mf_tensor *of = member(g, in, rows);
    mf_tensor *p = mf_sum(g, mf_mul(g, mf_gather_rows(g, in->prob, in->token), of), 2u, true);
    mf_tensor *scale = mf_matmul(g, of, false, mf->use(ctx, g, "scale"), false, 1); /* [R,1] */
    mf_tensor *real = mf_sum(g, of, 2u, true);
    mf_tensor *y = mf_mul(g, mf_cast(g, in->x, MF_F32), mf_mul(g, p, scale));
    *ret = mf_add(g, y, mf_stop_gradient(g, mf_div(g, mf_scale(g, real, 0), real)));
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_expert vtable = {
    .size = sizeof(mf_expert), .flags = MF_EXPERT_PROB, .init = init, .forward = forward};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "by_prob", "1", "MIT",
                   "the input times the probability", options, char, char, &vtable);
