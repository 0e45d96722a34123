/* block.h: products of small blocks that lie in the cache, in registers and without packing.
 *
 * c [m,n] = sum over p of a(i,p) b[p,:] (+ c), a(i,p) = a[i down + p along]: either operand order
 * of a costs the same, because its numbers are broadcast one by one. Sums run over p in order, so
 * how m and n are cut does not show in the bits.
 */
#ifndef MF_SIMD_BLOCK_H
#define MF_SIMD_BLOCK_H

#include <stdbool.h>
#include "kernels/cpu/simd/vec.h"

/* Rows at once for 1, 2, 3, 4 vectors across: sums, the row of b and one number fit registers. */
#if VL == 16
#define BLOCK_ROWS_1 12
#define BLOCK_ROWS_2 12
#define BLOCK_ROWS_3 8
#define BLOCK_ROWS_4 6
#define BLOCK_WIDE   4 /* vectors across, at most */
#else
#define BLOCK_ROWS_1 8
#define BLOCK_ROWS_2 6
#define BLOCK_WIDE   2
#endif

typedef struct block_product {
    int64_t k, down, along, ldb, ldc;
    const float *a, *b;
    float *c;
    int64_t last; /* width of a vector that is not full */
    bool add;
} block_product;

/* mr rows from i on, nv vectors from column j on. */
V_INLINE void block_tile(const block_product *p, int mr, int nv, int64_t last, int64_t i,
                         int64_t j)
{
    vf s[12][4];
    const float *a = p->a + i * p->down, *b = p->b + j;
    float *c = p->c + i * p->ldc + j;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < nv; v++)
            s[r][v] = (vf){0};
    }
    for (int64_t q = 0; q < p->k; q++) {
        vf w[4];
        V_UNROLL
        for (int v = 0; v < nv; v++)
            w[v] = v == nv - 1 && last < VL ? v_load_n(b + v * VL, last) : v_load(b + v * VL);
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            vf x = v_set(a[r * p->down]);
            V_UNROLL
            for (int v = 0; v < nv; v++)
                s[r][v] = v_fma(x, w[v], s[r][v]);
        }
        a += p->along;
        b += p->ldb;
    }
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < nv; v++) {
            float *to = c + r * p->ldc + v * VL;
            if (v == nv - 1 && last < VL)
                v_store_n(to, p->add ? v_load_n(to, last) + s[r][v] : s[r][v], last);
            else
                v_store(to, p->add ? v_load(to) + s[r][v] : s[r][v]);
        }
    }
}

/* One strip of nv vectors: the rows in equal parts of at most `most`, so that none is thin. */
#define BLOCK_CASE(mr, nv)                                                                     \
    case mr:                                                                                   \
        block_tile(p, mr, nv, VL, i, j);                                                       \
        break;
#define BLOCK_STRIP(nv, most, cases)                                                           \
    static inline void block_strip_##nv(const block_product *p, int64_t m, int64_t j)          \
    {                                                                                          \
        int64_t parts = (m + (most)-1) / (most), i = 0;                                        \
        for (int64_t at = 0; at < parts; at++) {                                               \
            int64_t rows = (m - i + parts - at - 1) / (parts - at);                            \
            switch (rows) {                                                                    \
                cases                                                                          \
            }                                                                                  \
            i += rows;                                                                         \
        }                                                                                      \
    }
#define BLOCK_6(nv)                                                                            \
    BLOCK_CASE(1, nv)                                                                          \
    BLOCK_CASE(2, nv) BLOCK_CASE(3, nv) BLOCK_CASE(4, nv) BLOCK_CASE(5, nv) BLOCK_CASE(6, nv)
#define BLOCK_8(nv) BLOCK_6(nv) BLOCK_CASE(7, nv) BLOCK_CASE(8, nv)
#define BLOCK_12(nv)                                                                           \
    BLOCK_8(nv)                                                                                \
    BLOCK_CASE(9, nv) BLOCK_CASE(10, nv) BLOCK_CASE(11, nv) BLOCK_CASE(12, nv)

#if VL == 16
BLOCK_STRIP(1, BLOCK_ROWS_1, BLOCK_12(1))
BLOCK_STRIP(2, BLOCK_ROWS_2, BLOCK_12(2))
BLOCK_STRIP(3, BLOCK_ROWS_3, BLOCK_8(3))
BLOCK_STRIP(4, BLOCK_ROWS_4, BLOCK_6(4))
#else
BLOCK_STRIP(1, BLOCK_ROWS_1, BLOCK_8(1))
BLOCK_STRIP(2, BLOCK_ROWS_2, BLOCK_6(2))
#endif

static inline void block_multiply(int64_t m, int64_t n, int64_t k, const float *a, int64_t down,
                                  int64_t along, const float *b, int64_t ldb, bool add, float *c,
                                  int64_t ldc)
{
    const block_product p = {k, down, along, ldb, ldc, a, b, c, n % VL, add};
    int64_t j = 0;
    while (n - j >= VL) {
        int64_t wide = (n - j) / VL < BLOCK_WIDE ? (n - j) / VL : BLOCK_WIDE;
        switch (wide) {
#if VL == 16
        case 4:
            block_strip_4(&p, m, j);
            break;
        case 3:
            block_strip_3(&p, m, j);
            break;
#endif
        case 2:
            block_strip_2(&p, m, j);
            break;
        default:
            block_strip_1(&p, m, j);
        }
        j += wide * VL;
    }
    for (int64_t i = 0; i < m && p.last > 0; i++)
        block_tile(&p, 1, 1, p.last, i, j);
}

/* to [n, ld_to] = factor times from [rows,n] transposed; zeros in the columns from rows up to the
 * next multiple of VL. */
V_INLINE void block_turn_scalar(int64_t r0, int64_t r1, int64_t rows, int64_t j0, int64_t n,
                                float factor, const float *from, int64_t ld, float *to,
                                int64_t ld_to)
{
    for (int64_t r = r0; r < r1; r++)
        for (int64_t j = j0; j < n; j++)
            to[j * ld_to + r] = r < rows ? factor * from[r * ld + j] : 0;
}

#if VL == 16
/* One stage of a transpose: exchanges the lanes of a that have bit w with those of b that lack it,
 * w lanes away. */
V_INLINE void block_swap(int w, vf *a, vf *b)
{
    const vi with = (V_LANES & v_seti(w)) != 0;
    const vi low = V_LANES + (with & v_seti(16 - w));
    const vi high = V_LANES + ((with & v_seti(16)) | (~with & v_seti(w)));
    vf x = _mm512_permutex2var_ps(*a, (__m512i)low, *b);
    *b = _mm512_permutex2var_ps(*a, (__m512i)high, *b);
    *a = x;
}
#endif

static inline void block_turn(int64_t rows, int64_t n, float factor, const float *from,
                              int64_t ld, float *to, int64_t ld_to)
{
    int64_t wide = (rows + VL - 1) / VL * VL, r = 0;
#if VL == 16
    for (; r + VL <= rows; r += VL) {
        int64_t j = 0;
        for (; j + VL <= n; j += VL) {
            vf x[16];
            V_UNROLL
            for (int i = 0; i < 16; i++)
                x[i] = v_load(from + (r + i) * ld + j) * factor;
            V_UNROLL
            for (int w = 1; w < 16; w *= 2) {
                V_UNROLL
                for (int i = 0; i < 16; i++)
                    if ((i & w) == 0) block_swap(w, &x[i], &x[i + w]);
            }
            V_UNROLL
            for (int i = 0; i < 16; i++)
                v_store(to + (j + i) * ld_to + r, x[i]);
        }
        block_turn_scalar(r, r + VL, rows, j, n, factor, from, ld, to, ld_to);
    }
#endif
    block_turn_scalar(r, wide, rows, 0, n, factor, from, ld, to, ld_to);
}

#endif
