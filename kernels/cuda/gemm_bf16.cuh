/* gemm_bf16.cuh: gemms of bf16 by matrix instructions (mma.sync, compute capability 8.0 and
 * above), with sums in f32: tiles of 128 x 128 for blocks of 4 warps, 64 x 64 each. A block
 * takes tiles in turn; which rows a group has is read on the device.
 *
 * Shared memory holds MF_STAGES steps of 64 inner indices, which cp.async brings two steps
 * before they are multiplied; that is where rows are gathered. In either direction an operand
 * is copied as it is stored, 16 bytes at a time, and ldmatrix transposes what has the inner
 * index along columns. Of a row, the 16 bytes of place p lie at place p ^ row % 8, so that
 * neither copies nor ldmatrix need a bank twice. */
#pragma once
#include "gemm.cuh"

constexpr int MF_SIDE_BF16 = 128, MF_STEP = 64, MF_STAGES = 3, MF_THREADS_BF16 = 128;
constexpr int MF_PANEL = MF_SIDE_BF16 * MF_STEP * 2; /* bytes of one operand of a step */
constexpr int MF_STAGE = 2 * MF_PANEL, MF_SHARED_BF16 = MF_STAGES * MF_STAGE;
constexpr int MF_COPIES = MF_PANEL / 16 / MF_THREADS_BF16; /* of a thread, an operand a step */
/* Bytes between the rows that one thread copies, and between fragments of 16 rows. */
constexpr int MF_PANEL_STEP = MF_PANEL / MF_COPIES;

/* What a thread copies of one operand. ALONG: the inner index runs along stored rows, so that
 * a tile is 128 rows of 64 elements; else it is 64 rows of 128 elements. */
template <bool ALONG> struct mf_feed;

template <> struct mf_feed<true> {
    const mf_bf16 *from[MF_COPIES];
    int64_t left;   /* inner indices from this thread's first one on */
    unsigned there; /* bit i: row i is one */
    int to;

    MF_METHOD void begin(const mf_gemm_operand &o, const mf_bf16 *data, int64_t first,
                         int64_t end, int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % 8, row = (int)threadIdx.x / 8;
        to = row * 128 + (place ^ row % 8) * 16;
        left = k1 - k0 - place * 8;
        there = 0;
        MF_UNROLL
        for (int i = 0; i < MF_COPIES; i++) {
            int64_t r = first + row + MF_THREADS_BF16 / 8 * i;
            r = r < end ? o.row ? o.row[r] : r : -1;
            from[i] = data + (r < 0 ? 0 : r) * o.ld + k0 + place * 8;
            there |= (unsigned)(r >= 0) << i;
        }
    }
    MF_METHOD void load(unsigned char *panel)
    {
        const int bytes = left <= 0 ? 0 : left < 8 ? (int)left * 2 : 16;
        MF_UNROLL
        for (int i = 0; i < MF_COPIES; i++) {
            mf_copy16(panel + to + i * MF_PANEL_STEP, from[i], there >> i & 1 ? bytes : 0);
            from[i] += MF_STEP;
        }
        left -= MF_STEP;
    }
};

template <> struct mf_feed<false> {
    const mf_bf16 *from;
    const int32_t *list;
    int64_t ld, k, end;
    int bytes, to;
    int32_t row; /* of a list, for lane l: the row of copy l / 2 of half l % 2 of the warp */

    MF_METHOD void begin(const mf_gemm_operand &o, const mf_bf16 *data, int64_t first,
                         int64_t last, int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % 16, r = (int)threadIdx.x / 16;
        const int64_t here = last - first - place * 8;
        to = r * 256 + (place ^ r) * 16;
        bytes = here <= 0 ? 0 : here < 8 ? (int)here * 2 : 16;
        from = bytes > 0 ? data + first + place * 8 : data;
        list = o.row, ld = o.ld, k = k0, end = k1;
        look();
    }
    /* Reads the list one step before its rows are copied. */
    MF_METHOD void look()
    {
        const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
        const int64_t at = k + warp * 2 + lane % 2 + lane / 2 * (MF_THREADS_BF16 / 16);
        if (list) row = lane < 2 * MF_COPIES && at < end ? list[at] : -1;
    }
    MF_METHOD void load(unsigned char *panel)
    {
        const int half = (int)threadIdx.x % MF_WARP / 16;
        MF_UNROLL
        for (int i = 0; i < MF_COPIES; i++) {
            const int64_t at = k + (int)threadIdx.x / 16 + MF_THREADS_BF16 / 16 * i;
            int64_t r = at < end ? at : -1;
            if (list) r = __shfl_sync(MF_ALL_LANES, row, half + 2 * i);
            mf_copy16(panel + to + i * MF_PANEL_STEP, from + (r < 0 ? 0 : r) * ld,
                      r < 0 ? 0 : bytes);
        }
        k += MF_STEP;
        look();
    }
};

/* Where a lane's row of ldmatrix is: for a warp's fragment 0 of inner indices 0 .. 15. SPLIT:
 * which of the lane's bits selects the second 8 rows of the fragment; the other one selects the
 * second 8 inner indices. */
template <bool ALONG> MF_INLINE int mf_fragment(int first, int split)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int outer = lane / split % 2, inner = lane / (24 - split) % 2, row = lane % 8;
    if (ALONG) return (first + outer * 8 + row) * 128 + (inner ^ row) * 16;
    return (inner * 8 + row) * 256 + (first / 8 + (outer ^ row)) * 16;
}
/* The same for fragment i of inner indices 16 q .. 16 q + 15. */
template <bool ALONG> MF_INLINE int mf_fragment_at(int lane, int i, int q)
{
    return ALONG ? i * 2048 + (lane ^ q * 32) : q * 4096 + (lane ^ i * 32);
}
template <bool ALONG> MF_INLINE void mf_fragment_get(uint32_t r[4], const unsigned char *at)
{
    if (ALONG)
        mf_ldmatrix(r, at);
    else
        mf_ldmatrix_trans(r, at);
}

/* Tile number `at`, of 128 rows and WIDE of n columns; *e and *before: a group, and the number
 * of tiles of those before it, from which a search by rows goes on. */
template <int WIDE>
MF_INLINE bool mf_gemm_tile(const mf_gemm &g, int64_t n, int64_t at, int64_t *e,
                            int64_t *before, mf_gemm_part *p)
{
    const int64_t wide = (n + WIDE - 1) / WIDE;
    p->k0 = 0, p->k1 = g.k;
    if (g.by != MF_BY_ROWS) {
        const int64_t high = (g.m + MF_SIDE_BF16 - 1) / MF_SIDE_BF16;
        p->group = at / (high * wide);
        if (p->group >= g.groups) return false;
        p->i0 = at % (high * wide) / wide * MF_SIDE_BF16, p->i1 = g.m;
        p->j0 = at % wide * WIDE;
        if (g.by == MF_BY_INNER) p->k0 = g.offset[p->group], p->k1 = g.offset[p->group + 1];
        return true;
    }
    for (; *e < g.groups; ++*e) {
        const int64_t first = g.offset[*e], end = g.offset[*e + 1];
        const int64_t here = (end - first + MF_SIDE_BF16 - 1) / MF_SIDE_BF16 * wide;
        if (at < *before + here) {
            p->group = *e;
            p->i0 = first + (at - *before) / wide * MF_SIDE_BF16, p->i1 = end;
            p->j0 = (at - *before) % wide * WIDE;
            return true;
        }
        *before += here;
    }
    return false;
}

/* Elements j and j + 1 of row i of c; both: both are in it, and can be moved at once. */
MF_INLINE void mf_gemm_store2(const mf_gemm &g, const mf_gemm_part &p, int64_t i, int64_t j,
                              bool both, const float sum[2])
{
    if (!both) {
        if (j < g.n) mf_gemm_store(g, p, i, j, sum[0]);
        if (j + 1 < g.n) mf_gemm_store(g, p, i, j + 1, sum[1]);
        return;
    }
    const int64_t at = (g.by == MF_BY_ROWS ? 0 : p.group * g.c.step) + i * g.c.ld + j;
    float v[2] = {g.alpha * sum[0], g.alpha * sum[1]};
    if (g.bias) {
        const float *bias = g.bias + p.group * g.step_bias + j;
        v[0] += bias[0], v[1] += bias[1];
    }
    if (g.c.type == MF_CAST_BF16) {
        uint32_t *c = (uint32_t *)((mf_bf16 *)g.c.data + at);
        if (g.beta != 0)
            v[0] += mf_bf16_to_f32((mf_bf16)*c), v[1] += mf_bf16_to_f32((mf_bf16)(*c >> 16));
        *c = mf_pair(v[0], v[1]);
    } else {
        float *c = (float *)g.c.data + at;
        if (g.beta != 0) {
            float old[2];
            mf_get2(c, old);
            v[0] += old[0], v[1] += old[1];
        }
        mf_put2(c, v);
    }
}

/* A_ALONG, B_ALONG: the inner index runs along stored rows. pairs: of c, two elements can be
 * moved at once. */
template <bool A_ALONG, bool B_ALONG>
__global__ void __launch_bounds__(MF_THREADS_BF16, 2)
    mf_cu_gemm_bf16(const mf_fault *fault, mf_gemm g, bool pairs)
{
    MF_SHARED_DYNAMIC(shared);
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int get_a = mf_fragment<A_ALONG>(warp % 2 * 64, 8);
    const int get_b = mf_fragment<B_ALONG>(warp / 2 * 64, 16) + MF_PANEL;
    int64_t e = 0, before = 0;
    mf_gemm_part p;
    if (mf_failed(fault)) return;
    for (int64_t tile = blockIdx.x; mf_gemm_tile<MF_SIDE_BF16>(g, g.n, tile, &e, &before, &p);
         tile += gridDim.x) {
        const int steps = (int)((p.k1 - p.k0 + MF_STEP - 1) / MF_STEP);
        mf_feed<A_ALONG> a;
        mf_feed<B_ALONG> b;
        a.begin(g.a, (const mf_bf16 *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const mf_bf16 *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, g.n, p.k0, p.k1);
        float sum[4][8][4] = {};
        MF_UNROLL
        for (int s = 0; s < MF_STAGES - 1; s++) {
            if (s < steps)
                a.load(shared + s * MF_STAGE), b.load(shared + s * MF_STAGE + MF_PANEL);
            mf_copy_commit();
        }
        int stage = 0, ahead = MF_STAGES - 1;
        for (int s = 0; s < steps; s++) {
            mf_copy_wait<MF_STAGES - 2>();
            __syncthreads(); /* all have copied this step, and multiplied the one before */
            if (s + MF_STAGES - 1 < steps) {
                a.load(shared + ahead * MF_STAGE);
                b.load(shared + ahead * MF_STAGE + MF_PANEL);
            }
            mf_copy_commit(); /* an empty one, too, so that the count above is right */
            const unsigned char *now = shared + stage * MF_STAGE;
            MF_UNROLL
            for (int q = 0; q < MF_STEP / 16; q++) {
                uint32_t of_a[4][4], of_b[4][4];
                MF_UNROLL
                for (int i = 0; i < 4; i++)
                    mf_fragment_get<A_ALONG>(of_a[i],
                                             now + mf_fragment_at<A_ALONG>(get_a, i, q));
                MF_UNROLL
                for (int j = 0; j < 4; j++)
                    mf_fragment_get<B_ALONG>(of_b[j],
                                             now + mf_fragment_at<B_ALONG>(get_b, j, q));
                MF_UNROLL
                for (int i = 0; i < 4; i++) {
                    MF_UNROLL
                    for (int j = 0; j < 8; j++)
                        mf_mma(sum[i][j], of_a[i], &of_b[j / 2][j % 2 * 2]);
                }
            }
            stage = stage + 1 == MF_STAGES ? 0 : stage + 1;
            ahead = ahead + 1 == MF_STAGES ? 0 : ahead + 1;
        }
        mf_copy_wait<0>();
        __syncthreads(); /* the next tile's copies go where slower warps still read */
        MF_UNROLL
        for (int i = 0; i < 8; i++) {
            const int64_t r = p.i0 + warp % 2 * 64 + i * 8 + lane / 4;
            if (r >= p.i1) continue;
            MF_UNROLL
            for (int j = 0; j < 8; j++) {
                const int64_t c = p.j0 + warp / 2 * 64 + j * 8 + lane % 4 * 2;
                mf_gemm_store2(g, p, r, c, pairs && c + 1 < g.n, sum[i / 2][j] + i % 2 * 2);
            }
        }
    }
}

/* ---- launches ---- */

/* Whether 16 bytes of each stored row of o can be moved at once, wherever its groups begin. */
static inline bool mf_by_sixteen(const mf_gemm_operand &o)
{
    return o.type == MF_CAST_BF16 && (uintptr_t)o.data % 16 == 0 && o.ld % 8 == 0 &&
           o.step % 8 == 0;
}
/* Whether the kernel above computes g: groups of rows or of inner indices begin anywhere, so
 * they must not run along stored rows. */
static inline bool mf_can_gemm_bf16(const mf_gemm &g)
{
    if (!mf_by_sixteen(g.a) || !mf_by_sixteen(g.b) || g.m > INT32_MAX || g.n > INT32_MAX)
        return false;
    return g.by == MF_BY_BATCH || (g.by == MF_BY_ROWS ? !g.a.trans : g.a.trans && !g.b.trans);
}

static inline void mf_launch_gemm_bf16(const mf_kctx *x, const mf_gemm &g)
{
    const int64_t high = (g.m + MF_SIDE_BF16 - 1) / MF_SIDE_BF16;
    const int64_t wide = (g.n + MF_SIDE_BF16 - 1) / MF_SIDE_BF16;
    const int64_t tiles = (g.by == MF_BY_ROWS ? high + g.groups : high * g.groups) * wide;
    const int64_t most = 2 * (int64_t)mf_cuda_processors;
    const dim3 grid((unsigned)(tiles < most ? tiles : most)), block(MF_THREADS_BF16);
    const bool pairs = (uintptr_t)g.c.data % (2 * (uintptr_t)mf_cast_size(g.c.type)) == 0 &&
                       g.c.ld % 2 == 0 && g.c.step % 2 == 0;
#define MF_LAUNCH_BF16(a, b)                                                                   \
    MF_LAUNCH((mf_cu_gemm_bf16<a, b>), grid, block, MF_SHARED_BF16, x, x->fault, g, pairs)
    if (!g.a.trans && g.b.trans)
        MF_LAUNCH_BF16(true, true);
    else if (!g.a.trans)
        MF_LAUNCH_BF16(true, false);
    else if (g.b.trans)
        MF_LAUNCH_BF16(false, true);
    else
        MF_LAUNCH_BF16(false, false);
#undef MF_LAUNCH_BF16
}
