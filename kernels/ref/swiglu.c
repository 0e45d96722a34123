/* swiglu.c: gated linear unit with silu; each element is computed in double and rounded once.
 * The gradient of a gate is a sum over its row. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_swiglu(const mf_kctx *x, int type, int64_t rows, int64_t n, const void *a,
                   int64_t lda, const void *b, int64_t ldb, const float *gate, void *y)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            double u = ref_load(type, a, i * lda + j), v = ref_load(type, b, i * ldb + j);
            double share = gate != NULL ? gate[i] : 1;
            ref_store(type, y, i * n + j, (float)(u / (1 + exp(-u)) * v * share));
        }
}

/* silu' = s (1 + a (1 - s)) with s = 1 / (1 + e^-a). */
void mf_ref_swiglu_backward(const mf_kctx *x, int type, int64_t rows, int64_t n, const void *a,
                            int64_t lda, const void *b, int64_t ldb, const float *gate,
                            const void *dy, void *da, void *db, float *dgate, void *y)
{
    (void)x;
    for (int64_t i = 0; i < rows; i++) {
        const double share = gate != NULL ? gate[i] : 1;
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double u = ref_load(type, a, i * lda + j), v = ref_load(type, b, i * ldb + j);
            double g = ref_load(type, dy, i * n + j), s = 1 / (1 + exp(-u));
            sum += g * u * s * v;
            g *= share;
            if (da != NULL)
                ref_store(type, da, i * lda + j, (float)(g * v * s * (1 + u * (1 - s))));
            if (db != NULL) ref_store(type, db, i * ldb + j, (float)(g * u * s));
            if (y != NULL)
                ref_store(type, y, i * n + j, (float)(u / (1 + exp(-u)) * v * share));
        }
        if (dgate != NULL) dgate[i] = (float)sum;
    }
}
