/* Use of experts by label, such as the domain of a text, and the distance to a router that
 * follows the labels. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "lab/analyze/analyze.h"
#include "lab/stats.h"
#include "run/metrics/routing_tally.h"

/* Counts the tokens from `from` up to, not including, `to` by expert and label. */
static void count(const mf_routes *r, const int32_t *label, int32_t labels, int64_t from,
                  int64_t to, double *joint, double *tokens)
{
    for (int64_t t = from; t < to; t++) {
        if (label[t] < 0) continue;
        tokens[label[t]]++;
        for (int64_t a = r->begin[t]; a < r->begin[t + 1]; a++)
            joint[(int64_t)r->expert[a] * labels + label[t]]++;
    }
}

/* Sets the intervals of all shares. Documents are ranges of tokens, so their counts need one
 * table at a time. */
static int shares(const mf_routes *r, const int32_t *label, const mf_clusters *c,
                  mf_label_use *u)
{
    const size_t cells = (size_t)r->experts * (size_t)u->labels;
    double *joint = mf_alloc(cells + 1, sizeof *joint),
           *tokens = mf_alloc((size_t)u->labels, sizeof *tokens),
           *squares = mf_alloc(cells + 1, sizeof *squares);
    const bool done = joint && tokens && squares;
    for (int64_t from = 0, to; done && from < r->n; from = to) {
        for (to = from; to < r->n && c->of[to] == c->of[from];)
            to++;
        memset(joint, 0, cells * sizeof *joint);
        memset(tokens, 0, (size_t)u->labels * sizeof *tokens);
        count(r, label, u->labels, from, to, joint, tokens);
        for (size_t i = 0; i < cells; i++) {
            const double d = joint[i] - u->share[i] * tokens[i % (size_t)u->labels];
            squares[i] += d * d;
        }
    }
    const double t = c->n > 1 ? mf_t_quantile(.975, c->n - 1) : (double)NAN;
    for (size_t i = 0; done && i < cells; i++) {
        const double half =
            t * sqrt((double)c->n / (c->n - 1) * squares[i]) / u->tokens[i % (size_t)u->labels];
        u->lo[i] = u->share[i] - half;
        u->hi[i] = u->share[i] + half;
    }
    mf_free(joint);
    mf_free(tokens);
    mf_free(squares);
    return done ? MF_OK : MF_ENOMEM;
}

/* NMI with the labels of the tokens exchanged at random. */
static int shuffled_nmi(const mf_routes *r, const int32_t *label, mf_label_use *u)
{
    const size_t cells = (size_t)r->experts * (size_t)u->labels;
    int32_t *order = mf_alloc((size_t)r->n + 1, sizeof *order),
            *other = mf_alloc((size_t)r->n + 1, sizeof *other);
    double *joint = mf_alloc(cells + (size_t)u->labels, sizeof *joint);
    const bool done = order && other && joint;
    if (done) {
        mf_rng_permutation(1, mf_rng_stream("analyze.labels"), 0, order, (size_t)r->n);
        for (int64_t t = 0; t < r->n; t++)
            other[t] = label[order[t]];
        count(r, other, u->labels, 0, r->n, joint, joint + cells);
        u->nmi_random = mf_nmi(joint, r->experts, u->labels);
    }
    mf_free(order);
    mf_free(other);
    mf_free(joint);
    return done ? MF_OK : MF_ENOMEM;
}

/* The entropy of label mod E, which is what router `oracle` says about the labels. */
static double oracle_information(const mf_label_use *u, int32_t experts)
{
    double n = 0, sum = 0;
    for (int32_t l = 0; l < u->labels; l++)
        n += u->tokens[l];
    for (int32_t e = 0; e < experts; e++) {
        double of = 0;
        for (int32_t l = e; l < u->labels; l += experts)
            of += u->tokens[l];
        if (of > 0) sum -= of / n * log(of / n);
    }
    return sum;
}

int mf_label_use_of(const mf_routes *r, const int32_t *label, int32_t labels,
                    const mf_clusters *c, mf_arena *arena, mf_label_use *ret)
{
    const size_t cells = (size_t)r->experts * (size_t)labels,
                 bytes = (cells + 1) * sizeof(double);
    *ret = (mf_label_use){.labels = labels,
                          .tokens = mf_arena_alloc(arena, (size_t)labels * sizeof(double)),
                          .share = mf_arena_alloc(arena, bytes),
                          .lo = mf_arena_alloc(arena, bytes),
                          .hi = mf_arena_alloc(arena, bytes)};
    if (!ret->tokens || !ret->share || !ret->lo || !ret->hi) return MF_ENOMEM;
    count(r, label, labels, 0, r->n, ret->share, ret->tokens);
    ret->nmi = mf_nmi(ret->share, r->experts, labels);
    for (size_t i = 0; i < cells; i++)
        ret->share[i] /= ret->tokens[i % (size_t)labels]; /* NaN: no token has the label */
    int rc = shares(r, label, c, ret);
    if (rc == MF_OK) rc = shuffled_nmi(r, label, ret);
    if (rc == MF_OK) rc = mf_information_of(r, label, c, &ret->says);
    const double most = oracle_information(ret, r->experts), h = ret->says.entropy;
    ret->distance = ret->distance_lo = ret->distance_hi = NAN;
    if (most > 0) {
        ret->distance = 1 - ret->says.held_out * h / most;
        ret->distance_lo = 1 - ret->says.hi * h / most;
        ret->distance_hi = 1 - ret->says.lo * h / most;
    }
    return rc;
}
