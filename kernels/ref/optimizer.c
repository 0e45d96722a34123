/* optimizer.c: what runs over all parameters between steps. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_adamw(const mf_kctx *x, int64_t count, const mf_adamw_args *p, float *value,
                  const float *grad, float *m, float *v)
{
    (void)x;
    for (int64_t i = 0; i < count; i++) {
        double g = p->grad_scale * grad[i] + p->l2 * value[i];
        double mi = m[i] + (1 - p->beta1) * (g - m[i]);
        double vi = v[i] + (1 - p->beta2) * (g * g - v[i]);
        double step = mi / p->correction1 / (sqrt(vi / p->correction2) + p->eps);
        m[i] = (float)mi;
        v[i] = (float)vi;
        value[i] = (float)(value[i] - p->lr * (step + p->weight_decay * value[i]));
    }
}

double mf_ref_sumsq(const mf_kctx *x, int64_t count, const float *a)
{
    (void)x;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * a[i];
    return sum;
}

void mf_ref_scale_inplace(const mf_kctx *x, int64_t count, float factor, float *a)
{
    (void)x;
    for (int64_t i = 0; i < count; i++)
        a[i] *= factor;
}
