/* gates.c: gates of a token's assignments, gathered elements, and counts by index.
 *
 * Rows have only a few elements, so a tile has many rows. Counts are summed in double, tile by
 * tile, in the order of the tiles. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define TILE 8192 /* number of elements per tile */

static int64_t tile_rows(int64_t n)
{
    return n < TILE ? TILE / (n > 0 ? n : 1) : 1;
}

static int64_t tile_end(int64_t rows, int64_t from, int64_t per)
{
    return rows - from < per ? rows : from + per;
}

/* ---- gates ---- */

typedef struct gates {
    int64_t tokens, experts, k, per;
    const float *prob;
    const int32_t *chosen, *admitted;
    bool renormalize;
    double scale;
    const float *dgate;
    float *out;
} gates;

static const double least_sum = 1e-20;

static int32_t expert_of(const gates *p, int64_t r)
{
    return p->admitted && p->admitted[r] >= 0 ? p->admitted[r] : p->chosen[r];
}

/* Returns the number by which the gates of token t are divided. */
static double divisor(const gates *p, int64_t t, const float *prob)
{
    double sum = 0;
    if (!p->renormalize) return 1;
    for (int64_t r = t * p->k; r < (t + 1) * p->k; r++) {
        int32_t e = expert_of(p, r);
        if (e >= 0) sum += (double)prob[e];
    }
    return sum;
}

static void gates_tile(void *arg, int64_t tile)
{
    const gates *p = arg;
    int64_t from = tile * p->per, to = tile_end(p->tokens, from, p->per);
    for (int64_t t = from; t < to; t++) {
        const float *prob = p->prob + t * p->experts;
        double sum = divisor(p, t, prob);
        for (int64_t r = t * p->k; r < (t + 1) * p->k; r++) {
            int32_t e = expert_of(p, r);
            p->out[r] =
                e < 0 || sum < least_sum ? 0 : (float)(p->scale * (double)prob[e] / sum);
        }
    }
}

void mf_cpu_route_gates(const mf_kctx *x, const mf_route_gates_args *a)
{
    if (mf_kctx_failed(x)) return;
    gates p = {a->tokens, a->experts, a->k,        tile_rows(8 * a->k),
               a->prob,   a->chosen,  a->admitted, a->renormalize,
               a->scale,  NULL,       a->gate};
    x->parallel((a->tokens + p.per - 1) / p.per, gates_tile, &p);
}

static void gates_grad_tile(void *arg, int64_t tile)
{
    const gates *p = arg;
    int64_t from = tile * p->per, to = tile_end(p->tokens, from, p->per);
    memset(p->out + from * p->experts, 0, (size_t)((to - from) * p->experts) * sizeof(float));
    for (int64_t t = from; t < to; t++) {
        const float *prob = p->prob + t * p->experts;
        float *dprob = p->out + t * p->experts;
        double sum = divisor(p, t, prob), mean = 0;
        if (sum < least_sum) continue;
        for (int64_t r = t * p->k; p->renormalize && r < (t + 1) * p->k; r++) {
            int32_t e = expert_of(p, r);
            if (e >= 0) mean += (double)p->dgate[r] * (double)prob[e] / sum;
        }
        for (int64_t r = t * p->k; r < (t + 1) * p->k; r++) {
            int32_t e = expert_of(p, r);
            if (e >= 0) dprob[e] += (float)(p->scale * ((double)p->dgate[r] - mean) / sum);
        }
    }
}

void mf_cpu_route_gates_grad(const mf_kctx *x, const mf_route_gates_grad_args *a)
{
    if (mf_kctx_failed(x)) return;
    gates p = {a->tokens, a->experts, a->k,        tile_rows(a->experts + 8 * a->k),
               a->prob,   a->chosen,  a->admitted, a->renormalize,
               a->scale,  a->dgate,   a->dprob};
    x->parallel((a->tokens + p.per - 1) / p.per, gates_grad_tile, &p);
}

/* ---- elements of rows ---- */

typedef struct pick {
    int64_t n, width, k, per;
    const float *in;
    const int32_t *index;
    float *out;
} pick;

static void take_tile(void *arg, int64_t tile)
{
    const pick *p = arg;
    int64_t from = tile * p->per, to = tile_end(p->n, from, p->per);
    for (int64_t i = from; i < to; i++)
        for (int64_t j = i * p->k; j < (i + 1) * p->k; j++)
            p->out[j] = p->index[j] < 0 ? 0 : p->in[i * p->width + p->index[j]];
}

void mf_cpu_take(const mf_kctx *x, const mf_take_args *a)
{
    if (mf_kctx_failed(x)) return;
    pick p = {a->n, a->width, a->k, tile_rows(a->k), a->in, a->index, a->out};
    x->parallel((a->n + p.per - 1) / p.per, take_tile, &p);
}

static void put_tile(void *arg, int64_t tile)
{
    const pick *p = arg;
    int64_t from = tile * p->per, to = tile_end(p->n, from, p->per);
    memset(p->out + from * p->width, 0, (size_t)((to - from) * p->width) * sizeof(float));
    for (int64_t i = from; i < to; i++)
        for (int64_t j = i * p->k; j < (i + 1) * p->k; j++)
            if (p->index[j] >= 0) p->out[i * p->width + p->index[j]] += p->in[j];
}

void mf_cpu_put(const mf_kctx *x, const mf_put_args *a)
{
    if (mf_kctx_failed(x)) return;
    pick p = {a->n, a->width, a->k, tile_rows(a->k + a->width), a->in, a->index, a->out};
    x->parallel((a->n + p.per - 1) / p.per, put_tile, &p);
}

static void one_hot_tile(void *arg, int64_t tile)
{
    const pick *p = arg;
    int64_t from = tile * p->per, to = tile_end(p->n, from, p->per);
    memset(p->out + from * p->width, 0, (size_t)((to - from) * p->width) * sizeof(float));
    for (int64_t i = from; i < to; i++)
        if (p->index[i] >= 0 && p->index[i] < p->width) p->out[i * p->width + p->index[i]] = 1;
}

void mf_cpu_one_hot(const mf_kctx *x, const mf_one_hot_args *a)
{
    pick p = {
        .n = a->m, .width = a->n, .per = tile_rows(a->n), .index = a->index, .out = a->out};
    x->parallel((a->m + p.per - 1) / p.per, one_hot_tile, &p);
}

/* ---- counts: one table per tile, added in the order of the tiles ---- */

typedef struct counts {
    int64_t m, n, per;
    const int32_t *index;
    const float *weight;
    double *part;
} counts;

static void count_tile(void *arg, int64_t tile)
{
    const counts *p = arg;
    double *sum = p->part + tile * p->n;
    memset(sum, 0, (size_t)p->n * sizeof(*sum));
    for (int64_t i = tile * p->per, to = tile_end(p->m, i, p->per); i < to; i++)
        if (p->index[i] >= 0) sum[p->index[i]] += p->weight ? (double)p->weight[i] : 1;
}

void mf_cpu_bincount(const mf_kctx *x, const mf_bincount_args *a)
{
    if (mf_kctx_failed(x)) return;
    const int64_t tiles = mf_count_tiles(a->m);
    counts p = {a->m, a->n, (a->m + tiles - 1) / tiles, a->index, a->weight, a->work};
    x->parallel(tiles, count_tile, &p);
    for (int64_t v = 0; v < a->n; v++) {
        double sum = 0;
        for (int64_t tile = 0; tile < tiles; tile++)
            sum += p.part[tile * a->n + v];
        a->out[v] = (float)sum;
    }
}

/* ---- bins of scores: a tile has some columns, whose counts no other tile has ---- */

enum { BIN_COLUMNS = 16 };

typedef struct binning {
    int64_t tokens, experts, bins;
    mf_bin_range range;
    const float *in, *mask;
    float *out;
} binning;

static void bin_tile(void *arg, int64_t tile)
{
    const binning *p = arg;
    const int64_t from = tile * BIN_COLUMNS, to = tile_end(p->experts, from, BIN_COLUMNS);
    memset(p->out + from * p->bins, 0, (size_t)((to - from) * p->bins) * sizeof *p->out);
    for (int64_t t = 0; t < p->tokens; t++) {
        if (p->mask && p->mask[t] == 0) continue;
        for (int64_t e = from; e < to; e++)
            p->out[e * p->bins + mf_bin_of(p->in[t * p->experts + e], p->range, p->bins)]++;
    }
}

void mf_cpu_score_bins(const mf_kctx *x, const mf_score_bins_args *a)
{
    const int64_t experts = a->experts;
    if (mf_kctx_failed(x)) return;
    binning p = {
        a->tokens, experts, a->bins, mf_bin_range_of(experts, a->bins, a->lo, a->hi, a->bias),
        a->in,     a->mask, a->out};
    x->parallel((experts + BIN_COLUMNS - 1) / BIN_COLUMNS, bin_tile, &p);
}
