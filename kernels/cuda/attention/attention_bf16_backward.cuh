/* attention_bf16_backward.cuh: gradients of attention of bf16 by matrix instructions, with the
 * tiles of attention_bf16.cuh. Weights are computed again from lse. Nothing is added
 * atomically: one kernel goes through keys for dq, one through queries for dk and dv, in rising
 * order. Before them a third one makes what both need of each query. */
#pragma once
#include "attention_bf16.cuh"

/* ---- queries ---- */

/* What backward needs of the queries of a tile: log2 of the sum of their weights, dlse -
 * <dy, y>, where the sums of their gradients begin, and their spans. */
template <int HD> struct alignas(16) mf_flash_of_queries {
    float lse[mf_flash<HD>::QUERIES], delta[mf_flash<HD>::QUERIES];
    mf_span span[mf_flash<HD>::QUERIES];
};

/* Where what is ready of query t is. Without sign: few instructions. */
MF_INLINE uint64_t mf_flash_ready_at(const mf_attention_args &p, int b, int h, int t)
{
    return mf_wide((unsigned)b * (unsigned)p.heads + (unsigned)h, (unsigned)p.t) + (unsigned)t;
}

/* A warp each query of a head: log2 of the sum of its weights, and dlse - <dy, y>. */
__global__ void __launch_bounds__(MF_THREADS, 5)
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
            const uint32_t u = *(const uint32_t *)(const void *)(y + c),
                           v = *(const uint32_t *)(const void *)(dy + c);
            sum = fmaf(mf_bf16_to_f32((mf_bf16)u), mf_bf16_to_f32((mf_bf16)v), sum);
            sum = fmaf(mf_bf16_to_f32((mf_bf16)(u >> 16)), mf_bf16_to_f32((mf_bf16)(v >> 16)),
                       sum);
        }
        sum = mf_warp<mf_add>(sum);
        const int h = (int)(at % p.heads), t = (int)(at / p.heads % p.t);
        const int b = (int)(at / p.heads / p.t);
        const float lse = p.lse[at]; /* a query without keys has no weight that needs it */
        if (lane == 0)
            ready[mf_flash_ready_at(p, b, h, t)] = make_float2(
                lse == -INFINITY ? 0 : lse * MF_LOG2_E, (p.dlse ? p.dlse[at] : 0) - sum);
    }
}

/* The weight of a key for a query, and the gradient of its score without the scale. w: the
 * score, -inf if it is hidden; ds: <dy, v> - <dy, y> + dlse. A score lies above lse only since
 * both are rounded, and counts as lse: the weight of a huge one would be infinite. */
MF_INLINE void mf_flash_gradient(float scale, float lse, float &w, float &ds)
{
    w = mf_exp2(mf_smaller(fmaf(scale, w, -lse), 0));
    ds *= w;
}

template <int HD>
MF_INLINE void mf_flash_dq(const mf_attention_args &p, const float2 *ready, int b, int h,
                           int t0, unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int KEYS = F::DQ_KEYS, TILE = KEYS * F::ROW;
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    const mf_sequence o = mf_sequence_of(p, b);
    const mf_flash_rows rows = mf_flash_rows_of(p, b * p.t, h);
    const mf_flash_rows keys = mf_flash_rows_of(p, b * p.s, h / (int)(p.heads / p.kv_heads));
    const int t1 = (int)(t0 + F::SIDE < p.t ? t0 + F::SIDE : p.t);
    const int last = t0 + r0 + 16 < t1 ? t0 + r0 + 16 : t1;
    const mf_reach all = mf_reach_of(p, o, t0, t1), mine = mf_reach_of(p, o, t0 + r0, last);
    const float scale = p.scale * MF_LOG2_E;
    unsigned char *dy = shared + F::SIDE * F::ROW, *tiles = dy + F::SIDE * F::ROW;
    float dq[1][HD / 8][4] = {};
    float2 of[2];
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        const int t = t0 + r0 + lane / 4 + half * 8;
        of[half] = t < t1 ? ready[mf_flash_ready_at(p, b, h, t)] : make_float2(0, 0);
    }
    mf_flash_load<HD, F::SIDE>(p.q, p.ldq, rows, t0, t1, shared);
    mf_flash_load<HD, F::SIDE>(p.dy, p.heads * p.head_dim, rows, t0, t1, dy);
    mf_copy_commit();
    int stage = 0, s0 = all.begin;
    /* Multiplies the tile of keys from s0 on; with two stages the next one is copied meanwhile.
     * WHOLE: all queries see all keys of both. */
    auto tile = [&](auto kind) {
        constexpr bool WHOLE = decltype(kind)::value;
        const int first = s0, next = s0 + KEYS, copied = F::STAGES == 1 ? first : next;
        const unsigned char *now = tiles + stage * 2 * TILE;
        unsigned char *to = tiles + (F::STAGES == 1 ? 0 : stage ^ 1) * 2 * TILE;
        s0 = next, stage ^= F::STAGES - 1;
        if (F::STAGES == 2) mf_copy_wait<0>();
        /* all have multiplied the tile before, and with two stages copied this one */
        __syncthreads();
        if (WHOLE || copied < all.end) {
            mf_flash_load<HD, KEYS, WHOLE>(p.k, p.ldk, keys, copied, all.end, to);
            mf_flash_load<HD, KEYS, WHOLE>(p.v, p.ldv, keys, copied, all.end, to + TILE);
            mf_copy_commit();
        }
        if (F::STAGES == 1) {
            mf_copy_wait<0>();
            __syncthreads(); /* all have copied this tile */
        }
        if (!WHOLE && !mf_reaches(mine, first, next)) return;
        float w[1][KEYS / 8][4] = {}, ds[1][KEYS / 8][4];
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            ds[0][j][0] = ds[0][j][1] = of[0].y;
            ds[0][j][2] = ds[0][j][3] = of[1].y;
        }
        mf_flash_scores<HD, 1, KEYS>(shared, r0, now, w);
        mf_flash_scores<HD, 1, KEYS>(dy, r0, now + TILE, ds);
        if (!WHOLE && (p.mask || !mf_reaches_all(mine, first, next)))
            mf_flash_hide<1, KEYS>(p, o, t0 + r0 + lane / 4, t1, first, w, ds);
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                mf_flash_gradient(scale, of[i / 2].x, w[0][j][i], ds[0][j][i]);
        }
        mf_flash_add<HD, 1, KEYS>(ds, now, dq);
    };
    if (F::STAGES == 2 && all.begin < all.end) {
        mf_flash_load<HD, KEYS>(p.k, p.ldk, keys, s0, all.end, tiles);
        mf_flash_load<HD, KEYS>(p.v, p.ldv, keys, s0, all.end, tiles + TILE);
        mf_copy_commit();
    }
    while (s0 < all.end) {
        while (!p.mask && s0 >= all.whole_begin && s0 + F::STAGES * KEYS <= all.whole_end)
            tile(mf_bool<true>());
        if (F::STAGES == 2 || s0 < all.end) tile(mf_bool<false>());
    }
    mf_copy_wait<0>(); /* also if there was no key */
    __syncthreads();
    mf_flash_store<HD>(dq[0], p.scale, p.scale, p.dq, p.ldq, rows, r0, t0, t1, shared);
}

/* The first of from .. to - 1 for which `holds`, as it does for all behind it; else to. */
template <class F> MF_INLINE int mf_first(int from, int to, F holds)
{
    while (from < to) {
        const int middle = (from + to) / 2;
        if (holds(middle))
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* Queries *from .. *to - 1 are those that may see one of the keys s0 .. s1 - 1. */
MF_INLINE void mf_queries_of(const mf_attention_args &p, const mf_sequence &o, int s0, int s1,
                             int *from, int *to)
{
    const int shift = o.length - (int)p.t, low = p.causal ? s0 - shift : 0;
    const int64_t high = s1 - shift - 1 + p.window;
    *from = low > p.t ? (int)p.t : low > 0 ? low : 0;
    *to = p.window == 0 || high > p.t ? (int)p.t : high > 0 ? (int)high : 0;
    if (s0 >= o.length) *to = *from;
    const int64_t first = o.b * p.t;
    if (p.reach)
        *from = mf_first(*from, *to, [&](int t) { return p.reach[first + t] >= s0; });
    if (p.since) *to = mf_first(*from, *to, [&](int t) { return p.since[first + t] >= s1; });
}

/* Of queries *from .. *to - 1 those that see all of the keys s0 .. s1 - 1, but for a mask: a
 * span begins at s0 or before, and does not end before s1. */
MF_INLINE void mf_whole_queries(const mf_attention_args &p, const mf_sequence &o, int s0,
                                int s1, int *from, int *to)
{
    *from = mf_first(*from, *to, [&](int t) {
        const mf_span s = mf_span_of(p, o, t);
        return s.first + s.count >= s1;
    });
    *to = mf_first(*from, *to, [&](int t) { return mf_span_of(p, o, t).first > s0; });
}

/* Starts to copy a tile of queries of head h, their gradients and what is ready of them.
 * Queries behind the last one, whose rows are zeros, have its span, so spans never fall. WHOLE:
 * all queries are there, and nobody reads their spans. */
template <int HD, bool WHOLE>
MF_INLINE void mf_flash_queries(const mf_attention_args &p, const mf_sequence &o, int h,
                                const float2 *ready, int t0, int t1, unsigned char *q,
                                unsigned char *dy, mf_flash_of_queries<HD> *of)
{
    constexpr int QUERIES = mf_flash<HD>::QUERIES;
    const mf_flash_rows rows = mf_flash_rows_of(p, o.b * p.t, h);
    const int t = t0 + (int)threadIdx.x;
    mf_flash_load<HD, QUERIES, WHOLE>(p.q, p.ldq, rows, t0, t1, q);
    mf_flash_load<HD, QUERIES, WHOLE>(p.dy, p.heads * p.head_dim, rows, t0, t1, dy);
    mf_copy_commit();
    if (t >= t0 + QUERIES) return;
    const float2 own =
        WHOLE || t < t1 ? ready[mf_flash_ready_at(p, o.b, h, t)] : make_float2(0, 0);
    of->lse[t - t0] = own.x, of->delta[t - t0] = own.y;
    if (!WHOLE) of->span[t - t0] = mf_span_of(p, o, t < t1 ? t : t1 - 1);
}

/* DK, DV: which of them; both have too many sums for wide heads. */
template <int HD, bool DK, bool DV>
MF_INLINE void mf_flash_dkv(const mf_attention_args &p, const float2 *ready, int b, int kv_head,
                            int s0, unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int QUERIES = F::QUERIES, TILE = QUERIES * F::ROW;
    /* Sums of ds begin at delta; for wide heads registers do not suffice, and it is added. */
    constexpr bool BEGIN = DK && HD <= 128;
    const int lane = (int)threadIdx.x % MF_WARP, r0 = (int)threadIdx.x / MF_WARP * 16;
    const int share = (int)(p.heads / p.kv_heads);
    const int s1 = (int)(s0 + F::SIDE < p.s ? s0 + F::SIDE : p.s);
    const float scale = p.scale * MF_LOG2_E;
    unsigned char *v = shared + F::SIDE * F::ROW, *tiles = v + F::SIDE * F::ROW;
    typedef mf_flash_of_queries<HD> of_queries;
    of_queries *queries = (of_queries *)(void *)(tiles + F::STAGES * 2 * TILE);
    const mf_sequence o = mf_sequence_of(p, b);
    const mf_flash_rows rows = mf_flash_rows_of(p, b * p.s, kv_head);
    float dk[1][DK ? HD / 8 : 1][4] = {}, dv[1][DV ? HD / 8 : 1][4] = {};
    int key[2], from, to;
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        const int s = s0 + r0 + lane / 4 + half * 8; /* -1 is in no span */
        key[half] = s < s1 && !(p.mask && mf_masks(p, o, s)) ? s : -1;
    }
    mf_queries_of(p, o, s0, s1, &from, &to);
    mf_flash_load<HD, F::SIDE>(p.k, p.ldk, rows, s0, s1, shared);
    mf_flash_load<HD, F::SIDE>(p.v, p.ldv, rows, s0, s1, v);
    mf_copy_commit();
    int whole_from = from, whole_to = to, stage = 0, t0 = from;
    if (p.mask)
        whole_to = whole_from;
    else
        mf_whole_queries(p, o, s0, s1, &whole_from, &whole_to);
    auto sees_all = [&](int at) { return at >= whole_from && at + QUERIES <= whole_to; };
    int next_t0 = from, next_head = kv_head * share;            /* of the tile to copy next */
    auto now = [&]() { return F::STAGES == 1 ? next_t0 : t0; }; /* of the one to multiply */
    int left = from < to ? (to - from + QUERIES - 1) / QUERIES * share : 0;
    auto copy = [&](auto kind, int place) {
        unsigned char *there = tiles + place * 2 * TILE;
        mf_flash_queries<HD, decltype(kind)::value>(p, o, next_head, ready, next_t0, to, there,
                                                    there + TILE, queries + place);
        next_t0 += QUERIES;
        if (next_t0 >= to) next_t0 = from, next_head++;
    };
    /* Multiplies a tile of queries; with two stages the next one is copied meanwhile. WHOLE: in
     * both, all queries see all keys. */
    auto tile = [&](auto kind) {
        constexpr bool WHOLE = decltype(kind)::value;
        const bool whole = WHOLE || sees_all(now());
        const unsigned char *q = tiles + stage * 2 * TILE, *dy = q + TILE;
        const of_queries &of = queries[stage];
        left--, t0 += QUERIES, stage ^= F::STAGES - 1;
        if (t0 >= to) t0 = from;
        if (F::STAGES == 2) mf_copy_wait<0>();
        /* all have multiplied the tile before, and with two stages copied this one */
        __syncthreads();
        if (WHOLE || F::STAGES == 1 || left > 0) copy(kind, F::STAGES == 1 ? 0 : stage);
        if (F::STAGES == 1) {
            mf_copy_wait<0>();
            __syncthreads(); /* all have copied this tile */
        }
        if (!WHOLE && !whole) {
            const mf_reach reach = mf_reach_of(of.span[0], of.span[QUERIES - 1]);
            if (!mf_reaches(reach, s0 + r0, s0 + r0 + 16)) return;
        }
        float w[1][QUERIES / 8][4] = {}, ds[1][QUERIES / 8][4] = {};
        mf_flash_scores<HD, 1, QUERIES>(shared, r0, q, w);
        MF_UNROLL
        for (int j = 0; BEGIN && j < QUERIES / 8; j++) {
            const float *first = of.delta + j * 8 + lane % 4 * 2;
            ds[0][j][0] = ds[0][j][2] = first[0];
            ds[0][j][1] = ds[0][j][3] = first[1];
        }
        if (DK) mf_flash_scores<HD, 1, QUERIES>(v, r0, dy, ds);
        MF_UNROLL
        for (int j = 0; j < QUERIES / 8; j++) {
            MF_UNROLL
            for (int c = 0; c < 2; c++) {
                const int at = j * 8 + lane % 4 * 2 + c;
                const float lse = of.lse[at];
                MF_UNROLL
                for (int i = c; i < 4; i += 2) {
                    if (DK && !BEGIN) ds[0][j][i] += of.delta[at];
                    if (!WHOLE && !whole && !mf_in_span(of.span[at], key[i / 2]))
                        w[0][j][i] = -INFINITY, ds[0][j][i] = 0;
                    mf_flash_gradient(scale, lse, w[0][j][i], ds[0][j][i]);
                }
            }
        }
        if constexpr (DV) mf_flash_add<HD, 1, QUERIES>(w, dy, dv);
        if constexpr (DK) mf_flash_add<HD, 1, QUERIES>(ds, q, dk);
    };
    if (F::STAGES == 2 && left > 0) copy(mf_bool<false>(), 0);
    while (left > 0) {
        while (left >= F::STAGES && sees_all(now()) && sees_all(next_t0))
            tile(mf_bool<true>());
        if (left > 0) tile(mf_bool<false>());
    }
    mf_copy_wait<0>(); /* also if there was no query */
    __syncthreads();
    if (DK && p.dk)
        mf_flash_store<HD>(dk[0], p.scale, p.scale, p.dk, p.ldk, rows, r0, s0, s1, shared);
    if (DV && p.dv) mf_flash_store<HD>(dv[0], 1, 1, p.dv, p.ldv, rows, r0, s0, s1, v);
}

/* ---- kernels ---- */

template <int HD>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16_dq(const mf_fault *fault, mf_attention_args p, const float2 *ready)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    const int tiles = mf_flash_tiles(p.t, mf_flash<HD>::SIDE);
    int b;
    const int tile = tiles - 1 - mf_flash_tile(tiles, &b);
    mf_flash_dq<HD>(p, ready, b, (int)blockIdx.y, tile * mf_flash<HD>::SIDE, shared);
}
template <int HD, bool DK, bool DV>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16_dkv(const mf_fault *fault, mf_attention_args p, const float2 *ready)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    int b;
    const int tile = mf_flash_tile(mf_flash_tiles(p.s, mf_flash<HD>::SIDE), &b);
    mf_flash_dkv<HD, DK, DV>(p, ready, b, (int)blockIdx.y, tile * mf_flash<HD>::SIDE, shared);
}

/* ---- launches ---- */

template <int HD, bool DK, bool DV>
static void mf_launch_flash_dkv(const mf_kctx *x, const mf_attention_args *p,
                                const float2 *ready)
{
    typedef mf_flash<HD> F;
    MF_LAUNCH((mf_cu_attention_bf16_dkv<HD, DK, DV>),
              mf_flash_grid(p->batch, p->s, F::SIDE, p->kv_heads), dim3(MF_FLASH_THREADS),
              F::DKV, x, x->fault, *p, ready);
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
                      mf_flash_grid(p->batch, p->t, F::SIDE, p->heads), dim3(MF_FLASH_THREADS),
                      F::DQ, x, x->fault, *p, (const float2 *)ready);
        if (p->s <= 0 || !(p->dk || p->dv)) return;
        if constexpr (F::HD > 128) {
            if (p->dk) mf_launch_flash_dkv<F::HD, true, false>(x, p, ready);
            if (p->dv) mf_launch_flash_dkv<F::HD, false, true>(x, p, ready);
        } else {
            mf_launch_flash_dkv<F::HD, true, true>(x, p, ready);
        }
    });
}
