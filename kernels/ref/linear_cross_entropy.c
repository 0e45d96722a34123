/* linear_cross_entropy.c: head and loss, one row of logits at a time, in double. Logits are
 * recomputed wherever they are needed, so no logits are stored. */
#include <math.h>

#include "kernels/ref/ref.h"

static double weight(const mf_linear_cross_entropy_args *p, int64_t i)
{
    return p->weight != NULL ? p->weight[i] : 1.0;
}

/* Returns weight (v, j). */
static double weight_at(const mf_linear_cross_entropy_args *p, int64_t v, int64_t j)
{
    return p->stored ? mf_ref_stored_weight(p->stored, 0, v, j)
                     : (double)ref_load((int)p->type, p->w, v * p->d + j);
}

static double logit(const mf_linear_cross_entropy_args *p, int64_t i, int64_t v)
{
    double sum = p->bias != NULL ? p->bias[v] : 0;
    for (int64_t j = 0; j < p->d; j++)
        sum += (double)ref_load((int)p->type, p->x, i * p->d + j) * weight_at(p, v, j);
    return sum;
}

/* Returns ln sum e^logits of row i. */
static double log_sum_exp(const mf_linear_cross_entropy_args *p, int64_t i)
{
    double max = logit(p, i, 0), sum = 0;
    for (int64_t v = 1; v < p->vocab; v++)
        max = fmax(max, logit(p, i, v));
    for (int64_t v = 0; v < p->vocab; v++)
        sum += exp(logit(p, i, v) - max);
    return max + log(sum);
}

static float *fill(float *a, int64_t n)
{
    for (int64_t i = 0; a != NULL && i < n; i++)
        a[i] = 0;
    return a;
}

/* Adds row i to the gradients; the gradients of its logits are g (softmax - [v = target]). */
static void add_gradients(const mf_linear_cross_entropy_args *p, int64_t i, double lse,
                          double g)
{
    for (int64_t v = 0; v < p->vocab; v++) {
        const double d = g * (exp(logit(p, i, v) - lse) - (v == p->target[i]));
        for (int64_t j = 0; j < p->d && p->dw != NULL; j++)
            p->dw[v * p->d + j] = (float)((double)p->dw[v * p->d + j] +
                                          d * ref_load((int)p->type, p->x, i * p->d + j));
        if (p->dbias != NULL) p->dbias[v] = (float)((double)p->dbias[v] + d);
    }
    for (int64_t j = 0; j < p->d && p->dx != NULL; j++) {
        double sum = 0;
        for (int64_t v = 0; v < p->vocab; v++)
            sum += g * (exp(logit(p, i, v) - lse) - (v == p->target[i])) * weight_at(p, v, j);
        ref_store((int)p->type, p->dx, i * p->d + j, (float)sum);
    }
}

void mf_ref_linear_cross_entropy(const mf_kctx *x, const mf_linear_cross_entropy_args *p)
{
    double weights = 0, total = 0;
    if (mf_kctx_failed(x)) return;
    fill(p->dw, p->vocab * p->d);
    fill(p->dbias, p->vocab);
    fill(p->row_loss, p->rows);
    for (int64_t i = 0; p->dx != NULL && i < p->rows * p->d; i++)
        ref_store((int)p->type, p->dx, i, 0);
    for (int64_t i = 0; i < p->rows; i++)
        if (p->target[i] >= 0) weights += weight(p, i);
    for (int64_t i = 0; i < p->rows; i++) {
        if (p->target[i] < 0) continue;
        const double lse = log_sum_exp(p, i), loss = lse - logit(p, i, p->target[i]);
        total += weight(p, i) * loss;
        if (p->row_loss != NULL) p->row_loss[i] = (float)loss;
        if (p->dx != NULL || p->dw != NULL || p->dbias != NULL)
            add_gradients(p, i, lse, weights != 0 ? weight(p, i) / weights : 0);
    }
    p->loss[0] = weights != 0 ? (float)(total / weights) : 0;
}
