/* How much of an expert's entropy a value of the token explains: its id, the next id, its
 * position, its label. Counts of N tokens overstate this by about (values - 1)(E - 1) / (2 N)
 * nats (Miller 1955), which can be more than the truth; hence three figures, of which the
 * held-out one is a lower bound.
 *
 * Held out: documents are in eight folds, drawn, because texts may come in turns. For each fold
 * p(e | x) = (c_xe + b p_e) / (c_x + b) is counted in the seven others. b is chosen among
 * these, the odd folds against the even ones. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "lab/analyze/analyze.h"

enum { FOLDS = 8, LEAST_DOCUMENTS = 4 };

typedef struct {
    const mf_routes *r;
    int32_t *value; /* [N] index of the value among those that occur, -1: none */
    int64_t values;
    int32_t *fold;     /* [documents] */
    int32_t *count[2]; /* [values, E] of the even and odd folds that are not held out */
} table;

/* Numbers the values that occur from 0 on. */
static int number_values(table *t, const int32_t *value)
{
    int32_t most = -1;
    for (int64_t i = 0; i < t->r->n; i++)
        if (value[i] > most) most = value[i];
    int32_t *number = mf_alloc((size_t)most + 2, sizeof *number); /* 0: not seen */
    t->value = mf_alloc((size_t)t->r->n + 1, sizeof *t->value);
    if (!number || !t->value) {
        mf_free(number);
        return MF_ENOMEM;
    }
    for (int64_t i = 0; i < t->r->n; i++) {
        if (value[i] >= 0 && number[value[i]] == 0) number[value[i]] = (int32_t)++t->values;
        t->value[i] = value[i] >= 0 ? number[value[i]] - 1 : -1;
    }
    mf_free(number);
    return MF_OK;
}

static int draw_folds(table *t, const mf_clusters *c)
{
    t->fold = mf_alloc((size_t)c->n, sizeof *t->fold);
    if (!t->fold) return MF_ENOMEM;
    mf_rng_permutation(1, mf_rng_stream("analyze.folds"), 0, t->fold, (size_t)c->n);
    for (int32_t i = 0; i < c->n; i++)
        t->fold[i] %= FOLDS;
    return MF_OK;
}

/* Counts all folds but one. */
static void count_without(table *t, const mf_clusters *c, int held)
{
    const int64_t E = t->r->experts;
    for (int i = 0; i < 2; i++)
        memset(t->count[i], 0, (size_t)(t->values * E) * sizeof **t->count);
    for (int64_t i = 0; i < t->r->n; i++) {
        const int32_t fold = t->fold[c->of[i]];
        if (t->value[i] < 0 || fold == held) continue;
        int32_t *row = t->count[fold % 2] + t->value[i] * E;
        for (int64_t a = t->r->begin[i]; a < t->r->begin[i + 1]; a++)
            row[t->r->expert[a]]++;
    }
}

/* The information of a table of counts, nats. */
static double plug_in(const double *counts, int64_t values, int32_t E)
{
    double n = 0, sum = 0;
    double *by_expert = mf_alloc((size_t)E, sizeof *by_expert);
    if (!by_expert) return NAN;
    for (int64_t i = 0; i < values * E; i++) {
        n += counts[i];
        by_expert[i % E] += counts[i];
    }
    for (int64_t x = 0; x < values; x++) {
        double row = 0;
        for (int32_t e = 0; e < E; e++)
            row += counts[x * E + e];
        for (int32_t e = 0; e < E; e++) {
            const double v = counts[x * E + e];
            if (v > 0) sum += v / n * log(v * n / (row * by_expert[e]));
        }
    }
    mf_free(by_expert);
    return sum;
}

/* Writes the counts of all tokens; with `order`, the values of the tokens that have one are
 * exchanged in this order. */
static void add_all(const table *t, const int32_t *order, const int32_t *used, int64_t n_used,
                    double *to)
{
    const int64_t E = t->r->experts;
    memset(to, 0, (size_t)(t->values * E) * sizeof *to);
    for (int64_t i = 0; i < n_used; i++) {
        const int64_t token = used[i];
        double *row = to + t->value[order ? used[order[i]] : token] * E;
        for (int64_t a = t->r->begin[token]; a < t->r->begin[token + 1]; a++)
            row[t->r->expert[a]]++;
    }
}

static int naive(const table *t, mf_information *ret)
{
    const int32_t E = t->r->experts;
    int64_t n = 0;
    double *counts = mf_alloc((size_t)(t->values * E) + 1, sizeof *counts);
    int32_t *used = mf_alloc((size_t)t->r->n + 1, sizeof *used),
            *order = mf_alloc((size_t)t->r->n + 1, sizeof *order);
    if (counts && used && order) {
        for (int64_t i = 0; i < t->r->n; i++)
            if (t->value[i] >= 0) used[n++] = (int32_t)i;
        add_all(t, NULL, used, n, counts);
        ret->plug_in = plug_in(counts, t->values, E);
        mf_rng_permutation(1, mf_rng_stream("analyze.shuffle"), 0, order, (size_t)n);
        add_all(t, order, used, n, counts);
        ret->shuffled = ret->plug_in - plug_in(counts, t->values, E);
    }
    const bool done = counts && used && order && !isnan(ret->plug_in + ret->shuffled);
    mf_free(counts);
    mf_free(used);
    mf_free(order);
    return done ? MF_OK : MF_ENOMEM;
}

/* ---- held out ---- */

/* The shares of the experts in one or two tables; a half is added to each count, so none
 * is 0. */
static void prior(const table *t, const int32_t *a, const int32_t *b, double *p)
{
    const int32_t E = t->r->experts;
    double n = 0;
    for (int32_t e = 0; e < E; e++)
        p[e] = .5;
    for (int64_t i = 0; i < t->values * E; i++)
        p[i % E] += (double)a[i] + (b ? (double)b[i] : 0);
    for (int32_t e = 0; e < E; e++)
        n += p[e];
    for (int32_t e = 0; e < E; e++)
        p[e] /= n;
}

/* Sum of -ln p(e | x) over the assignments of `test`, with p counted in `train`. */
static double cross(const table *t, const int32_t *train, const int32_t *test, const double *p,
                    double b)
{
    const int32_t E = t->r->experts;
    double sum = 0;
    for (int64_t x = 0; x < t->values; x++) {
        double row = 0;
        for (int32_t e = 0; e < E; e++)
            row += train[x * E + e];
        for (int32_t e = 0; e < E; e++)
            if (test[x * E + e] > 0)
                sum -= test[x * E + e] * log((train[x * E + e] + b * p[e]) / (row + b));
    }
    return sum;
}

static double choose_weight(const table *t, double *p)
{
    static const double weights[] = {.01, .03, .1, .3, 1, 3, 10, 30, 100, 1e3, 1e4, 1e9};
    const int32_t *a = t->count[0], *b = t->count[1];
    double best = 0, least = INFINITY;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        prior(t, a, NULL, p);
        double sum = cross(t, a, b, p, weights[i]);
        prior(t, b, NULL, p);
        sum += cross(t, b, a, p, weights[i]);
        if (sum < least) {
            least = sum;
            best = weights[i];
        }
    }
    return best;
}

/* Adds the losses of the documents of a fold, with p counted in the others. */
static void read_fold(table *t, const mf_clusters *c, int fold, double *p, double *loss,
                      double *n)
{
    const int32_t E = t->r->experts, *a = t->count[0], *b = t->count[1];
    count_without(t, c, fold);
    const double weight = choose_weight(t, p);
    prior(t, a, b, p);
    for (int64_t i = 0; i < t->r->n; i++) {
        if (t->value[i] < 0 || t->fold[c->of[i]] != fold) continue;
        const int64_t at = (int64_t)t->value[i] * E;
        double row = 0;
        for (int32_t e = 0; e < E; e++)
            row += a[at + e] + b[at + e];
        for (int64_t j = t->r->begin[i]; j < t->r->begin[i + 1]; j++) {
            const int32_t e = t->r->expert[j];
            loss[c->of[i]] -= log((a[at + e] + b[at + e] + weight * p[e]) / (row + weight));
            n[c->of[i]]++;
        }
    }
}

static int held_out(table *t, const mf_clusters *c, mf_information *ret)
{
    double *loss = mf_alloc((size_t)c->n, sizeof *loss), *n = mf_alloc((size_t)c->n, sizeof *n),
           *p = mf_alloc((size_t)t->r->experts, sizeof *p);
    const bool done = loss && n && p;
    if (done) {
        for (int f = 0; f < FOLDS; f++)
            read_fold(t, c, f, p, loss, n);
        const mf_ratio ce = mf_cluster_ratio(loss, n, c->n);
        ret->held_out = 1 - ce.value / ret->entropy;
        ret->lo = 1 - ce.hi / ret->entropy;
        ret->hi = 1 - ce.lo / ret->entropy;
    }
    mf_free(loss);
    mf_free(n);
    mf_free(p);
    return done ? MF_OK : MF_ENOMEM;
}

/* Sets what depends on the assignments alone: H(e), the bound and the sizes. */
static int measure(const table *t, mf_information *ret)
{
    const int32_t E = t->r->experts;
    double n = 0, free_choice = 0;
    double *load = mf_alloc((size_t)E, sizeof *load);
    if (!load) return MF_ENOMEM;
    for (int64_t i = 0; i < t->r->n; i++) {
        const double k = (double)(t->r->begin[i + 1] - t->r->begin[i]);
        if (t->value[i] < 0) continue;
        ret->tokens++;
        n += k;
        if (k > 0) free_choice += k * log(k);
        for (int64_t a = t->r->begin[i]; a < t->r->begin[i + 1]; a++)
            load[t->r->expert[a]]++;
    }
    for (int32_t e = 0; e < E; e++)
        if (load[e] > 0) ret->entropy -= load[e] / n * log(load[e] / n);
    mf_free(load);
    ret->values = t->values;
    ret->per_cell = t->values > 0 ? n / ((double)t->values * E) : 0;
    ret->most = ret->entropy > 0 ? 1 - free_choice / n / ret->entropy : (double)NAN;
    return MF_OK;
}

int mf_information_of(const mf_routes *r, const int32_t *value, const mf_clusters *c,
                      mf_information *ret)
{
    table t = {.r = r};
    *ret = (mf_information){
        .plug_in = NAN, .shuffled = NAN, .held_out = NAN, .lo = NAN, .hi = NAN, .most = NAN};
    int rc = number_values(&t, value);
    if (rc == MF_OK) rc = measure(&t, ret);
    if (rc == MF_OK) rc = draw_folds(&t, c);
    for (int q = 0; rc == MF_OK && q < 2; q++)
        if (!(t.count[q] = mf_alloc((size_t)(t.values * r->experts) + 1, sizeof **t.count)))
            rc = MF_ENOMEM;
    if (rc == MF_OK && ret->entropy > 0) {
        rc = naive(&t, ret);
        ret->plug_in /= ret->entropy;
        ret->shuffled /= ret->entropy;
        if (rc == MF_OK && c->n >= LEAST_DOCUMENTS) rc = held_out(&t, c, ret);
    }
    for (int q = 0; q < 2; q++)
        mf_free(t.count[q]);
    mf_free(t.value);
    mf_free(t.fold);
    return rc;
}
