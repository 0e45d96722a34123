/* route.c: the best experts of each token, and statistics of a routing.
 *
 * Statistics are summed in double over tiles of MF_STATS_TOKENS tokens, then over the tiles in
 * their order. */
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

/* ---- topk ---- */

#define LIST_MAX 48 /* from this k on, select_row is faster than a sorted list */

typedef struct best {
    int64_t n, width, k, per;
    const float *in, *mask;
    int32_t *out;
} best;

/* Inserts c, after equal values, into the list of `have` <= k indices, best first; a full list
 * loses its last entry. A NaN is worse than any number. Candidates come in increasing order, so
 * of equal values the lower index is first. */
V_INLINE void insert(const float *row, int64_t have, int64_t k, int32_t c, int32_t *list)
{
    int64_t at = have < k ? have : k - 1;
    for (; at > 0; at--) {
        float other = row[list[at - 1]];
        if (!(row[c] > other || (isnan(other) && !isnan(row[c])))) break;
        list[at] = list[at - 1];
    }
    list[at] = c;
}

V_INLINE bool any_above(const float *row, float bar)
{
    vi above = v_load(row) > bar;
    int32_t any = 0;
    for (int l = 0; l < VL; l++)
        any |= above[l];
    return any != 0;
}

static void best_of_row(const best *p, const float *row, int32_t *list)
{
    const int64_t k = p->k;
    int64_t c = 0;
    for (; c < k; c++)
        insert(row, c, k, (int32_t)c, list);
    while (c < p->width) {
        float bar = row[list[k - 1]];
        if (c + VL <= p->width && !isnan(bar) && !any_above(row + c, bar)) {
            c += VL;
            continue;
        }
        for (int64_t end = rows_end(p->width, c, VL); c < end; c++) {
            bar = row[list[k - 1]];
            if (row[c] > bar || (isnan(bar) && !isnan(row[c])))
                insert(row, k, k, (int32_t)c, list);
        }
    }
}

#define FEW_BEST 8

/* The following functions do the same for VL rows at a time. They use integer keys in the order
 * of the values. NaN is below all numbers, and an empty entry of a list is below NaN. */
V_INLINE vi key_of(vf a)
{
    vf v = a + 0.0f; /* -0 becomes 0 */
    vi bits = (vi)v, key = bits ^ ((bits >> 31) & v_seti(INT32_MAX));
    vi real = v == v;
    return (real & key) | (~real & v_seti(INT32_MIN + 1));
}

V_INLINE vi pick(vi mask, vi a, vi b)
{
    return (mask & a) | (~mask & b);
}

V_INLINE void put_best(const best *p, int64_t i, int64_t some, int k, const vi *at)
{
    int32_t list[FEW_BEST * VL];
    for (int s = 0; s < k; s++)
        memcpy(list + s * VL, &at[s], sizeof at[s]);
    for (int64_t r = 0; r < some; r++)
        for (int s = 0; s < k; s++)
            p->out[(i + r) * k + s] = list[s * VL + r];
}

/* Finds the k best of `some` rows from row i on, one row per lane. The caller passes small k as
 * a constant, so that the lists stay in registers. */
V_INLINE void best_of_lanes(const best *p, int64_t i, int64_t some, int k)
{
    const int64_t n = p->width;
    float a[LANES_MOST * VL];
    vi key[FEW_BEST], at[FEW_BEST];
    V_UNROLL
    for (int s = 0; s < FEW_BEST; s++) {
        key[s] = v_seti(INT32_MIN);
        at[s] = v_seti(-1);
    }
    lanes_in(some, n, p->in + i * n, a);
    for (int64_t j = 0; j < n; j++) {
        vi c = key_of(v_load(a + j * VL)), id = v_seti((int32_t)j), in = {0};
        V_UNROLL
        for (int s = 0; s < FEW_BEST; s++) {
            if (s >= k) break;
            in |= c > key[s]; /* once c is inserted, later entries move down by one */
            vi old = key[s], old_id = at[s];
            key[s] = pick(in, c, old);
            at[s] = pick(in, id, old_id);
            c = pick(in, old, c);
            id = pick(in, old_id, id);
        }
    }
    if (p->mask) {
        vi hidden = (some < VL ? v_load_n(p->mask + i, some) : v_load(p->mask + i)) == 0.0f;
        V_UNROLL
        for (int s = 0; s < FEW_BEST; s++)
            at[s] |= hidden; /* hidden lanes get the index -1 */
    }
    put_best(p, i, some, k, at);
}

static void best_row(const best *p, int64_t i)
{
    int32_t *list = p->out + i * p->k;
    if (p->mask && p->mask[i] == 0) {
        for (int64_t j = 0; j < p->k; j++)
            list[j] = -1;
        return;
    }
    if (p->k >= LIST_MAX && p->k <= SELECT_MAX)
        select_row(p->in + i * p->width, p->width, p->k, list);
    else
        best_of_row(p, p->in + i * p->width, list);
}

static void best_tile(void *arg, int64_t tile)
{
    const best *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->n, from, p->per);
    for (int64_t i = from; i < to; i++)
        best_row(p, i);
}

static void best_lanes(void *arg, int64_t tile)
{
    const best *p = arg;
    const int64_t end = rows_end(p->n, tile * p->per, p->per);
    for (int64_t i = tile * p->per; i < end; i += VL) {
        const int64_t some = rows_end(end, i, VL) - i;
        if (some < LANES_LEAST)
            for (int64_t r = i; r < end; r++)
                best_row(p, r);
        else if (p->k == 1)
            best_of_lanes(p, i, some, 1);
        else if (p->k == 2)
            best_of_lanes(p, i, some, 2);
        else
            best_of_lanes(p, i, some, (int)p->k);
    }
}

void MF_SIMD(topk)(const mf_kctx *x, const mf_topk_args *a)
{
    const bool lanes = a->width <= LANES_MOST && a->k <= FEW_BEST;
    best p = {a->n, a->width, a->k, rows_per_tile(2 * a->width), a->in, a->mask, a->out};
    x->parallel(rows_tiles(a->n, 2 * a->width), lanes ? best_lanes : best_tile, &p);
}

/* ---- routing_stats ----
 *
 * A tile has MF_STATS_TOKENS tokens and their assignments. With a token list it has that many
 * tokens and as many assignments. Tiles are added in order. */

typedef struct stats {
    int64_t tokens, rows, experts, k, width; /* width: number of doubles per tile */
    const float *prob, *gate, *mask;
    const int32_t *chosen, *admitted, *token;
    const int32_t *rows_of; /* [T] number of chosen assignments of each token, or NULL */
    double *part;
} stats;

enum { REAL, ENTROPY, TOP_PROB, CHOSEN };

static double entropy(int64_t n, const float *prob)
{
    vf s = {0};
    for (int64_t j = 0; j < n; j += VL) {
        vf p = n - j >= VL ? v_load(prob + j) : v_load_n(prob + j, n - j);
        s += v_select(p == 0.0f, v_set(0), p * v_log(p));
    }
    return -v_sum(s);
}

static int64_t chosen_rows(const stats *p, int64_t t)
{
    int64_t count = 0;
    if (p->rows_of) return p->rows_of[t];
    for (int64_t r = t * p->k; r < (t + 1) * p->k; r++)
        count += p->chosen[r] >= 0;
    return count;
}

static void count_row(const stats *p, int64_t r, double *sum, double *scalar)
{
    const int64_t t = p->token ? p->token[r] : r / p->k;
    const int32_t chosen = p->chosen[r], admitted = p->admitted[r];
    if (t < 0) return;
    if (chosen >= 0) {
        scalar[CHOSEN]++;
        sum[chosen]++;
        if (p->prob)
            scalar[TOP_PROB] +=
                (double)p->prob[t * p->experts + chosen] / (double)chosen_rows(p, t);
    }
    if (admitted >= 0) {
        sum[p->experts + admitted]++;
        sum[2 * p->experts + admitted] += p->gate ? (double)p->gate[r] : 1;
    }
}

static void stats_tile(void *arg, int64_t tile)
{
    const stats *p = arg;
    const int64_t t0 = tile * MF_STATS_TOKENS, t1 = rows_end(p->tokens, t0, MF_STATS_TOKENS);
    const int64_t a_token = p->token ? 1 : p->k, r0 = t0 * a_token;
    const int64_t r1 = rows_end(p->rows, r0, MF_STATS_TOKENS * a_token);
    double *sum = p->part + tile * p->width, *scalar = sum + 3 * p->experts;
    memset(sum, 0, (size_t)p->width * sizeof(*sum));
    for (int64_t t = t0; t < t1; t++)
        if (!p->mask || p->mask[t] != 0) {
            scalar[REAL]++;
            if (p->prob) scalar[ENTROPY] += entropy(p->experts, p->prob + t * p->experts);
        }
    for (int64_t r = r0; r < r1; r++)
        count_row(p, r, sum, scalar);
}

void MF_SIMD(routing_stats)(const mf_kctx *x, const mf_routing_stats_args *a)
{
    if (mf_kctx_failed(x)) return;
    stats p = {.tokens = a->tokens,
               .rows = a->rows,
               .experts = a->experts,
               .k = a->k,
               .width = 3 * a->experts + MF_STATS_SUMS,
               .prob = a->prob,
               .gate = a->gate,
               .mask = a->mask,
               .chosen = a->chosen,
               .admitted = a->admitted,
               .token = a->token,
               .part = a->work};
    const int64_t units = a->token && a->rows > a->tokens ? a->rows : a->tokens;
    const int64_t tiles = (units + MF_STATS_TOKENS - 1) / MF_STATS_TOKENS;
    int32_t *rows_of = (int32_t *)(p.part + (tiles > 0 ? tiles : 1) * p.width);
    if (a->token) {
        memset(rows_of, 0, (size_t)a->tokens * sizeof(*rows_of));
        for (int64_t r = 0; r < a->rows; r++)
            if (a->token[r] >= 0) rows_of[a->token[r]] += a->chosen[r] >= 0;
        p.rows_of = rows_of;
    }
    x->parallel(tiles, stats_tile, &p);
    if (tiles == 0) memset(p.part, 0, (size_t)p.width * sizeof(*p.part));
    for (int64_t i = 0; i < p.width; i++)
        for (int64_t tile = 1; tile < tiles; tile++)
            p.part[i] += p.part[tile * p.width + i];
    const double *scalar = p.part + 3 * a->experts;
    for (int64_t e = 0; e < a->experts; e++) {
        a->chosen_sum[e] = (float)p.part[e];
        a->admitted_sum[e] = (float)p.part[a->experts + e];
        a->importance[e] = (float)p.part[2 * a->experts + e];
    }
    a->scalars[0] = (float)scalar[REAL];
    a->scalars[1] = a->prob ? (float)scalar[ENTROPY] : NAN;
    a->scalars[2] = a->prob ? (float)scalar[TOP_PROB] : NAN;
    a->scalars[3] = (float)scalar[CHOSEN];
}
