/* matmul.c: dense products. */
#include "kernels/ref/ref.h"

void mf_ref_matmul(const mf_kctx *x, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                   int64_t ldb, float beta, float *c, int64_t ldc)
{
    (void)x;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)a[trans_a ? p * lda + i : i * lda + p] *
                       (double)b[trans_b ? j * ldb + p : p * ldb + j];
            c[i * ldc + j] = (float)((double)alpha * sum + (beta != 0 ? c[i * ldc + j] : 0));
        }
}

void mf_ref_matmul_batch(const mf_kctx *x, int64_t batch, bool trans_a, bool trans_b, int64_t m,
                         int64_t n, int64_t k, float alpha, const float *a, const float *b,
                         float *c)
{
    for (int64_t i = 0; i < batch; i++)
        mf_ref_matmul(x, trans_a, trans_b, m, n, k, alpha, a + i * m * k, trans_a ? m : k,
                      b + i * n * k, trans_b ? k : n, 0, c + i * m * n, n);
}

/* Plain loops read weights as they lie. */
bool mf_ref_pack_weights(const mf_kctx *x, mf_cast_type type, int64_t parts, int64_t n,
                         int64_t k, void *w)
{
    (void)x, (void)type, (void)parts, (void)n, (void)k, (void)w;
    return false;
}

void mf_ref_linear(const mf_kctx *x, int64_t m, int64_t n, int64_t k, const float *a,
                   const float *w, const float *bias, float *y)
{
    (void)x;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias != NULL ? bias[j] : 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)a[i * k + p] * (double)w[j * k + p];
            y[i * n + j] = (float)sum;
        }
}
