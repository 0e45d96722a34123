/* stored_bf16.cuh: many rows of bf16 times weights as files have them, by matrix instructions,
 * and the launches of all gemms of stored weights. Tiles of 64 x 64 for blocks of 4 warps, 32 x
 * 32 each, in steps of 32 inner indices.
 *
 * Weights keep their exact values: a weight is the sum of one number of bf16 (BF16, MXFP4), two
 * (F16, GPTQ4: a scale times a small integer has at most 16 bits) or three
 * (F32), and each of them is multiplied. Of a row of 64 bytes in shared memory, the 16 bytes of
 * place p lie at place p ^ row / 2 % 4, so that neither stores nor ldmatrix need a bank
 * twice. Two steps are in shared memory: one is filled while the other is multiplied. */
#pragma once
#include "kernels/cuda/stored/stored.cuh"

constexpr int MF_STORED_SIDE = 64, MF_STORED_STEP = 32, MF_STORED_THREADS = 128;
constexpr int MF_STORED_SLAB = MF_STORED_SIDE * MF_STORED_STEP * 2; /* bytes of one operand */
constexpr int MF_STORED_SPLITS = 3, MF_STORED_STAGE = (1 + MF_STORED_SPLITS) * MF_STORED_SLAB;

/* How many numbers of bf16 a weight of this type is. */
MF_INLINE int mf_splits_of(int type)
{
    return type == MF_STORED_F32 ? 3 : type == MF_STORED_F16 || type == MF_STORED_GPTQ4 ? 2 : 1;
}
/* Takes the upper half of v, which is a number of bf16, from v; what is left is exact. */
MF_INLINE uint32_t mf_split(float &v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return 0x7fc0;
    const float high = mf_float_of(bits & 0xffff0000u);
    v = isinf(v) ? 0 : v - high;
    return bits >> 16;
}
/* Where eight elements from 8 p on of a row are. */
MF_INLINE int mf_slab_at(int row, int p)
{
    return row * 64 + (p ^ row / 2 % 4) * 16;
}

/* Eight elements of x: row `r` of x (none if it is negative), inner indices from k on. */
template <bool BACK>
MF_INLINE uint4 mf_stored_x8(const mf_stored_gemm_args &g, const mf_stored_part &p, int64_t r,
                             int64_t k, int64_t k1, bool wide)
{
    uint4 v = {0, 0, 0, 0};
    if (r < 0 || k >= k1) return v;
    const mf_bf16 *x = (const mf_bf16 *)g.x + r * g.ldx;
    if (BACK && !p.pairs) x += p.first;
    if (wide && k + 8 <= k1 && (!BACK || (!p.pairs && p.first % 8 == 0))) {
        MF_ALIGNED(x + k, 16);
        return *(const uint4 *)(x + k);
    }
    uint32_t pair[4] = {};
    MF_UNROLL
    for (int c = 0; c < 8; c++) {
        if (k + c >= k1) continue;
        const uint32_t one = x[BACK && p.pairs ? mf_stored_output(&p, k + c) : k + c];
        pair[c / 2] |= one << c % 2 * 16;
    }
    v.x = pair[0], v.y = pair[1], v.z = pair[2], v.w = pair[3];
    return v;
}

/* Loads a step: x as [row][inner], weights as [column][inner] (forward) or [inner][column]. */
template <bool BACK>
MF_INLINE void mf_stored_step(const mf_stored &w, const mf_stored_gemm_args &g,
                              const mf_stored_part &p, int64_t first, int64_t end, int64_t c0,
                              int64_t k, int64_t k1, bool wide, unsigned char *stage)
{
    constexpr int EIGHTS = MF_STORED_SIDE * MF_STORED_STEP / 8;
    const bool across = mf_stored_across(p);
    const int splits = mf_splits_of(p.type);
    MF_UNROLL
    for (int s = 0; s < EIGHTS / MF_STORED_THREADS; s++) {
        const int t = (int)threadIdx.x + s * MF_STORED_THREADS, row = t / 4, place = t % 4;
        const int64_t i = first + row, r = i >= end ? -1 : g.row ? g.row[i] : i;
        const uint4 x = mf_stored_x8<BACK>(g, p, r, k + place * 8, k1, wide);
        *(uint4 *)(stage + mf_slab_at(row, place)) = x;
    }
    MF_UNROLL_BY(1) /* one at a time needs fewer registers */
    for (int s = 0; s < EIGHTS / MF_STORED_THREADS; s++) {
        constexpr int ROWS = BACK ? MF_STORED_STEP : MF_STORED_SIDE, EACH = EIGHTS / ROWS;
        const int t = (int)threadIdx.x + s * MF_STORED_THREADS;
        const int row = across ? t % ROWS : t / EACH, place = across ? t / ROWS : t % EACH;
        const int64_t o = (BACK ? k : c0) + row, i = (BACK ? c0 : k) + place * 8;
        /* rows of 64 inner indices, or with BACK of 128 bytes: 64 columns */
        unsigned char *to =
            stage + MF_STORED_SLAB +
            (BACK ? row * 128 + (place ^ row % 8) * 16 : mf_slab_at(row, place));
        float v[8] = {};
        if (o < p.rows && i < w.in) mf_stored_eight(p, w.in, o, i, v);
        for (int n = 0; n < splits; n++) {
            uint32_t pair[4] = {};
            MF_UNROLL
            for (int c = 0; c < 8; c++)
                pair[c / 2] |= mf_split(v[c]) << c % 2 * 16;
            uint4 all;
            all.x = pair[0], all.y = pair[1], all.z = pair[2], all.w = pair[3];
            *(uint4 *)(to + n * MF_STORED_SLAB) = all;
        }
    }
}

/* Multiplies a step of a warp's 32 x 32 elements. */
template <bool BACK>
MF_INLINE void mf_stored_multiply(const unsigned char *stage, int splits, float sum[2][4][4])
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const int low = lane % 8, second = lane / 8 % 2, third = lane / 16;
    MF_UNROLL
    for (int q = 0; q < MF_STORED_STEP / 16; q++) {
        uint32_t a[2][4];
        MF_UNROLL
        for (int i = 0; i < 2; i++) {
            const int row = warp % 2 * 32 + i * 16 + second * 8 + low;
            mf_ldmatrix(a[i], stage + mf_slab_at(row, 2 * q + third));
        }
        for (int n = 0; n < splits; n++) {
            const unsigned char *from = stage + (1 + n) * MF_STORED_SLAB;
            MF_UNROLL
            for (int j = 0; j < 2; j++) {
                uint32_t b[4];
                const int column = warp / 2 * 32 + j * 16;
                if (BACK) {
                    const int row = q * 16 + second * 8 + low;
                    mf_ldmatrix_trans(b,
                                      from + row * 128 + ((column / 8 + third) ^ row % 8) * 16);
                } else {
                    const int row = column + third * 8 + low;
                    mf_ldmatrix(b, from + mf_slab_at(row, 2 * q + second));
                }
                MF_UNROLL
                for (int i = 0; i < 2; i++) {
                    mf_mma(sum[i][2 * j], a[i], b);
                    mf_mma(sum[i][2 * j + 1], a[i], b + 2);
                }
            }
        }
    }
}

template <bool BACK>
__global__ void __launch_bounds__(MF_STORED_THREADS, 3)
    mf_cu_stored_bf16(const mf_fault *fault, mf_stored w, mf_stored_gemm_args g, bool wide)
{
    MF_SHARED_DYNAMIC(shared);
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    int64_t e, first, end, c0 = (int64_t)blockIdx.y * MF_STORED_SIDE, q = 0;
    if (mf_failed(fault)) return;
    if (!mf_stored_tile(w, g, blockIdx.x, MF_STORED_SIDE, &e, &first, &end)) return;
    if (!BACK) q = mf_stored_rows_of(w, blockIdx.y, MF_STORED_SIDE, &c0);
    float sum[2][4][4] = {};
    for (const int64_t last = BACK ? w.parts - 1 : q; q <= last; q++) {
        const mf_stored_part p = w.part[e * w.parts + q];
        const int64_t k1 = BACK ? p.rows : w.in;
        const int splits = mf_splits_of(p.type);
        int now = 0;
        mf_stored_step<BACK>(w, g, p, first, end, c0, 0, k1, wide, shared);
        for (int64_t k = 0; k < k1; k += MF_STORED_STEP, now ^= 1) {
            __syncthreads(); /* all have filled this step, and multiplied the one before */
            if (k + MF_STORED_STEP < k1)
                mf_stored_step<BACK>(w, g, p, first, end, c0, k + MF_STORED_STEP, k1, wide,
                                     shared + (now ^ 1) * MF_STORED_STAGE);
            mf_stored_multiply<BACK>(shared + now * MF_STORED_STAGE, splits, sum);
        }
        __syncthreads(); /* the next part's first step goes where slower warps still read */
    }
    const mf_stored_part &p = w.part[e * w.parts + (BACK ? 0 : q - 1)];
    MF_UNROLL
    for (int i = 0; i < 4; i++) {
        const int64_t r = first + warp % 2 * 32 + i * 8 + lane / 4;
        if (r >= end) continue;
        MF_UNROLL
        for (int j = 0; j < 4; j++) {
            MF_UNROLL
            for (int c = 0; c < 2; c++) {
                const int64_t at = c0 + warp / 2 * 32 + j * 8 + lane % 4 * 2 + c;
                if (at >= (BACK ? w.in : p.rows)) continue;
                const int64_t to = BACK ? at : mf_stored_output(&p, at);
                g.y[r * g.ldy + to] = g.alpha * sum[i / 2][j][i % 2 * 2 + c] +
                                      (g.bias ? g.bias[e * w.out + to] : 0);
            }
        }
    }
}

/* ---- launches ---- */

/* Blocks of `each` rows of the parts of a group. */
static inline unsigned mf_stored_blocks(const mf_stored &w, int64_t each)
{
    int64_t n = 0;
    const mf_stored_part *part = w.home ? w.home->part : w.part;
    for (int64_t q = 0; q < w.parts; q++)
        n += (part[q].rows + each - 1) / each;
    return (unsigned)n;
}

/* Up to this many rows of x are multiplied by the kernel for few. */
constexpr int64_t MF_FEW_MOST = 16;

extern "C" void mf_cuda_stored_gemm(const mf_kctx *x, const mf_stored_gemm_args *args)
{
    const mf_stored_gemm_args &g = *args;
    const mf_stored &w = *g.w;
    const int64_t n = g.back ? w.in : w.out;
    const int64_t each = g.bf16 ? 16 : 32; /* bytes of eight elements */
    const bool wide = (uintptr_t)g.x % 16 == 0 && g.ldx * (each / 8) % 16 == 0;
    if (g.rows <= 0) return;
    if (!g.back && g.rows <= MF_FEW_MOST) {
        /* rows of groups, those of a token, are of different experts */
        const bool one = g.offset || g.rows == 1;
        const dim3 grid(mf_stored_blocks(w, MF_FEW_OUT),
                        mf_grid(g.rows, one ? 1 : MF_FEW_STORED).x);
        mf_by_type(g.bf16 ? MF_CAST_BF16 : MF_CAST_F32, [&](auto type) {
            typedef decltype(type) T;
            if (one)
                MF_LAUNCH((mf_cu_stored_few<1, T>), grid, dim3(MF_THREADS), 0, x, x->fault, w,
                          g, wide);
            else
                MF_LAUNCH((mf_cu_stored_few<MF_FEW_STORED, T>), grid, dim3(MF_THREADS), 0, x,
                          x->fault, w, g, wide);
        });
        return;
    }
    const int64_t tiles = (g.rows + MF_TILE - 1) / MF_TILE + (g.offset ? w.groups : 0);
    const dim3 grid((unsigned)tiles,
                    g.back ? mf_grid(w.in, MF_TILE).x : mf_stored_blocks(w, MF_TILE));
    if (g.bf16 && g.back)
        MF_LAUNCH(mf_cu_stored_bf16<true>, grid, dim3(MF_STORED_THREADS), 2 * MF_STORED_STAGE,
                  x, x->fault, w, g, wide);
    else if (g.bf16)
        MF_LAUNCH(mf_cu_stored_bf16<false>, grid, dim3(MF_STORED_THREADS), 2 * MF_STORED_STAGE,
                  x, x->fault, w, g, wide);
    else if (g.back)
        MF_LAUNCH((mf_cu_stored_many<true, float>), grid, dim3(MF_THREADS), 0, x, x->fault, w,
                  g);
    else
        MF_LAUNCH((mf_cu_stored_many<false, float>), grid, dim3(MF_THREADS), 0, x, x->fault, w,
                  g);
    if (g.offset)
        MF_LAUNCH(mf_cu_stored_outside, dim3(2u * (unsigned)mf_cuda_processors),
                  dim3(MF_THREADS), 0, x, x->fault, g, w.groups, n);
}

extern "C" void mf_cuda_stored_rows(const mf_kctx *x, const mf_stored_rows_args *a)
{
    const mf_stored &w = *a->w;
    const bool wide = w.in % 8 == 0 && (uintptr_t)a->y % 16 == 0;
    if (a->count <= 0) return;
    MF_LAUNCH(mf_cu_stored_rows, mf_grid(a->count * ((w.in + 7) / 8), MF_THREADS),
              dim3(MF_THREADS), 0, x, x->fault, w, *a, wide);
}
