/* cross_entropy.c: the loss of classifiers and language models, row by row, in double. A row
 * with target < 0 has no loss; only its lse is set. */
#include <math.h>

#include "kernels/ref/ref.h"

static double weight(const float *w, int64_t i)
{
    return w != NULL ? w[i] : 1.0;
}

static double sum_weights(int64_t rows, const int32_t *target, const float *w)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        if (target[i] >= 0) sum += weight(w, i);
    return sum;
}

void mf_ref_cross_entropy(const mf_kctx *x, int64_t rows, int64_t n, const float *logits,
                          const int32_t *target, const float *w, float *loss, float *row_loss,
                          float *lse)
{
    if (mf_kctx_failed(x)) return;
    double total = 0, weights = sum_weights(rows, target, w);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = logits + i * n;
        double max = row[0], sum = 0, l = 0;
        for (int64_t j = 1; j < n; j++)
            max = fmax(max, row[j]);
        for (int64_t j = 0; j < n; j++)
            sum += exp(row[j] - max);
        lse[i] = (float)(max + log(sum));
        if (target[i] >= 0) {
            l = max + log(sum) - row[target[i]];
            total += weight(w, i) * l;
        }
        row_loss[i] = (float)l;
    }
    *loss = weights != 0 ? (float)(total / weights) : 0;
}

void mf_ref_cross_entropy_backward(const mf_kctx *x, int64_t rows, int64_t n,
                                   const float *logits, const int32_t *target, const float *w,
                                   const float *loss, const float *row_loss, const float *lse,
                                   const float *dloss, const float *drow, float *dlogits,
                                   float *dweight)
{
    if (mf_kctx_failed(x)) return;
    double weights = sum_weights(rows, target, w);
    double each = dloss != NULL && weights != 0 ? *dloss / weights : 0;
    for (int64_t i = 0; i < rows; i++) {
        bool counts = target[i] >= 0;
        double g = counts ? weight(w, i) * each + (drow != NULL ? drow[i] : 0) : 0;
        for (int64_t j = 0; j < n && dlogits != NULL; j++)
            dlogits[i * n + j] =
                counts
                    ? (float)(g * (exp((double)logits[i * n + j] - lse[i]) - (j == target[i])))
                    : 0;
        if (dweight != NULL)
            dweight[i] = counts ? (float)(each * ((double)row_loss[i] - *loss)) : 0;
    }
}
