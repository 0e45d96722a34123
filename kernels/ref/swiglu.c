/* swiglu.c: gated linear unit with silu. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_swiglu(const mf_kctx *x, int64_t rows, int64_t n, const float *a, int64_t lda,
                   const float *b, int64_t ldb, const float *gate, float *y)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            double u = a[i * lda + j], share = gate != NULL ? gate[i] : 1;
            y[i * n + j] = (float)(u / (1 + exp(-u)) * b[i * ldb + j] * share);
        }
}

/* silu' = s (1 + a (1 - s)) with s = 1 / (1 + e^-a). */
void mf_ref_swiglu_backward(const mf_kctx *x, int64_t rows, int64_t n, const float *a,
                            int64_t lda, const float *b, int64_t ldb, const float *gate,
                            const float *dy, float *da, float *db, float *dgate, float *y)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++) {
        const double share = gate != NULL ? gate[i] : 1;
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double u = a[i * lda + j], v = b[i * ldb + j], g = dy[i * n + j];
            double s = 1 / (1 + exp(-u));
            sum += g * u * s * v;
            g *= share;
            if (da != NULL) da[i * lda + j] = (float)(g * v * s * (1 + u * (1 - s)));
            if (db != NULL) db[i * ldb + j] = (float)(g * u * s);
            if (y != NULL) y[i * n + j] = (float)(u / (1 + exp(-u)) * v * share);
        }
        if (dgate != NULL) dgate[i] = (float)sum;
    }
}
