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

void mf_ref_cross_entropy(const mf_kctx *x, const mf_cross_entropy_args *a)
{
    if (mf_kctx_failed(x)) return;
    double total = 0, weights = sum_weights(a->rows, a->target, a->weight);
    for (int64_t i = 0; i < a->rows; i++) {
        const float *row = a->logits + i * a->n;
        double max = row[0], sum = 0, l = 0;
        for (int64_t j = 1; j < a->n; j++)
            max = fmax(max, row[j]);
        for (int64_t j = 0; j < a->n; j++)
            sum += exp(row[j] - max);
        a->lse[i] = (float)(max + log(sum));
        if (a->target[i] >= 0) {
            l = max + log(sum) - row[a->target[i]];
            total += weight(a->weight, i) * l;
        }
        a->row_loss[i] = (float)l;
    }
    *a->loss = weights != 0 ? (float)(total / weights) : 0;
}

void mf_ref_cross_entropy_backward(const mf_kctx *x, const mf_cross_entropy_backward_args *a)
{
    if (mf_kctx_failed(x)) return;
    double weights = sum_weights(a->rows, a->target, a->weight);
    double each = a->dloss != NULL && weights != 0 ? *a->dloss / weights : 0;
    for (int64_t i = 0; i < a->rows; i++) {
        bool counts = a->target[i] >= 0;
        double g =
            counts ? weight(a->weight, i) * each + (a->drow != NULL ? a->drow[i] : 0) : 0;
        for (int64_t j = 0; j < a->n && a->dlogits != NULL; j++)
            a->dlogits[i * a->n + j] =
                counts ? (float)(g * (exp((double)a->logits[i * a->n + j] - a->lse[i]) -
                                      (j == a->target[i])))
                       : 0;
        if (a->dweight != NULL)
            a->dweight[i] = counts ? (float)(each * ((double)a->row_loss[i] - *a->loss)) : 0;
    }
}
