/* gemm_few.cuh: gemms of bf16 with a few rows, as when one token follows another: each element
 * of b is read once for four rows, so what counts is how much of b is under way. A warp has two
 * columns of c, of which it reads all inner indices, 16 bytes a lane; its lanes' sums are
 * added in a fixed order. By rows, a block has the group whose first row it got. */
#pragma once
#include "gemm_tile.cuh"
#include "kernels/cuda/swiglu.cuh"

constexpr int MF_MOST_FEW = 16, MF_THREADS_FEW = 128, MF_FEW_ROWS = 4;
constexpr int MF_FEW_STEP = 8 * MF_WARP; /* inner indices that a warp loads at once */

template <int N> struct mf_few_deep {
    static constexpr int value = N;
};

/* sum plus the eight pairs of two vectors of bf16, each multiplied. */
MF_INLINE float mf_gemm_few_dot(const uint4 &a, const uint4 &b, float sum)
{
    const uint32_t u[4] = {a.x, a.y, a.z, a.w}, v[4] = {b.x, b.y, b.z, b.w};
    MF_UNROLL
    for (int i = 0; i < 4; i++) {
        sum = fmaf(mf_bf16_to_f32((mf_bf16)u[i]), mf_bf16_to_f32((mf_bf16)v[i]), sum);
        sum = fmaf(mf_bf16_to_f32((mf_bf16)(u[i] >> 16)), mf_bf16_to_f32((mf_bf16)(v[i] >> 16)),
                   sum);
    }
    return sum;
}
MF_INLINE uint4 mf_gemm_few_get(const mf_bf16 *p)
{
    MF_ALIGNED(p, 16);
    return *(const uint4 *)(const void *)p;
}

/* Rows i .. i + rows - 1, at most ROWS, of two columns j[0] and j[1]. */
template <int ROWS, bool SWIGLU>
MF_INLINE void mf_gemm_few_part(const mf_gemm &g, const mf_gemm_part &p, int64_t i, int rows,
                                const int64_t j[2])
{
    const int lane = (int)threadIdx.x % MF_WARP, k = (int)g.k;
    const mf_bf16 *a[ROWS], *b[2];
    float sum[ROWS][2] = {};
    MF_UNROLL
    for (int r = 0; r < ROWS; r++) { /* a row that there is not: no sum of it is written */
        int64_t from = r < rows ? i + r : i;
        if (g.a.row) from = g.a.row[from];
        a[r] = from < 0 ? NULL : (const mf_bf16 *)g.a.data + from * g.a.ld;
    }
    MF_UNROLL
    for (int c = 0; c < 2; c++)
        b[c] = (const mf_bf16 *)g.b.data + p.group * g.b.step + j[c] * g.b.ld;
    /* `deep` loads of each column are under way at once. */
    auto add = [&](int at, auto deep) {
        constexpr int N = decltype(deep)::value;
        uint4 v[N][2];
        MF_UNROLL
        for (int d = 0; d < N; d++) {
            v[d][0] = mf_gemm_few_get(b[0] + at + d * MF_FEW_STEP);
            v[d][1] = mf_gemm_few_get(b[1] + at + d * MF_FEW_STEP);
        }
        MF_UNROLL
        for (int d = 0; d < N; d++) {
            MF_UNROLL
            for (int r = 0; r < ROWS; r++) {
                uint4 u = {0, 0, 0, 0};
                if (a[r]) u = mf_gemm_few_get(a[r] + at + d * MF_FEW_STEP);
                sum[r][0] = mf_gemm_few_dot(u, v[d][0], sum[r][0]);
                sum[r][1] = mf_gemm_few_dot(u, v[d][1], sum[r][1]);
            }
        }
    };
    constexpr int DEEP = ROWS == 1 ? 4 : 2;
    int each = lane * 8;
    MF_UNROLL_BY(1)
    for (; each + (DEEP - 1) * MF_FEW_STEP + 8 <= k; each += DEEP * MF_FEW_STEP)
        add(each, mf_few_deep<DEEP>());
    MF_UNROLL_BY(1)
    for (; each + 8 <= k; each += MF_FEW_STEP)
        add(each, mf_few_deep<1>());
    const int at = k / 8 * 8 + lane;
    MF_UNROLL
    for (int r = 0; r < ROWS; r++) {
        MF_UNROLL
        for (int c = 0; c < 2; c++) {
            if (a[r] && at < k)
                sum[r][c] = fmaf(mf_get(a[r] + at), mf_get(b[c] + at), sum[r][c]);
            sum[r][c] = mf_warp<mf_add>(sum[r][c]);
        }
    }
    MF_UNROLL
    for (int r = 0; r < ROWS; r++) {
        if (lane != r || r >= rows) continue;
        if constexpr (SWIGLU) {
            float half[2];
            MF_UNROLL
            for (int c = 0; c < 2; c++) {
                float v = g.alpha * sum[r][c];
                if (g.bias) v += g.bias[p.group * g.step_bias + j[c]];
                const mf_bf16 bits = mf_bf16_from_f32(v);
                half[c] = mf_bf16_to_f32(bits);
                if (g.keep) ((mf_bf16 *)g.c.data)[(i + r) * g.c.ld + j[c]] = bits;
            }
            const float share = g.gate ? g.gate[i + r] : 1;
            mf_put((mf_bf16 *)g.y.data + (i + r) * g.y.ld + j[0],
                   mf_swiglu_near(half[0], half[1], share));
        } else {
            mf_gemm_store(g, p, i + r, j[0], sum[r][0]);
            if (j[1] != j[0]) mf_gemm_store(g, p, i + r, j[1], sum[r][1]);
        }
    }
}

template <bool SWIGLU>
__global__ void __launch_bounds__(MF_THREADS_FEW, 5)
    mf_cu_gemm_few(const mf_fault *fault, mf_gemm g)
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int64_t i = blockIdx.y, at = (int64_t)blockIdx.x * (MF_THREADS_FEW / MF_WARP) + warp;
    mf_gemm_part p = {};
    if (mf_failed(fault)) return;
    p.i1 = g.m;
    if (g.by == MF_BY_ROWS) {
        for (int64_t e = 0; e < g.groups; e += MF_WARP) {
            const bool before = e + lane < g.groups && g.offset[e + lane + 1] <= i;
            p.group += __popc(__ballot_sync(MF_ALL_LANES, before));
        }
        if (p.group >= g.groups) return;
        p.i0 = g.offset[p.group], p.i1 = g.offset[p.group + 1];
    }
    const int64_t columns = SWIGLU ? g.n / 2 : (g.n + 1) / 2;
    if (i != p.i0 || at >= columns) return; /* the first row's block has the group */
    const int64_t last = 2 * at + 1 < g.n ? 2 * at + 1 : 2 * at;
    const int64_t j[2] = {SWIGLU ? at : 2 * at, SWIGLU ? columns + at : last};
    if (p.i1 - p.i0 == 1) {
        mf_gemm_few_part<1, SWIGLU>(g, p, i, 1, j);
        return;
    }
    for (int64_t r = p.i0; r < p.i1; r += MF_FEW_ROWS)
        mf_gemm_few_part<MF_FEW_ROWS, SWIGLU>(g, p, r, (int)(p.i1 - r), j);
}

/* Whether the kernel above computes g: of rows of one matrix, not of a batch of them. */
static inline bool mf_can_gemm_few(const mf_gemm &g)
{
    const bool one = g.by == MF_BY_ROWS || (g.by == MF_BY_BATCH && g.groups == 1);
    return one && g.m <= MF_MOST_FEW && g.a.type == MF_CAST_BF16 && g.b.type == MF_CAST_BF16 &&
           !g.a.trans && g.b.trans && !g.b.row && mf_can_gemm_by_sixteen(g);
}
static inline void mf_launch_gemm_few(const mf_kctx *x, const mf_gemm &g)
{
    const bool swiglu = g.epilogue == MF_EPILOGUE_SWIGLU;
    dim3 grid = mf_grid(swiglu ? g.n / 2 : (g.n + 1) / 2, MF_THREADS_FEW / MF_WARP);
    grid.y = g.by == MF_BY_ROWS ? (unsigned)g.m : 1;
    if (swiglu)
        MF_LAUNCH(mf_cu_gemm_few<true>, grid, dim3(MF_THREADS_FEW), 0, x, x->fault, g);
    else
        MF_LAUNCH(mf_cu_gemm_few<false>, grid, dim3(MF_THREADS_FEW), 0, x, x->fault, g);
}
