#include "generate/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"

typedef struct {
    double logit;
    int32_t id;
} candidate;

struct mf_sampler {
    mf_sampler_options options;
    int32_t vocab;
    candidate *candidates;
    unsigned char *seen; /* [vocab] */
};

int mf_sampler_new(int32_t vocab, const mf_sampler_options *options, mf_sampler **ret)
{
    mf_sampler *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->options = *options;
    s->vocab = vocab;
    s->candidates = mf_alloc((size_t)vocab, sizeof *s->candidates);
    s->seen = mf_alloc((size_t)vocab, 1);
    if (!s->candidates || !s->seen) {
        mf_sampler_free(s);
        return MF_ENOMEM;
    }
    *ret = s;
    return MF_OK;
}

void mf_sampler_free(mf_sampler *s)
{
    if (!s) return;
    mf_free(s->candidates);
    mf_free(s->seen);
    mf_free(s);
}

mf_sampler_options *mf_sampler_settings(mf_sampler *s)
{
    return &s->options;
}

static void penalise(mf_sampler *s, const int32_t *past, int64_t n)
{
    const double r = s->options.repeat_penalty;
    const int64_t window = s->options.repeat_window;
    if (r == 1) return;
    if (window > 0 && n > window) {
        past += n - window;
        n = window;
    }
    memset(s->seen, 0, (size_t)s->vocab);
    for (int64_t i = 0; i < n; i++) {
        const int32_t id = past[i];
        if (id < 0 || id >= s->vocab || s->seen[id]) continue;
        s->seen[id] = 1;
        double *l = &s->candidates[id].logit;
        *l = *l > 0 ? *l / r : *l * r;
    }
}

static int likelier(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static int32_t greedy(const mf_sampler *s)
{
    int32_t best = -1;
    for (int32_t i = 0; i < s->vocab; i++)
        if (isfinite(s->candidates[i].logit) &&
            (best < 0 || s->candidates[i].logit > s->candidates[best].logit))
            best = i;
    return best;
}

int32_t mf_sampler_draw(mf_sampler *s, const float *logits, const int32_t *past, int64_t n_past,
                        int64_t position)
{
    const mf_sampler_options *o = &s->options;
    for (int32_t i = 0; i < s->vocab; i++)
        s->candidates[i] = (candidate){isnan(logits[i]) ? -INFINITY : (double)logits[i], i};
    penalise(s, past, n_past);
    if (o->temperature <= 0) return greedy(s);

    int32_t n = s->vocab;
    qsort(s->candidates, (size_t)n, sizeof *s->candidates, likelier);
    if (!isfinite(s->candidates[0].logit)) return -1;
    if (o->top_k > 0 && o->top_k < n) n = (int32_t)o->top_k;
    const double top = s->candidates[0].logit;
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        s->candidates[i].logit = exp((s->candidates[i].logit - top) / o->temperature);
        sum += s->candidates[i].logit;
    }
    if (o->top_p < 1) { /* the first always stays */
        double kept = 0;
        int32_t i = 0;
        while (i < n && (i == 0 || kept < o->top_p * sum))
            kept += s->candidates[i++].logit;
        n = i;
        sum = kept;
    }
    const uint64_t stream = mf_rng_stream("generate.sample");
    double u = (double)mf_rng_u32(o->seed, stream, 0, (uint64_t)position) / 4294967296.0 * sum;
    for (int32_t i = 0; i < n; i++) {
        u -= s->candidates[i].logit;
        if (u < 0) return s->candidates[i].id;
    }
    return s->candidates[n - 1].id;
}
