/* skinny.c: gemms with a side of at most SKINNY, which is often the number of experts, as in
 * routers. Such gemms take as long as reading the long operand once, so nothing is packed. */
#include "kernels/cpu/simd/gemm/skinny.h"
#include "kernels/cpu/simd/gemm/small.h"

#define DEPTH 64 /* number of rows of the long operand that stay in the cache for all columns */

#if VL == 16
/* Returns a vector whose lane l is the sum over the lanes of s[l]. Computing sixteen sums
 * together costs as much as three separate sums. */
V_INLINE vf sums_of(vf s[16])
{
    V_UNROLL
    for (int w = 1; w < 16; w *= 2) {
        V_UNROLL
        for (int i = 0; i < 16; i += 2 * w) {
            block_swap(w, &s[i], &s[i + w]);
            s[i] += s[i + w];
        }
    }
    return s[0];
}

/* Multiplies two rows of a with eight rows of b; both are stored along k. */
static void two_by_eight(int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                         float *c, int64_t ldc)
{
    vf s[16];
    V_UNROLL
    for (int i = 0; i < 16; i++)
        s[i] = (vf){0};
    int64_t p = 0;
    for (; p + VL <= k; p += VL) {
        vf x0 = v_load(a + p), x1 = v_load(a + lda + p);
        __builtin_prefetch(a + 2 * lda + p); /* the next two rows */
        __builtin_prefetch(a + 3 * lda + p);
        V_UNROLL
        for (int j = 0; j < 8; j++) {
            vf w = v_load(b + j * ldb + p);
            s[j] = v_fma(x0, w, s[j]);
            s[8 + j] = v_fma(x1, w, s[8 + j]);
        }
    }
    if (p < k) {
        vf x0 = v_load_n(a + p, k - p), x1 = v_load_n(a + lda + p, k - p);
        V_UNROLL
        for (int j = 0; j < 8; j++) {
            vf w = v_load_n(b + j * ldb + p, k - p);
            s[j] = v_fma(x0, w, s[j]);
            s[8 + j] = v_fma(x1, w, s[8 + j]);
        }
    }
    float sum[VL];
    v_store(sum, sums_of(s));
    memcpy(c, sum, 8 * sizeof(float));
    memcpy(c + ldc, sum + 8, 8 * sizeof(float));
}
#endif

/* c = a b^T for small n. */
static void thin_out(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i += 2) {
        int64_t j = 0;
#if VL == 16
        for (; i + 2 <= m && j + 8 <= n; j += 8)
            two_by_eight(k, a + i * lda, lda, b + j * ldb, ldb, c + i * ldc + j, ldc);
        /* For the last row of an odd m, the function gets this row twice, so that the bits are
         * computed as in other rows. */
        for (; i + 1 == m && j + 8 <= n; j += 8)
            two_by_eight(k, a + i * lda, 0, b + j * ldb, ldb, c + i * ldc + j, 0);
#endif
        for (; j < n; j++)
            for (int64_t r = i; r < m && r < i + 2; r++)
                c[r * ldc + j] = v_dot(k, a + r * lda, b + j * ldb);
    }
}

/* c = a^T b for small m. DEPTH rows of b are processed at a time, so that they stay in the
 * cache until all of their columns are read. */
static void thin_down(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                      const float *b, int64_t ldb, float *c, int64_t ldc)
{
    for (int64_t p = 0; p < k; p += DEPTH)
        block_columns(m, n, k - p < DEPTH ? k - p : DEPTH, a + p * lda, lda, b + p * ldb, ldb,
                      p > 0, c, ldc);
}

bool MF_SIMD(skinny)(int64_t rows, int64_t cols, bool trans_a, bool trans_b, int64_t m,
                     int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float *c, int64_t ldc)
{
    if (!trans_a && trans_b && cols <= SKINNY && rows > SKINNY)
        thin_out(m, n, k, a, lda, b, ldb, c, ldc);
    else if (!trans_a && !trans_b && k <= SKINNY && rows > SKINNY && cols > SKINNY)
        block_rows(m, n, k, a, lda, b, ldb, false, c, ldc);
    else if (trans_a && !trans_b && rows <= SKINNY && k > SKINNY && cols > SKINNY)
        thin_down(m, n, k, a, lda, b, ldb, c, ldc);
    else
        return false;
    return true;
}
