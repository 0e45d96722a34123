/* matmul.c: plain products, as mf_product has them. */
#include "kernels/cpu/simd/simd.h"

void MF_SIMD(matmul)(const mf_kctx *x, bool trans_a, bool trans_b, int64_t m, int64_t n,
                     int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float beta, float *c, int64_t ldc)
{
    const mf_product p = {.m = m,
                          .n = n,
                          .k = k,
                          .trans_a = trans_a,
                          .trans_b = trans_b,
                          .a = a,
                          .b = b,
                          .c = c,
                          .lda = lda,
                          .ldb = ldb,
                          .ldc = ldc,
                          .alpha = alpha,
                          .beta = beta};
    MF_SIMD(product)(x, &p);
}

void MF_SIMD(matmul_batch)(const mf_kctx *x, int64_t batch, bool trans_a, bool trans_b,
                           int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                           const float *b, float *c)
{
    const mf_product p = {.m = m,
                          .n = n,
                          .k = k,
                          .trans_a = trans_a,
                          .trans_b = trans_b,
                          .a = a,
                          .b = b,
                          .c = c,
                          .lda = trans_a ? m : k,
                          .ldb = trans_b ? k : n,
                          .ldc = n,
                          .alpha = alpha,
                          .parts = batch,
                          .step_a = m * k,
                          .step_b = n * k,
                          .step_c = m * n};
    if (batch > 0) MF_SIMD(product)(x, &p);
}

void MF_SIMD(linear)(const mf_kctx *x, int64_t m, int64_t n, int64_t k, const float *a,
                     const float *w, const float *bias, float *y)
{
    const mf_product p = {.m = m,
                          .n = n,
                          .k = k,
                          .trans_b = true,
                          .a = a,
                          .b = w,
                          .c = y,
                          .lda = k,
                          .ldb = k,
                          .ldc = n,
                          .alpha = 1,
                          .bias = bias};
    MF_SIMD(product)(x, &p);
}
