/* swiglu.c: gated linear unit with silu; each element is computed in double and rounded once.
 * The gradient of a gate is a sum over its row. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_swiglu(const mf_kctx *x, const mf_swiglu_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->n; j++) {
            double u = ref_load(a->type, a->a, i * a->lda + j),
                   v = ref_load(a->type, a->b, i * a->ldb + j);
            double share = a->gate != NULL ? a->gate[i] : 1;
            ref_store(a->type, a->y, i * a->n + j, (float)(u / (1 + exp(-u)) * v * share));
        }
}

/* silu' = s (1 + a (1 - s)) with s = 1 / (1 + e^-a). */
void mf_ref_swiglu_backward(const mf_kctx *x, const mf_swiglu_backward_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->rows; i++) {
        const double share = a->gate != NULL ? a->gate[i] : 1;
        double sum = 0;
        for (int64_t j = 0; j < a->n; j++) {
            double u = ref_load(a->type, a->a, i * a->lda + j),
                   v = ref_load(a->type, a->b, i * a->ldb + j);
            double g = ref_load(a->type, a->dy, i * a->n + j), s = 1 / (1 + exp(-u));
            sum += g * u * s * v;
            g *= share;
            if (a->da != NULL)
                ref_store(a->type, a->da, i * a->lda + j,
                          (float)(g * v * s * (1 + u * (1 - s))));
            if (a->db != NULL) ref_store(a->type, a->db, i * a->ldb + j, (float)(g * u * s));
            if (a->y != NULL)
                ref_store(a->type, a->y, i * a->n + j, (float)(u / (1 + exp(-u)) * v * share));
        }
        if (a->dgate != NULL) a->dgate[i] = (float)sum;
    }
}
