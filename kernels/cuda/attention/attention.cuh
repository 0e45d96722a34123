/* attention.cuh: attention in the form of FlashAttention-2 (Dao 2023), in f32: a block has a
 * tile of queries and goes through tiles of keys with a running maximum and sum, so no matrix
 * of scores is stored. Backward recomputes the weights from lse; one kernel goes through keys
 * for dq, one through queries for dk and dv, so nothing is added atomically.
 *
 * A tile has B rows of head_dim numbers, up to HD; 256 / B threads share a row. Arrays of bf16
 * (mf_attention_args) are converted when they are read, for what attention_bf16.cuh does not
 * compute. */
#pragma once
#include "kernels/cuda/base.cuh"

/* ---- what a tile works on ---- */

/* The arrays of arguments with `bf16`. */
MF_ON_DEVICE static inline const mf_bf16 *mf_halves(const float *p)
{
    return (const mf_bf16 *)(const void *)p;
}
MF_ON_DEVICE static inline mf_bf16 *mf_halves(float *p)
{
    return (mf_bf16 *)(void *)p;
}
MF_INLINE float mf_attention_get(const mf_attention_args &p, const float *from, int64_t i)
{
    return p.bf16 ? mf_get(mf_halves(from) + i) : from[i];
}
MF_INLINE void mf_attention_put(const mf_attention_args &p, float *to, int64_t i, float value)
{
    if (p.bf16)
        mf_put(mf_halves(to) + i, value);
    else
        to[i] = value;
}

/* Rows `first` .. of a matrix with distance ld, which begins at element `begin`, into a tile
 * [B][HD + 1], zeros outside. */
template <int HD, int B>
MF_INLINE void mf_load_tile(const mf_attention_args &p, const float *from, int64_t begin,
                            int64_t ld, int64_t first, int64_t end, float *to)
{
    for (int at = (int)threadIdx.x; at < B * HD; at += MF_THREADS) {
        const int r = at / HD, c = at % HD;
        to[r * (HD + 1) + c] = first + r < end && c < p.head_dim
                                   ? mf_attention_get(p, from, begin + (first + r) * ld + c)
                                   : 0;
    }
}

/* The queries, keys and values of head h of sequence b. */
typedef struct mf_head {
    int64_t q, k, v, y; /* where they begin, in elements of the arguments' arrays; dy as y */
    const float *mask;
    const int32_t *reach, *since;
    int64_t at;            /* of lse: + t heads */
    int64_t length, shift; /* keys below length; query t is at position shift + t */
} mf_head;

MF_INLINE mf_head mf_head_of(const mf_attention_args &p, int64_t b, int64_t h)
{
    const int64_t kv = h / (p.heads / p.kv_heads) * p.head_dim, width = p.heads * p.head_dim;
    mf_head o;
    o.q = b * p.t * p.ldq + h * p.head_dim;
    o.k = b * p.s * p.ldk + kv;
    o.v = b * p.s * p.ldv + kv;
    o.y = b * p.t * width + h * p.head_dim;
    o.mask = p.mask ? p.mask + b * p.s : NULL;
    o.reach = p.reach ? p.reach + b * p.t : NULL;
    o.since = p.since ? p.since + b * p.t : NULL;
    o.at = b * p.t * p.heads + h;
    o.length = p.kv_len ? p.kv_len[b] : p.s;
    o.shift = o.length - p.t;
    return o;
}

MF_INLINE bool mf_sees(const mf_attention_args &p, const mf_head &o, int64_t t, int64_t s)
{
    return t < p.t && s < o.length && (!p.causal || s <= o.shift + t) &&
           (p.window == 0 || s > o.shift + t - p.window) && (!o.reach || s <= o.reach[t]) &&
           (!o.since || s >= o.since[t]) && (!o.mask || o.mask[s] != 0);
}

/* Keys from *from to *to - 1 are those that queries t0 .. t1 - 1 may see. */
MF_INLINE void mf_keys_of(const mf_attention_args &p, const mf_head &o, int64_t t0, int64_t t1,
                          int64_t *from, int64_t *to)
{
    const int64_t low = o.since        ? o.since[t0]
                        : p.window > 0 ? o.shift + t0 - p.window + 1
                                       : 0;
    int64_t high = o.length;
    if (p.causal && o.shift + t1 < high) high = o.shift + t1;
    if (o.reach && o.reach[t1 - 1] + 1 < high) high = o.reach[t1 - 1] + 1;
    *from = low > 0 ? low : 0, *to = high;
}

/* Dot product of two rows of tiles. Here and below loops over numbers in shared memory are
 * unrolled only in part: else the compiler loads so many ahead that it spills registers. */
template <int HD> MF_INLINE float mf_dot(const float *a, const float *b)
{
    float sum = 0;
    MF_UNROLL_BY(8)
    for (int c = 0; c < HD; c++)
        sum = fmaf(a[c], b[c], sum);
    return sum;
}

/* ---- forward ---- */

template <int HD, int B> struct mf_forward_tiles {
    float q[B * (HD + 1)], k[B * (HD + 1)], v[B * (HD + 1)];
    float w[B][B + 1], most[B], sum[B], keep[B];
};

/* Scores of a tile become weights e^(score - most); the row's maximum, sum and factor for
 * what was added before are brought up to date. A warp has a row at a time. */
template <int HD, int B> MF_INLINE void mf_weights(mf_forward_tiles<HD, B> &m)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    for (int r = (int)threadIdx.x / MF_WARP; r < B; r += MF_THREADS / MF_WARP) {
        const float score = lane < B ? m.w[r][lane] : -INFINITY, old = m.most[r];
        const float most = mf_most::of(mf_warp<mf_most>(score), old); /* NaN stays NaN */
        const float w = most == -INFINITY ? 0 : expf(score - most);
        const float sum = mf_warp<mf_add>(w);
        __syncwarp(); /* all lanes have read the row's old values */
        if (lane < B) m.w[r][lane] = w;
        if (lane > 0) continue;
        m.keep[r] = most == -INFINITY ? 1 : expf(old - most);
        m.sum[r] = m.sum[r] * m.keep[r] + sum;
        m.most[r] = most;
    }
}

template <int HD, int B>
MF_INLINE void mf_attend(const mf_attention_args &p, int64_t b, int64_t h, int64_t t0,
                         mf_forward_tiles<HD, B> &m)
{
    constexpr int SHARE = MF_THREADS / B, EACH = HD / SHARE;
    const mf_head o = mf_head_of(p, b, h);
    const int t = (int)threadIdx.x, row = t / SHARE, part = t % SHARE;
    const int64_t t1 = t0 + B < p.t ? t0 + B : p.t;
    float acc[EACH] = {};
    int64_t from, to;
    mf_keys_of(p, o, t0, t1, &from, &to);
    __syncthreads(); /* of an earlier tile */
    mf_load_tile<HD, B>(p, p.q, o.q, p.ldq, t0, t1, m.q);
    if (t < B) m.most[t] = -INFINITY, m.sum[t] = 0;
    for (int64_t s0 = from; s0 < to; s0 += B) {
        __syncthreads();
        mf_load_tile<HD, B>(p, p.k, o.k, p.ldk, s0, to, m.k);
        mf_load_tile<HD, B>(p, p.v, o.v, p.ldv, s0, to, m.v);
        __syncthreads();
        for (int at = t; at < B * B; at += MF_THREADS) {
            const int i = at / B, j = at % B;
            m.w[i][j] = mf_sees(p, o, t0 + i, s0 + j) && s0 + j < to
                            ? p.scale * mf_dot<HD>(m.q + i * (HD + 1), m.k + j * (HD + 1))
                            : -INFINITY;
        }
        __syncthreads();
        mf_weights(m);
        __syncthreads();
        const float keep = m.keep[row];
        MF_UNROLL
        for (int c = 0; c < EACH; c++)
            acc[c] *= keep;
        for (int j = 0; j < B; j++) {
            const float w = m.w[row][j];
            MF_UNROLL
            for (int c = 0; c < EACH; c++)
                acc[c] = fmaf(w, m.v[j * (HD + 1) + part + c * SHARE], acc[c]);
        }
    }
    __syncthreads();
    if (t0 + row >= t1) return;
    const float sum = m.sum[row], factor = sum > 0 ? 1 / sum : 0;
    const int64_t y = o.y + (t0 + row) * p.heads * p.head_dim;
    MF_UNROLL
    for (int c = 0; c < EACH; c++)
        if (part + c * SHARE < p.head_dim)
            mf_attention_put(p, p.y, y + part + c * SHARE, acc[c] * factor);
    if (p.lse && part == 0) p.lse[o.at + (t0 + row) * p.heads] = m.most[row] + logf(sum);
}

/* ---- backward ---- */

template <int HD, int B> struct mf_backward_tiles {
    float q[B * (HD + 1)], dy[B * (HD + 1)], k[B * (HD + 1)], v[B * (HD + 1)];
    float w[B][B + 1], ds[B][B + 1], lse[B], delta[B];
};

/* In both functions that call these a block may go on with its next tile at once: what that
 * writes before its first barrier was read before the last barrier of this one. */

/* Loads queries t0 .. t1 - 1 with dy and lse; delta = dy . y - dlse. Each thread of a row has
 * a part of the sum. */
template <int HD, int B>
MF_INLINE void mf_load_queries(const mf_attention_args &p, const mf_head &o, int64_t t0,
                               int64_t t1, mf_backward_tiles<HD, B> &m)
{
    constexpr int SHARE = MF_THREADS / B;
    const int64_t width = p.heads * p.head_dim;
    const int row = (int)threadIdx.x / SHARE, part = (int)threadIdx.x % SHARE;
    const bool here = t0 + row < t1;
    mf_load_tile<HD, B>(p, p.q, o.q, p.ldq, t0, t1, m.q);
    mf_load_tile<HD, B>(p, p.dy, o.y, width, t0, t1, m.dy);
    float sum = 0;
    for (int c = part; here && c < p.head_dim; c += SHARE)
        sum += mf_attention_get(p, p.dy, o.y + (t0 + row) * width + c) *
               mf_attention_get(p, p.y, o.y + (t0 + row) * width + c);
    MF_UNROLL
    for (int d = SHARE / 2; d > 0; d /= 2)
        sum += __shfl_xor_sync(MF_ALL_LANES, sum, d);
    if (part > 0) return;
    const int64_t at = o.at + (t0 + row) * p.heads;
    m.lse[row] = here ? p.lse[at] : 0;
    m.delta[row] = here ? sum - (p.dlse ? p.dlse[at] : 0) : 0;
}

/* Weights and gradients of scores of the two tiles. */
template <int HD, int B>
MF_INLINE void mf_score_grads(const mf_attention_args &p, const mf_head &o, int64_t t0,
                              int64_t s0, mf_backward_tiles<HD, B> &m)
{
    for (int at = (int)threadIdx.x; at < B * B; at += MF_THREADS) {
        const int i = at / B, j = at % B;
        float w = 0, ds = 0;
        if (mf_sees(p, o, t0 + i, s0 + j)) {
            const float above =
                p.scale * mf_dot<HD>(m.q + i * (HD + 1), m.k + j * (HD + 1)) - m.lse[i];
            w = expf(above > 1 ? 0 : above); /* see kernels.def */
            ds = w * (mf_dot<HD>(m.dy + i * (HD + 1), m.v + j * (HD + 1)) - m.delta[i]);
        }
        m.w[i][j] = w;
        m.ds[i][j] = p.scale * ds;
    }
}

template <int HD, int B>
MF_INLINE void mf_attend_dq(const mf_attention_args &p, int64_t b, int64_t h, int64_t t0,
                            mf_backward_tiles<HD, B> &m)
{
    constexpr int SHARE = MF_THREADS / B, EACH = HD / SHARE;
    const mf_head o = mf_head_of(p, b, h);
    const int row = (int)threadIdx.x / SHARE, part = (int)threadIdx.x % SHARE;
    const int64_t t1 = t0 + B < p.t ? t0 + B : p.t;
    float acc[EACH] = {};
    int64_t from, to;
    mf_keys_of(p, o, t0, t1, &from, &to);
    mf_load_queries<HD, B>(p, o, t0, t1, m);
    for (int64_t s0 = from; s0 < to; s0 += B) {
        __syncthreads();
        mf_load_tile<HD, B>(p, p.k, o.k, p.ldk, s0, to, m.k);
        mf_load_tile<HD, B>(p, p.v, o.v, p.ldv, s0, to, m.v);
        __syncthreads();
        mf_score_grads<HD, B>(p, o, t0, s0, m);
        __syncthreads();
        MF_UNROLL_BY(4)
        for (int j = 0; j < B; j++) {
            const float ds = m.ds[row][j];
            MF_UNROLL
            for (int c = 0; c < EACH; c++)
                acc[c] = fmaf(ds, m.k[j * (HD + 1) + part + c * SHARE], acc[c]);
        }
    }
    if (t0 + row >= t1) return;
    const int64_t dq = o.q + (t0 + row) * p.ldq;
    MF_UNROLL
    for (int c = 0; c < EACH; c++)
        if (part + c * SHARE < p.head_dim)
            mf_attention_put(p, p.dq, dq + part + c * SHARE, acc[c]);
}

template <int HD, int B>
MF_INLINE void mf_attend_dkv(const mf_attention_args &p, int64_t b, int64_t kv_head, int64_t s0,
                             mf_backward_tiles<HD, B> &m)
{
    constexpr int SHARE = MF_THREADS / B, EACH = HD / SHARE;
    const int row = (int)threadIdx.x / SHARE, part = (int)threadIdx.x % SHARE;
    const int64_t share = p.heads / p.kv_heads, s1 = s0 + B < p.s ? s0 + B : p.s;
    mf_head o = mf_head_of(p, b, kv_head * share);
    float dk[EACH] = {}, dv[EACH] = {};
    int64_t from = p.causal ? s0 - o.shift : 0;
    int64_t to =
        p.window > 0 && s1 - 1 - o.shift + p.window < p.t ? s1 - 1 - o.shift + p.window : p.t;
    if (from < 0) from = 0;
    if (s0 >= o.length) to = 0;
    mf_load_tile<HD, B>(p, p.k, o.k, p.ldk, s0, s1, m.k);
    mf_load_tile<HD, B>(p, p.v, o.v, p.ldv, s0, s1, m.v);
    for (int64_t h = kv_head * share; h < (kv_head + 1) * share; h++) {
        o = mf_head_of(p, b, h);
        for (int64_t t0 = from; t0 < to; t0 += B) {
            __syncthreads();
            mf_load_queries<HD, B>(p, o, t0, to, m);
            __syncthreads();
            mf_score_grads<HD, B>(p, o, t0, s0, m);
            __syncthreads();
            MF_UNROLL_BY(4)
            for (int i = 0; i < B; i++) {
                const float w = m.w[i][row], ds = m.ds[i][row];
                MF_UNROLL
                for (int c = 0; c < EACH; c++) {
                    dk[c] = fmaf(ds, m.q[i * (HD + 1) + part + c * SHARE], dk[c]);
                    dv[c] = fmaf(w, m.dy[i * (HD + 1) + part + c * SHARE], dv[c]);
                }
            }
        }
    }
    if (s0 + row >= s1) return;
    const int64_t at = b * p.s + s0 + row;
    MF_UNROLL
    for (int c = 0; c < EACH; c++) {
        const int column = part + c * SHARE;
        if (column >= p.head_dim) continue;
        if (p.dk) mf_attention_put(p, p.dk, at * p.ldk + kv_head * p.head_dim + column, dk[c]);
        if (p.dv) mf_attention_put(p, p.dv, at * p.ldv + kv_head * p.head_dim + column, dv[c]);
    }
}

/* ---- kernels ----
 * The bounds ask for one block a multiprocessor: without that nvcc aims at more than shared
 * memory has room for, and spills registers. */

template <int HD, int B>
__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_attention(const mf_fault *fault, mf_attention_args p)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_attend<HD, B>(p, b, blockIdx.y, (int64_t)blockIdx.x * B,
                         *(mf_forward_tiles<HD, B> *)(void *)shared);
}
template <int HD, int B>
__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_attention_dq(const mf_fault *fault, mf_attention_args p)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_attend_dq<HD, B>(p, b, blockIdx.y, (int64_t)blockIdx.x * B,
                            *(mf_backward_tiles<HD, B> *)(void *)shared);
}
template <int HD, int B>
__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_attention_dkv(const mf_fault *fault, mf_attention_args p)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_attend_dkv<HD, B>(p, b, blockIdx.y, (int64_t)blockIdx.x * B,
                             *(mf_backward_tiles<HD, B> *)(void *)shared);
}

/* ---- launches ---- */

/* Calls fn with the tiles for a head_dim: HD numbers in each of B rows. */
template <int HD_, int B_> struct mf_tiles {
    enum { HD = HD_, B = B_ };
};
template <class F> static inline void mf_by_head(int64_t head_dim, F fn)
{
    if (head_dim <= 32)
        fn(mf_tiles<32, 32>());
    else if (head_dim <= 64)
        fn(mf_tiles<64, 32>());
    else if (head_dim <= 128)
        fn(mf_tiles<128, 16>());
    else if (head_dim <= 256)
        fn(mf_tiles<256, 16>());
    else
        fn(mf_tiles<MF_MAX_HEAD_DIM, 8>());
}

static void mf_launch_attention(const mf_kctx *x, const mf_attention_args *p)
{
    mf_by_head(p->head_dim, [&](auto tiles) {
        constexpr int HD = decltype(tiles)::HD, B = decltype(tiles)::B;
        MF_LAUNCH((mf_cu_attention<HD, B>),
                  dim3(mf_grid(p->t, B).x, (unsigned)p->heads, mf_most_z(p->batch)),
                  dim3(MF_THREADS), sizeof(mf_forward_tiles<HD, B>), x, x->fault, *p);
    });
}

static void mf_launch_attention_backward(const mf_kctx *x, const mf_attention_args *p)
{
    mf_by_head(p->head_dim, [&](auto tiles) {
        constexpr int HD = decltype(tiles)::HD, B = decltype(tiles)::B;
        const unsigned z = mf_most_z(p->batch);
        if (p->dq && p->t > 0)
            MF_LAUNCH((mf_cu_attention_dq<HD, B>),
                      dim3(mf_grid(p->t, B).x, (unsigned)p->heads, z), dim3(MF_THREADS),
                      sizeof(mf_backward_tiles<HD, B>), x, x->fault, *p);
        if ((p->dk || p->dv) && p->s > 0)
            MF_LAUNCH((mf_cu_attention_dkv<HD, B>),
                      dim3(mf_grid(p->s, B).x, (unsigned)p->kv_heads, z), dim3(MF_THREADS),
                      sizeof(mf_backward_tiles<HD, B>), x, x->fault, *p);
    });
}
