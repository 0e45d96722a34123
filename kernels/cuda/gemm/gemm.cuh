/* gemm.cuh: every gemm that mf_gemm describes, in f32, for those that neither gemm_bf16.cuh nor
 * gemm_f32.cuh computes: tiles of 64 x 64 for blocks of 256 threads, 4 x 4 elements a thread.
 * Sums follow the inner index. */
#pragma once
#include "kernels/cuda/base.cuh"

constexpr int MF_TILE = 64, MF_DEEP = 16, MF_SIDE = 4;
/* Inner indices in one chain of sums; chains are then added. One long chain rounds more. */
constexpr int MF_CHAIN = 256;

/* The part of a gemm that one block computes: rows i0 .. i1 - 1 of c, columns from j0, inner
 * indices k0 .. k1 - 1 of a group. */
typedef struct mf_gemm_part {
    int64_t group, i0, i1, j0, k0, k1;
} mf_gemm_part;

/* The part of this block; false: it has none. By rows, tiles of groups follow each other. */
MF_INLINE bool mf_gemm_part_of(const mf_gemm &g, int64_t group, mf_gemm_part *p)
{
    int64_t tile = blockIdx.x;
    p->group = group, p->j0 = (int64_t)blockIdx.y * MF_TILE;
    p->k0 = 0, p->k1 = g.k, p->i0 = tile * MF_TILE, p->i1 = g.m;
    if (g.by == MF_BY_INNER) p->k0 = g.offset[group], p->k1 = g.offset[group + 1];
    if (g.by != MF_BY_ROWS) return p->i0 < g.m;
    for (int64_t e = 0; e < g.groups; e++) {
        const int64_t first = g.offset[e], end = g.offset[e + 1];
        const int64_t here = (end - first + MF_TILE - 1) / MF_TILE;
        if (tile < here) {
            p->group = e, p->i0 = first + tile * MF_TILE, p->i1 = end;
            return true;
        }
        tile -= here;
    }
    return false;
}

/* Element [row, col] of a stored matrix, whose rows are gathered and rounded as o says. */
template <class T>
MF_INLINE float mf_gemm_at(const mf_gemm_operand &o, const T *data, int64_t row, int64_t col,
                           bool round)
{
    if (o.row) row = o.row[row];
    if (row < 0) return 0;
    const float f = mf_get(data + row * o.ld + col);
    return round ? mf_bf16_to_f32(mf_bf16_from_f32(f)) : f;
}

/* Loads MF_DEEP x MF_TILE elements op[first + i, k0 + q] into to[q][i], zeros outside. Threads
 * next to each other read elements next to each other. `inner`: q runs along a stored row. */
template <class T>
MF_INLINE void mf_gemm_load(const mf_gemm_operand &o, const T *data, bool inner, bool round,
                            int64_t first, int64_t end, int64_t k0, int64_t k1,
                            float (*to)[MF_TILE + MF_SIDE])
{
    const int t = (int)threadIdx.x;
    MF_UNROLL
    for (int step = 0; step < MF_TILE * MF_DEEP / MF_THREADS; step++) {
        const int q = inner ? t % MF_DEEP : t / MF_TILE + MF_THREADS / MF_TILE * step;
        const int i = inner ? t / MF_DEEP + MF_THREADS / MF_DEEP * step : t % MF_TILE;
        const int64_t at_i = first + i, at_q = k0 + q;
        float v = 0;
        if (at_i < end && at_q < k1)
            v = mf_gemm_at(o, data, inner ? at_i : at_q, inner ? at_q : at_i, round);
        to[q][i] = v;
    }
}

MF_INLINE void mf_gemm_store(const mf_gemm &g, const mf_gemm_part &p, int64_t i, int64_t j,
                             float sum)
{
    const int64_t at = (g.by == MF_BY_ROWS ? 0 : p.group * g.c.step) + i * g.c.ld + j;
    float *f = (float *)g.c.data + at;
    mf_bf16 *h = (mf_bf16 *)g.c.data + at;
    const bool bf16 = g.c.type == MF_CAST_BF16;
    float v = g.alpha * sum;
    if (g.bias) v += g.bias[p.group * g.step_bias + j];
    if (g.beta != 0) v += bf16 ? mf_get(h) : g.from ? g.from[at] : *f;
    if (bf16)
        mf_put(h, v);
    else
        *f = v;
}

template <class TA, class TB>
__global__ void __launch_bounds__(MF_THREADS, 3) mf_cu_gemm(const mf_fault *fault, mf_gemm g)
{
    MF_SHARED(float, sa, [MF_DEEP][MF_TILE + MF_SIDE]);
    MF_SHARED(float, sb, [MF_DEEP][MF_TILE + MF_SIDE]);
    const bool round = g.as_bf16 || sizeof(TA) == 2 || sizeof(TB) == 2;
    const int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    if (mf_failed(fault)) return;
    for (int64_t group = blockIdx.z; group < (g.by == MF_BY_ROWS ? 1 : g.groups);
         group += gridDim.z) {
        mf_gemm_part p;
        if (!mf_gemm_part_of(g, group, &p)) return;
        const TA *a = (const TA *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0);
        const TB *b = (const TB *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step);
        float acc[MF_SIDE][MF_SIDE] = {}, total[MF_SIDE][MF_SIDE] = {};
        for (int64_t k = p.k0; k < p.k1; k += MF_DEEP) {
            mf_gemm_load(g.a, a, !g.a.trans, round, p.i0, p.i1, k, p.k1, sa);
            mf_gemm_load(g.b, b, g.b.trans, round, p.j0, g.n, k, p.k1, sb);
            __syncthreads();
            MF_UNROLL
            for (int q = 0; q < MF_DEEP; q++) {
                float u[MF_SIDE], v[MF_SIDE];
                MF_UNROLL
                for (int s = 0; s < MF_SIDE; s++)
                    u[s] = sa[q][ty * MF_SIDE + s], v[s] = sb[q][tx * MF_SIDE + s];
                MF_UNROLL
                for (int s = 0; s < MF_SIDE; s++)
                    MF_UNROLL
                for (int r = 0; r < MF_SIDE; r++)
                    acc[s][r] = fmaf(u[s], v[r], acc[s][r]);
            }
            __syncthreads();
            if ((k - p.k0) % MF_CHAIN != MF_CHAIN - MF_DEEP) continue;
            MF_UNROLL
            for (int s = 0; s < MF_SIDE; s++) {
                MF_UNROLL
                for (int r = 0; r < MF_SIDE; r++)
                    total[s][r] += acc[s][r], acc[s][r] = 0;
            }
        }
        MF_UNROLL
        for (int s = 0; s < MF_SIDE; s++)
            MF_UNROLL
        for (int r = 0; r < MF_SIDE; r++) {
            const int64_t i = p.i0 + ty * MF_SIDE + s, j = p.j0 + tx * MF_SIDE + r;
            if (i < p.i1 && j < g.n) mf_gemm_store(g, p, i, j, total[s][r] + acc[s][r]);
        }
    }
}

MF_INLINE void mf_gemm_clear(const mf_gemm_result &c, int64_t i, int64_t j)
{
    if (c.type == MF_CAST_BF16)
        ((mf_bf16 *)c.data)[i * c.ld + j] = 0;
    else
        ((float *)c.data)[i * c.ld + j] = 0;
}
/* Rows of c, and of the epilogue's y, that are in no group become 0. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_gemm_outside(const mf_fault *fault, mf_gemm g)
{
    if (mf_failed(fault)) return;
    const int64_t before = g.offset[0], after = g.offset[g.groups];
    const bool swiglu = g.epilogue == MF_EPILOGUE_SWIGLU;
    for (int64_t at = mf_thread(); at < (before + g.m - after) * g.n; at += mf_threads()) {
        const int64_t r = at / g.n, i = r < before ? r : after + (r - before), j = at % g.n;
        if (!swiglu || g.keep) mf_gemm_clear(g.c, i, j);
        if (swiglu && j < g.n / 2) mf_gemm_clear(g.y, i, j);
    }
}

/* Copies the matrix that is added to c. */
__global__ void __launch_bounds__(MF_THREADS) mf_cu_gemm_from(const mf_fault *fault, mf_gemm g)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < g.m * g.n; at += mf_threads()) {
        const int64_t to = at / g.n * g.c.ld + at % g.n;
        ((float *)g.c.data)[to] = g.from[to];
    }
}

static inline void mf_launch_gemm(const mf_kctx *x, const mf_gemm &g)
{
    const bool by_rows = g.by == MF_BY_ROWS;
    const int64_t row_tiles = (g.m + MF_TILE - 1) / MF_TILE + (by_rows ? g.groups : 0);
    const dim3 grid((unsigned)row_tiles, mf_grid(g.n, MF_TILE).x,
                    by_rows ? 1 : mf_most_z(g.groups));
    mf_by_type(g.a.type, [&](auto of_a) {
        mf_by_type(g.b.type, [&](auto of_b) {
            typedef decltype(of_a) TA;
            typedef decltype(of_b) TB;
            MF_LAUNCH((mf_cu_gemm<TA, TB>), grid, dim3(MF_THREADS), 0, x, x->fault, g);
        });
    });
}
