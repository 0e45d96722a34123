/* map2.c: functions of two values, with broadcasting. Work is divided into lines; a line is one
 * run of the last dimension. A tile has several short lines, or a part of a long line. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

typedef struct map {
    int fn;
    int64_t dim[4], stride_a[4], stride_b[4];
    /* lines: number of all lines; per: lines per tile; parts: tiles per line. per or parts
     * is 1. */
    int64_t lines, per, parts;
    const void *a, *b;
    void *out;
} map;

V_INLINE vf larger(vf u, vf v)
{
    return v_select((u >= v) | (u != u), u, v);
}
V_INLINE vf smaller(vf u, vf v)
{
    return v_select((u <= v) | (u != u), u, v);
}
V_INLINE vf greater(vf u, vf v)
{
    return v_select(u > v, v_set(1.0f), v_set(0));
}

/* How an operand is read along a line: one element for the whole line, elements in order, or
 * elements at a stride. */
typedef enum step { SAME, NEXT, FAR } step;

/* Returns element i of an operand that is not read in order. */
V_INLINE float one(const void *p, int64_t i, bool bf16)
{
    return bf16 ? v_get_n(p, i, 1, true)[0] : ((const float *)p)[i];
}
V_INLINE vf read(const void *p, int64_t j, step how, int64_t stride, bool bf16)
{
    if (how == NEXT) return v_get(p, j, bf16);
    if (how == SAME) return v_set(one(p, 0, bf16));
    vf v;
    for (int i = 0; i < VL; i++)
        v[i] = one(p, (j + i) * stride, bf16);
    return v;
}
V_INLINE vf read_n(const void *p, int64_t j, int64_t n, step how, int64_t stride, bool bf16)
{
    if (how == NEXT) return v_get_n(p, j, n, bf16);
    if (how == SAME) return v_set(one(p, 0, bf16));
    vf v = {0};
    for (int i = 0; i < n; i++)
        v[i] = one(p, (j + i) * stride, bf16);
    return v;
}

#define LOOP(expression)                                                                       \
    for (; j + VL <= n; j += VL) {                                                             \
        vf u = read(a, j, how_a, sa, bf16), v = read(b, j, how_b, sb, bf16);                   \
        v_put(out, j, expression, bf16);                                                       \
    }                                                                                          \
    if (j < n) {                                                                               \
        vf u = read_n(a, j, n - j, how_a, sa, bf16), v = read_n(b, j, n - j, how_b, sb, bf16); \
        v_put_n(out, j, expression, n - j, bf16);                                              \
    }                                                                                          \
    break;

V_INLINE void line(int fn, int64_t n, const void *a, step how_a, int64_t sa, const void *b,
                   step how_b, int64_t sb, void *out, bool bf16)
{
    int64_t j = 0;
    switch ((mf_map2_fn)fn) {
    case MF_MAP_ADD:
        LOOP(u + v)
    case MF_MAP_SUB:
        LOOP(u - v)
    case MF_MAP_MUL:
        LOOP(u * v)
    case MF_MAP_DIV:
        LOOP(u / v)
    case MF_MAP_MAXIMUM:
        LOOP(larger(u, v))
    case MF_MAP_MINIMUM:
        LOOP(smaller(u, v))
    case MF_MAP_GREATER:
        LOOP(greater(u, v))
    case MF_MAP2_COUNT:
        break;
    }
}

/* For i32 numbers, modulo 2^32; the compiler vectorizes these loops. */
#define WHOLE(expression)                                                                      \
    for (int64_t j = 0; j < n; j++) {                                                          \
        const int32_t u = a[j * sa], v = b[j * sb];                                            \
        out[j] = (int32_t)(expression);                                                        \
    }                                                                                          \
    break;

static void line_i32(int fn, int64_t n, const int32_t *a, int64_t sa, const int32_t *b,
                     int64_t sb, int32_t *out)
{
    switch ((mf_map2_fn)fn) {
    case MF_MAP_ADD:
        WHOLE((uint32_t)u + (uint32_t)v)
    case MF_MAP_SUB:
        WHOLE((uint32_t)u - (uint32_t)v)
    case MF_MAP_MUL:
        WHOLE((uint32_t)u * (uint32_t)v)
    case MF_MAP_DIV:
        WHOLE(v == 0 ? 0 : v == -1 ? 0 - (uint32_t)u : (uint32_t)(u / v))
    case MF_MAP_MAXIMUM:
        WHOLE(u > v ? u : v)
    case MF_MAP_MINIMUM:
        WHOLE(u < v ? u : v)
    case MF_MAP_GREATER:
        WHOLE(u > v)
    case MF_MAP2_COUNT:
        break;
    }
}

V_INLINE void any_line(int fn, int64_t n, const void *a, int64_t sa, const void *b, int64_t sb,
                       void *out, bool bf16)
{
    if (sa == 1 && sb == 1)
        line(fn, n, a, NEXT, 1, b, NEXT, 1, out, bf16);
    else if (sa == 1 && sb == 0)
        line(fn, n, a, NEXT, 1, b, SAME, 0, out, bf16);
    else if (sa == 0 && sb == 1)
        line(fn, n, a, SAME, 0, b, NEXT, 1, out, bf16);
    else
        line(fn, n, a, FAR, sa, b, FAR, sb, out, bf16);
}

V_INLINE void map2_part(const map *p, int64_t tile, bool bf16, bool whole)
{
    const int64_t n = p->dim[3], part = p->parts > 1 ? tile % p->parts * ROWS_TILE : 0;
    const int64_t from = tile / p->parts * p->per, to = rows_end(p->lines, from, p->per);
    const int64_t count = p->parts > 1 ? rows_end(n, part, ROWS_TILE) - part : n;
    for (int64_t i = from; i < to; i++) {
        int64_t k = i % p->dim[2], rest = i / p->dim[2];
        int64_t j = rest % p->dim[1], h = rest / p->dim[1];
        int64_t a = h * p->stride_a[0] + j * p->stride_a[1] + k * p->stride_a[2];
        int64_t b = h * p->stride_b[0] + j * p->stride_b[1] + k * p->stride_b[2];
        if (whole) {
            line_i32(p->fn, count, (const int32_t *)p->a + a + part * p->stride_a[3],
                     p->stride_a[3], (const int32_t *)p->b + b + part * p->stride_b[3],
                     p->stride_b[3], (int32_t *)p->out + i * n + part);
            continue;
        }
        any_line(p->fn, count, v_at(p->a, a + part * p->stride_a[3], bf16), p->stride_a[3],
                 v_at(p->b, b + part * p->stride_b[3], bf16), p->stride_b[3],
                 v_at(p->out, i * n + part, bf16), bf16);
    }
}

static void map2_tile(void *arg, int64_t tile)
{
    map2_part(arg, tile, false, false);
}

static void map2_bf16_tile(void *arg, int64_t tile)
{
    map2_part(arg, tile, true, false);
}

static void map2_i32_tile(void *arg, int64_t tile)
{
    map2_part(arg, tile, false, true);
}

void MF_SIMD(map2)(const mf_kctx *x, const mf_map2_args *a)
{
    map p = {.fn = a->fn,
             .lines = a->dim[0] * a->dim[1] * a->dim[2],
             .a = a->a,
             .b = a->b,
             .out = a->out};
    memcpy(p.dim, a->dim, sizeof p.dim);
    memcpy(p.stride_a, a->stride_a, sizeof p.stride_a);
    memcpy(p.stride_b, a->stride_b, sizeof p.stride_b);
    p.per = rows_per_tile(a->dim[3]);
    p.parts = a->dim[3] > ROWS_TILE ? (a->dim[3] + ROWS_TILE - 1) / ROWS_TILE : 1;
    x->parallel((p.lines + p.per - 1) / p.per * p.parts,
                a->type == MF_CAST_BF16  ? map2_bf16_tile
                : a->type == MF_CAST_I32 ? map2_i32_tile
                                         : map2_tile,
                &p);
}
