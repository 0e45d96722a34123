/* dispatch.c: rows to experts and back. Rows are long: the work is moving them. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

/* ---- indices in range ---- */

int64_t MF_SIMD(check_index)(const mf_kctx *x, int64_t n, const int32_t *index, int64_t lo,
                             int64_t hi)
{
    const vi low = v_seti((int32_t)(lo < INT32_MIN ? INT32_MIN : lo));
    const vi last = v_seti((int32_t)(hi - 1 > INT32_MAX ? INT32_MAX : hi - 1));
    int64_t i = 0;
    (void)x;
    for (; i + VL <= n; i += VL) {
        vi v = v_loadi(index + i), bad = (v < low) | (v > last);
        int32_t any = 0;
        for (int l = 0; l < VL; l++)
            any |= bad[l];
        if (any) break;
    }
    for (; i < n; i++)
        if (index[i] < lo || index[i] >= hi) return i;
    return -1;
}

/* ---- gather ---- */

typedef struct gather {
    int64_t m, d, per;
    const float *in;
    const int32_t *index;
    float *out;
} gather;

static void gather_tile(void *arg, int64_t tile)
{
    const gather *p = arg;
    const size_t bytes = (size_t)p->d * sizeof(float);
    int64_t from = tile * p->per, to = rows_end(p->m, from, p->per);
    for (int64_t i = from; i < to; i++) {
        if (p->index[i] < 0)
            memset(p->out + i * p->d, 0, bytes);
        else
            memcpy(p->out + i * p->d, p->in + p->index[i] * p->d, bytes);
    }
}

void MF_SIMD(gather_rows)(const mf_kctx *x, int64_t m, int64_t d, const float *in,
                          const int32_t *index, float *out)
{
    gather p = {m, d, rows_per_tile(d), in, index, out};
    x->parallel(rows_tiles(m, d), gather_tile, &p);
}

/* ---- sums of rows: a few at a time, each result written once for them ---- */

#define AT_ONCE 8

typedef struct sums {
    int64_t n, d, k, per;
    const int32_t *offset, *list, *place;
    const float *gate, *in;
    float *out;
} sums;

/* out = (first ? 0 : out) + sum of gate[r] row[r], count >= 1. */
V_INLINE void add_rows(int64_t d, int count, const float *const row[AT_ONCE],
                       const float gate[AT_ONCE], bool first, float *out)
{
    for (int64_t j = 0; j < d; j += VL) {
        const int64_t left = d - j;
        const bool full = left >= VL;
        vf s = first ? v_set(0) : full ? v_load(out + j) : v_load_n(out + j, left);
        for (int i = 0; i < count; i++)
            s = v_fma(full ? v_load(row[i] + j) : v_load_n(row[i] + j, left), v_set(gate[i]),
                      s);
        full ? v_store(out + j, s) : v_store_n(out + j, s, left);
    }
}

static void sum_one(const sums *p, int64_t t)
{
    const int64_t from = p->offset ? p->offset[t] : t * p->k;
    const int64_t to = p->offset ? p->offset[t + 1] : (t + 1) * p->k;
    const float *row[AT_ONCE];
    float gate[AT_ONCE], *out = p->out + t * p->d;
    bool first = true;
    int count = 0;
    for (int64_t q = from; q < to; q++) {
        int64_t r = p->list ? p->list[q] : q, at = p->place ? p->place[r] : r;
        if (at < 0) continue;
        row[count] = p->in + at * p->d;
        gate[count++] = p->gate ? p->gate[r] : 1;
        if (count == AT_ONCE) {
            add_rows(p->d, count, row, gate, first, out);
            first = false;
            count = 0;
        }
    }
    if (count == 2 && first)
        add_rows(p->d, 2, row, gate, true, out); /* the usual top-2, unrolled */
    else if (count > 0)
        add_rows(p->d, count, row, gate, first, out);
    else if (first)
        memset(out, 0, (size_t)p->d * sizeof(float));
}

static void sums_tile(void *arg, int64_t tile)
{
    const sums *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->n, from, p->per);
    for (int64_t t = from; t < to; t++)
        sum_one(p, t);
}

void MF_SIMD(sum_rows)(const mf_kctx *x, int64_t n, int64_t d, int64_t k, const int32_t *offset,
                       const int32_t *list, const int32_t *place, const float *gate,
                       const float *in, float *out)
{
    sums p = {n, d, k, rows_per_tile(d), offset, list, place, gate, in, out};
    x->parallel(rows_tiles(n, d), sums_tile, &p);
}

/* ---- the gradient of the weighted sum ---- */

typedef struct spread {
    int64_t rows, k, d, per, placed;
    const float *y, *gate, *dout;
    const int32_t *place, *token;
    float *dy, *dgate;
} spread;

/* to = g from */
V_INLINE void scale(int64_t d, float g, const float *from, float *to)
{
    int64_t j = 0;
    for (; j + VL <= d; j += VL)
        v_store(to + j, v_load(from + j) * g);
    if (j < d) v_store_n(to + j, v_load_n(from + j, d - j) * g, d - j);
}

static void spread_tile(void *arg, int64_t tile)
{
    const spread *p = arg;
    const int64_t d = p->d;
    int64_t from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t r = from; r < to; r++) {
        int64_t t = p->token ? p->token[r] : r / p->k, at = p->place[r];
        bool none = at < 0 || t < 0;
        if (p->dy && at >= 0 && t < 0) memset(p->dy + at * d, 0, (size_t)d * sizeof(float));
        if (p->dy && r >= p->placed) memset(p->dy + r * d, 0, (size_t)d * sizeof(float));
        if (p->dgate) p->dgate[r] = none ? 0 : v_dot(d, p->y + at * d, p->dout + t * d);
        if (p->dy && !none) scale(d, p->gate ? p->gate[r] : 1, p->dout + t * d, p->dy + at * d);
    }
}

void MF_SIMD(combine_grad)(const mf_kctx *x, int64_t rows, int64_t k, int64_t d, const float *y,
                           const float *gate, const int32_t *place, const int32_t *token,
                           const float *dout, float *dy, float *dgate)
{
    spread p = {rows, k, d, rows_per_tile(d), 0, y, gate, dout, place, token, dy, dgate};
    for (int64_t r = 0; r < rows; r++)
        p.placed += place[r] >= 0;
    x->parallel(rows_tiles(rows, d), spread_tile, &p);
}
