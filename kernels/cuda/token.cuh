/* token.cuh: what a token of each sequence needs beside its gemms, when texts are generated:
 * attention with its rotations and its cache, and routing, one launch each. The time of such
 * steps is that of launches and of what they wait for, so loads are wide and early, and the
 * arithmetic does not matter. */
#pragma once
#include "kernels/cuda/gemm/gemm_few.cuh"
#include "route.cuh"
#include "tokens.cuh"

/* ---- attention ----
 *
 * A block has a query head of a sequence; its warps have keys in turn, KEYS at once, a column
 * of EACH 32 of a head a lane. Each warp has its own running maximum and sum; at the end they
 * are joined in the order of warps. All query heads of a key head rotate the new key, and the
 * first one writes it to the cache, from which it is not read here. */
constexpr int MF_TOKEN_THREADS = 512, MF_TOKEN_WARPS = MF_TOKEN_THREADS / MF_WARP;

/* Elements [heads .. ] of a row of qkv, rotated in shared memory. */
MF_INLINE void mf_token_rotate(const mf_token_attention_args &p, int32_t position,
                               const float *head, float *to)
{
    const int pairs = (int)(p.turned / 2);
    for (int c = (int)threadIdx.x; c < (int)p.head_dim; c += MF_TOKEN_THREADS) {
        const int at = c - (int)p.first;
        if (at < 0 || at >= 2 * pairs) {
            to[c] = head[c];
            continue;
        }
        const int i = p.half ? at % pairs : at / 2;
        const bool high = p.half ? at >= pairs : at % 2 != 0;
        const mf_turn turn = mf_turn_of(position, i, (int)p.turned, p.theta, p.magnitude,
                                        p.factor ? (double)p.factor[i] : 1, false);
        const float u = head[p.first + (p.half ? i : 2 * i)],
                    v = head[p.first + (p.half ? i + pairs : 2 * i + 1)];
        to[c] = high ? u * turn.sine + v * turn.cosine : u * turn.cosine - v * turn.sine;
    }
}

template <int EACH, int KEYS>
__global__ void __launch_bounds__(MF_TOKEN_THREADS, EACH == 4 ? 1 : 0)
    mf_cu_token_attention(mf_fault *fault, int node, mf_token_attention_args p)
{
    MF_SHARED(float, query, [EACH * MF_WARP]);
    MF_SHARED(float, fresh, [EACH * MF_WARP]);
    MF_SHARED(float, part, [MF_TOKEN_WARPS][EACH * MF_WARP + 2]);
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int64_t h = blockIdx.x, b = blockIdx.y, hd = p.head_dim, share = p.heads / p.kv_heads;
    const int64_t kv = h / share, width = p.kv_heads * hd;
    int64_t bad = p.batch; /* the first sequence whose row does not fit */
    for (int64_t i = p.batch - 1; i >= 0; i--)
        if (p.pos[i] < 0 || p.pos[i] >= p.s) bad = i;
    if (bad < p.batch) { /* then one thread alone looks at the fault */
        if (h == 0 && b == 0 && threadIdx.x == 0)
            mf_record(fault, node, MF_FAULT_CACHE, 0, bad, p.pos[bad], 1, p.s);
        return;
    }
    if (mf_failed(fault)) return;
    const float *row = p.qkv + b * (p.heads + 2 * p.kv_heads) * hd;
    const float *new_key = row + (p.heads + kv) * hd, *new_value = new_key + width;
    const int64_t at = p.pos[b], length = p.kv_len[b];
    const int64_t first = p.window > 0 && length > p.window ? length - p.window : 0;
    mf_token_rotate(p, p.turned > 0 ? p.position[b] : 0, row + h * hd, query);
    mf_token_rotate(p, p.turned > 0 ? p.position[b] : 0, new_key, fresh);
    __syncthreads();
    for (int64_t c = threadIdx.x; h % share == 0 && c < hd; c += MF_TOKEN_THREADS) {
        p.k[(b * p.s + at) * width + kv * hd + c] = fresh[c];
        p.v[(b * p.s + at) * width + kv * hd + c] = new_value[c];
    }
    float q[EACH], acc[EACH] = {}, most = -INFINITY, sum = 0;
    MF_UNROLL
    for (int e = 0; e < EACH; e++) {
        const int c = e * MF_WARP + lane;
        q[e] = c < hd ? query[c] * (float)p.scale : 0;
    }
    const int64_t begin = (b * p.s) * width + kv * hd;
    MF_UNROLL_BY(1)
    for (int64_t s = first + warp * KEYS; s < length; s += MF_TOKEN_WARPS * KEYS) {
        float score[KEYS], value[KEYS][EACH], biggest = most;
        MF_UNROLL
        for (int i = 0; i < KEYS; i++) {
            const int64_t key = s + i < length ? s + i : s;
            const float *k = key == at ? fresh : p.k + begin + key * width,
                        *v = key == at ? new_value : p.v + begin + key * width;
            score[i] = 0;
            MF_UNROLL
            for (int e = 0; e < EACH; e++) {
                const int c = e * MF_WARP + lane;
                score[i] += c < hd ? q[e] * k[c] : 0;
                value[i][e] = c < hd ? v[c] : 0;
            }
        }
        MF_UNROLL
        for (int i = 0; i < KEYS; i++) {
            score[i] = mf_warp<mf_add>(score[i]);
            if (s + i >= length) score[i] = -INFINITY;
            biggest = mf_most::of(score[i], biggest);
        }
        /* all scores may be -inf: their weights are then those of no key */
        const float keep = most == -INFINITY ? 0 : expf(most - biggest);
        sum *= keep;
        MF_UNROLL
        for (int e = 0; e < EACH; e++)
            acc[e] *= keep;
        MF_UNROLL
        for (int i = 0; i < KEYS; i++) {
            const float w = score[i] == -INFINITY ? 0 : expf(score[i] - biggest);
            sum += w;
            MF_UNROLL
            for (int e = 0; e < EACH; e++)
                acc[e] = fmaf(w, value[i][e], acc[e]);
        }
        most = biggest;
    }
    MF_UNROLL
    for (int e = 0; e < EACH; e++)
        part[warp][e * MF_WARP + lane] = acc[e];
    if (lane == 0) part[warp][EACH * MF_WARP] = most, part[warp][EACH * MF_WARP + 1] = sum;
    __syncthreads();
    for (int c = (int)threadIdx.x; c < (int)hd; c += MF_TOKEN_THREADS) {
        float top = -INFINITY, over = 0, all = 0;
        for (int w = 0; w < MF_TOKEN_WARPS; w++)
            top = mf_most::of(part[w][EACH * MF_WARP], top);
        for (int w = 0; w < MF_TOKEN_WARPS; w++) {
            const float most_of = part[w][EACH * MF_WARP];
            const float factor = most_of == -INFINITY ? 0 : expf(most_of - top);
            over += factor * part[w][EACH * MF_WARP + 1];
            all += factor * part[w][c];
        }
        p.y[(b * p.heads + h) * hd + c] = over == 0 ? 0 : all / over;
    }
}

extern "C" void mf_cuda_token_attention(const mf_kctx *x, const mf_token_attention_args *p)
{
    const dim3 grid((unsigned)p->heads, (unsigned)p->batch), block(MF_TOKEN_THREADS);
    if (p->batch <= 0) return;
    if (p->head_dim <= 64)
        MF_LAUNCH((mf_cu_token_attention<2, 8>), grid, block, 0, x, x->fault, x->node, *p);
    else if (p->head_dim <= 128)
        MF_LAUNCH((mf_cu_token_attention<4, 4>), grid, block, 0, x, x->fault, x->node, *p);
    else if (p->head_dim <= 256)
        MF_LAUNCH((mf_cu_token_attention<8, 2>), grid, block, 0, x, x->fault, x->node, *p);
    else
        MF_LAUNCH((mf_cu_token_attention<MF_MAX_HEAD_DIM / MF_WARP, 1>), grid, block, 0, x,
                  x->fault, x->node, *p);
}

/* ---- routing ----
 *
 * One block: lists of assignments need all tokens. Its warps have experts in turn; with tens of
 * experts the weights of a router are little more than a multiprocessor can have under way. */
constexpr int MF_ROUTERS = 1024, MF_ROUTED = 4; /* tokens for which a weight is read once */

/* What is in shared memory, beside the normed tokens. */
typedef struct mf_routed {
    float prob[MF_FEW_ROUTED], gate[MF_FEW_ROUTED];
    int32_t chosen[MF_FEW_ROUTED];
} mf_routed;

/* Logits of expert e and the tokens from t on. A warp calls it. */
MF_INLINE void mf_token_logits(const mf_token_route_args &a, const mf_bf16 *normed, int64_t e,
                               int64_t t, mf_routed &m)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const float *w = a.w + e * a.d;
    float sum[MF_ROUTED] = {};
    MF_UNROLL_BY(4)
    for (int64_t c = 4 * lane; c < a.d; c += 4 * MF_WARP) {
        float v[4];
        mf_get4(w + c, v);
        MF_UNROLL
        for (int r = 0; r < MF_ROUTED; r++) {
            float u[4];
            mf_get4(normed + (t + r < a.tokens ? t + r : t) * a.d + c, u);
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                sum[r] = fmaf(u[i], v[i], sum[r]);
        }
    }
    MF_UNROLL
    for (int r = 0; r < MF_ROUTED; r++) {
        sum[r] = mf_warp<mf_add>(sum[r]);
        sum[r] += a.bias ? a.bias[e] : 0;
        if (lane == 0 && t + r < a.tokens)
            m.prob[(t + r) * a.experts + e] = a.divisor ? sum[r] / *a.divisor : sum[r];
    }
}

/* Softmax of a token's logits, its k best experts and their gates. A warp calls it. */
MF_INLINE void mf_token_choose(const mf_token_route_args &a, int64_t t, mf_routed &m)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    float *prob = m.prob + t * a.experts, most = -INFINITY, sum = 0;
    for (int64_t e = lane; e < a.experts; e += MF_WARP)
        most = mf_most::of(prob[e], most);
    most = mf_warp<mf_most>(most);
    for (int64_t e = lane; e < a.experts; e += MF_WARP)
        sum += expf(prob[e] - most);
    sum = mf_warp<mf_add>(sum);
    for (int64_t e = lane; e < a.experts; e += MF_WARP) {
        prob[e] = expf(prob[e] - most) / sum;
        a.prob[t * a.experts + e] = prob[e];
    }
    __syncwarp();
    int last = -1;
    for (int64_t r = t * a.k; r < (t + 1) * a.k; r++) {
        last = mf_next_best(prob, a.experts, last);
        if (lane == 0) m.chosen[r] = a.chosen[r] = last;
    }
    if (lane > 0) return;
    double all = 1;
    if (a.renormalize) all = 0;
    MF_UNROLL_BY(1)
    for (int64_t r = t * a.k; a.renormalize && r < (t + 1) * a.k; r++)
        all += prob[m.chosen[r]];
    MF_UNROLL_BY(1)
    for (int64_t r = t * a.k; r < (t + 1) * a.k; r++)
        m.gate[r] = a.gate[r] =
            all < MF_LEAST_GATE_SUM ? 0 : (float)(a.scale * prob[m.chosen[r]] / all);
}

__global__ void __launch_bounds__(MF_ROUTERS)
    mf_cu_token_route(const mf_fault *fault, mf_token_route_args a)
{
    MF_SHARED_DYNAMIC(shared);
    mf_routed &m = *(mf_routed *)(void *)shared;
    mf_bf16 *const normed = (mf_bf16 *)(void *)(&m + 1);
    const int warp = (int)threadIdx.x / MF_WARP, rows = (int)(a.tokens * a.k);
    if (mf_failed(fault)) return;
    mf_norm_args n = {};
    n.kind = a.norm, n.n = a.d, n.eps = (float)a.eps, n.eps_outside = a.eps_outside;
    n.w = a.norm_w, n.b = a.norm_b;
    for (int64_t t = 0; t < a.tokens; t++)
        mf_normed_row<MF_ROUTERS>(n, true, a.x + t * a.d, normed + t * a.d);
    __syncthreads();
    for (int64_t e = warp; e < a.experts; e += MF_ROUTERS / MF_WARP)
        for (int64_t t = 0; t < a.tokens; t += MF_ROUTED)
            mf_token_logits(a, normed, e, t, m);
    __syncthreads();
    if (warp < a.tokens) mf_token_choose(a, warp, m);
    __syncthreads();
    /* all have an expert, so each assignment has a place */
    for (int r = (int)threadIdx.x; r < rows; r += MF_ROUTERS) {
        const int32_t e = m.chosen[r];
        int p = 0;
        for (int other = 0; other < rows; other++)
            p += m.chosen[other] < e || (m.chosen[other] == e && other < r);
        a.order[p] = r, a.place[r] = p, a.token[p] = r / (int32_t)a.k;
        a.row_gate[p] = m.gate[r];
    }
    for (int64_t e = threadIdx.x; e <= a.experts; e += MF_ROUTERS) {
        int32_t before = 0;
        for (int r = 0; r < rows; r++)
            before += m.chosen[r] < e;
        a.offset[e] = before;
    }
}

extern "C" void mf_cuda_token_route(const mf_kctx *x, const mf_token_route_args *a)
{
    const size_t shared = sizeof(mf_routed) + (size_t)(a->tokens * a->d) * sizeof(mf_bf16);
    if (a->tokens > 0)
        MF_LAUNCH(mf_cu_token_route, dim3(1), dim3(MF_ROUTERS), shared, x, x->fault, *a);
}
