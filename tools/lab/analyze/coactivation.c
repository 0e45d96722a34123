/* Experts that are chosen together. All pairs of a token's experts are counted, and compared
 * with tables that keep the number of experts of each token and the number of tokens of each
 * expert: raw counts make loaded experts look coupled. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "lab/analyze/analyze.h"
#include "lab/stats.h"

enum { BURN_IN = 5, LEAST_SAMPLES = 20, MOST_SAMPLES = 2000, TRADES = 400000 };

static void count_pairs(const mf_routes *r, const int32_t *expert, int64_t from, int64_t to,
                        double *count)
{
    const int64_t E = r->experts;
    for (int64_t t = from; t < to; t++)
        for (int64_t a = r->begin[t]; a < r->begin[t + 1]; a++)
            for (int64_t b = r->begin[t]; b < r->begin[t + 1]; b++)
                count[expert[a] * E + expert[b]]++;
}

/* ---- tables with the same sums ---- */

typedef struct {
    const mf_routes *r;
    int32_t *expert;        /* the table, in the form of r->expert */
    int32_t *pool;          /* [2 E] work memory of a trade */
    uint8_t *mark;          /* [E] all 0 between trades */
    uint64_t stream, drawn; /* drawn: random numbers used so far */
} shuffler;

static int64_t below(shuffler *s, int64_t n)
{
    return (int64_t)mf_rng_below(1, s->stream, 0, s->drawn++, (uint64_t)n);
}

/* Moves the experts of token t that token u also has to the front; returns their number. */
static int64_t to_front(shuffler *s, int64_t t, int64_t u)
{
    int32_t *a = s->expert + s->r->begin[t], *b = s->expert + s->r->begin[u];
    const int64_t n = s->r->begin[t + 1] - s->r->begin[t],
                  m = s->r->begin[u + 1] - s->r->begin[u];
    int64_t shared = 0;
    for (int64_t i = 0; i < m; i++)
        s->mark[b[i]] = 1;
    for (int64_t i = 0; i < n; i++)
        if (s->mark[a[i]]) {
            const int32_t e = a[i];
            a[i] = a[shared];
            a[shared++] = e;
        }
    for (int64_t i = 0; i < m; i++)
        s->mark[b[i]] = 0;
    return shared;
}

/* Deals the experts in which two tokens differ to the two at random. Each token keeps its
 * number of experts, and each expert its number of tokens. */
static void trade(shuffler *s)
{
    const int64_t t = below(s, s->r->n), u = below(s, s->r->n);
    if (t == u) return;
    const int64_t shared = to_front(s, t, u);
    to_front(s, u, t);
    int32_t *a = s->expert + s->r->begin[t] + shared, *b = s->expert + s->r->begin[u] + shared;
    const int64_t n = s->r->begin[t + 1] - s->r->begin[t] - shared,
                  m = s->r->begin[u + 1] - s->r->begin[u] - shared;
    if (n == 0 || m == 0) return;
    memcpy(s->pool, a, (size_t)n * sizeof *a);
    memcpy(s->pool + n, b, (size_t)m * sizeof *b);
    for (int64_t i = 0; i < n; i++) { /* the first n of a random order go to t */
        const int64_t j = i + below(s, n + m - i);
        const int32_t e = s->pool[i];
        s->pool[i] = s->pool[j];
        s->pool[j] = e;
    }
    memcpy(a, s->pool, (size_t)n * sizeof *a);
    memcpy(b, s->pool + n, (size_t)m * sizeof *b);
}

static int count_chance(const mf_routes *r, double *chance)
{
    const int64_t n = r->begin[r->n], E = r->experts;
    int64_t samples = r->n > 0 ? TRADES / r->n : 0;
    samples = samples < LEAST_SAMPLES  ? LEAST_SAMPLES
              : samples > MOST_SAMPLES ? MOST_SAMPLES
                                       : samples;
    shuffler s = {.r = r,
                  .stream = mf_rng_stream("analyze.trade"),
                  .expert = mf_alloc((size_t)n + 1, sizeof *s.expert),
                  .pool = mf_alloc((size_t)(2 * E), sizeof *s.pool),
                  .mark = mf_alloc((size_t)E, 1)};
    const bool done = s.expert && s.pool && s.mark;
    if (done) memcpy(s.expert, r->expert, (size_t)n * sizeof *s.expert);
    for (int64_t i = 0; done && i < BURN_IN * r->n; i++)
        trade(&s);
    for (int64_t i = 0; done && i < samples; i++) {
        for (int64_t j = 0; j < r->n; j++)
            trade(&s);
        count_pairs(r, s.expert, 0, r->n, chance);
    }
    for (int64_t i = 0; done && i < E * E; i++)
        chance[i] /= (double)samples;
    mf_free(s.expert);
    mf_free(s.pool);
    mf_free(s.mark);
    return done ? MF_OK : MF_ENOMEM;
}

/* ---- comparison ---- */

/* Sums the squares of what the documents deviate from chance: (n_ij of the document - its share
 * of the tokens x the count of all). */
static int sum_squares(const mf_routes *r, const mf_clusters *c, const double *count,
                       double *squares)
{
    const int64_t E = r->experts;
    double *one = mf_alloc((size_t)E * (size_t)E, sizeof *one);
    if (!one) return MF_ENOMEM;
    for (int64_t from = 0, to; from < r->n; from = to) {
        for (to = from; to < r->n && c->of[to] == c->of[from];)
            to++;
        memset(one, 0, (size_t)E * (size_t)E * sizeof *one);
        count_pairs(r, r->expert, from, to, one);
        for (int64_t i = 0; i < E * E; i++) {
            const double d = one[i] - count[i] * (double)(to - from) / (double)r->n;
            squares[i] += d * d;
        }
    }
    mf_free(one);
    return MF_OK;
}

/* Compares each pair with chance. A pair is over chance if the lower end of its interval at
 * level .05 / pairs is (Bonferroni). */
static void compare(const mf_clusters *c, const double *squares, mf_coactivation *co)
{
    const int32_t E = co->experts;
    const double t = c->n > 1 ? mf_t_quantile(.975, c->n - 1) : (double)NAN,
                 strict = c->n > 1 ? mf_t_quantile(1 - .05 / (double)co->pairs, c->n - 1)
                                   : (double)NAN;
    double most = 0;
    for (int32_t i = 0; i < E; i++)
        for (int32_t j = 0; j < E; j++) {
            const int64_t at = (int64_t)i * E + j;
            const double se = sqrt((double)c->n / (c->n - 1) * squares[at]);
            co->lift[at] = co->lo[at] = co->hi[at] = NAN;
            if (i == j || !(co->chance[at] > 0)) continue;
            co->lift[at] = co->count[at] / co->chance[at];
            co->lo[at] = (co->count[at] - t * se) / co->chance[at];
            co->hi[at] = (co->count[at] + t * se) / co->chance[at];
            if (i > j || !(co->count[at] - strict * se > co->chance[at])) continue;
            co->over++;
            if (co->lift[at] <= most) continue;
            most = co->lift[at];
            co->first = i;
            co->second = j;
        }
}

int mf_coactivation_of(const mf_routes *r, const mf_clusters *c, mf_arena *arena,
                       mf_coactivation *ret)
{
    const int64_t E = r->experts;
    double **const tables[] = {&ret->count, &ret->chance, &ret->lift, &ret->lo, &ret->hi};
    *ret = (mf_coactivation){.experts = (int32_t)E, .first = -1, .second = -1, .even = NAN};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!(*tables[i] = mf_arena_alloc(arena, (size_t)E * (size_t)E * sizeof(double))))
            return MF_ENOMEM;
    count_pairs(r, r->expert, 0, r->n, ret->count);
    double pairs = 0;
    for (int64_t i = 0; i < E * E; i++)
        if (i / E != i % E) pairs += ret->count[i];
    if (pairs == 0) return MF_OK;
    ret->pairs = E * (E - 1) / 2;
    ret->even = ((double)r->begin[r->n] / (double)r->n - 1) / (double)(E - 1);
    double *squares = mf_alloc((size_t)E * (size_t)E, sizeof *squares);
    int rc = squares ? count_chance(r, ret->chance) : MF_ENOMEM;
    if (rc == MF_OK) rc = sum_squares(r, c, ret->count, squares);
    if (rc == MF_OK) compare(c, squares, ret);
    mf_free(squares);
    return rc;
}

/* ---- order ---- */

/* The mean lift between two groups, whose experts have `of` = the number of the group. */
static double between(const mf_coactivation *c, const int32_t *of, int32_t a, int32_t b)
{
    double sum = 0;
    int64_t n = 0;
    for (int32_t i = 0; i < c->experts; i++)
        for (int32_t j = 0; j < c->experts; j++)
            if (of[i] == a && of[j] == b) {
                const double v = c->lift[(int64_t)i * c->experts + j];
                sum += isnan(v) ? 0 : v;
                n++;
            }
    return n > 0 ? sum / (double)n : 0;
}

int mf_coactivation_order(const mf_coactivation *c, int32_t *order)
{
    const int32_t E = c->experts;
    int32_t *of = mf_alloc((size_t)E, sizeof *of), *next = mf_alloc((size_t)E, sizeof *next),
            *last = mf_alloc((size_t)E, sizeof *last), n = 0;
    double *mean = mf_alloc((size_t)E * (size_t)E, sizeof *mean);
    const bool done = of && next && last && mean;
    for (int32_t i = 0; done && i < E; i++) {
        of[i] = last[i] = i; /* a group has the number of its first expert */
        next[i] = -1;
        for (int32_t j = 0; j < E; j++)
            mean[i * E + j] = isnan(c->lift[i * E + j]) ? 0 : c->lift[i * E + j];
    }
    for (int32_t joins = 1; done && joins < E; joins++) {
        int32_t a = -1, b = -1;
        for (int32_t i = 0; i < E; i++)
            for (int32_t j = i + 1; of[i] == i && j < E; j++)
                if (of[j] == j && (a < 0 || mean[i * E + j] > mean[a * E + b])) {
                    a = i;
                    b = j;
                }
        next[last[a]] = b;
        last[a] = last[b];
        for (int32_t i = 0; i < E; i++)
            if (of[i] == b) of[i] = a;
        for (int32_t i = 0; i < E; i++)
            if (of[i] == i && i != a) mean[a * E + i] = mean[i * E + a] = between(c, of, a, i);
    }
    for (int32_t i = 0; done && i >= 0 && n < E; i = next[i])
        order[n++] = i;
    mf_free(of);
    mf_free(next);
    mf_free(last);
    mf_free(mean);
    return done ? MF_OK : MF_ENOMEM;
}

/* ---- two layers ---- */

double *mf_transitions(const mf_routes *from, const mf_routes *to, mf_arena *arena)
{
    const int64_t E = from->experts, F = to->experts;
    double *lift = mf_arena_alloc(arena, (size_t)(E * F) * sizeof *lift),
           *a = mf_alloc((size_t)E, sizeof *a), *b = mf_alloc((size_t)F, sizeof *b);
    if (lift && a && b && from->n == to->n) {
        for (int64_t t = 0; t < from->n; t++) {
            for (int64_t i = from->begin[t]; i < from->begin[t + 1]; i++)
                for (int64_t j = to->begin[t]; j < to->begin[t + 1]; j++)
                    lift[from->expert[i] * F + to->expert[j]]++;
            for (int64_t i = from->begin[t]; i < from->begin[t + 1]; i++)
                a[from->expert[i]]++;
            for (int64_t j = to->begin[t]; j < to->begin[t + 1]; j++)
                b[to->expert[j]]++;
        }
        for (int64_t i = 0; i < E * F; i++) {
            const double chance = a[i / F] * b[i % F] / (double)from->n;
            lift[i] = chance > 0 ? lift[i] / chance : (double)NAN;
        }
    } else {
        lift = NULL;
    }
    mf_free(a);
    mf_free(b);
    return lift;
}
