/* gemm_few.cuh: gemms of bf16 with a few rows, as when one token follows another: each element
 * of b is read once for four rows, so what counts is how much of b is under way. A warp has two
 * columns of c, of which it reads all inner indices, 16 bytes a lane; its lanes' sums are
 * added in a fixed order. By rows, a block has the group whose first row it got. What stands
 * before and behind such gemms in the generation of texts would take as long as they do, so it
 * is a part of them: a norm, and the sum of the experts of a token. */
#pragma once
#include "gemm_tile.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/swiglu.cuh"

constexpr int MF_THREADS_FEW = 128, MF_FEW_ROWS = 4;
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

/* Multiplies ROWS rows of a, of which a NULL is all zeros, by two columns b, and adds that. All
 * lanes of the warp get the sums. */
template <int ROWS>
MF_INLINE void mf_gemm_few_sums(const mf_bf16 *const (&a)[ROWS], const mf_bf16 *const (&b)[2],
                                int k, float (&sum)[ROWS][2])
{
    const int lane = (int)threadIdx.x % MF_WARP;
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
}

/* Writes row i of the two columns. */
template <bool SWIGLU>
MF_INLINE void mf_gemm_few_put(const mf_gemm &g, const mf_gemm_part &p, int64_t i,
                               const int64_t j[2], const float (&sum)[2])
{
    if constexpr (SWIGLU) {
        float half[2];
        MF_UNROLL
        for (int c = 0; c < 2; c++) {
            float v = g.alpha * sum[c];
            if (g.bias) v += g.bias[p.group * g.step_bias + j[c]];
            const mf_bf16 bits = mf_bf16_from_f32(v);
            half[c] = mf_bf16_to_f32(bits);
            if (g.keep) ((mf_bf16 *)g.c.data)[i * g.c.ld + j[c]] = bits;
        }
        const float share = g.gate ? g.gate[i] : 1;
        mf_put((mf_bf16 *)g.y.data + i * g.y.ld + j[0],
               mf_swiglu_near(half[0], half[1], share));
    } else {
        mf_gemm_store(g, p, i, j[0], sum[0]);
        if (j[1] != j[0]) mf_gemm_store(g, p, i, j[1], sum[1]);
    }
}

/* Rows i .. i + rows - 1, at most ROWS, of two columns j[0] and j[1]. own: these rows of a, one
 * after another; NULL: they are where g says. */
template <int ROWS, bool SWIGLU>
MF_INLINE void mf_gemm_few_part(const mf_gemm &g, const mf_gemm_part &p, int64_t i, int rows,
                                const int64_t j[2], const mf_bf16 *own)
{
    const mf_bf16 *a[ROWS], *b[2];
    float sum[ROWS][2] = {};
    MF_UNROLL
    for (int r = 0; r < ROWS; r++) { /* a row that there is not: no sum of it is written */
        int64_t from = r < rows ? i + r : i;
        if (!own && g.a.row) from = g.a.row[from];
        a[r] = own        ? own + (r < rows ? r : 0) * g.k
               : from < 0 ? NULL
                          : (const mf_bf16 *)g.a.data + from * g.a.ld;
    }
    MF_UNROLL
    for (int c = 0; c < 2; c++)
        b[c] = (const mf_bf16 *)g.b.data + p.group * g.b.step + j[c] * g.b.ld;
    mf_gemm_few_sums<ROWS>(a, b, (int)g.k, sum);
    MF_UNROLL
    for (int r = 0; r < ROWS; r++)
        if ((int)threadIdx.x % MF_WARP == r && r < rows)
            mf_gemm_few_put<SWIGLU>(g, p, i + r, j, sum[r]);
}

/* Row `from` of n numbers, normed if `norms`, as bf16; W threads have it. */
template <int W>
MF_INLINE void mf_normed_row(const mf_norm_args &p, bool norms, const float *from, mf_bf16 *to)
{
    mf_norm_row s = {0, 1, 0};
    if (norms) {
        mf_held_row<W, 0> a;
        a.get(from, p.n);
        s = mf_norm_row_of<W>(p, a);
    }
    MF_UNROLL_BY(4)
    for (int64_t j = mf_my_lane<W>(); j < p.n; j += W) {
        const float w = p.w ? p.w[j] : 1, b = p.b && p.kind == MF_NORM_FN_LAYER ? p.b[j] : 0;
        mf_put(to + j, (from[j] - s.mean) * s.factor * w + b);
    }
}
MF_INLINE mf_norm_args mf_norm_of(const mf_gemm &g)
{
    mf_norm_args n = {};
    n.kind = g.norm, n.n = g.k, n.eps = g.eps, n.eps_outside = g.eps_outside;
    n.w = g.norm_w, n.b = g.norm_b;
    return n;
}

/* The group of row i, by rows; the number of groups if it is in none. A warp calls it. */
MF_INLINE int64_t mf_gemm_few_group(const mf_gemm &g, int64_t i)
{
    int64_t group = 0;
    for (int64_t e = 0; e < g.groups; e += MF_WARP) {
        const int64_t mine = e + (int)threadIdx.x % MF_WARP;
        const bool before = mine < g.groups && g.offset[mine + 1] <= i;
        group += __popc(__ballot_sync(MF_ALL_LANES, before));
    }
    return i < g.offset[0] ? g.groups : group;
}

/* NORMS: rows of a are f32; each block norms those that it multiplies, or only rounds them, and
 * keeps them in shared memory. */
template <bool SWIGLU, bool NORMS>
__global__ void __launch_bounds__(MF_THREADS_FEW, 5)
    mf_cu_gemm_few(const mf_fault *fault, mf_gemm g)
{
    MF_SHARED_DYNAMIC(shared);
    mf_bf16 *const own = NORMS ? (mf_bf16 *)shared : NULL;
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int64_t i = blockIdx.y, at = (int64_t)blockIdx.x * (MF_THREADS_FEW / MF_WARP) + warp;
    const int64_t columns = SWIGLU ? g.n / 2 : (g.n + 1) / 2;
    const int64_t last = 2 * at + 1 < g.n ? 2 * at + 1 : 2 * at;
    const int64_t j[2] = {SWIGLU ? at : 2 * at, SWIGLU ? columns + at : last};
    mf_gemm_part p = {};
    if (mf_failed(fault)) return;
    p.i1 = g.m;
    if (g.by == MF_BY_ROWS) {
        p.group = mf_gemm_few_group(g, i);
        if (p.group == g.groups) { /* no group has the row */
            const bool mine = lane == 0 || (lane == 1 && j[1] != j[0]);
            if (mine && at < columns && (!SWIGLU || g.keep))
                mf_gemm_clear(g.c, i, lane == 0 ? j[0] : j[1]);
            if (lane == 0 && at < columns && SWIGLU) mf_gemm_clear(g.y, i, j[0]);
            return;
        }
        p.i0 = g.offset[p.group], p.i1 = g.offset[p.group + 1];
    }
    if (i != p.i0) return; /* the first row's block has the group */
    if (NORMS) {
        const mf_norm_args n = mf_norm_of(g);
        for (int64_t r = p.i0; r < p.i1; r++) {
            const int64_t from = g.a.row ? g.a.row[r] : r;
            mf_bf16 *const to = own + (r - p.i0) * g.k;
            if (from >= 0)
                mf_normed_row<MF_THREADS_FEW>(n, g.norms,
                                              (const float *)g.a.data + from * g.a.ld, to);
            for (int64_t c = threadIdx.x; from < 0 && c < g.k; c += MF_THREADS_FEW)
                to[c] = 0;
        }
        __syncthreads();
    }
    if (at >= columns) return;
    if (p.i1 - p.i0 == 1) {
        mf_gemm_few_part<1, SWIGLU>(g, p, i, 1, j, own);
        return;
    }
    for (int64_t r = p.i0; r < p.i1; r += MF_FEW_ROWS)
        mf_gemm_few_part<MF_FEW_ROWS, SWIGLU>(g, p, r, (int)(p.i1 - r), j,
                                              own ? own + (r - p.i0) * g.k : NULL);
}

/* The epilogue SUM: a warp has two columns of c, of a token's rows in turn. */
__global__ void __launch_bounds__(MF_THREADS_FEW, 5)
    mf_cu_gemm_few_summed(const mf_fault *fault, mf_gemm g)
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int64_t t = blockIdx.y, at = (int64_t)blockIdx.x * (MF_THREADS_FEW / MF_WARP) + warp;
    const int64_t j[2] = {2 * at, 2 * at + 1 < g.n ? 2 * at + 1 : 2 * at};
    float all[2] = {};
    if (j[0] >= g.n || mf_failed(fault)) return;
    for (int64_t q = t * g.per; q < (t + 1) * g.per; q++) {
        const int64_t i = g.place[q], group = i < 0 ? g.groups : mf_gemm_few_group(g, i);
        if (group == g.groups) continue;
        const mf_bf16 *const a[1] = {(const mf_bf16 *)g.a.data + i * g.a.ld};
        const mf_bf16 *const first = (const mf_bf16 *)g.b.data + group * g.b.step;
        const mf_bf16 *const b[2] = {first + j[0] * g.b.ld, first + j[1] * g.b.ld};
        float sum[1][2] = {};
        mf_gemm_few_sums<1>(a, b, (int)g.k, sum);
        MF_UNROLL
        for (int c = 0; c < 2; c++)
            all[c] += g.alpha * sum[0][c] + (g.bias ? g.bias[group * g.step_bias + j[c]] : 0);
    }
    if (lane > 0) return;
    MF_UNROLL
    for (int c = 0; c < 2; c++)
        ((float *)g.c.data)[t * g.c.ld + j[c]] =
            (g.from ? g.from[t * g.c.ld + j[c]] : 0) + all[c];
}

/* Whether the kernels above compute g: of rows of one matrix, not of a batch of them. Rows of a
 * in f32 are rounded, as of any gemm of two types, or normed before. */
static inline bool mf_can_gemm_few(const mf_gemm &g)
{
    const bool one = g.by == MF_BY_ROWS || (g.by == MF_BY_BATCH && g.groups == 1);
    const bool types =
        g.b.type == MF_CAST_BF16 && (g.a.type == MF_CAST_BF16 || g.m * g.k <= MF_FEW_NORMED);
    return one && types && g.m <= MF_FEW && !g.a.trans && g.b.trans && !g.b.row &&
           mf_can_gemm_by_sixteen(g);
}
static inline void mf_launch_gemm_few(const mf_kctx *x, const mf_gemm &g)
{
    const bool swiglu = g.epilogue == MF_EPILOGUE_SWIGLU, norms = g.a.type == MF_CAST_F32;
    const size_t shared = norms ? (size_t)(g.m * g.k) * sizeof(mf_bf16) : 0;
    dim3 grid = mf_grid(swiglu ? g.n / 2 : (g.n + 1) / 2, MF_THREADS_FEW / MF_WARP);
    const dim3 block(MF_THREADS_FEW);
    grid.y = g.by == MF_BY_ROWS ? (unsigned)g.m : 1;
    if (g.epilogue == MF_EPILOGUE_SUM) {
        grid.y = (unsigned)(g.m / g.per);
        MF_LAUNCH(mf_cu_gemm_few_summed, grid, block, 0, x, x->fault, g);
    } else if (swiglu && norms)
        MF_LAUNCH((mf_cu_gemm_few<true, true>), grid, block, shared, x, x->fault, g);
    else if (swiglu)
        MF_LAUNCH((mf_cu_gemm_few<true, false>), grid, block, 0, x, x->fault, g);
    else if (norms)
        MF_LAUNCH((mf_cu_gemm_few<false, true>), grid, block, shared, x, x->fault, g);
    else
        MF_LAUNCH((mf_cu_gemm_few<false, false>), grid, block, 0, x, x->fault, g);
}
