/* optimizer.c: kernels of the optimizers, element by element. They compute in double, except
 * for scale_inplace.
 * mf_update_resolve decides whether the step is taken, as in every set. */
#include <math.h>

#include "kernels/ref/ref.h"

void mf_ref_adamw(const mf_kctx *x, int64_t count, const mf_update_args *p, float *value,
                  mf_bf16 *copy, const float *grad, float *m, float *v)
{
    const mf_update_factors f = mf_update_resolve(x, p);
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

void mf_ref_lion(const mf_kctx *x, int64_t count, const mf_update_args *p, float *value,
                 mf_bf16 *copy, const float *grad, float *m)
{
    const mf_update_factors f = mf_update_resolve(x, p);
    for (int64_t i = 0; f.scale != 0 && i < count; i++) {
        double g = f.scale * grad[i];
        double way = m[i] + (1 - p->beta1) * (g - m[i]);
        double sign = way > 0 ? 1 : way < 0 ? -1 : 0;
        m[i] = (float)(m[i] + (1 - p->beta2) * (g - m[i]));
        value[i] = (float)(value[i] - f.lr * (sign + f.weight_decay * value[i]));
        if (copy != NULL) copy[i] = mf_bf16_from_f32(value[i]);
    }
}

void mf_ref_momentum(const mf_kctx *x, int64_t count, const mf_update_args *p,
                     const float *grad, float *m, float *u)
{
    const mf_update_factors f = mf_update_resolve(x, p);
    for (int64_t i = 0; f.scale != 0 && i < count; i++) {
        double g = f.scale * grad[i];
        double mi = m[i] + (1 - p->beta1) * (g - m[i]);
        m[i] = (float)mi;
        u[i] = (float)(g + p->beta1 * (mi - g));
    }
}

void mf_ref_descend(const mf_kctx *x, int64_t count, const mf_update_args *p, double scale,
                    const float *u, float *value, mf_bf16 *copy)
{
    const mf_update_factors f = mf_update_resolve(x, p);
    for (int64_t i = 0; f.scale != 0 && i < count; i++) {
        value[i] = (float)(value[i] - f.lr * (scale * u[i] + f.weight_decay * value[i]));
        if (copy != NULL) copy[i] = mf_bf16_from_f32(value[i]);
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

void mf_ref_adafactor(const mf_kctx *x, int64_t groups, int64_t rows, int64_t columns,
                      const mf_update_args *args, const float *value, const float *grad,
                      float *v, float *u, void *work)
{
    const mf_update_factors f = mf_update_resolve(x, args);
    const mf_adafactor_factors a = mf_adafactor_resolve(args);
    const int64_t n = (rows > 0 ? rows : 1) * columns;
    (void)work;
    for (int64_t e = 0; f.scale != 0 && e < groups; e++) {
        double mean = 0, size = 0, length = 0;
        adafactor_means(rows, columns, f.scale, a.fresh, grad, v);
        for (int64_t i = 0; i < rows; i++)
            mean += v[i] / (double)rows;
        for (int64_t i = 0; i < n; i++) {
            const float *c = v + rows;
            double h = rows > 0 ? (double)v[i / columns] * c[i % columns] /
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
            fmax(MF_ADAFACTOR_EPS2, sqrt(size / (double)n)) * a.relative / fmax(1, rms);
        for (int64_t i = 0; i < n; i++)
            u[i] = (float)(factor * u[i]);
        value += n, grad += n, u += n;
        v += mf_adafactor_state(rows, columns);
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
