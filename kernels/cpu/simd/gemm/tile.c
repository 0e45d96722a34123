/* tile.c: computes one tile of a gemm in the calling thread, by the method that is fastest for
 * the shape and processor.
 *
 * Engine and library pack operands, which saves time if many rows use the packed operand. With
 * few rows, reading b takes most of the time; the loops in this file read b once and do
 * not pack. */
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/attention/attention.h"
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/gemm/skinny.h"
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/simd/vec.h"

/* Number of rows up to which the loops below are faster than the engine (measured). */
#if VL == 16
#define FEW_DOTS   12
#define FEW_SWEEPS 8
#else
#define FEW_DOTS   4
#define FEW_SWEEPS 4
#endif
#define AHEAD 8 /* prefetch distance in rows of b */
/* number of rows of a at a time: MR x 4 sums stay in registers */
#define MR (VL == 16 ? 4 : 2)

static inline void put(float *c, float sum, float alpha, float beta)
{
    *c = beta == 0 ? alpha * sum : alpha * sum + *c;
}

/* Computes c[i,j] for mr rows of a and nr rows of b; both are stored along k. If `ahead`, the
 * next rows of b are prefetched, because the processor's own prefetch stops at each page. */
V_INLINE void dots(int mr, int nr, bool ahead, int64_t k, float alpha, const float *a,
                   int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    vf s[4][4];
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            s[i][j] = (vf){0};
    }
    int64_t p = 0;
    for (; p + VL <= k; p += VL) {
        vf w[4];
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            w[j] = v_load(b + j * ldb + p);
            if (ahead) __builtin_prefetch(b + (j + AHEAD) * ldb + p);
        }
        V_UNROLL
        for (int i = 0; i < mr; i++) {
            vf v = v_load(a + i * lda + p);
            V_UNROLL
            for (int j = 0; j < nr; j++)
                s[i][j] = v_fma(v, w[j], s[i][j]);
        }
    }
    if (p < k) {
        vf w[4];
        V_UNROLL
        for (int j = 0; j < nr; j++)
            w[j] = v_load_n(b + j * ldb + p, k - p);
        V_UNROLL
        for (int i = 0; i < mr; i++) {
            vf v = v_load_n(a + i * lda + p, k - p);
            V_UNROLL
            for (int j = 0; j < nr; j++)
                s[i][j] = v_fma(v, w[j], s[i][j]);
        }
    }
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            put(c + i * ldc + j, v_sum(s[i][j]), alpha, beta);
    }
}

/* Reads each row of b once from memory: four rows of b stay in the cache while all rows of a
 * are multiplied with them. */
static void few_dots(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        int64_t i = 0;
        for (; i + MR <= m; i += MR)
            dots(MR, 4, i == 0, k, alpha, a + i * lda, lda, b + j * ldb, ldb, beta,
                 c + i * ldc + j, ldc);
        for (; i < m; i++)
            dots(1, 4, i == 0, k, alpha, a + i * lda, lda, b + j * ldb, ldb, beta,
                 c + i * ldc + j, ldc);
    }
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            dots(1, 1, false, k, alpha, a + i * lda, lda, b + j * ldb, ldb, beta,
                 c + i * ldc + j, ldc);
}

/* Computes rows 0 .. mr - 1 of c over nr vectors of columns; the last vector has
 * width `last`. */
V_INLINE void sweep(int mr, int nr, int64_t last, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    vf s[MR][4];
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            s[i][j] = (vf){0};
    }
    for (int64_t p = 0; p < k; p++) {
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            const float *w = b + p * ldb + j * VL;
            vf v = j == nr - 1 && last < VL ? v_load_n(w, last) : v_load(w);
            V_UNROLL
            for (int i = 0; i < mr; i++)
                s[i][j] = v_fma(v_set(a[i * lda + p]), v, s[i][j]);
        }
    }
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            float *to = c + i * ldc + j * VL;
            vf r = alpha * s[i][j];
            if (j == nr - 1 && last < VL)
                v_store_n(to, beta == 0 ? r : r + v_load_n(to, last), last);
            else
                v_store(to, beta == 0 ? r : r + v_load(to));
        }
    }
}

static void few_sweeps(int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                       int64_t ldc)
{
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL) {
        int64_t i = 0;
        for (; i + MR <= m; i += MR)
            sweep(MR, 4, VL, k, alpha, a + i * lda, lda, b + j, ldb, beta, c + i * ldc + j,
                  ldc);
        for (; i < m; i++)
            sweep(1, 4, VL, k, alpha, a + i * lda, lda, b + j, ldb, beta, c + i * ldc + j, ldc);
    }
    for (; j < n; j += VL)
        for (int64_t i = 0; i < m; i++)
            sweep(1, 1, n - j < VL ? n - j : VL, k, alpha, a + i * lda, lda, b + j, ldb, beta,
                  c + i * ldc + j, ldc);
}

/* ---- the choice ---- */

static void by_engine(int64_t rows, int64_t cols, bool trans_a, bool trans_b, int64_t m,
                      int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                      const float *b, int64_t ldb, float beta, float *c, int64_t ldc,
                      const gemm_tile *next)
{
    const gemm_side u = {a, MF_CAST_F32, lda, !trans_a, NULL, trans_a ? m : k, false},
                    v = {b, MF_CAST_F32, ldb, trans_b, NULL, trans_b ? k : n, false};
    const gemm_tile block = {.a = u,
                             .b = v,
                             .i1 = m,
                             .j1 = n,
                             .k1 = k,
                             .c = c,
                             .type_c = MF_CAST_F32,
                             .ldc = ldc,
                             .alpha = alpha,
                             .beta = beta,
                             .rows = rows,
                             .cols = cols,
                             .next = next};
    MF_SIMD(gemm_tile_f32)(&block);
}

/* thin: the loops for short sides may compute the gemm. They sum in other blocks than
 * the engine. */
static void gemm_before(bool thin, int64_t rows, int64_t cols, bool trans_a, bool trans_b,
                        int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                        int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                        int64_t ldc, const gemm_tile *next)
{
    if (m <= 0 || n <= 0) return;
    if (k <= 0) {
        for (int64_t i = 0; i < m && beta == 0; i++)
            memset(c + i * ldc, 0, (size_t)n * sizeof(float));
        return;
    }
    if (thin && alpha == 1 && beta == 0 &&
        MF_SIMD(skinny)(rows, cols, trans_a, trans_b, m, n, k, a, lda, b, ldb, c, ldc))
        return;
    const mf_library_call by_library = {trans_a, trans_b, m,   n,   k,     a,   b,
                                        c,       lda,     ldb, ldc, alpha, beta};
    if (rows <= FEW_DOTS && !trans_a && trans_b)
        few_dots(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else if (rows <= FEW_SWEEPS && !trans_a)
        few_sweeps(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else if (!mf_library_gemm(VL > 4, &by_library))
        by_engine(rows, cols, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                  next);
}

void MF_SIMD(gemm_serial)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                          float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                          float beta, float *c, int64_t ldc)
{
    gemm_before(true, m, n, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                NULL);
}

/* Whether the loops above and the library can compute the tile. */
static bool plain(const gemm_tile *b)
{
    return b->a.type == MF_CAST_F32 && b->b.type == MF_CAST_F32 && b->type_c == MF_CAST_F32 &&
           b->a.index == NULL && b->b.index == NULL && !b->rounded;
}

static const float *number(const gemm_side *s, int64_t i, int64_t p)
{
    return (const float *)s->at + (s->along ? i * s->ld + p : p * s->ld + i);
}

#define FEW_PAIRS 8

/* On Intel's processors the instruction takes four times as long as an f32 instruction
 * (measured). */
bool MF_SIMD(pairs_pay)(void)
{
#if defined(MF_HAVE_AVX512BF16)
    return __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel");
#else
    return false;
#endif
}

#if defined(MF_HAVE_AVX512BF16)
/* Whether it is faster to multiply pairs of bf16 directly: always, or if memory limits
 * the speed. */
static bool pairs_pay(const gemm_tile *b)
{
    return MF_SIMD(pairs_pay)() ||
           (b->rows <= FEW_PAIRS && __builtin_cpu_supports("avx512bf16"));
}
#endif

/* Computes a tile of packed weights. The engines and AMX read packed weights, for any number
 * of rows. */
static void by_packed(const gemm_tile *b)
{
    if (b->rounded && b->rows > FEW_PAIRS && MF_SIMD(gemm_amx) != NULL && MF_SIMD(gemm_amx)(b))
        return;
#if defined(MF_HAVE_AVX512BF16)
    if (b->rounded && pairs_pay(b)) {
        MF_SIMD(gemm_tile_bf16)(b);
        return;
    }
#endif
    MF_SIMD(gemm_tile_f32)(b);
}

bool (*MF_SIMD(gemm_amx))(const gemm_tile *b);

void MF_SIMD(use_amx)(void)
{
#if defined(MF_HAVE_AMX)
    if (!MF_SIMD(gemm_amx_works)()) return;
    MF_SIMD(gemm_amx) = MF_SIMD(gemm_tile_amx);
    MF_SIMD(stored_amx) = MF_SIMD(stored_gemm_amx);
    MF_SIMD(attention_amx) = MF_SIMD(attention_by_amx);
    MF_SIMD(attention_amx_backward) = MF_SIMD(attention_by_amx_backward);
#endif
}

void MF_SIMD(gemm_tile)(const gemm_tile *b)
{
    const int64_t m = b->i1 - b->i0, n = b->j1 - b->j0;
    if (m <= 0 || n <= 0) return;
    if (b->b.packed) {
        by_packed(b);
        return;
    }
    if (b->rounded && b->rows > FEW_PAIRS && MF_SIMD(gemm_amx) != NULL && MF_SIMD(gemm_amx)(b))
        return;
#if defined(MF_HAVE_AVX512BF16)
    if (b->rounded && pairs_pay(b)) {
        MF_SIMD(gemm_tile_bf16)(b);
        return;
    }
#endif
    if (!plain(b)) {
        MF_SIMD(gemm_tile_f32)(b);
        return;
    }
    gemm_before(!b->by_inner, b->rows, b->cols, !b->a.along, b->b.along, m, n, b->k1 - b->k0,
                b->alpha, number(&b->a, b->i0, b->k0), b->a.ld, number(&b->b, b->j0, b->k0),
                b->b.ld, b->beta, b->c, b->ldc, b->next);
    if (b->bias != NULL) v_add_to_rows(m, n, b->bias + b->j0, b->c, b->ldc);
}
