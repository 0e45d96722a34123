/* sum.c: sums over a dimension, in double.
 *
 * The terms of each result are cut into chunks of mf_sum3_chunk; the sums of the chunks are
 * added in order. Results with a single chunk are written directly. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef float vh __attribute__((vector_size(2 * VL))); /* VL / 2 floats */
#define HALF (VL / 2)

typedef struct sum {
    int64_t outer, n, inner, chunk, chunks;
    int64_t per; /* number of (outer, chunk) pairs per tile */
    double scale;
    const void *in;
    float *out;
    double *part; /* [outer,chunks,inner] sums; NULL if there is one chunk */
} sum;

V_INLINE float number(const void *a, int64_t i, bool bf16)
{
    return bf16 ? mf_bf16_to_f32(((const mf_bf16 *)a)[i]) : ((const float *)a)[i];
}
/* HALF elements of a, from i on */
V_INLINE vd numbers(const void *a, int64_t i, bool bf16)
{
    vh v = {0};
    if (bf16)
        for (int l = 0; l < HALF; l++)
            v[l] = number(a, i + l, true);
    else
        memcpy(&v, (const float *)a + i, sizeof v);
    return __builtin_convertvector(v, vd);
}

V_INLINE double sum_line(int64_t n, const void *a, bool bf16)
{
    vd s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t j = 0;
    for (; j + 4 * HALF <= n; j += 4 * HALF) {
        s0 += numbers(a, j, bf16);
        s1 += numbers(a, j + HALF, bf16);
        s2 += numbers(a, j + 2 * HALF, bf16);
        s3 += numbers(a, j + 3 * HALF, bf16);
    }
    s0 = (s0 + s1) + (s2 + s3);
    double total = 0;
    for (int i = 0; i < HALF; i++)
        total += s0[i];
    for (; j < n; j++)
        total += number(a, j, bf16);
    return total;
}

/* Writes the sum of one pair to `part`, or scaled to `out`. */
static void put(const sum *p, int64_t pair, int64_t i, double value)
{
    if (p->part)
        p->part[pair * p->inner + i] = value;
    else
        p->out[pair * p->inner + i] = (float)(p->scale * value);
}

#define COLUMNS 8 /* number of vectors of columns at a time */

V_INLINE void sum_columns(const sum *p, int64_t pair, int64_t terms, const void *a, bool bf16)
{
    const int64_t inner = p->inner;
    int64_t i = 0;
    for (; i + COLUMNS * HALF <= inner; i += COLUMNS * HALF) {
        vd s[COLUMNS] = {{0}};
        for (int64_t j = 0; j < terms; j++)
            V_UNROLL for (int c = 0; c < COLUMNS; c++) s[c] +=
                numbers(a, j * inner + i + c * HALF, bf16);
        for (int c = 0; c < COLUMNS; c++)
            for (int l = 0; l < HALF; l++)
                put(p, pair, i + c * HALF + l, s[c][l]);
    }
    for (; i + HALF <= inner; i += HALF) {
        vd s = {0};
        for (int64_t j = 0; j < terms; j++)
            s += numbers(a, j * inner + i, bf16);
        for (int l = 0; l < HALF; l++)
            put(p, pair, i + l, s[l]);
    }
    for (; i < inner; i++) {
        double s = 0;
        for (int64_t j = 0; j < terms; j++)
            s += number(a, j * inner + i, bf16);
        put(p, pair, i, s);
    }
}

/* Sums long rows, SWEEP rows at a time with all their columns, so that memory is read in order;
 * the sums are kept in `to`. The terms of a column have the same order as in sum_columns. */
#define SWEEP 16

V_INLINE void sweep(int width, int64_t rows, int64_t inner, bool add, const void *a, int64_t at,
                    bool bf16, double *to)
{
    vd s[COLUMNS] = {{0}};
    V_UNROLL
    for (int c = 0; c < width && add; c++)
        memcpy(&s[c], to + c * HALF, sizeof s[c]);
    for (int64_t j = 0; j < rows; j++) {
        V_UNROLL
        for (int c = 0; c < width; c++)
            s[c] += numbers(a, at + j * inner + c * HALF, bf16);
    }
    V_UNROLL
    for (int c = 0; c < width; c++)
        memcpy(to + c * HALF, &s[c], sizeof s[c]);
}

V_INLINE void sum_sweeps(int64_t terms, int64_t inner, const void *a, bool bf16, double *to)
{
    for (int64_t j = 0; j < terms; j += SWEEP, a = v_at(a, SWEEP * inner, bf16)) {
        const int64_t rows = rows_end(terms, j, SWEEP) - j;
        int64_t i = 0;
        for (; i + COLUMNS * HALF <= inner; i += COLUMNS * HALF)
            sweep(COLUMNS, rows, inner, j > 0, a, i, bf16, to + i);
        for (; i + HALF <= inner; i += HALF)
            sweep(1, rows, inner, j > 0, a, i, bf16, to + i);
        for (; i < inner; i++) {
            double s = j > 0 ? to[i] : 0;
            for (int64_t r = 0; r < rows; r++)
                s += number(a, r * inner + i, bf16);
            to[i] = s;
        }
    }
}

V_INLINE void sum_pairs(const sum *p, int64_t tile, bool bf16)
{
    int64_t from = tile * p->per, to = rows_end(p->outer * p->chunks, from, p->per);
    for (int64_t pair = from; pair < to; pair++) {
        int64_t o = pair / p->chunks, first = pair % p->chunks * p->chunk;
        int64_t terms = rows_end(p->n, first, p->chunk) - first;
        const void *a = v_at(p->in, (o * p->n + first) * p->inner, bf16);
        if (p->inner == 1)
            put(p, pair, 0, sum_line(terms, a, bf16));
        else if (p->part && p->inner > COLUMNS * HALF)
            sum_sweeps(terms, p->inner, a, bf16, p->part + pair * p->inner);
        else
            sum_columns(p, pair, terms, a, bf16);
    }
}

static void sum_tile(void *arg, int64_t tile)
{
    sum_pairs(arg, tile, false);
}

static void sum_bf16_tile(void *arg, int64_t tile)
{
    sum_pairs(arg, tile, true);
}

void MF_SIMD(sum3)(const mf_kctx *x, const mf_sum3_args *a)
{
    sum p = {.outer = a->outer,
             .n = a->n,
             .inner = a->inner,
             .chunk = mf_sum3_chunk(a->inner),
             .scale = a->scale,
             .in = a->in,
             .out = a->out};
    p.chunks = a->n > p.chunk ? (a->n + p.chunk - 1) / p.chunk : 1;
    p.part = p.chunks > 1 ? a->work : NULL;
    p.per = rows_per_tile((a->n < p.chunk ? a->n : p.chunk) * a->inner);
    x->parallel((a->outer * p.chunks + p.per - 1) / p.per,
                a->type == MF_CAST_BF16 ? sum_bf16_tile : sum_tile, &p);
    for (int64_t o = 0; p.part && o < a->outer; o++)
        for (int64_t i = 0; i < a->inner; i++) {
            double total = 0;
            for (int64_t c = 0; c < p.chunks; c++)
                total += p.part[(o * p.chunks + c) * a->inner + i];
            a->out[o * a->inner + i] = (float)(a->scale * total);
        }
}
