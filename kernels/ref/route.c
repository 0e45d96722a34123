/* route.c: gates and statistics of routing, token by token, by the formulas of kernels.def.
 * Sums are in double. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static int64_t token_of(const int32_t *token, int64_t r, int64_t k)
{
    return token ? token[r] : r / k;
}

void mf_ref_mask_rows(const mf_kctx *x, int64_t rows, int64_t k, const int32_t *expert,
                      const int32_t *token, const float *mask, int32_t *out)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = token_of(token, r, k);
        out[r] = t >= 0 && mask[t] != 0 ? expert[r] : -1;
    }
}

static int32_t expert_of(const int32_t *chosen, const int32_t *admitted, int64_t r)
{
    return admitted && admitted[r] >= 0 ? admitted[r] : chosen[r];
}

/* Sum of prob over the experts of a token's k assignments, of which `first` is the first. */
static double gate_sum(const float *prob, const int32_t *chosen, const int32_t *admitted,
                       int64_t first, int64_t k)
{
    double sum = 0;
    for (int64_t r = first; r < first + k; r++) {
        int32_t e = expert_of(chosen, admitted, r);
        if (e >= 0) sum += prob[e];
    }
    return sum;
}

static const double least_sum = 1e-20;

void mf_ref_route_gates(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k,
                        const float *prob, const int32_t *chosen, const int32_t *admitted,
                        bool renormalize, double scale, float *gate)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t t = 0; t < tokens; t++, prob += experts) {
        double sum = renormalize ? gate_sum(prob, chosen, admitted, t * k, k) : 1;
        for (int64_t r = t * k; r < (t + 1) * k; r++) {
            int32_t e = expert_of(chosen, admitted, r);
            gate[r] = e < 0 || sum < least_sum ? 0 : (float)(scale * prob[e] / sum);
        }
    }
}

void mf_ref_route_gates_grad(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k,
                             const float *prob, const int32_t *chosen, const int32_t *admitted,
                             bool renormalize, double scale, const float *dgate, float *dprob)
{
    if (mf_kctx_failed(x)) return;
    memset(dprob, 0, (size_t)(tokens * experts) * sizeof(*dprob));
    for (int64_t t = 0; t < tokens; t++, prob += experts, dprob += experts) {
        double sum = renormalize ? gate_sum(prob, chosen, admitted, t * k, k) : 1, mean = 0;
        if (sum < least_sum) continue;
        for (int64_t r = t * k; renormalize && r < (t + 1) * k; r++) {
            int32_t e = expert_of(chosen, admitted, r);
            if (e >= 0) mean += (double)dgate[r] * prob[e] / sum;
        }
        for (int64_t r = t * k; r < (t + 1) * k; r++) {
            int32_t e = expert_of(chosen, admitted, r);
            if (e >= 0) dprob[e] += (float)(scale * (dgate[r] - mean) / sum);
        }
    }
}

static double entropy(int64_t n, const float *prob)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (prob[i] != 0) sum -= prob[i] * log(prob[i]);
    return sum;
}

void mf_ref_routing_stats(const mf_kctx *x, int64_t tokens, int64_t rows, int64_t experts,
                          int64_t k, const float *prob, const int32_t *chosen,
                          const int32_t *admitted, const float *gate, const float *mask,
                          const int32_t *token, float *chosen_sum, float *admitted_sum,
                          float *importance, float *scalars, void *work)
{
    if (mf_kctx_failed(x)) return;
    double *sum = work; /* [3,E]: chosen, admitted, importance */
    int32_t *rows_of = (int32_t *)(sum + 3 * experts);
    double real = 0, nats = 0, top = 0, n_chosen = 0;
    (void)x;
    memset(sum, 0, (size_t)(3 * experts) * sizeof(*sum));
    memset(rows_of, 0, (size_t)tokens * sizeof(*rows_of));
    for (int64_t t = 0; t < tokens; t++)
        if (!mask || mask[t] != 0) {
            real++;
            nats += prob ? entropy(experts, prob + t * experts) : NAN;
        }
    for (int64_t r = 0; r < rows; r++) {
        if (token_of(token, r, k) < 0) continue;
        if (chosen[r] >= 0) {
            n_chosen++;
            sum[chosen[r]]++;
            rows_of[token_of(token, r, k)]++;
        }
        if (admitted[r] >= 0) {
            sum[experts + admitted[r]]++;
            sum[2 * experts + admitted[r]] += gate ? (double)gate[r] : 1;
        }
    }
    for (int64_t r = 0; r < rows; r++)
        if (chosen[r] >= 0 && token_of(token, r, k) >= 0) {
            int64_t t = token_of(token, r, k);
            top += (prob ? prob[t * experts + chosen[r]] : NAN) / (double)rows_of[t];
        }
    for (int64_t e = 0; e < experts; e++) {
        chosen_sum[e] = (float)sum[e];
        admitted_sum[e] = (float)sum[experts + e];
        importance[e] = (float)sum[2 * experts + e];
    }
    scalars[0] = (float)real;
    scalars[1] = (float)(prob ? nats : NAN);
    scalars[2] = (float)(prob ? top : NAN);
    scalars[3] = (float)n_chosen;
}

void mf_ref_joint_count(const mf_kctx *x, int64_t rows, int64_t k, int64_t experts,
                        int64_t labels, const int32_t *expert, const int32_t *token,
                        const int32_t *label, float *out, void *work)
{
    if (mf_kctx_failed(x)) return;
    double *count = work;
    (void)x;
    memset(count, 0, (size_t)(experts * labels) * sizeof(*count));
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = token_of(token, r, k);
        if (expert[r] >= 0 && t >= 0 && label[t] >= 0) count[expert[r] * labels + label[t]]++;
    }
    for (int64_t i = 0; i < experts * labels; i++)
        out[i] = (float)count[i];
}
