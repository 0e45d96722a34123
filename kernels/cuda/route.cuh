/* route.cuh: gates and statistics of routing. Assignment r is of token token[r], or r / k. */
#pragma once
#include "base.cuh"
#include "index.cuh"

constexpr double MF_LEAST_GATE_SUM = 1e-20;

MF_INLINE int64_t mf_token_of(const int32_t *token, int64_t r, int64_t k)
{
    return token ? token[r] : r / k;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_mask_rows(const mf_fault *fault, int64_t rows, int64_t k, const int32_t *expert,
                    const int32_t *token, const float *mask, int32_t *out)
{
    if (mf_failed(fault)) return;
    for (int64_t r = mf_thread(); r < rows; r += mf_threads()) {
        const int64_t t = mf_token_of(token, r, k);
        out[r] = t >= 0 && mask[t] != 0 ? expert[r] : -1;
    }
}

/* ---- gates: a thread each token ---- */

MF_INLINE int32_t mf_expert_of(const mf_route_gates_args &g, int64_t r)
{
    return g.admitted && g.admitted[r] >= 0 ? g.admitted[r] : g.chosen[r];
}
MF_INLINE double mf_gate_sum(const mf_route_gates_args &g, int64_t t)
{
    double sum = 0;
    if (!g.renormalize) return 1;
    MF_UNROLL_BY(1)
    for (int64_t r = t * g.k; r < (t + 1) * g.k; r++) {
        const int32_t e = mf_expert_of(g, r);
        if (e >= 0) sum += g.prob[t * g.experts + e];
    }
    return sum;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_route_gates(const mf_fault *fault, mf_route_gates_args g)
{
    const int64_t t = mf_thread();
    if (t >= g.tokens || mf_failed(fault)) return;
    const double sum = mf_gate_sum(g, t);
    for (int64_t r = t * g.k; r < (t + 1) * g.k; r++) {
        const int32_t e = mf_expert_of(g, r);
        g.gate[r] = e < 0 || sum < MF_LEAST_GATE_SUM
                        ? 0
                        : (float)(g.scale * g.prob[t * g.experts + e] / sum);
    }
}

/* A warp each token: zeros first, then one lane adds in the order of r. Its loops are not
 * unrolled: divisions in double are calls, around which nvcc spills what such loops hold. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_route_gates_grad(const mf_fault *fault, mf_route_gates_args g, const float *dgate,
                           float *dprob)
{
    const int64_t t = mf_my_row<MF_WARP>();
    const int lane = mf_my_lane<MF_WARP>();
    if (t >= g.tokens || mf_failed(fault)) return;
    for (int64_t e = lane; e < g.experts; e += MF_WARP)
        dprob[t * g.experts + e] = 0;
    __syncwarp();
    if (lane > 0) return;
    const double sum = mf_gate_sum(g, t);
    double mean = 0;
    if (sum < MF_LEAST_GATE_SUM) return;
    MF_UNROLL_BY(1)
    for (int64_t r = t * g.k; g.renormalize && r < (t + 1) * g.k; r++) {
        const int32_t e = mf_expert_of(g, r);
        if (e >= 0) mean += (double)dgate[r] * g.prob[t * g.experts + e] / sum;
    }
    MF_UNROLL_BY(1)
    for (int64_t r = t * g.k; r < (t + 1) * g.k; r++) {
        const int32_t e = mf_expert_of(g, r);
        if (e >= 0) dprob[t * g.experts + e] += (float)(g.scale * (dgate[r] - mean) / sum);
    }
}

/* ---- statistics ---- */

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_rows_of(const mf_fault *fault, mf_routing_stats_args s, int32_t *rows_of)
{
    if (mf_failed(fault)) return;
    for (int64_t r = mf_thread(); r < s.rows; r += mf_threads()) {
        const int64_t t = mf_token_of(s.token, r, s.k);
        if (t >= 0 && s.chosen[r] >= 0) atomicAdd(&rows_of[t], 1);
    }
}

/* -p ln p over the experts of the tokens of a tile, shared by the lanes of warps. */
MF_INLINE double mf_entropy(const mf_routing_stats_args &s, int64_t tile)
{
    double nats = 0;
    for (int i = (int)threadIdx.x / MF_WARP; i < MF_STATS_TOKENS; i += MF_THREADS / MF_WARP) {
        const int64_t t = tile * MF_STATS_TOKENS + i;
        if (t >= s.tokens || (s.mask && s.mask[t] == 0)) continue;
        for (int64_t e = threadIdx.x % MF_WARP; e < s.experts; e += MF_WARP) {
            const float p = s.prob[t * s.experts + e];
            if (p != 0) nats -= (double)p * logf(p);
        }
    }
    return nats;
}

/* The sums of one tile of tokens and of as many assignments, which a thread each has, into work
 * [3 experts + MF_STATS_SUMS]. */
__global__ void __launch_bounds__(MF_STATS_TOKENS)
    mf_cu_stats_tile(const mf_fault *fault, mf_routing_stats_args s, const int32_t *rows_of,
                     double *work)
{
    MF_SHARED(int32_t, chosen, [MF_STATS_TOKENS]);
    MF_SHARED(int32_t, admitted, [MF_STATS_TOKENS]);
    MF_SHARED(float, gate, [MF_STATS_TOKENS]);
    const int64_t tile = blockIdx.x, i = threadIdx.x, r = tile * MF_STATS_TOKENS + i;
    double *sums = work + tile * (3 * s.experts + MF_STATS_SUMS);
    double scalar[MF_STATS_SUMS] = {};
    if (mf_failed(fault)) return;
    const int64_t t = r < s.rows ? mf_token_of(s.token, r, s.k) : -1;
    chosen[i] = t >= 0 ? s.chosen[r] : -1;
    admitted[i] = t >= 0 ? s.admitted[r] : -1;
    gate[i] = t >= 0 && s.gate ? s.gate[r] : 1;
    if (r < s.tokens && (!s.mask || s.mask[r] != 0)) scalar[0] = 1;
    if (s.prob) scalar[1] = mf_entropy(s, tile);
    if (chosen[i] >= 0) {
        scalar[3] = 1;
        if (s.prob) scalar[2] = (double)s.prob[t * s.experts + chosen[i]] / rows_of[t];
    }
    __syncthreads();
    for (int64_t e = i; e < s.experts; e += MF_STATS_TOKENS) {
        double sum[3] = {};
        for (int j = 0; j < MF_STATS_TOKENS; j++) {
            sum[0] += chosen[j] == e;
            sum[1] += admitted[j] == e;
            if (admitted[j] == e) sum[2] += gate[j];
        }
        MF_UNROLL
        for (int j = 0; j < 3; j++)
            sums[j * s.experts + e] = sum[j];
    }
    MF_UNROLL
    for (int j = 0; j < MF_STATS_SUMS; j++) {
        const double sum = mf_row<MF_STATS_TOKENS, mf_add>(scalar[j]);
        if (i == 0) sums[3 * s.experts + j] = sum;
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_stats_finish(const mf_fault *fault, mf_routing_stats_args s, int64_t tiles,
                       const double *work)
{
    const int64_t at = mf_thread(), n = 3 * s.experts + MF_STATS_SUMS;
    double sum = 0;
    if (at >= n || mf_failed(fault)) return;
    for (int64_t tile = 0; tile < tiles; tile++)
        sum += work[tile * n + at];
    const int64_t scalar = at - 3 * s.experts, which = at / (s.experts > 0 ? s.experts : 1);
    float *to = which == 0 ? s.chosen_sum : which == 1 ? s.admitted_sum : s.importance;
    if (scalar < 0)
        to[at % s.experts] = (float)sum;
    else
        s.scalars[scalar] = !s.prob && (scalar == 1 || scalar == 2) ? NAN : (float)sum;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_joint_count(const mf_fault *fault, int64_t rows, int64_t k, int64_t labels,
                      const int32_t *expert, const int32_t *token, const int32_t *label,
                      int32_t *count)
{
    if (mf_failed(fault)) return;
    for (int64_t r = mf_thread(); r < rows; r += mf_threads()) {
        const int64_t t = mf_token_of(token, r, k);
        if (expert[r] >= 0 && t >= 0 && label[t] >= 0)
            atomicAdd(&count[expert[r] * labels + label[t]], 1);
    }
}

/* ---- launches ---- */

extern "C" void mf_cuda_mask_rows(const mf_kctx *x, const mf_mask_rows_args *a)
{
    if (a->rows > 0)
        MF_LAUNCH(mf_cu_mask_rows, MF_EACH_OF(a->rows), x, x->fault, a->rows, a->k, a->expert,
                  a->token, a->mask, a->out);
}

extern "C" void mf_cuda_route_gates(const mf_kctx *x, const mf_route_gates_args *a)
{
    if (a->tokens > 0) MF_LAUNCH(mf_cu_route_gates, MF_EACH_OF(a->tokens), x, x->fault, *a);
}

extern "C" void mf_cuda_route_gates_grad(const mf_kctx *x, const mf_route_gates_grad_args *a)
{
    const mf_route_gates_args g = {a->tokens,   a->experts,     a->k,     a->prob, a->chosen,
                                   a->admitted, a->renormalize, a->scale, NULL};
    if (a->tokens > 0)
        MF_LAUNCH(mf_cu_route_gates_grad, MF_WARPS_OF(a->tokens), x, x->fault, g, a->dgate,
                  a->dprob);
}

extern "C" void mf_cuda_routing_stats(const mf_kctx *x, const mf_routing_stats_args *a)
{
    const int64_t tiles = (a->tokens > a->rows ? a->tokens : a->rows) / MF_STATS_TOKENS + 1;
    const int64_t each = 3 * a->experts + MF_STATS_SUMS;
    double *sums = (double *)a->work;
    int32_t *rows_of = (int32_t *)(sums + tiles * each);
    if (a->tokens > 0)
        MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(a->tokens), x, x->fault, a->tokens, 0, rows_of);
    if (a->rows > 0) MF_LAUNCH(mf_cu_rows_of, MF_EACH_OF(a->rows), x, x->fault, *a, rows_of);
    MF_LAUNCH(mf_cu_stats_tile, dim3((unsigned)tiles), dim3(MF_STATS_TOKENS), 0, x, x->fault,
              *a, (const int32_t *)rows_of, sums);
    MF_LAUNCH(mf_cu_stats_finish, MF_EACH_OF(each), x, x->fault, *a, tiles,
              (const double *)sums);
}

extern "C" void mf_cuda_joint_count(const mf_kctx *x, const mf_joint_count_args *a)
{
    const int64_t n = a->experts * a->labels;
    int32_t *count = (int32_t *)a->work;
    if (n <= 0) return;
    MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(n), x, x->fault, n, 0, count);
    if (a->rows > 0)
        MF_LAUNCH(mf_cu_joint_count, MF_EACH_OF(a->rows), x, x->fault, a->rows, a->k, a->labels,
                  a->expert, a->token, a->label, count);
    MF_LAUNCH(mf_cu_counted, MF_EACH_OF(n), x, x->fault, n, (const int32_t *)count, a->out);
}
