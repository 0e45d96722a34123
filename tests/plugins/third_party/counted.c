/* counted: plugins of two kinds with tallies, for tests of sums over a step. Without -DEXPERT
 * it is an adapter: y = x g, where after_step moves each element of g towards 1 / (1 + s), and
 * s is the mean square of y's column over the whole step. With -DEXPERT it is an expert: y_e =
 * W_e x. It fails unless there are k assignments for each token. */
#include <moefw/moefw.h>

typedef struct {
    double rate;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, n; /* n: top_k of the expert, width of the adapter */
} self;

static const mf_option options[] = {MF_OPTION_REAL(conf, rate, "0.1", 0, 1, 0, "of the mean"),
                                    MF_END_OPTIONS};

#ifdef EXPERT
static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *d)
{
    *(self *)s = (self){c, d->experts, d->top_k};
    int rc = mf->param(ctx, "w", mf_shape3(d->experts, d->dim, d->dim),
                       mf_init_of(MF_INIT_KAIMING, 1, MF_PARAM_BY_EXPERT));
    return rc == MF_OK ? mf->tally(ctx, "rows", mf_shape1(d->experts), MF_TALLY_WHOLE) : rc;
}

static int forward(void *s_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)s_;
    mf_tensor *offset = mf_cast(g, in->offset, MF_F32);
    mf_tensor *rows = mf_sub(g, mf_slice(g, offset, 0, 1, in->experts),
                             mf_slice(g, offset, 0, 0, in->experts));
    mf->count(ctx, g, "rows", rows);
    *ret_y = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w"), in->offset, NULL);
    return mf->status(g);
}

static int after(void *s_, mf_ctx *ctx, const mf_step *step)
{
    const self *s = s_;
    const double *rows = mf->sum(ctx, "rows", NULL);
    double all = 0;
    for (int64_t e = 0; e < s->experts; e++)
        all += rows[e];
    return all == (double)(s->n * step->step_tokens)
               ? MF_OK
               : mf->fail(ctx, MF_EPLUGIN, "found %g assignments of %lld tokens", all,
                          (long long)step->step_tokens);
}

static const mf_expert vtable = {
    .size = sizeof(mf_expert), .init = init, .forward = forward, .after_step = after};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "counted", "1", "MIT", "for a test",
                                  options, conf, self, &vtable);
#else
static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *d)
{
    *(self *)s = (self){c, d->experts, d->dim};
    int rc = mf->buffer(ctx, "gain", mf_shape2(1, d->dim), MF_CONST(1));
    return rc == MF_OK ? mf->tally(ctx, "square", mf_shape1(d->dim), 0) : rc;
}

static int apply(void *s, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in, mf_tensor **ret_y)
{
    const self *of = s;
    mf_tensor *y = mf_cast(g, in->y, MF_F32), *square = mf_square(g, y);
    if (in->mask)
        square = mf_mul(g, square,
                        mf_reshape(g, in->mask, mf_shape2((int64_t)in->batch * in->seq, 1)));
    mf->count(ctx, g, "square", mf_reshape(g, mf_sum(g, square, 1u, false), mf_shape1(of->n)));
    *ret_y = mf_mul(g, y, mf->use(ctx, g, "gain"));
    return mf->status(g);
}

static int after(void *s_, mf_ctx *ctx, const mf_step *step)
{
    const self *s = s_;
    const double *square = mf->sum(ctx, "square", NULL);
    float *gain = mf->data(ctx, "gain", NULL);
    for (int64_t i = 0; i < s->n && !step->skipped; i++)
        gain[i] += (float)(s->c->rate *
                           (1 / (1 + square[i] / (double)step->step_tokens) - (double)gain[i]));
    return MF_OK;
}

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .after_step = after,
                                  .points = MF_POINT_BIT(MF_AT_FFN),
                                  .at = "ffn"};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "counted", "1", "MIT", "for a test",
                                  options, conf, self, &vtable);
#endif
