/* attention_bf16.cuh: attention of bf16 in the form of FlashAttention-2 (Dao 2023) by matrix
 * instructions (mma.sync, compute capability 8.0 and above). Scores, their statistics and all
 * sums are f32; weights and gradients of scores are rounded to bf16 before they are multiplied.
 *
 * A block of 4 warps has 64 rows (queries, or keys for dk and dv), 16 a warp, and goes through
 * tiles of the others, which cp.async brings one tile ahead where shared memory has room for
 * two. Matrices lie in shared memory as they are stored, rows of HD >= head_dim numbers; of a
 * row, the 16 bytes of place p lie at place p ^ row % 8 of their 128 bytes, so that neither
 * copies nor ldmatrix need a bank twice. A product's accumulators are, rounded, the left operand
 * of the next one. A warp's results go through its own rows of shared memory, so that global
 * memory gets 16 bytes a lane.
 *
 * Nothing is added atomically: one kernel goes through keys for dq, one through queries for dk
 * and dv. Before them a third one makes, for each query, log2 of the sum of its weights and the
 * constant of its softmax's gradient. */
#pragma once
#include "attention.cuh"

constexpr int MF_FLASH_ROWS = 64, MF_FLASH_THREADS = 128;
constexpr float MF_LOG2_E = 1.4426950408889634f, MF_LN_2 = 0.69314718055994531f;

/* Widths of heads in shared memory, with the tiles that fit. */
template <int HD_> struct mf_flash {
    enum {
        HD = HD_,
        KEYS = HD > 128 ? 32 : 64,      /* of a tile; forward and dq */
        QUERIES = 32,                   /* of a tile; dk and dv */
        STAGES = HD > 128 ? 1 : 2,      /* tiles in shared memory; dq, dk and dv */
        OWN = MF_FLASH_ROWS * HD * 2,   /* bytes of the block's own rows */
        KEY_TILE = KEYS * HD * 2,       /* bytes */
        QUERY_TILE = QUERIES * HD * 2,
        FORWARD = OWN + 4 * KEY_TILE,
        DQ = 2 * OWN + 2 * STAGES * KEY_TILE,
        DKV = 2 * OWN + 2 * STAGES * (QUERY_TILE + QUERIES * (int)sizeof(float2) / 2)
    };
};

/* What backward needs of a query: log2 of the sum of weights, and <dy, y> - dlse. */
MF_INLINE int64_t mf_flash_query(const mf_attention_args &p, int64_t b, int64_t h, int64_t t)
{
    return (b * p.heads + h) * p.t + t;
}

/* ---- moving rows ---- */

template <int HD> MF_INLINE int mf_flash_at(int row, int place)
{
    return row * (HD * 2) + ((place & ~7) | ((place ^ row) & 7)) * 16;
}

/* Starts to copy rows first .. first + ROWS - 1, zeros from `end` on and beyond head_dim. */
template <int HD, int ROWS>
MF_INLINE void mf_flash_load(const mf_bf16 *from, int64_t ld, int64_t first, int64_t end, int d,
                             unsigned char *to)
{
    constexpr int PLACES = HD / 8;
    MF_UNROLL_BY(4)
    for (int at = (int)threadIdx.x; at < ROWS * PLACES; at += MF_FLASH_THREADS) {
        const int row = at / PLACES, place = at % PLACES;
        const bool there = first + row < end && place * 8 < d;
        mf_copy16(to + mf_flash_at<HD>(row, place),
                  there ? from + (first + row) * ld + place * 8 : from, there ? 16 : 0);
    }
}

/* Rounds the warp's 16 rows of sums, times a factor for the upper and the lower eight, into its
 * rows of `own`, and stores those below `end`. All lanes have read these rows. */
template <int HD>
MF_INLINE void mf_flash_store(const float (*sum)[4], float upper, float lower, mf_bf16 *to,
                              int64_t ld, int64_t first, int64_t end, int d, unsigned char *own)
{
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    constexpr int PLACES = HD / 8;
    __syncwarp();
    MF_UNROLL
    for (int j = 0; j < PLACES; j++) {
        unsigned char *at = own + mf_flash_at<HD>(r0 + lane / 4, j) + lane % 4 * 4;
        *(uint32_t *)at = mf_pair(upper * sum[j][0], upper * sum[j][1]);
        at = own + mf_flash_at<HD>(r0 + 8 + lane / 4, j) + lane % 4 * 4;
        *(uint32_t *)at = mf_pair(lower * sum[j][2], lower * sum[j][3]);
    }
    __syncwarp();
    MF_UNROLL_BY(4)
    for (int at = lane; at < 16 * PLACES; at += MF_WARP) {
        const int row = r0 + at / PLACES, place = at % PLACES;
        if (first + row >= end || place * 8 >= d) continue;
        uint4 *there = (uint4 *)(to + (first + row) * ld + place * 8);
        MF_ALIGNED(there, 16);
        *there = *(const uint4 *)(own + mf_flash_at<HD>(row, place));
    }
}

/* ---- products of a warp ---- */

/* sum [COLUMNS / 8] += a b^T: 16 rows of a from r0 on, COLUMNS rows of b; inner index HD. */
template <int HD, int COLUMNS>
MF_INLINE void mf_flash_scores(const unsigned char *a, int r0, const unsigned char *b,
                               float (*sum)[4])
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int low = lane % 8, second = lane / 8 % 2, third = lane / 16;
    MF_UNROLL_BY(4)
    for (int q = 0; q < HD / 16; q++) {
        uint32_t u[4];
        mf_ldmatrix(u, a + mf_flash_at<HD>(r0 + second * 8 + low, 2 * q + third));
        MF_UNROLL
        for (int j = 0; j < COLUMNS / 16; j++) {
            uint32_t v[4];
            mf_ldmatrix(v, b + mf_flash_at<HD>(j * 16 + third * 8 + low, 2 * q + second));
            mf_mma(sum[2 * j], u, v);
            mf_mma(sum[2 * j + 1], u, v + 2);
        }
    }
}

/* sum [HD / 8] += w b: w the 16 x INNER numbers of accumulators, rounded; b INNER rows. */
template <int HD, int INNER>
MF_INLINE void mf_flash_add(const float (*w)[4], const unsigned char *b, float (*sum)[4])
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int low = lane % 8, second = lane / 8 % 2, third = lane / 16;
    MF_UNROLL
    for (int q = 0; q < INNER / 16; q++) {
        const float *upper = w[2 * q], *lower = w[2 * q + 1];
        const uint32_t u[4] = {mf_pair(upper[0], upper[1]), mf_pair(upper[2], upper[3]),
                               mf_pair(lower[0], lower[1]), mf_pair(lower[2], lower[3])};
        MF_UNROLL
        for (int j = 0; j < HD / 16; j++) {
            uint32_t v[4];
            mf_ldmatrix_trans(v,
                              b + mf_flash_at<HD>(q * 16 + second * 8 + low, 2 * j + third));
            mf_mma(sum[2 * j], u, v);
            mf_mma(sum[2 * j + 1], u, v + 2);
        }
    }
}

/* Whether queries t0 .. t1 - 1 see all of the keys s0 .. s1 - 1. */
MF_INLINE bool mf_sees_all(const mf_attention_args &p, const mf_head &o, int64_t t0, int64_t t1,
                           int64_t s0, int64_t s1)
{
    return !o.mask && s1 <= o.length && (!p.causal || s1 - 1 <= o.shift + t0) &&
           (p.window == 0 || s0 > o.shift + t1 - 1 - p.window) &&
           (!o.reach || s1 - 1 <= o.reach[t0]) && (!o.since || s0 >= o.since[t1 - 1]);
}

/* ---- forward ---- */

/* Largest of, and sum over, the four lanes that share a row of accumulators. */
template <class OP> MF_INLINE float mf_quad(float v)
{
    v = OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, 1));
    return OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, 2));
}

/* Scores of a tile become weights 2^(score - most); `out`, `most` and `sum` of the two rows of
 * this lane are brought up to date. */
template <int HD, int KEYS>
MF_INLINE void mf_flash_weights(float (*w)[4], float (*out)[4], float most[2], float sum[2])
{
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        float high = most[half], fresh = 0;
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++)
            high = mf_most::of(w[j][2 * half], mf_most::of(w[j][2 * half + 1], high));
        high = mf_quad<mf_most>(high);
        const float base = high == -INFINITY ? 0 : high;
        const float keep = exp2f(most[half] - base);
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            MF_UNROLL
            for (int c = 0; c < 2; c++) {
                w[j][2 * half + c] = exp2f(w[j][2 * half + c] - base);
                fresh += w[j][2 * half + c];
            }
        }
        sum[half] = sum[half] * keep + fresh; /* of this lane's columns */
        most[half] = high;
        MF_UNROLL
        for (int j = 0; j < HD / 8; j++)
            out[j][2 * half] *= keep, out[j][2 * half + 1] *= keep;
    }
}

template <int HD>
MF_INLINE void mf_flash_forward(const mf_attention_args &p, int64_t b, int64_t h, int64_t t0,
                                unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int KEYS = F::KEYS;
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    const int d = (int)p.head_dim;
    const mf_head o = mf_head_of(p, b, h);
    const mf_bf16 *k = mf_halves(p.k) + o.k, *v = mf_halves(p.v) + o.v;
    const int64_t t1 = t0 + MF_FLASH_ROWS < p.t ? t0 + MF_FLASH_ROWS : p.t;
    const float scale = p.scale * MF_LOG2_E;
    int64_t from, to;
    float out[HD / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    mf_keys_of(p, o, t0, t1, &from, &to);
    __syncthreads(); /* of an earlier tile of queries */
    mf_flash_load<HD, MF_FLASH_ROWS>(mf_halves(p.q) + o.q, p.ldq, t0, t1, d, shared);
    int stage = 0;
    if (from < to) {
        mf_flash_load<HD, KEYS>(k, p.ldk, from, to, d, shared + F::OWN);
        mf_flash_load<HD, KEYS>(v, p.ldv, from, to, d, shared + F::OWN + F::KEY_TILE);
    }
    mf_copy_commit();
    for (int64_t s0 = from; s0 < to; s0 += KEYS, stage ^= 1) {
        const unsigned char *now = shared + F::OWN + stage * 2 * F::KEY_TILE;
        mf_copy_wait<0>();
        __syncthreads(); /* all have copied this tile, and multiplied the one before */
        if (s0 + KEYS < to) {
            unsigned char *next = shared + F::OWN + (stage ^ 1) * 2 * F::KEY_TILE;
            mf_flash_load<HD, KEYS>(k, p.ldk, s0 + KEYS, to, d, next);
            mf_flash_load<HD, KEYS>(v, p.ldv, s0 + KEYS, to, d, next + F::KEY_TILE);
            mf_copy_commit();
        }
        float w[KEYS / 8][4] = {};
        mf_flash_scores<HD, KEYS>(shared, r0, now, w);
        const bool all = s0 + KEYS <= to && mf_sees_all(p, o, t0, t1, s0, s0 + KEYS);
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            MF_UNROLL
            for (int i = 0; i < 4; i++) {
                const int64_t t = t0 + r0 + lane / 4 + i / 2 * 8,
                              s = s0 + j * 8 + lane % 4 * 2 + i % 2;
                w[j][i] = all || (s < to && mf_sees(p, o, t, s)) ? scale * w[j][i] : -INFINITY;
            }
        }
        mf_flash_weights<HD, KEYS>(w, out, most, sum);
        mf_flash_add<HD, KEYS>(w, now + F::KEY_TILE, out);
    }
    mf_copy_wait<0>(); /* also if there was no key */
    __syncthreads();
    float factor[2];
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        const int64_t t = t0 + r0 + lane / 4 + half * 8;
        sum[half] = mf_quad<mf_add>(sum[half]);
        factor[half] = sum[half] == 0 ? 0 : 1 / sum[half];
        if (p.lse && lane % 4 == 0 && t < t1)
            p.lse[o.at + t * p.heads] = most[half] == -INFINITY
                                            ? -INFINITY
                                            : most[half] * MF_LN_2 + logf(sum[half]);
    }
    mf_flash_store<HD>(out, factor[0], factor[1], mf_halves(p.y) + o.y, p.heads * p.head_dim,
                       t0, t1, d, shared);
}

/* ---- backward ---- */

/* A warp each query of a head: see mf_flash_query. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_attention_ready(const mf_fault *fault, mf_attention_args p, float2 *ready)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int64_t warps = mf_threads() / MF_WARP, n = p.batch * p.t * p.heads;
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread() / MF_WARP; at < n; at += warps) {
        const mf_bf16 *y = mf_halves(p.y) + at * p.head_dim,
                      *dy = mf_halves(p.dy) + at * p.head_dim;
        float sum = 0;
        for (int c = lane * 2; c < p.head_dim; c += 2 * MF_WARP) {
            const uint32_t u = *(const uint32_t *)(y + c), v = *(const uint32_t *)(dy + c);
            sum = fmaf(mf_bf16_to_f32((mf_bf16)u), mf_bf16_to_f32((mf_bf16)v), sum);
            sum = fmaf(mf_bf16_to_f32((mf_bf16)(u >> 16)), mf_bf16_to_f32((mf_bf16)(v >> 16)),
                       sum);
        }
        sum = mf_warp<mf_add>(sum);
        const int64_t h = at % p.heads, t = at / p.heads % p.t, b = at / p.heads / p.t;
        if (lane == 0)
            ready[mf_flash_query(p, b, h, t)] =
                make_float2(p.lse[at] * MF_LOG2_E, sum - (p.dlse ? p.dlse[at] : 0));
    }
}

/* The weight of a key for a query, and the gradient of its score without the scale. */
MF_INLINE void mf_flash_gradient(bool sees, float scale, float2 ready, float &w, float &ds)
{
    w = sees ? exp2f(scale * w - ready.x) : 0;
    ds = sees ? w * (ds - ready.y) : 0;
}

template <int HD>
MF_INLINE void mf_flash_dq(const mf_attention_args &p, const float2 *ready, int64_t b,
                           int64_t h, int64_t t0, unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int KEYS = F::KEYS;
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    const int d = (int)p.head_dim;
    const mf_head o = mf_head_of(p, b, h);
    const mf_bf16 *k = mf_halves(p.k) + o.k, *v = mf_halves(p.v) + o.v;
    const int64_t t1 = t0 + MF_FLASH_ROWS < p.t ? t0 + MF_FLASH_ROWS : p.t;
    const float scale = p.scale * MF_LOG2_E;
    unsigned char *dy = shared + F::OWN, *tiles = shared + 2 * F::OWN;
    int64_t from, to;
    float dq[HD / 8][4] = {};
    float2 mine[2];
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        const int64_t t = t0 + r0 + lane / 4 + half * 8;
        mine[half] = t < t1 ? ready[mf_flash_query(p, b, h, t)] : make_float2(0, 0);
    }
    mf_keys_of(p, o, t0, t1, &from, &to);
    __syncthreads(); /* of an earlier tile of queries */
    mf_flash_load<HD, MF_FLASH_ROWS>(mf_halves(p.q) + o.q, p.ldq, t0, t1, d, shared);
    mf_flash_load<HD, MF_FLASH_ROWS>(mf_halves(p.dy) + o.y, p.heads * p.head_dim, t0, t1, d,
                                     dy);
    int stage = 0;
    for (int64_t s0 = from, next = from; s0 < to; s0 += KEYS, stage ^= F::STAGES - 1) {
        /* the tile that is to be copied: with one stage this one, else the first two, then one
         * ahead */
        if (F::STAGES == 1 && s0 > from) __syncthreads(); /* all have multiplied the one before */
        if (s0 == from || F::STAGES == 1) {
            mf_flash_load<HD, KEYS>(k, p.ldk, s0, to, d, tiles);
            mf_flash_load<HD, KEYS>(v, p.ldv, s0, to, d, tiles + F::KEY_TILE);
            mf_copy_commit();
        }
        mf_copy_wait<0>();
        __syncthreads(); /* all have copied this tile */
        next = s0 + KEYS;
        if (F::STAGES == 2 && next < to) {
            unsigned char *there = tiles + (stage ^ 1) * 2 * F::KEY_TILE;
            mf_flash_load<HD, KEYS>(k, p.ldk, next, to, d, there);
            mf_flash_load<HD, KEYS>(v, p.ldv, next, to, d, there + F::KEY_TILE);
            mf_copy_commit();
        }
        const unsigned char *now = tiles + stage * 2 * F::KEY_TILE;
        float w[KEYS / 8][4] = {}, ds[KEYS / 8][4] = {};
        mf_flash_scores<HD, KEYS>(shared, r0, now, w);
        mf_flash_scores<HD, KEYS>(dy, r0, now + F::KEY_TILE, ds);
        const bool all = next <= to && t0 + MF_FLASH_ROWS <= p.t && mf_sees_all(p, o, t0, t1, s0, next);
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            MF_UNROLL
            for (int i = 0; i < 4; i++) {
                const int64_t t = t0 + r0 + lane / 4 + i / 2 * 8,
                              s = s0 + j * 8 + lane % 4 * 2 + i % 2;
                mf_flash_gradient(all || (s < to && mf_sees(p, o, t, s)), scale, mine[i / 2],
                                  w[j][i], ds[j][i]);
            }
        }
        mf_flash_add<HD, KEYS>(ds, now, dq);
    }
    mf_copy_wait<0>(); /* also if there was no key */
    __syncthreads();
    mf_flash_store<HD>(dq, p.scale, p.scale, mf_halves(p.dq) + o.q, p.ldq, t0, t1, d, shared);
}

/* The queries that may see keys s0 .. s1 - 1. */
MF_INLINE void mf_queries_of(const mf_attention_args &p, const mf_head &o, int64_t s0,
                             int64_t s1, int64_t *from, int64_t *to)
{
    const int64_t low = p.causal ? s0 - o.shift : 0, high = s1 - o.shift - 1 + p.window;
    *from = low > 0 ? low : 0;
    *to = p.window > 0 && high < p.t ? high : p.t;
    if (s0 >= o.length) *to = 0;
}

/* Starts to copy a tile of queries, their gradients and what is ready of them. */
template <int HD>
MF_INLINE void mf_flash_queries(const mf_attention_args &p, const float2 *ready, int64_t b,
                                int64_t h, int64_t t0, int64_t t1, unsigned char *q,
                                unsigned char *dy, float2 *own)
{
    constexpr int QUERIES = mf_flash<HD>::QUERIES;
    const mf_head o = mf_head_of(p, b, h);
    const int d = (int)p.head_dim, t = (int)threadIdx.x;
    mf_flash_load<HD, QUERIES>(mf_halves(p.q) + o.q, p.ldq, t0, t1, d, q);
    mf_flash_load<HD, QUERIES>(mf_halves(p.dy) + o.y, p.heads * p.head_dim, t0, t1, d, dy);
    mf_copy_commit();
    if (t < QUERIES)
        own[t] = t0 + t < t1 ? ready[mf_flash_query(p, b, h, t0 + t)] : make_float2(0, 0);
}

/* DK, DV: which of them; both have too many sums for wide heads. */
template <int HD, bool DK, bool DV>
MF_INLINE void mf_flash_dkv(const mf_attention_args &p, const float2 *ready, int64_t b,
                            int64_t kv_head, int64_t s0, unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int QUERIES = F::QUERIES, STAGE = 2 * F::QUERY_TILE;
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    const int d = (int)p.head_dim;
    const int64_t share = p.heads / p.kv_heads;
    const int64_t s1 = s0 + MF_FLASH_ROWS < p.s ? s0 + MF_FLASH_ROWS : p.s;
    const float scale = p.scale * MF_LOG2_E;
    unsigned char *v = shared + F::OWN, *tiles = shared + 2 * F::OWN;
    float2 *of_queries = (float2 *)(void *)(tiles + F::STAGES * STAGE);
    mf_head o = mf_head_of(p, b, kv_head * share);
    const int64_t k_at = o.k, v_at = o.v;
    float dk[DK ? HD / 8 : 1][4] = {}, dv[DV ? HD / 8 : 1][4] = {};
    int64_t from, to;
    mf_queries_of(p, o, s0, s1, &from, &to);
    const int64_t tiles_of = to > from ? (to - from + QUERIES - 1) / QUERIES : 0;
    __syncthreads(); /* of an earlier tile of keys */
    mf_flash_load<HD, MF_FLASH_ROWS>(mf_halves(p.k) + k_at, p.ldk, s0, s1, d, shared);
    mf_flash_load<HD, MF_FLASH_ROWS>(mf_halves(p.v) + v_at, p.ldv, s0, s1, d, v);
    int stage = 0;
    for (int64_t n = 0; n < share * tiles_of; n++, stage ^= F::STAGES - 1) {
        const int64_t h = kv_head * share + n / tiles_of, t0 = from + n % tiles_of * QUERIES;
        if (F::STAGES == 1 && n > 0) __syncthreads(); /* all have multiplied the one before */
        if (n == 0 || F::STAGES == 1)
            mf_flash_queries<HD>(p, ready, b, h, t0, to, tiles, tiles + F::QUERY_TILE,
                                 of_queries);
        mf_copy_wait<0>();
        __syncthreads(); /* all have copied this tile */
        if (F::STAGES == 2 && n + 1 < share * tiles_of) {
            unsigned char *there = tiles + (stage ^ 1) * STAGE;
            mf_flash_queries<HD>(p, ready, b, kv_head * share + (n + 1) / tiles_of,
                                 from + (n + 1) % tiles_of * QUERIES, to, there,
                                 there + F::QUERY_TILE, of_queries + (stage ^ 1) * QUERIES);
        }
        const unsigned char *q = tiles + stage * STAGE, *dy = q + F::QUERY_TILE;
        const float2 *mine = of_queries + stage * QUERIES;
        float w[QUERIES / 8][4] = {}, ds[QUERIES / 8][4] = {};
        mf_flash_scores<HD, QUERIES>(shared, r0, q, w);
        if (DK) mf_flash_scores<HD, QUERIES>(v, r0, dy, ds);
        o = mf_head_of(p, b, h);
        const bool all = t0 + QUERIES <= to && s0 + MF_FLASH_ROWS <= p.s &&
                         mf_sees_all(p, o, t0, t0 + QUERIES, s0, s1);
        MF_UNROLL
        for (int j = 0; j < QUERIES / 8; j++) {
            MF_UNROLL
            for (int i = 0; i < 4; i++) {
                const int column = j * 8 + lane % 4 * 2 + i % 2;
                const int64_t s = s0 + r0 + lane / 4 + i / 2 * 8, t = t0 + column;
                mf_flash_gradient(all || (t < to && mf_sees(p, o, t, s)), scale, mine[column],
                                  w[j][i], ds[j][i]);
            }
        }
        if (DV) mf_flash_add<HD, QUERIES>(w, dy, dv);
        if (DK) mf_flash_add<HD, QUERIES>(ds, q, dk);
    }
    mf_copy_wait<0>(); /* also if there was no query */
    __syncthreads();
    if (DK && p.dk)
        mf_flash_store<HD>(dk, p.scale, p.scale, mf_halves(p.dk) + k_at, p.ldk, s0, s1, d,
                           shared);
    if (DV && p.dv)
        mf_flash_store<HD>(dv, 1, 1, mf_halves(p.dv) + v_at, p.ldv, s0, s1, d, v);
}

/* ---- kernels ---- */

template <int HD>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16(const mf_fault *fault, mf_attention_args p)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    /* with a causal mask the last queries have the most keys: they begin first */
    const int64_t t0 = (int64_t)(gridDim.x - 1 - blockIdx.x) * MF_FLASH_ROWS;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_flash_forward<HD>(p, b, blockIdx.y, t0, shared);
}
template <int HD>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16_dq(const mf_fault *fault, mf_attention_args p, const float2 *ready)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    const int64_t t0 = (int64_t)(gridDim.x - 1 - blockIdx.x) * MF_FLASH_ROWS;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_flash_dq<HD>(p, ready, b, blockIdx.y, t0, shared);
}
template <int HD, bool DK, bool DV>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16_dkv(const mf_fault *fault, mf_attention_args p, const float2 *ready)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    for (int64_t b = blockIdx.z; b < p.batch; b += gridDim.z)
        mf_flash_dkv<HD, DK, DV>(p, ready, b, blockIdx.y, (int64_t)blockIdx.x * MF_FLASH_ROWS,
                                 shared);
}

/* ---- launches ---- */

template <class F> static inline void mf_by_flash(int64_t head_dim, F fn)
{
    if (head_dim <= 64)
        fn(mf_flash<64>());
    else if (head_dim <= 128)
        fn(mf_flash<128>());
    else
        fn(mf_flash<256>());
}

/* Whether rows of all heads can be moved by 16 bytes, and fit. */
static inline bool mf_can_flash(const mf_attention_args &p)
{
    const void *const all[] = {p.q, p.k, p.v, p.y, p.dy, p.dq, p.dk, p.dv};
    uintptr_t bits = 0;
    for (const void *one : all)
        bits |= (uintptr_t)one;
    return p.bf16 && bits % 16 == 0 && (p.ldq | p.ldk | p.ldv | p.head_dim) % 8 == 0 &&
           p.head_dim <= 256;
}

extern "C" void mf_cuda_attention(const mf_kctx *x, const mf_attention_args *p)
{
    if (p->batch * p->t * p->heads <= 0) return;
    if (!mf_can_flash(*p)) {
        mf_launch_attention(x, p);
        return;
    }
    mf_by_flash(p->head_dim, [&](auto flash) {
        typedef decltype(flash) F;
        MF_LAUNCH((mf_cu_attention_bf16<F::HD>),
                  dim3(mf_grid(p->t, MF_FLASH_ROWS).x, (unsigned)p->heads, mf_most_z(p->batch)),
                  dim3(MF_FLASH_THREADS), F::FORWARD, x, x->fault, *p);
    });
}

template <int HD, bool DK, bool DV>
static void mf_launch_flash_dkv(const mf_kctx *x, const mf_attention_args *p,
                                const float2 *ready)
{
    MF_LAUNCH((mf_cu_attention_bf16_dkv<HD, DK, DV>),
              dim3(mf_grid(p->s, MF_FLASH_ROWS).x, (unsigned)p->kv_heads, mf_most_z(p->batch)),
              dim3(MF_FLASH_THREADS), mf_flash<HD>::DKV, x, x->fault, *p, ready);
}

extern "C" void mf_cuda_attention_backward(const mf_kctx *x, const mf_attention_args *p)
{
    const int64_t queries = p->batch * p->t * p->heads;
    if (p->batch <= 0 || p->heads <= 0) return;
    float2 *ready = mf_can_flash(*p)
                        ? (float2 *)mf_cuda_scratch(x, (size_t)(queries + 1) * sizeof *ready)
                        : NULL;
    if (!ready) {
        mf_launch_attention_backward(x, p);
        return;
    }
    if (queries > 0)
        MF_LAUNCH(mf_cu_attention_ready, mf_grid(queries, MF_THREADS / MF_WARP),
                  dim3(MF_THREADS), 0, x, x->fault, *p, ready);
    mf_by_flash(p->head_dim, [&](auto flash) {
        typedef decltype(flash) F;
        if (p->dq && p->t > 0)
            MF_LAUNCH((mf_cu_attention_bf16_dq<F::HD>),
                      dim3(mf_grid(p->t, MF_FLASH_ROWS).x, (unsigned)p->heads,
                           mf_most_z(p->batch)),
                      dim3(MF_FLASH_THREADS), F::DQ, x, x->fault, *p, (const float2 *)ready);
        if (p->s <= 0 || !(p->dk || p->dv)) return;
        if constexpr (F::HD > 128) {
            if (p->dk) mf_launch_flash_dkv<F::HD, true, false>(x, p, ready);
            if (p->dv) mf_launch_flash_dkv<F::HD, false, true>(x, p, ready);
        } else {
            mf_launch_flash_dkv<F::HD, true, true>(x, p, ready);
        }
    });
}
