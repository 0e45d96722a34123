/* quantile_bias: quantile balancing, as in torchtitan's QuantileBalancer (2026), for any router
 * whose scores for selection are within 0 .. 1.
 *
 * Let s be a token's scores, b the layer's selection bias and a the (k+1)-th largest s + b.
 * With a bias of more than a - s_e the token would have chosen expert e. After a step b_e
 * becomes the k/E quantile of a - s_e over all tokens of the step, minus the mean of all b. The
 * quantile is computed from a histogram of `bins` bins between min b - 1 and max b + 1. The
 * bias does not change in a layer whose router chooses experts itself, and in a layer in which
 * all experts are chosen. */
#include <moefw/moefw.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int64_t bins;
} conf;

typedef struct {
    const conf *c;
} controller;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((controller *)self)->c = conf_;
    const mf_score_count what = {sizeof what, MF_SCORE_REQUIRED, (int32_t)c->bins, 1, -1, 1};
    (void)dims;
    const int rc = mf->want_live(ctx, "moe.top_k");
    return rc == MF_OK ? mf->count_scores(ctx, "required", &what) : rc;
}

/* Whether the tokens were counted. They are not counted if the router chooses
 * experts itself. */
static bool counted(const double *count, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (count[i] > 0) return true;
    return false;
}

static void balance(float *b, const double *count, int64_t n, int64_t bins, double share)
{
    double lo = (double)b[0], hi = lo, mean = 0;
    for (int64_t e = 1; e < n; e++) {
        if ((double)b[e] < lo) lo = (double)b[e];
        if ((double)b[e] > hi) hi = (double)b[e];
    }
    for (int64_t e = 0; e < n; e++) {
        b[e] = (float)mf_bins_quantile(count + e * bins, (int32_t)bins, lo - 1, hi + 1, share);
        mean += (double)b[e] / (double)n;
    }
    for (int64_t e = 0; e < n; e++)
        b[e] = (float)((double)b[e] - mean);
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    const int64_t bins = ((controller *)self)->c->bins;
    const char *bias;
    double k = 0;
    int rc = mf->get_live(ctx, "moe.top_k", &k);
    for (int32_t i = 0; rc == MF_OK && (bias = mf->find(ctx, "layers.*.moe.select_bias", i));
         i++) {
        char required[96];
        int64_t n = 0, numbers = 0;
        float *b = mf->data(ctx, bias, &n);
        snprintf(required, sizeof required, "%.*s.required", (int)(strrchr(bias, '.') - bias),
                 bias);
        const double *count = mf->sum(ctx, required, &numbers);
        if (!b || !count || numbers != n * bins)
            return mf->fail(ctx, MF_EPLUGIN, "%s: expected %lld numbers, found %lld", required,
                            (long long)(n * bins), (long long)numbers);
        if (!step->skipped && counted(count, numbers))
            balance(b, count, n, bins, k / (double)n);
    }
    return rc;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, bins, "1000", 8, 8192, 0, "bins of the histogram of each expert"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {.size = sizeof(mf_controller),
                                     .flags = MF_CONTROLLER_SELECT_BIAS | MF_CONTROLLER_BLIND,
                                     .init = init,
                                     .on_step = on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "quantile_bias", "1.0", "MIT",
                                  "quantile balancing of any router's scores", options, conf,
                                  controller, &vtable);
