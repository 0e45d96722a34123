/* How evenly the experts are used. Loads are ratios of sums over dependent tokens, and their
 * figures are curved in them, so their intervals are from a bootstrap of whole documents
 * (percentiles of 400 samples; Efron 1979). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "lab/analyze/analyze.h"

enum { SAMPLES = 400 };

static double entropy_of(const double *load, int32_t E, double n)
{
    double sum = 0;
    for (int32_t e = 0; e < E; e++)
        if (load[e] > 0) sum -= load[e] / n * log(load[e] / n);
    return E > 1 ? sum / log(E) : 1;
}

static double cv_of(const double *load, int32_t E, double n)
{
    double squares = 0;
    const double mean = n / E;
    for (int32_t e = 0; e < E; e++)
        squares += (load[e] - mean) * (load[e] - mean);
    return sqrt(squares / E) / mean;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ends(double *x, double *ret_lo, double *ret_hi)
{
    qsort(x, SAMPLES, sizeof *x, rising);
    *ret_lo = x[SAMPLES / 40];
    *ret_hi = x[SAMPLES - 1 - SAMPLES / 40];
}

/* by_document: [n, E] assignments. */
static void resample(const float *by_document, int32_t n, int32_t E, double *load,
                     mf_utilization *u)
{
    double entropy[SAMPLES], cv[SAMPLES];
    const uint64_t stream = mf_rng_stream("analyze.bootstrap");
    for (uint64_t s = 0; s < SAMPLES; s++) {
        double sum = 0;
        memset(load, 0, (size_t)E * sizeof *load);
        for (int32_t i = 0; i < n; i++) {
            const float *row =
                by_document + (int64_t)mf_rng_below(1, stream, s, (uint64_t)i, (uint64_t)n) * E;
            for (int32_t e = 0; e < E; e++) {
                load[e] += (double)row[e];
                sum += (double)row[e];
            }
        }
        entropy[s] = entropy_of(load, E, sum);
        cv[s] = cv_of(load, E, sum);
    }
    ends(entropy, &u->entropy_lo, &u->entropy_hi);
    ends(cv, &u->cv_lo, &u->cv_hi);
}

static int falling(const void *a, const void *b)
{
    return rising(b, a);
}

/* Sets the figures of sorted loads; `load` is sorted. n: the sum. */
static void sizes(double *load, int32_t E, double n, mf_utilization *u)
{
    double sum = 0;
    qsort(load, (size_t)E, sizeof *load, falling);
    u->top = load[0] / n;
    for (u->half = 0; u->half < E && sum < n / 2; u->half++)
        sum += load[u->half];
    for (int32_t e = 0; e < E; e++)
        u->dead += load[e] < n / (100.0 * E);
}

int mf_utilization_of(const mf_routes *r, const mf_clusters *c, mf_arena *arena,
                      mf_utilization *ret)
{
    const int32_t E = r->experts;
    const double n = (double)r->begin[r->n];
    float *by_document = mf_alloc((size_t)c->n * (size_t)E, sizeof *by_document);
    double *load = mf_alloc((size_t)E, sizeof *load);
    *ret = (mf_utilization){.mean_k = n / (double)r->n,
                            .cv_chance = sqrt((E - 1) / n),
                            .entropy_lo = NAN,
                            .entropy_hi = NAN,
                            .cv_lo = NAN,
                            .cv_hi = NAN,
                            .load = mf_arena_alloc(arena, (size_t)E * sizeof *ret->load)};
    const bool done = by_document && load && ret->load;
    for (int64_t t = 0; done && t < r->n; t++)
        for (int64_t a = r->begin[t]; a < r->begin[t + 1]; a++) {
            ret->load[r->expert[a]]++;
            by_document[(int64_t)c->of[t] * E + r->expert[a]]++;
        }
    if (done && n > 0) {
        ret->entropy = entropy_of(ret->load, E, n);
        ret->cv = cv_of(ret->load, E, n);
        if (c->n > 1) resample(by_document, c->n, E, load, ret);
        memcpy(load, ret->load, (size_t)E * sizeof *load);
        sizes(load, E, n, ret);
        for (int32_t e = 0; e < E; e++)
            ret->load[e] /= n;
    }
    mf_free(by_document);
    mf_free(load);
    return done ? MF_OK : MF_ENOMEM;
}
