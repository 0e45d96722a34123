/* gemm_bf16.cuh: gemms of bf16 by matrix instructions (mma.sync, compute capability 8.0 and
 * above), with sums in f32: tiles of 128 x 128 for blocks of 4 warps, 64 x 64 each. A block
 * takes tiles in turn; which rows a group has is read on the device.
 *
 * Shared memory holds MF_STAGES steps of 64 inner indices (gemm_feed.cuh), which cp.async
 * brings two steps before they are multiplied. ldmatrix transposes what has the inner index
 * along columns. A loop of its own goes through the steps whose copies need no checks. */
#pragma once
#include "gemm_tile.cuh"

constexpr int MF_STAGES = 3, MF_THREADS_BF16 = 128;
constexpr int MF_PANEL = MF_TILE_SIDE * MF_STEP * 2; /* bytes of one operand of a step */
constexpr int MF_STAGE = 2 * MF_PANEL, MF_SHARED_BF16 = MF_STAGES * MF_STAGE;

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

/* sum += the 64 rows of a and of b that a warp multiplies of a step. */
template <bool A_ALONG, bool B_ALONG>
MF_INLINE void mf_gemm_step(const unsigned char *step, int get_a, int get_b,
                            float (&sum)[4][8][4])
{
    MF_UNROLL
    for (int q = 0; q < MF_STEP / 16; q++) {
        uint32_t of_a[4][4], of_b[4][4];
        MF_UNROLL
        for (int i = 0; i < 4; i++)
            mf_fragment_get<A_ALONG>(of_a[i], step + mf_fragment_at<A_ALONG>(get_a, i, q));
        MF_UNROLL
        for (int j = 0; j < 4; j++)
            mf_fragment_get<B_ALONG>(of_b[j], step + mf_fragment_at<B_ALONG>(get_b, j, q));
        MF_UNROLL
        for (int i = 0; i < 4; i++) {
            MF_UNROLL
            for (int j = 0; j < 8; j++)
                mf_mma(sum[i][j], of_a[i], &of_b[j / 2][j % 2 * 2]);
        }
    }
}

/* A_ALONG, B_ALONG: the inner index runs along stored rows. LISTED: an operand of which it does
 * not may have a list of rows. pairs: of c, two elements can be moved at once. */
template <bool A_ALONG, bool B_ALONG, bool LISTED>
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
    for (int64_t tile = blockIdx.x; mf_gemm_tile<MF_TILE_SIDE>(g, g.n, tile, &e, &before, &p);
         tile += gridDim.x) {
        const int steps = (int)((p.k1 - p.k0 + MF_STEP - 1) / MF_STEP);
        mf_feed<A_ALONG, MF_THREADS_BF16, MF_TILE_SIDE, false, LISTED> a;
        mf_feed<B_ALONG, MF_THREADS_BF16, MF_TILE_SIDE, false, LISTED> b;
        a.begin(g.a, (const mf_bf16 *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const mf_bf16 *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, g.n, p.k0, p.k1);
        const int whole = a.whole() < b.whole() ? a.whole() : b.whole();
        float sum[4][8][4] = {};
        MF_UNROLL
        for (int s = 0; s < MF_STAGES - 1; s++) {
            if (s < steps)
                a.load(shared + s * MF_STAGE), b.load(shared + s * MF_STAGE + MF_PANEL);
            mf_copy_commit();
        }
        int s = 0, stage = 0, ahead = MF_STAGES - 1;
        auto multiply = [&]() {
            mf_copy_commit(); /* an empty group, too, so that the number of them is right */
            mf_gemm_step<A_ALONG, B_ALONG>(shared + stage * MF_STAGE, get_a, get_b, sum);
            stage = stage + 1 == MF_STAGES ? 0 : stage + 1;
            ahead = ahead + 1 == MF_STAGES ? 0 : ahead + 1;
        };
        for (; s + MF_STAGES - 1 < whole; s++) {
            mf_copy_wait<MF_STAGES - 2>();
            __syncthreads(); /* all have copied this step, and multiplied the one before */
            a.load_whole(shared + ahead * MF_STAGE);
            b.load_whole(shared + ahead * MF_STAGE + MF_PANEL);
            multiply();
        }
        for (; s < steps; s++) {
            mf_copy_wait<MF_STAGES - 2>();
            __syncthreads(); /* all have copied this step, too */
            if (s + MF_STAGES - 1 < steps) {
                a.load(shared + ahead * MF_STAGE);
                b.load(shared + ahead * MF_STAGE + MF_PANEL);
            }
            multiply();
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

/* Whether the kernel above computes g. */
static inline bool mf_can_gemm_bf16(const mf_gemm &g)
{
    return g.a.type == MF_CAST_BF16 && g.b.type == MF_CAST_BF16 && mf_can_gemm_by_sixteen(g);
}
static inline void mf_launch_gemm_bf16(const mf_kctx *x, const mf_gemm &g)
{
    mf_by_layout(g, [&](auto layout) {
        typedef decltype(layout) L;
        MF_LAUNCH((mf_cu_gemm_bf16<L::A_ALONG, L::B_ALONG, L::LISTED>),
                  mf_gemm_grid(g, MF_TILE_SIDE, 2), dim3(MF_THREADS_BF16), MF_SHARED_BF16, x,
                  x->fault, g, mf_stores_pairs(g));
    });
}
