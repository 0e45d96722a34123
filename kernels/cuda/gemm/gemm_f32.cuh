/* gemm_f32.cuh: gemms of f32 whose rows begin at multiples of 16 bytes, without matrix
 * instructions: tiles of 128 x 128 for blocks of 256 threads, 8 x 8 elements a thread. A block
 * takes tiles in turn, and which rows a group has is read on the device, as in gemm_bf16.cuh.
 *
 * Shared memory holds two steps of 32 inner indices (gemm_feed.cuh): cp.async brings one while
 * the other is multiplied. Each read of it is 16 bytes a thread: four inner indices of a row or
 * column, or four rows or columns of an inner index, as the operand is stored. Sums follow the
 * inner index in chains, as in gemm.cuh. */
#pragma once
#include "gemm_tile.cuh"

constexpr int MF_STEP_F32 = 32, MF_CHAIN_STEPS = MF_CHAIN / MF_STEP_F32;
constexpr int MF_PANEL_F32 = MF_TILE_SIDE * MF_STEP_F32 * 4; /* bytes of an operand of a step */
constexpr int MF_STAGE_F32 = 2 * MF_PANEL_F32, MF_SHARED_F32 = 2 * MF_STAGE_F32;

/* Where thread t of 16 along an operand finds the first 16 bytes of a step. */
template <bool ALONG> MF_INLINE int mf_f32_lane(int t)
{
    return (ALONG ? t : t / 8) * 128 + t % 8 * 16;
}
/* Load i of 8 for four inner indices from 4 q on. ALONG: these of row (or column) i of a
 * thread's; else half i % 2 of a thread's rows, of inner index 4 q + i / 2. */
template <bool ALONG>
MF_INLINE void mf_f32_get(float v[4], const unsigned char *panel, int lane, int q, int i)
{
    const int row = 4 * q + i / 2;
    mf_get4((const float *)(panel + (ALONG ? (lane ^ q * 16) + i * 16 * 128
                                           : (lane ^ row % 8 * 16) + row * 512 + i % 2 * 256)),
            v);
}
/* Which row (or column) of a tile a thread's number i is. */
template <bool ALONG> MF_INLINE int mf_f32_place(int t, int i)
{
    return ALONG ? t + i * 16 : i / 4 * 64 + t * 4 + i % 4;
}

/* sum += this thread's rows of a and columns of b of a step. */
template <bool A_ALONG, bool B_ALONG>
MF_INLINE void mf_f32_step(const unsigned char *step, int get_a, int get_b, float (&sum)[8][8])
{
    MF_UNROLL_BY(1) /* two of them would need more registers than there are */
    for (int q = 0; q < MF_STEP_F32 / 4; q++) {
        float v[8][4];
        MF_UNROLL
        for (int i = 0; i < 8; i++)
            mf_f32_get<B_ALONG>(v[i], step + MF_PANEL_F32, get_b, q, i);
        auto of_b = [&](int l, int c) { return B_ALONG ? v[c][l] : v[l * 2 + c / 4][c % 4]; };
        MF_UNROLL
        for (int i = 0; i < 8; i++) {
            float u[4];
            mf_f32_get<A_ALONG>(u, step, get_a, q, i);
            MF_UNROLL
            for (int j = 0; j < 4; j++) {
                const int l = A_ALONG ? j : i / 2, r = A_ALONG ? i : i % 2 * 4 + j;
                MF_UNROLL
                for (int c = 0; c < 8; c++)
                    sum[r][c] = fmaf(u[j], of_b(l, c), sum[r][c]);
            }
        }
    }
}

/* A_ALONG, B_ALONG, LISTED, pairs: as in mf_cu_gemm_bf16. */
template <bool A_ALONG, bool B_ALONG, bool LISTED>
__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_gemm_f32(const mf_fault *fault, mf_gemm g, bool pairs)
{
    MF_SHARED_DYNAMIC(shared);
    /* A warp has 4 x 8 threads: what it reads at once lies in different banks. */
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int ty = warp / 2 * 4 + lane / 8, tx = warp % 2 * 8 + lane % 8;
    const int get_a = mf_f32_lane<A_ALONG>(ty), get_b = mf_f32_lane<B_ALONG>(tx);
    int64_t e = 0, before = 0;
    mf_gemm_part p;
    if (mf_failed(fault)) return;
    for (int64_t tile = blockIdx.x; mf_gemm_tile<MF_TILE_SIDE>(g, g.n, tile, &e, &before, &p);
         tile += gridDim.x) {
        const int steps = (int)((p.k1 - p.k0 + MF_STEP_F32 - 1) / MF_STEP_F32);
        mf_feed<A_ALONG, MF_THREADS, MF_TILE_SIDE, false, LISTED, false, float> a;
        mf_feed<B_ALONG, MF_THREADS, MF_TILE_SIDE, false, LISTED, false, float> b;
        a.begin(g.a, (const float *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const float *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, g.n, p.k0, p.k1);
        const int whole = a.whole() < b.whole() ? a.whole() : b.whole();
        float sum[8][8] = {}, total[8][8] = {};
        if (steps > 0) a.load(shared), b.load(shared + MF_PANEL_F32);
        int s = 0;
        auto multiply = [&]() {
            mf_copy_commit();
            mf_f32_step<A_ALONG, B_ALONG>(shared + s % 2 * MF_STAGE_F32, get_a, get_b, sum);
            if (s % MF_CHAIN_STEPS != MF_CHAIN_STEPS - 1) return;
            MF_UNROLL
            for (int i = 0; i < 8; i++)
                MF_UNROLL
            for (int j = 0; j < 8; j++)
                total[i][j] += sum[i][j], sum[i][j] = 0;
        };
        mf_copy_commit();
        for (; s + 1 < whole; s++) {
            mf_copy_wait<0>();
            __syncthreads(); /* all have copied this step, and multiplied the one before */
            unsigned char *next = shared + (s + 1) % 2 * MF_STAGE_F32;
            a.load_whole(next), b.load_whole(next + MF_PANEL_F32);
            multiply();
        }
        for (; s < steps; s++) {
            mf_copy_wait<0>();
            __syncthreads(); /* all have copied this step, too */
            unsigned char *next = shared + (s + 1) % 2 * MF_STAGE_F32;
            if (s + 1 < steps) a.load(next), b.load(next + MF_PANEL_F32);
            multiply();
        }
        mf_copy_wait<0>(); /* of a gemm without inner indices */
        __syncthreads();   /* the next tile's copies go where slower warps still read */
        MF_UNROLL
        for (int i = 0; i < 8; i++) {
            const int64_t r = p.i0 + mf_f32_place<A_ALONG>(ty, i);
            if (r >= p.i1) continue;
            MF_UNROLL
            for (int j = 0; j < 8; j++)
                sum[i][j] += total[i][j];
            MF_UNROLL
            for (int j = 0; j < 8; j += B_ALONG ? 1 : 2) {
                const int64_t c = p.j0 + mf_f32_place<B_ALONG>(tx, j);
                if (!B_ALONG)
                    mf_gemm_store2(g, p, r, c, pairs && c + 1 < g.n, sum[i] + j);
                else if (c < g.n)
                    mf_gemm_store(g, p, r, c, sum[i][j]);
            }
        }
    }
}

/* Whether the kernel above computes g. */
static inline bool mf_can_gemm_f32(const mf_gemm &g)
{
    return g.a.type == MF_CAST_F32 && g.b.type == MF_CAST_F32 && !g.as_bf16 &&
           mf_can_gemm_by_sixteen(g);
}

static inline void mf_launch_gemm_f32(const mf_kctx *x, const mf_gemm &g)
{
    mf_by_layout(g, [&](auto layout) {
        typedef decltype(layout) L;
        MF_LAUNCH((mf_cu_gemm_f32<L::A_ALONG, L::B_ALONG, L::LISTED>),
                  mf_gemm_grid(g, MF_TILE_SIDE, 1), dim3(MF_THREADS), MF_SHARED_F32, x,
                  x->fault, g, mf_stores_pairs(g));
    });
}
