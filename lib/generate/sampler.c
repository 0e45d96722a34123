/* generate/sampler.c: draws a token from logits. A draw needs no sorted order, and top-k and
 * top-p need only the likeliest candidates. Therefore the whole vocabulary is sorted only if
 * FEW candidates are not enough. */
#include "generate/sampler.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

/* greatest number of candidates that the topk kernel finds; more candidates are sorted */
#define FEW 256

struct mf_sampler {
    mf_sampler_options options;
    int32_t vocab;
    float *score;        /* [vocab] logits after the penalty */
    float *scaled;       /* [vocab] */
    float *weight;       /* [vocab] probabilities before cuts */
    int32_t *order;      /* [vocab] candidates, likeliest first */
    unsigned char *seen; /* [vocab] the token occurred in the penalty's window */
};

int mf_sampler_new(int32_t vocab, const mf_sampler_options *options, mf_sampler **ret)
{
    mf_sampler *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->options = *options;
    s->vocab = vocab;
    s->score = mf_alloc((size_t)vocab, sizeof *s->score);
    s->scaled = mf_alloc((size_t)vocab, sizeof *s->scaled);
    s->weight = mf_alloc((size_t)vocab, sizeof *s->weight);
    s->order = mf_alloc((size_t)vocab, sizeof *s->order);
    s->seen = mf_alloc((size_t)vocab, 1);
    if (!s->score || !s->scaled || !s->weight || !s->order || !s->seen) {
        mf_sampler_free(s);
        return MF_ENOMEM;
    }
    *ret = s;
    return MF_OK;
}

void mf_sampler_free(mf_sampler *s)
{
    if (!s) return;
    mf_free(s->score);
    mf_free(s->scaled);
    mf_free(s->weight);
    mf_free(s->order);
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
        const double l = (double)s->score[id];
        s->score[id] = (float)(l > 0 ? l / r : l * r);
    }
}

static int32_t likeliest(const mf_sampler *s)
{
    int32_t best = -1;
    for (int32_t i = 0; i < s->vocab; i++)
        if (isfinite(s->score[i]) && (best < 0 || s->score[i] > s->score[best])) best = i;
    return best;
}

/* ---- candidates in order ---- */

typedef struct {
    float score;
    int32_t id;
} candidate;

static int likelier(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

/* Sorts all tokens and writes the n likeliest into order. Returns false if there is not
 * enough memory. */
static bool sort_all(mf_sampler *s, int32_t n)
{
    candidate *all = mf_alloc((size_t)s->vocab, sizeof *all);
    if (!all) return false;
    for (int32_t i = 0; i < s->vocab; i++)
        all[i] = (candidate){s->score[i], i};
    qsort(all, (size_t)s->vocab, sizeof *all, likelier);
    for (int32_t i = 0; i < n; i++)
        s->order[i] = all[i].id;
    mf_free(all);
    return true;
}

static bool find_best(mf_sampler *s, int32_t n)
{
    const mf_kctx x = {.parallel = mf_parallel};
    if (n > FEW) return sort_all(s, n);
    MF_RUN(mf_backend_kernels(), &x, topk, .n = 1, .width = s->vocab, .k = n, .in = s->score,
           .out = s->order);
    return true;
}

/* Returns how many of the first n candidates are needed to reach the sum `enough`, at least
 * one. Returns n + 1 if all of them together do not reach it. *ret_kept: the sum of the weights
 * of the candidates that were counted. */
static int32_t reach(const mf_sampler *s, int32_t n, double enough, double *ret_kept)
{
    double kept = 0;
    int32_t i = 0;
    while (i < n && (i == 0 || kept < enough))
        kept += (double)s->weight[s->order[i++]];
    *ret_kept = kept;
    return kept < enough ? n + 1 : i;
}

/* Applies top-k and top-p: fills order and returns how many candidates stay. *ret_sum is the
 * sum of their weights. Returns 0 if there is not enough memory. */
static int32_t cut(mf_sampler *s, double *ret_sum)
{
    const mf_sampler_options *o = &s->options;
    const bool by_count = o->top_k > 0 && o->top_k < s->vocab;
    int32_t n = by_count ? (int32_t)o->top_k : s->vocab < FEW / 4 ? s->vocab : FEW / 4;
    double whole = 1;
    for (;;) {
        if (!find_best(s, n)) return 0;
        if (by_count) {
            reach(s, n, INFINITY, &whole);
            *ret_sum = whole;
            if (o->top_p >= 1) return n;
        }
        int32_t stay = reach(s, n, o->top_p * whole, ret_sum);
        if (stay <= n || n == s->vocab || by_count) return stay < n ? stay : n;
        n = n < FEW && FEW < s->vocab ? FEW : s->vocab;
    }
}

int32_t mf_sampler_draw(mf_sampler *s, const float *logits, const int32_t *past, int64_t n_past,
                        int64_t position)
{
    const mf_sampler_options *o = &s->options;
    const mf_kctx x = {.parallel = mf_parallel};
    for (int32_t i = 0; i < s->vocab; i++)
        s->score[i] = isnan(logits[i]) ? -INFINITY : logits[i];
    penalise(s, past, n_past);
    const int32_t best = likeliest(s);
    const float factor = o->temperature > 0 ? (float)(1 / o->temperature) : INFINITY;
    /* With an infinite factor all other tokens have the weight 0. best is -1 if no logit
     * is finite. */
    if (isinf(factor) || best < 0) return best;

    const float top = s->score[best];
    for (int32_t i = 0; i < s->vocab; i++)
        s->scaled[i] = isfinite(s->score[i]) ? (s->score[i] - top) * factor : -INFINITY;
    MF_RUN(mf_backend_kernels(), &x, row_map, .fn = MF_ROW_SOFTMAX, .rows = 1, .n = s->vocab,
           .in = s->scaled, .out = s->weight);
    int32_t n = s->vocab;
    double sum = 0;
    const bool all = (o->top_k <= 0 || o->top_k >= n) && o->top_p >= 1;
    if (!all)
        n = cut(s, &sum);
    else
        for (int32_t i = 0; i < n; i++)
            sum += (double)s->weight[i];
    if (n < 1) return best;
    const uint64_t stream = mf_rng_stream("generate.sample");
    double u = (double)mf_rng_u32(o->seed, stream, 0, (uint64_t)position) / 4294967296.0 * sum;
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = all ? i : s->order[i];
        u -= (double)s->weight[id];
        if (u < 0) return id;
    }
    return all ? best : s->order[n - 1];
}
