/* small.h: gemms of small matrices that are in the cache; sums stay in registers, and nothing
 * is packed.
 *
 * c [m,n] = a [m,k] times b [k,n] (+ c). Elements of a are broadcast one by one. There is one
 * function for each layout of a. If the distance between rows of a is a constant (lines,
 * columns), the loads need no register for this distance. Sums run over k in order, so tiling
 * over m and n does not change results.
 *
 * a and b are words (words.h), of which k is the number; c is f32. */
#ifndef MF_SIMD_SMALL_H
#define MF_SIMD_SMALL_H

#include <stdbool.h>
#include "kernels/cpu/simd/gemm/words.h"

/* Number of rows at a time for 1, 2, 3, 4 vectors of columns. The sums, a row of b and one
 * element of a must fit into the registers. */
#if VL == 16
#define BLOCK_ROWS_1 12
#define BLOCK_ROWS_2 12
#define BLOCK_ROWS_3 8
#define BLOCK_ROWS_4 6
#define BLOCK_WIDE   4 /* maximum number of vectors of columns */
#else
#define BLOCK_ROWS_1 8
#define BLOCK_ROWS_2 6
#define BLOCK_WIDE   2
#endif

#define BLOCK_LINE 64 /* distance between rows of a in block_lines, in elements */

/* The layout of a: its rows are at distance lda, or at distance BLOCK_LINE, or its columns are
 * at distance lda. */
enum { BLOCK_ROWS, BLOCK_LINES, BLOCK_COLUMNS };

typedef struct small_gemm {
    int64_t k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
    int64_t last; /* width of a last vector that is not full; 0: all vectors are full */
    bool add;
} small_gemm;

V_INLINE void block_put(float *to, vf s, bool add, int64_t width)
{
    if (width < VL)
        v_store_n(to, add ? v_load_n(to, width) + s : s, width);
    else
        v_store(to, add ? v_load(to) + s : s);
}

/* Computes mr rows from i on and nv vectors from column j on; the last vector has
 * width `last`. */
V_INLINE void block_tile(const small_gemm *p, int lies, int mr, int nv, int64_t last, int64_t i,
                         int64_t j)
{
    const int64_t down = lies == BLOCK_ROWS ? p->lda : lies == BLOCK_LINES ? BLOCK_LINE : 1;
    const int64_t along = lies == BLOCK_COLUMNS ? p->lda : 1;
    vf s[12][4];
    const float *a = p->a + i * down, *b = p->b + j;
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
            vf x = word_spread(a[r * down]);
            V_UNROLL
            for (int v = 0; v < nv; v++)
                s[r][v] = word_dot(x, w[v], s[r][v]);
        }
        a += along;
        b += p->ldb;
    }
    const int64_t ldc = p->ldc;
    float *c = p->c + i * ldc + j;
    const bool add = p->add;
    if (add) {
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int v = 0; v < nv; v++)
                block_put(c + r * ldc + v * VL, s[r][v], true, v == nv - 1 ? last : VL);
        }
        return;
    }
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < nv; v++)
            block_put(c + r * ldc + v * VL, s[r][v], false, v == nv - 1 ? last : VL);
    }
}

/* Computes one panel of nv vectors of columns. Rows are divided into equal parts of at most
 * `most` rows, so that no part has very few rows. */
#define BLOCK_CASE(lies, mr, nv)                                                               \
    case mr:                                                                                   \
        block_tile(p, lies, mr, nv, VL, i, j);                                                 \
        break;
#define BLOCK_ROW_PANEL(name, lies, nv, most, cases)                                           \
    static inline void block_row_panel_##name##_##nv(const small_gemm *p, int64_t m,           \
                                                     int64_t j)                                \
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
#define BLOCK_6(lies, nv)                                                                      \
    BLOCK_CASE(lies, 1, nv)                                                                    \
    BLOCK_CASE(lies, 2, nv)                                                                    \
    BLOCK_CASE(lies, 3, nv)                                                                    \
    BLOCK_CASE(lies, 4, nv) BLOCK_CASE(lies, 5, nv) BLOCK_CASE(lies, 6, nv)
#define BLOCK_8(lies, nv) BLOCK_6(lies, nv) BLOCK_CASE(lies, 7, nv) BLOCK_CASE(lies, 8, nv)
#define BLOCK_12(lies, nv)                                                                     \
    BLOCK_8(lies, nv)                                                                          \
    BLOCK_CASE(lies, 9, nv)                                                                    \
    BLOCK_CASE(lies, 10, nv) BLOCK_CASE(lies, 11, nv) BLOCK_CASE(lies, 12, nv)

#if VL == 16
#define BLOCK_ROW_PANELS(name, lies)                                                           \
    BLOCK_ROW_PANEL(name, lies, 1, BLOCK_ROWS_1, BLOCK_12(lies, 1))                            \
    BLOCK_ROW_PANEL(name, lies, 2, BLOCK_ROWS_2, BLOCK_12(lies, 2))                            \
    BLOCK_ROW_PANEL(name, lies, 3, BLOCK_ROWS_3, BLOCK_8(lies, 3))                             \
    BLOCK_ROW_PANEL(name, lies, 4, BLOCK_ROWS_4, BLOCK_6(lies, 4))
#define BLOCK_MORE(name)                                                                       \
    case 4:                                                                                    \
        block_row_panel_##name##_4(p, m, j);                                                   \
        break;                                                                                 \
    case 3:                                                                                    \
        block_row_panel_##name##_3(p, m, j);                                                   \
        break;
#else
#define BLOCK_ROW_PANELS(name, lies)                                                           \
    BLOCK_ROW_PANEL(name, lies, 1, BLOCK_ROWS_1, BLOCK_8(lies, 1))                             \
    BLOCK_ROW_PANEL(name, lies, 2, BLOCK_ROWS_2, BLOCK_6(lies, 2))
#define BLOCK_MORE(name)
#endif

#define BLOCK_GEMM(name, lies)                                                                 \
    BLOCK_ROW_PANELS(name, lies)                                                               \
    static inline void block_run_##name(const small_gemm *p, int64_t m, int64_t n)             \
    {                                                                                          \
        int64_t j = 0;                                                                         \
        while (n - j >= VL) {                                                                  \
            int64_t wide = (n - j) / VL < BLOCK_WIDE ? (n - j) / VL : BLOCK_WIDE;              \
            switch (wide) {                                                                    \
                BLOCK_MORE(name)                                                               \
            case 2:                                                                            \
                block_row_panel_##name##_2(p, m, j);                                           \
                break;                                                                         \
            default:                                                                           \
                block_row_panel_##name##_1(p, m, j);                                           \
            }                                                                                  \
            j += wide * VL;                                                                    \
        }                                                                                      \
        for (int64_t i = 0; i < m && p->last > 0; i++)                                         \
            block_tile(p, lies, 1, 1, p->last, i, j);                                          \
    }

BLOCK_GEMM(rows, BLOCK_ROWS)
BLOCK_GEMM(lines, BLOCK_LINES)
BLOCK_GEMM(columns, BLOCK_COLUMNS)

/* Computes c for an a whose rows are at distance lda. */
static inline void block_rows(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                              const float *b, int64_t ldb, bool add, float *c, int64_t ldc)
{
    const small_gemm p = {k, lda, ldb, ldc, a, b, c, n % VL, add};
    block_run_rows(&p, m, n);
}

/* Computes c for an a whose rows are at distance BLOCK_LINE. */
static inline void block_lines(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                               int64_t ldb, bool add, float *c, int64_t ldc)
{
    const small_gemm p = {k, BLOCK_LINE, ldb, ldc, a, b, c, n % VL, add};
    block_run_lines(&p, m, n);
}

/* Computes c for an a whose columns are at distance lda. */
static inline void block_columns(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                                 const float *b, int64_t ldb, bool add, float *c, int64_t ldc)
{
    const small_gemm p = {k, lda, ldb, ldc, a, b, c, n % VL, add};
    block_run_columns(&p, m, n);
}

/* Does the work of block_turn for rows r0 .. r1 - 1 and columns j0 .. n - 1, one element at
 * a time. */
V_INLINE void block_turn_scalar(int64_t r0, int64_t r1, int64_t rows, int64_t j0, int64_t n,
                                float factor, const float *from, int64_t ld, float *to,
                                int64_t ld_to)
{
    for (int64_t r = r0; r < r1; r++)
        for (int64_t j = j0; j < n; j++)
            to[j * ld_to + r] = r < rows ? factor * from[r * ld + j] : 0;
}

#if VL == 16
/* One stage of a transpose: exchanges lanes of a whose index has bit w with lanes of b whose
 * index is lower by w. */
V_INLINE void block_swap(int w, vf *a, vf *b)
{
    const vi with = (V_LANES & v_seti(w)) != 0;
    const vi low = V_LANES + (with & v_seti(16 - w));
    const vi high = V_LANES + ((with & v_seti(16)) | (~with & v_seti(w)));
    vf x = _mm512_permutex2var_ps(*a, (__m512i)low, *b);
    *b = _mm512_permutex2var_ps(*a, (__m512i)high, *b);
    *a = x;
}

V_INLINE void block_transpose(vf x[16])
{
    V_UNROLL
    for (int w = 1; w < 16; w *= 2) {
        V_UNROLL
        for (int i = 0; i < 16; i++)
            if ((i & w) == 0) block_swap(w, &x[i], &x[i + w]);
    }
}
#endif

/* Writes factor times the transpose of from [rows,n] to `to` [n, ld_to]. Columns from `rows` up
 * to the next multiple of VL become zeros. */
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
            block_transpose(x);
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
