/* optimizer.c: kernels of the optimizers, element by element. They compute in double, except
 * for scale_inplace. As in every set, mf_update_resolve decides whether the step is taken. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_adamw(const mf_kctx *x, const mf_adamw_args *a)
{
    for (int64_t i = 0; a->range && i < a->ranges; i++) {
        const mf_adamw_args one = mf_adamw_range(a, i);
        mf_ref_adamw(x, &one);
    }
    if (a->range) return;
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    for (int64_t i = 0; f.scale != 0 && i < a->count; i++) {
        double g = f.scale * a->grad[i] + f.l2 * a->value[i];
        double mi = a->m[i] + (1 - a->update.beta1) * (g - a->m[i]);
        double vi = a->v[i] + (1 - a->update.beta2) * (g * g - a->v[i]);
        double step = mi / f.correction1 / (sqrt(vi / f.correction2) + a->update.eps);
        a->m[i] = (float)mi;
        a->v[i] = (float)vi;
        a->value[i] = (float)(a->value[i] - f.lr * (step + f.weight_decay * a->value[i]));
        if (a->copy != NULL) a->copy[i] = mf_bf16_from_f32(a->value[i]);
    }
}

void mf_ref_lion(const mf_kctx *x, const mf_lion_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    for (int64_t i = 0; f.scale != 0 && i < a->count; i++) {
        double g = f.scale * a->grad[i];
        double way = a->m[i] + (1 - a->update.beta1) * (g - a->m[i]);
        double sign = way > 0 ? 1 : way < 0 ? -1 : 0;
        a->m[i] = (float)(a->m[i] + (1 - a->update.beta2) * (g - a->m[i]));
        a->value[i] = (float)(a->value[i] - f.lr * (sign + f.weight_decay * a->value[i]));
        if (a->copy != NULL) a->copy[i] = mf_bf16_from_f32(a->value[i]);
    }
}

void mf_ref_momentum(const mf_kctx *x, const mf_momentum_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    for (int64_t i = 0; f.scale != 0 && i < a->count; i++) {
        double g = f.scale * a->grad[i];
        double mi = a->m[i] + (1 - a->update.beta1) * (g - a->m[i]);
        a->m[i] = (float)mi;
        a->u[i] = (float)(g + a->update.beta1 * (mi - g));
    }
}

void mf_ref_descend(const mf_kctx *x, const mf_descend_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    for (int64_t i = 0; f.scale != 0 && i < a->count; i++) {
        a->value[i] =
            (float)(a->value[i] - f.lr * (a->scale * a->u[i] + f.weight_decay * a->value[i]));
        if (a->copy != NULL) a->copy[i] = mf_bf16_from_f32(a->value[i]);
    }
}

/* Updates the means of one matrix, or of the elements of one vector. */
static void adafactor_means(int64_t rows, int64_t columns, double scale, double fresh,
                            const float *grad, float *v)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < columns; j++)
            sum += scale * grad[i * columns + j] * (scale * grad[i * columns + j]);
        v[i] = (float)(v[i] + fresh * (sum / (double)columns - v[i]));
    }
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0;
        for (int64_t i = 0; i < (rows > 0 ? rows : 1); i++)
            sum += scale * grad[i * columns + j] * (scale * grad[i * columns + j]);
        float *c = v + rows + j;
        *c = (float)(*c + fresh * (sum / (double)(rows > 0 ? rows : 1) - *c));
    }
}

void mf_ref_adafactor(const mf_kctx *x, const mf_adafactor_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    const mf_adafactor_factors now = mf_adafactor_resolve(&a->update);
    const int64_t n = (a->rows > 0 ? a->rows : 1) * a->columns;
    for (int64_t e = 0; f.scale != 0 && e < a->groups; e++) {
        const float *value = a->value + e * n, *grad = a->grad + e * n;
        float *v = a->v + e * mf_adafactor_state(a->rows, a->columns), *u = a->u + e * n;
        double mean = 0, size = 0, length = 0;
        adafactor_means(a->rows, a->columns, f.scale, now.fresh, grad, v);
        for (int64_t i = 0; i < a->rows; i++)
            mean += v[i] / (double)a->rows;
        for (int64_t i = 0; i < n; i++) {
            const float *c = v + a->rows;
            double h = a->rows > 0 ? (double)v[i / a->columns] * c[i % a->columns] /
                                         fmax(mean, MF_ADAFACTOR_EPS1)
                                   : c[i];
            double step =
                f.scale * grad[i] / sqrt(fmax(h, MF_ADAFACTOR_EPS1 * MF_ADAFACTOR_EPS1));
            size += (double)value[i] * value[i];
            length += step * step;
            u[i] = (float)step;
        }
        const double rms = sqrt(length / (double)n) / MF_ADAFACTOR_CLIP;
        const double factor =
            fmax(MF_ADAFACTOR_EPS2, sqrt(size / (double)n)) * now.relative / fmax(1, rms);
        for (int64_t i = 0; i < n; i++)
            u[i] = (float)(factor * u[i]);
    }
}

void mf_ref_sumsq(const mf_kctx *x, const mf_sumsq_args *a)
{
    for (int64_t i = 0; a->range && i < a->ranges; i++) {
        const mf_sumsq_args one = mf_sumsq_range(a, i);
        mf_ref_sumsq(x, &one);
    }
    if (a->range) return;
    double total = 0;
    for (int64_t i = 0; i < a->count; i++)
        total += (double)a->a[i] * a->a[i];
    a->sum[0] = a->add ? a->sum[0] + total : total;
}

void mf_ref_scale_inplace(const mf_kctx *x, const mf_scale_inplace_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->count; i++)
        a->a[i] *= a->factor;
}
