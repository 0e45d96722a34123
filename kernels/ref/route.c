/* route.c: gates and statistics of routing, token by token, by the formulas of kernels.def.
 * Sums are in double. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static int64_t token_of(const int32_t *token, int64_t r, int64_t k)
{
    return token ? token[r] : r / k;
}

void mf_ref_mask_rows(const mf_kctx *x, const mf_mask_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t t = token_of(a->token, r, a->k);
        a->out[r] = t >= 0 && a->mask[t] != 0 ? a->expert[r] : -1;
    }
}

static int32_t expert_of(const int32_t *chosen, const int32_t *admitted, int64_t r)
{
    return admitted && admitted[r] >= 0 ? admitted[r] : chosen[r];
}

/* Returns the sum of prob over the experts of a token's k assignments; `first` is the first
 * of them. */
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

void mf_ref_route_gates(const mf_kctx *x, const mf_route_gates_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *prob = a->prob + t * a->experts;
        double sum =
            a->renormalize ? gate_sum(prob, a->chosen, a->admitted, t * a->k, a->k) : 1;
        for (int64_t r = t * a->k; r < (t + 1) * a->k; r++) {
            int32_t e = expert_of(a->chosen, a->admitted, r);
            a->gate[r] = e < 0 || sum < least_sum ? 0 : (float)(a->scale * prob[e] / sum);
        }
    }
}

void mf_ref_route_gates_grad(const mf_kctx *x, const mf_route_gates_grad_args *a)
{
    if (mf_kctx_failed(x)) return;
    memset(a->dprob, 0, (size_t)(a->tokens * a->experts) * sizeof(*a->dprob));
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *prob = a->prob + t * a->experts;
        float *dprob = a->dprob + t * a->experts;
        double sum =
                   a->renormalize ? gate_sum(prob, a->chosen, a->admitted, t * a->k, a->k) : 1,
               mean = 0;
        if (sum < least_sum) continue;
        for (int64_t r = t * a->k; a->renormalize && r < (t + 1) * a->k; r++) {
            int32_t e = expert_of(a->chosen, a->admitted, r);
            if (e >= 0) mean += (double)a->dgate[r] * prob[e] / sum;
        }
        for (int64_t r = t * a->k; r < (t + 1) * a->k; r++) {
            int32_t e = expert_of(a->chosen, a->admitted, r);
            if (e >= 0) dprob[e] += (float)(a->scale * (a->dgate[r] - mean) / sum);
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

void mf_ref_routing_stats(const mf_kctx *x, const mf_routing_stats_args *a)
{
    if (mf_kctx_failed(x)) return;
    double *sum = a->work; /* [3,E]: chosen, admitted, importance */
    int32_t *rows_of = (int32_t *)(sum + 3 * a->experts);
    double real = 0, nats = 0, top = 0, n_chosen = 0;
    (void)x;
    memset(sum, 0, (size_t)(3 * a->experts) * sizeof(*sum));
    memset(rows_of, 0, (size_t)a->tokens * sizeof(*rows_of));
    for (int64_t t = 0; t < a->tokens; t++)
        if (!a->mask || a->mask[t] != 0) {
            real++;
            nats += a->prob ? entropy(a->experts, a->prob + t * a->experts) : NAN;
        }
    for (int64_t r = 0; r < a->rows; r++) {
        if (token_of(a->token, r, a->k) < 0) continue;
        if (a->chosen[r] >= 0) {
            n_chosen++;
            sum[a->chosen[r]]++;
            rows_of[token_of(a->token, r, a->k)]++;
        }
        if (a->admitted[r] >= 0) {
            sum[a->experts + a->admitted[r]]++;
            sum[2 * a->experts + a->admitted[r]] += a->gate ? (double)a->gate[r] : 1;
        }
    }
    for (int64_t r = 0; r < a->rows; r++)
        if (a->chosen[r] >= 0 && token_of(a->token, r, a->k) >= 0) {
            int64_t t = token_of(a->token, r, a->k);
            top +=
                (a->prob ? a->prob[t * a->experts + a->chosen[r]] : NAN) / (double)rows_of[t];
        }
    for (int64_t e = 0; e < a->experts; e++) {
        a->chosen_sum[e] = (float)sum[e];
        a->admitted_sum[e] = (float)sum[a->experts + e];
        a->importance[e] = (float)sum[2 * a->experts + e];
    }
    a->scalars[0] = (float)real;
    a->scalars[1] = (float)(a->prob ? nats : NAN);
    a->scalars[2] = (float)(a->prob ? top : NAN);
    a->scalars[3] = (float)n_chosen;
}

void mf_ref_joint_count(const mf_kctx *x, const mf_joint_count_args *a)
{
    if (mf_kctx_failed(x)) return;
    double *count = a->work;
    (void)x;
    memset(count, 0, (size_t)(a->experts * a->labels) * sizeof(*count));
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t t = token_of(a->token, r, a->k);
        if (a->expert[r] >= 0 && t >= 0 && a->label[t] >= 0)
            count[a->expert[r] * a->labels + a->label[t]]++;
    }
    for (int64_t i = 0; i < a->experts * a->labels; i++)
        a->out[i] = (float)count[i];
}
