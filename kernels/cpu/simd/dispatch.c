/* dispatch.c: checks indices, and moves rows to experts and back.
 *
 * Rows are long, so moving them takes most of the time. One thread writes a row of a result,
 * and adds its terms in the order of kernels.def. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

/* ---- range of indices ---- */

void MF_SIMD(check_index)(const mf_kctx *x, const mf_check_index_args *a)
{
    const vi low = v_seti((int32_t)(a->lo < INT32_MIN ? INT32_MIN : a->lo));
    const vi last = v_seti((int32_t)(a->hi - 1 > INT32_MAX ? INT32_MAX : a->hi - 1));
    int64_t i = 0;
    for (; i + VL <= a->n; i += VL) {
        vi v = v_loadi(a->index + i), bad = (v < low) | (v > last);
        int32_t any = 0;
        for (int l = 0; l < VL; l++)
            any |= bad[l];
        if (any) break;
    }
    for (; i < a->n; i++)
        if (a->index[i] < a->lo || a->index[i] >= a->hi) {
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_RANGE,
                                       .what = a->what,
                                       .index = i,
                                       .value = a->index[i],
                                       .lo = a->lo,
                                       .hi = a->hi});
            return;
        }
}

/* ---- gather ---- */

typedef struct gather {
    int64_t m, bytes, per; /* bytes: size of a row; per: rows of a tile */
    const char *in;
    const int32_t *index;
    char *out;
} gather;

static void gather_tile(void *arg, int64_t tile)
{
    const gather *p = arg;
    const size_t bytes = (size_t)p->bytes;
    int64_t from = tile * p->per, to = rows_end(p->m, from, p->per);
    for (int64_t i = from; i < to; i++) {
        if (p->index[i] < 0)
            memset(p->out + i * p->bytes, 0, bytes);
        else
            memcpy(p->out + i * p->bytes, p->in + p->index[i] * p->bytes, bytes);
    }
}

void MF_SIMD(gather_rows)(const mf_kctx *x, const mf_gather_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    gather p = {a->m,  a->d * mf_cast_size(a->type), rows_per_tile(a->d), a->in, a->index,
                a->out};
    x->parallel(rows_tiles(a->m, a->d), gather_tile, &p);
}

/* ---- sums of rows ---- */

#define AT_ONCE 8 /* rows that are added to a result before it is written */

typedef struct sums {
    int64_t n, d, k, per;
    const int32_t *offset, *list, *place;
    const float *gate;
    const void *in;
    float *out;
    mf_bf16 *rounded; /* bf16 result, which replaces out */
} sums;

/* out = (first ? 0 : out) + sum over i < count of gate[i] row[i]; count >= 1. */
V_INLINE void add_rows(int64_t d, int count, const void *const row[AT_ONCE],
                       const float gate[AT_ONCE], bool first, float *out, bool bf16)
{
    for (int64_t j = 0; j < d; j += VL) {
        const int64_t left = d - j;
        const bool full = left >= VL;
        vf s = first ? v_set(0) : full ? v_load(out + j) : v_load_n(out + j, left);
        for (int i = 0; i < count; i++)
            s = v_fma(full ? v_get(row[i], j, bf16) : v_get_n(row[i], j, left, bf16),
                      v_set(gate[i]), s);
        full ? v_store(out + j, s) : v_store_n(out + j, s, left);
    }
}

/* Computes columns column .. column+d-1 of result t. */
V_INLINE void sum_one(const sums *p, int64_t t, int64_t column, int64_t d, float *out,
                      bool bf16)
{
    const int64_t from = p->offset ? p->offset[t] : t * p->k;
    const int64_t to = p->offset ? p->offset[t + 1] : (t + 1) * p->k;
    const void *row[AT_ONCE];
    float gate[AT_ONCE];
    bool first = true;
    int count = 0;
    for (int64_t q = from; q < to; q++) {
        int64_t r = p->list ? p->list[q] : q, at = p->place ? p->place[r] : r;
        if (at < 0) continue;
        row[count] = v_at(p->in, at * p->d + column, bf16);
        gate[count++] = p->gate ? p->gate[r] : 1;
        if (count == AT_ONCE) {
            add_rows(d, count, row, gate, first, out, bf16);
            first = false;
            count = 0;
        }
    }
    if (count == 2 && first)
        add_rows(d, 2, row, gate, true, out, bf16); /* A constant count makes top-2
                                                     * routing faster. */
    else if (count > 0)
        add_rows(d, count, row, gate, first, out, bf16);
    else if (first)
        memset(out, 0, (size_t)d * sizeof(float));
}

static void sums_tile(void *arg, int64_t tile)
{
    const sums *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->n, from, p->per);
    for (int64_t t = from; t < to; t++)
        sum_one(p, t, 0, p->d, p->out + t * p->d, false);
}

/* number of columns that are summed in f32 before they are rounded once */
#define ROUNDED_COLUMNS 512

static void sums_bf16_tile(void *arg, int64_t tile)
{
    const sums *p = arg;
    float part[ROUNDED_COLUMNS];
    int64_t from = tile * p->per, to = rows_end(p->n, from, p->per);
    for (int64_t t = from; t < to; t++) {
        if (p->out != NULL) {
            sum_one(p, t, 0, p->d, p->out + t * p->d, true);
            continue;
        }
        for (int64_t c = 0; c < p->d; c += ROUNDED_COLUMNS) {
            int64_t n = rows_end(p->d, c, ROUNDED_COLUMNS) - c, j = 0;
            mf_bf16 *to_bf16 = p->rounded + t * p->d + c;
            sum_one(p, t, c, n, part, true);
            for (; j + VL <= n; j += VL)
                v_store_bf16(to_bf16 + j, v_load(part + j));
            if (j < n) v_store_bf16_n(to_bf16 + j, v_load_n(part + j, n - j), n - j);
        }
    }
}

void MF_SIMD(sum_rows)(const mf_kctx *x, const mf_sum_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    sums p = {.n = a->n,
              .d = a->d,
              .k = a->k,
              .per = rows_per_tile(a->d),
              .offset = a->offset,
              .list = a->list,
              .place = a->place,
              .gate = a->gate,
              .in = a->in,
              .out = a->type_out == MF_CAST_F32 ? a->out : NULL,
              .rounded = a->type_out == MF_CAST_F32 ? NULL : a->out};
    x->parallel(rows_tiles(a->n, a->d), a->type_in == MF_CAST_BF16 ? sums_bf16_tile : sums_tile,
                &p);
}

/* ---- the gradient of the weighted sum ---- */

typedef struct spread {
    int64_t rows, k, d, per, placed;
    const void *y;
    const float *gate, *dout;
    const int32_t *place, *token;
    void *dy;
    float *dgate;
} spread;

/* Sets `to` to g times `from`. */
V_INLINE void scale(int64_t d, float g, const float *from, void *to, bool bf16)
{
    int64_t j = 0;
    for (; j + VL <= d; j += VL)
        v_put(to, j, v_load(from + j) * g, bf16);
    if (j < d) v_put_n(to, j, v_load_n(from + j, d - j) * g, d - j, bf16);
}

/* Like v_dot, for values that may be bf16. */
V_INLINE float dot(int64_t n, const void *a, const float *b, bool bf16)
{
    if (!bf16) return v_dot(n, a, b);
    vf s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        s0 = v_fma(v_get(a, i, true), v_load(b + i), s0);
        s1 = v_fma(v_get(a, i + VL, true), v_load(b + i + VL), s1);
    }
    for (; i + VL <= n; i += VL)
        s0 = v_fma(v_get(a, i, true), v_load(b + i), s0);
    if (i < n) s1 = v_fma(v_get_n(a, i, n - i, true), v_load_n(b + i, n - i), s1);
    return v_sum(s0 + s1);
}

V_INLINE void spread_part(const spread *p, int64_t tile, bool bf16)
{
    const int64_t d = p->d;
    const size_t bytes = (size_t)d * (bf16 ? sizeof(mf_bf16) : sizeof(float));
    int64_t from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t r = from; r < to; r++) {
        int64_t t = p->token ? p->token[r] : r / p->k, at = p->place[r];
        bool none = at < 0 || t < 0;
        if (p->dy && at >= 0 && t < 0) memset(v_at(p->dy, at * d, bf16), 0, bytes);
        if (p->dy && r >= p->placed) memset(v_at(p->dy, r * d, bf16), 0, bytes);
        if (p->dgate)
            p->dgate[r] = none ? 0 : dot(d, v_at(p->y, at * d, bf16), p->dout + t * d, bf16);
        if (p->dy && !none)
            scale(d, p->gate ? p->gate[r] : 1, p->dout + t * d, v_at(p->dy, at * d, bf16),
                  bf16);
    }
}

static void spread_tile(void *arg, int64_t tile)
{
    spread_part(arg, tile, false);
}

static void spread_bf16_tile(void *arg, int64_t tile)
{
    spread_part(arg, tile, true);
}

void MF_SIMD(combine_grad)(const mf_kctx *x, const mf_combine_grad_args *a)
{
    if (mf_kctx_failed(x)) return;
    spread p = {a->rows,  a->k,     a->d,    rows_per_tile(a->d),
                0,        a->y,     a->gate, a->dout,
                a->place, a->token, a->dy,   a->dgate};
    for (int64_t r = 0; r < a->rows; r++)
        p.placed += a->place[r] >= 0;
    x->parallel(rows_tiles(a->rows, a->d),
                a->type == MF_CAST_BF16 ? spread_bf16_tile : spread_tile, &p);
}

/* ---- assignments by expert and token ---- */

/* Merges two runs sorted by token, list[0 .. middle-1] and list[middle .. n-1], into out. */
static void merge(int64_t middle, int64_t n, const int32_t *token, const int32_t *list,
                  int32_t *out)
{
    int64_t a = 0, b = middle;
    for (int64_t i = 0; i < n; i++)
        out[i] =
            b >= n || (a < middle && token[list[a]] <= token[list[b]]) ? list[a++] : list[b++];
}

/* Sorts the n assignments of one expert by token; assignments of the same token keep their
 * order. Each pass merges runs of twice the length of the previous pass, alternating between
 * list and spare. */
static void sort_by_token(int64_t n, const int32_t *token, int32_t *list, int32_t *spare)
{
    int32_t *from = list, *to = spare;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t at = 0; at < n; at += 2 * run) {
            const int64_t left = n - at < 2 * run ? n - at : 2 * run;
            merge(run < left ? run : left, left, token, from + at, to + at);
        }
        int32_t *other = from;
        from = to;
        to = other;
    }
    if (from != list) memcpy(list, from, (size_t)n * sizeof *list);
}

void MF_SIMD(group_rows)(const mf_kctx *x, const mf_group_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t e = 0; a->token_of_row && e < a->experts; e++)
        sort_by_token(a->offset[e + 1] - a->offset[e], a->token_of_row, a->order + a->offset[e],
                      a->work);
    for (int64_t r = 0; r < a->rows; r++)
        a->place[r] = -1;
    for (int64_t p = 0; p < a->rows; p++) {
        const int32_t r = a->order[p];
        if (r >= 0) a->place[r] = (int32_t)p;
        a->token[p] = r < 0 ? -1 : a->token_of_row ? a->token_of_row[r] : (int32_t)(r / a->k);
    }
}
