/* quantile: quantile balancing, as in torchtitan's QuantileBalancer (2026).
 *
 *     s = sigmoid(W x), choose the k largest of s + b, gate = s / (sum of the chosen s) * scale
 *
 * The gate is s * scale with renormalize = no, and with renormalize = auto if k = 1. b is not a
 * parameter. Let a be a token's (k+1)-th largest s + b. With a bias of more than a - s_e the
 * token would have chosen expert e. After each step b_e becomes the k/E quantile of a - s_e
 * over all tokens of the step, minus the mean of all b. If nothing else changed, each expert
 * would get its share. The quantile is computed from a histogram of `bins` bins from min b - 1
 * to max b + 1, as if numbers were uniform within a bin. The histogram is a tally. It covers
 * the whole step for any number of micro-batches and ranks. Parameters: E d; b is saved with
 * the model. */
#include <moefw/moefw.h>

enum { NO, YES, AUTO };
static const char *const sums[] = {"no", "yes", "auto", NULL};

typedef struct {
    int64_t bins, renormalize;
    double scale, init_std;
} conf;

typedef struct {
    const conf *c;
    int32_t experts, top_k;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = conf_;
    *self = (router){c, dims->experts, dims->top_k};
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(c->init_std));
    if (rc == MF_OK) rc = mf->buffer(ctx, "bias", mf_shape1(dims->experts), MF_ZEROS);
    return rc == MF_OK
               ? mf->tally(ctx, "required", mf_shape2(dims->experts, c->bins), MF_TALLY_WHOLE)
               : rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    router *self = self_;
    const conf *c = self->c;
    const int32_t k = self->top_k = in->top_k;
    mf_tensor *b = mf->use(ctx, g, "bias");
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *s = mf_sigmoid(g, out->logits);
    /* Divided by its sum over all experts, s is a distribution. */
    mf_tensor *share = mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
    const bool sums_to_1 = c->renormalize == AUTO ? k > 1 : c->renormalize == YES;
    out->prob = sums_to_1 ? share : s;
    s = mf_stop_gradient(g, s);
    out->score = mf_add(g, s, b);
    out->renormalize = sums_to_1;
    out->gate_scale = c->scale;
    if (k == self->experts || !mf->training(g)) return mf->status(g);
    mf_tensor *top = mf_take(g, out->score, mf_topk(g, out->score, k + 1));
    mf_tensor *required = mf_sub(g, mf_slice(g, top, 1, k, 1), s);
    mf->count(ctx, g, "required", mf_score_bins(g, required, in->mask, b, c->bins, -1, 1));
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    const int64_t n = self->experts, bins = self->c->bins;
    float *b = mf->data(ctx, "bias", NULL);
    const double *count = mf->sum(ctx, "required", NULL);
    if (!b || !count || step->skipped || step->step_tokens == 0 || self->top_k == n)
        return MF_OK;
    double lo = (double)b[0], hi = lo, mean = 0;
    for (int64_t e = 1; e < n; e++) {
        if ((double)b[e] < lo) lo = (double)b[e];
        if ((double)b[e] > hi) hi = (double)b[e];
    }
    for (int64_t e = 0; e < n; e++) {
        const double share = (double)self->top_k / (double)n;
        b[e] = (float)mf_bins_quantile(count + e * bins, (int32_t)bins, lo - 1, hi + 1, share);
        mean += (double)b[e] / (double)n;
    }
    for (int64_t e = 0; e < n; e++)
        b[e] = (float)((double)b[e] - mean);
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, bins, "1000", 8, 8192, 0, "bins of the histogram of each expert"),
    MF_OPTION_ENUM(conf, renormalize, "auto", sums,
                   "gates of a token sum to scale; auto: if it has several experts"),
    MF_OPTION_REAL(conf, scale, "1", 1e-3, 1e3, 0, "multiplies the gates"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "quantile", "1.0", "MIT",
                                  "sigmoid scores, balanced by quantiles of the whole step",
                                  options, conf, router, &vtable);
