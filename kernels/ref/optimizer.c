/* optimizer.c: kernels of the optimizer, element by element; adamw and sumsq compute in double.
 * mf_adamw_resolve decides whether the step is taken, as in every set. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_adamw(const mf_kctx *x, int64_t count, const mf_adamw_args *p, float *value,
                  mf_bf16 *copy, const float *grad, float *m, float *v)
{
    const mf_adamw_factors f = mf_adamw_resolve(x, p);
    for (int64_t i = 0; f.scale != 0 && i < count; i++) {
        double g = f.scale * grad[i] + f.l2 * value[i];
        double mi = m[i] + (1 - p->beta1) * (g - m[i]);
        double vi = v[i] + (1 - p->beta2) * (g * g - v[i]);
        double step = mi / f.correction1 / (sqrt(vi / f.correction2) + p->eps);
        m[i] = (float)mi;
        v[i] = (float)vi;
        value[i] = (float)(value[i] - f.lr * (step + f.weight_decay * value[i]));
        if (copy != NULL) copy[i] = mf_bf16_from_f32(value[i]);
    }
}

void mf_ref_sumsq(const mf_kctx *x, int64_t count, const float *a, bool add, double *sum,
                  void *work)
{
    (void)x, (void)work;
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += (double)a[i] * a[i];
    sum[0] = add ? sum[0] + total : total;
}

void mf_ref_scale_inplace(const mf_kctx *x, int64_t count, float factor, float *a)
{
    (void)x;
    for (int64_t i = 0; i < count; i++)
        a[i] *= factor;
}
