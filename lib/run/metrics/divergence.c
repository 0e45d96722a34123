/* run/metrics/divergence.c: KL divergence of predictions. Each term of a sum contains the
 * difference of two logarithms as a factor, so it is exactly 0 if both models have the
 * same logits. */
#include "run/metrics/divergence.h"

#include <math.h>
#include "base/error.h"

static double log_sum_exp(const float *z, int64_t n)
{
    double most = -INFINITY, s = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, (double)z[i]);
    for (int64_t i = 0; i < n; i++)
        s += exp((double)z[i] - most);
    return most + log(s);
}

/* Computes the KL divergence of softmax(z) and softmax(y). */
static double softmax_divergence(const float *z, const float *y, int64_t n)
{
    const double of_z = log_sum_exp(z, n), of_y = log_sum_exp(y, n);
    double s = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)z[i] - of_z, b = (double)y[i] - of_y;
        s += exp(a) * (a - b);
    }
    return s;
}

int mf_predictions_divergence(const mf_batch *batch, const mf_model_graph *a,
                              const mf_model_graph *b, double *ret)
{
    if (!a->logits || !b->logits)
        return mf_fail(MF_EINVAL, "predictions: a graph keeps no logits");
    const bool by_row = a->by_row, number = by_row && a->tasks[0].kind == MF_TASK_REGRESS;
    const float *of_a = mf_tensor_host(a->logits), *of_b = mf_tensor_host(b->logits);
    if (!of_a || !of_b) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    const int64_t rows = by_row ? batch->rows : (int64_t)batch->rows * batch->seq,
                  n = mf_shape_count(a->logits->shape) / rows;
    const int32_t *target = by_row ? batch->classes : batch->targets;
    double sum = number ? NAN : 0;
    for (int64_t i = 0; i < rows && !number; i++)
        if (target[i] >= 0) sum += softmax_divergence(of_a + i * n, of_b + i * n, n);
    *ret = sum;
    return MF_OK;
}
