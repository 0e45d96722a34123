/* stored.cuh: gemms and rows of weights as files have them (kernels/stored.h). Weights are
 * decoded where they are used, eight neighbouring inputs of a row at a time; what a file has
 * lies at multiples of 16 bytes (core/graph/store/stored.c). Three kernels:
 *
 *   few rows of x      a warp reads neighbouring bytes of the file, whichever way it lies, and
 *                      multiplies them with up to four rows: decoding reads each weight once
 *   many rows in bf16  matrix instructions; stored_bf16.cuh
 *   many rows in f32   tiles of 64 x 64 in f32, as gemm.cuh */
#pragma once
#include "kernels/cuda/gemm/gemm.cuh"

/* ---- decoding ---- */

MF_INLINE float mf_float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A number of MXFP4 without its scale: 0 .5 1 1.5 2 3 4 6, bit 3 is the sign. */
MF_INLINE float mf_four_bits(uint32_t bits)
{
    const uint32_t exponent = bits >> 1 & 3, last = bits & 1;
    const float f =
        exponent == 0 ? 0.5f * (float)last : 0.25f * (float)((2 + last) << exponent);
    return bits & 8 ? -f : f;
}
/* A scale of MXFP4: 2^(byte - 127); NaN for 255. */
MF_INLINE float mf_scale_of(uint32_t byte)
{
    return mf_float_of(byte == 0 ? 0x00400000u : byte == 255 ? 0x7fc00000u : byte << 23);
}

/* Element `at` of an array of a type that is not of four bits. */
MF_INLINE float mf_stored_plain(const mf_stored_part &p, int64_t at)
{
    if (p.type == MF_STORED_F32) return ((const float *)p.data)[at];
    const uint16_t bits = ((const uint16_t *)p.data)[at];
    return p.type == MF_STORED_BF16 ? mf_bf16_to_f32(bits) : mf_f16_to_f32(bits);
}

/* How eight inputs are read: as each type has them where rows of elements begin at multiples
 * of 16 bytes, and any other way. */
enum { MF_AS_F32, MF_AS_BF16, MF_AS_F16, MF_AS_GPTQ4, MF_AS_MXFP4, MF_AS_ANY };

MF_INLINE int mf_stored_as(const mf_stored_part &p)
{
    return p.type <= MF_STORED_F16 && (p.transposed || p.ld % 8 != 0) ? MF_AS_ANY : (int)p.type;
}

/* Calls fn with a number of mf_stored_as as its type. */
template <int AS> struct mf_as {
    static constexpr int as = AS;
};
template <class F> MF_INLINE void mf_by_stored(const mf_stored_part &p, F fn)
{
    switch (mf_stored_as(p)) {
    case MF_AS_F32:
        return fn(mf_as<MF_AS_F32>());
    case MF_AS_BF16:
        return fn(mf_as<MF_AS_BF16>());
    case MF_AS_F16:
        return fn(mf_as<MF_AS_F16>());
    case MF_AS_GPTQ4:
        return fn(mf_as<MF_AS_GPTQ4>());
    case MF_AS_MXFP4:
        return fn(mf_as<MF_AS_MXFP4>());
    default:
        fn(mf_as<MF_AS_ANY>());
    }
}

/* A group's scale for row o, and its zero + 1. */
MF_INLINE float mf_gptq_scale(const mf_stored_part &p, int64_t o, int64_t g, int *zero)
{
    const uint32_t word = ((const uint32_t *)p.zeros)[g * (p.rows / 8) + o / 8];
    *zero = (int)(word >> 4 * (o % 8) & 15) + 1;
    return mf_f16_to_f32(((const mf_f16 *)p.scales)[g * p.rows + o]);
}

MF_INLINE void mf_gptq_eight(const mf_stored_part &p, int64_t o, int64_t i, float w[8])
{
    const uint32_t word = ((const uint32_t *)p.data)[i / 8 * p.rows + o];
    const uint32_t size = (uint32_t)p.group_size;
    int zero = 0;
    if (!p.group_of && size % 8 == 0) { /* all eight have one group */
        const float scale = mf_gptq_scale(p, o, (uint32_t)i / size, &zero);
        MF_UNROLL
        for (int c = 0; c < 8; c++)
            w[c] = scale * (float)((int)(word >> 4 * c & 15) - zero);
        return;
    }
    MF_UNROLL
    for (int c = 0; c < 8; c++) {
        const int64_t g = p.group_of ? p.group_of[i + c] : (uint32_t)(i + c) / size;
        const float scale = mf_gptq_scale(p, o, g, &zero);
        w[c] = scale * (float)((int)(word >> 4 * c & 15) - zero);
    }
}

/* Eight elements of two bytes at an address that is aligned to all of them. */
template <bool BF16> MF_INLINE void mf_two_bytes_eight(const uint16_t *at, float w[8])
{
    const uint4 *from = (const uint4 *)at;
    MF_ALIGNED(from, 16);
    const uint4 all = *from;
    const uint32_t pair[4] = {all.x, all.y, all.z, all.w};
    MF_UNROLL
    for (int c = 0; c < 8; c++) {
        const uint16_t bits = (uint16_t)(pair[c / 2] >> c % 2 * 16);
        w[c] = BF16 ? mf_bf16_to_f32(bits) : mf_f16_to_f32(bits);
    }
}

/* Inputs i .. i + 7 of row o of a part; 0 from `in` on. i is a multiple of 8. */
template <int AS>
MF_INLINE void mf_stored_eight(const mf_stored_part &p, int64_t in, int64_t o, int64_t i,
                               float w[8])
{
    if constexpr (AS == MF_AS_GPTQ4) {
        mf_gptq_eight(p, o, i, w);
    } else if constexpr (AS == MF_AS_MXFP4) {
        const uint32_t word = ((const uint32_t *)p.data)[(o * in + i) / 8];
        const float scale = mf_scale_of(((const uint8_t *)p.scales)[(o * in + i) / 32]);
        MF_UNROLL
        for (int c = 0; c < 8; c++)
            w[c] = scale * mf_four_bits(word >> 4 * c & 15);
    } else {
        if (AS != MF_AS_ANY && i + 8 <= in) {
            if constexpr (AS == MF_AS_F32) {
                const float *from = (const float *)p.data + o * p.ld + i;
                mf_get4(from, w);
                mf_get4(from + 4, w + 4);
            } else {
                const uint16_t *from = (const uint16_t *)p.data + o * p.ld + i;
                mf_two_bytes_eight<AS == MF_AS_BF16>(from, w);
            }
            return;
        }
        MF_UNROLL
        for (int c = 0; c < 8; c++)
            w[c] = i + c >= in ? 0
                               : mf_stored_plain(p, p.transposed ? (i + c) * p.ld + o
                                                                 : o * p.ld + i + c);
    }
}

/* The same for a part of any type. */
MF_INLINE void mf_stored_eight(const mf_stored_part &p, int64_t in, int64_t o, int64_t i,
                               float w[8])
{
    mf_by_stored(p, [&](auto way) { mf_stored_eight<decltype(way)::as>(p, in, o, i, w); });
}

/* Whether rows that follow each other lie next to each other, not their inputs. */
MF_INLINE bool mf_stored_across(const mf_stored_part &p)
{
    return p.transposed || p.type == MF_STORED_GPTQ4;
}

/* ---- what a block works on ---- */

/* The group of row r; -1: none. */
MF_INLINE int64_t mf_stored_group(const mf_stored &w, const int32_t *offset, int64_t r)
{
    int64_t low = 0, high = w.groups; /* of offsets, those before `low` are at most r */
    if (!offset) return 0;
    while (low <= high) {
        const int64_t middle = (low + high) / 2;
        if (offset[middle] <= r)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return low == 0 || low > w.groups ? -1 : low - 1;
}

/* The part, and the first of its rows, of block `at` of those that have `each` rows of a part.
 * Parts of all groups have the same rows. */
MF_INLINE int64_t mf_stored_rows_of(const mf_stored &w, int64_t at, int each, int64_t *first)
{
    int64_t q = 0;
    for (;; q++) {
        const int64_t here = (w.part[q].rows + each - 1) / each;
        if (at < here) break;
        at -= here;
    }
    *first = at * each;
    return q;
}

/* Elements c .. c + 7 of a row of x, 0 from `end` on. */
template <class T>
MF_INLINE void mf_eight_of(const T *x, int64_t c, int64_t end, bool wide, float v[8])
{
    if (wide && c + 8 <= end) {
        mf_get4(x + c, v);
        mf_get4(x + c + 4, v + 4);
        return;
    }
    MF_UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = c + i < end ? mf_get(x + c + i) : 0;
}

/* ---- few rows ---- */

/* Rows of x that share a pass over the weights, at most; outputs of a block; those of a warp
 * where inputs lie side by side. */
constexpr int MF_FEW_STORED = 4, MF_FEW_OUT = 32, MF_FEW_EACH = 4;

/* Adds to sum what row o of a part gives with each of the rows x, for each `step` eights of
 * inputs from `from` on. Several eights are under way at once. */
template <int AS, int N, class T>
MF_INLINE void mf_few_sums(const mf_stored_part &p, int64_t in, int64_t o, const T *const x[N],
                           int64_t from, int64_t step, bool wide, float sum[N])
{
    MF_UNROLL_BY(2)
    for (int64_t c = from; c * 8 < in; c += step) {
        float v[8];
        mf_stored_eight<AS>(p, in, o, c * 8, v);
        MF_UNROLL
        for (int j = 0; j < N; j++) {
            float u[8];
            if (!x[j]) continue;
            mf_eight_of(x[j], c * 8, in, wide, u);
            MF_UNROLL
            for (int i = 0; i < 8; i++)
                sum[j] = fmaf(u[i], v[i], sum[j]);
        }
    }
}

/* Sums of rows o0 .. o0 + 31 of a part and N rows of x into sum[of a warp][row][output]: where
 * rows of the part lie side by side, a lane has a row, and a warp each eighth eight of it; else
 * a warp has a row, and its lanes have the eights. */
template <int AS, int N, class T>
MF_INLINE void mf_few_part(const mf_stored_part &p, int64_t in, int64_t o0, const T *const x[N],
                           bool wide, bool across, float (*sum)[N][MF_FEW_OUT])
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    constexpr int WARPS = MF_THREADS / MF_WARP;
    MF_UNROLL_BY(1)
    for (int k = 0; k < (across ? 1 : MF_FEW_EACH); k++) {
        const int at = across ? lane : warp * MF_FEW_EACH + k;
        float mine[N] = {};
        if (o0 + at < p.rows)
            mf_few_sums<AS, N>(p, in, o0 + at, x, across ? warp : lane,
                               across ? WARPS : MF_WARP, wide, mine);
        MF_UNROLL
        for (int j = 0; j < N; j++) {
            const float all = across ? mine[j] : mf_warp<mf_add>(mine[j]);
            if (across || lane == 0) sum[across ? warp : 0][j][at] = all;
        }
    }
}

/* y of rows r .. r + n - 1, all of group e, for rows o0 .. o0 + 31 of a part. */
template <int N, class T>
MF_INLINE void mf_few_rows(const mf_stored &w, const mf_stored_gemm_args &g,
                           const mf_stored_part &p, int64_t e, int64_t o0, int64_t r, int n,
                           bool wide, float (*sum)[N][MF_FEW_OUT])
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    constexpr int WARPS = MF_THREADS / MF_WARP;
    const T *x[N];
    const bool across = mf_stored_across(p);
    MF_UNROLL
    for (int j = 0; j < N; j++) {
        const int64_t from = j >= n ? -1 : g.row ? g.row[r + j] : r + j;
        x[j] = from < 0 ? NULL : (const T *)g.x + from * g.ldx;
    }
    mf_by_stored(p, [&](auto way) {
        mf_few_part<decltype(way)::as, N>(p, w.in, o0, x, wide, across, sum);
    });
    __syncthreads();
    const int64_t o = o0 + lane;
    if (warp >= n || o >= p.rows) return;
    float all = sum[0][warp][lane];
    for (int k = 1; across && k < WARPS; k++)
        all += sum[k][warp][lane];
    const int64_t to = mf_stored_output(&p, o);
    g.y[(r + warp) * g.ldy + to] = g.alpha * all + (g.bias ? g.bias[e * w.out + to] : 0);
}

/* A block has 32 outputs of N rows of x; N is 1 if rows are in groups. With more blocks of a
 * multiprocessor the code for newer architectures would keep registers in memory; so below. */
template <int N, class T>
__global__ void __launch_bounds__(MF_THREADS, N == 1 && MF_ARCH < 1200 ? 3 : 2)
    mf_cu_stored_few(const mf_fault *fault, mf_stored w, mf_stored_gemm_args g, bool wide)
{
    MF_SHARED(float, sum, [MF_THREADS / MF_WARP][N][MF_FEW_OUT]);
    int64_t o0;
    if (mf_failed(fault)) return;
    const int64_t q = mf_stored_rows_of(w, blockIdx.x, MF_FEW_OUT, &o0);
    const int64_t r = (int64_t)blockIdx.y * N, end = r + N < g.rows ? r + N : g.rows;
    const int64_t e = mf_stored_group(w, g.offset, r);
    const mf_stored_part p = w.part[(e < 0 ? 0 : e) * w.parts + q];
    if (e >= 0) {
        mf_few_rows<N, T>(w, g, p, e, o0, r, (int)(end - r), wide, sum);
        return;
    }
    const int64_t o = o0 + threadIdx.x; /* a row of no group becomes 0 */
    if (threadIdx.x < MF_FEW_OUT && o < p.rows) g.y[r * g.ldy + mf_stored_output(&p, o)] = 0;
}

/* ---- many rows in f32 ---- */

/* The tile of rows of this block: of a group, if there are any. False: it has none. */
MF_INLINE bool mf_stored_tile(const mf_stored &w, const mf_stored_gemm_args &g, int64_t tile,
                              int side, int64_t *e, int64_t *first, int64_t *end)
{
    *e = 0, *first = tile * side, *end = g.rows;
    if (!g.offset) return *first < g.rows;
    for (; *e < w.groups; ++*e) {
        const int64_t from = g.offset[*e];
        const int64_t here = (g.offset[*e + 1] - from + side - 1) / side;
        if (tile < here) {
            *first = from + tile * side, *end = g.offset[*e + 1];
            return true;
        }
        tile -= here;
    }
    return false;
}

/* The weights of MF_DEEP inner indices from k on and MF_TILE columns from c0 on, into
 * to[inner][column]: rows of the part along columns, or with BACK along inner indices. */
template <bool BACK>
MF_INLINE void mf_stored_load(const mf_stored_part &p, int64_t in, int64_t c0, int64_t k,
                              float (*to)[MF_TILE + MF_SIDE])
{
    const int t = (int)threadIdx.x;
    const bool across = mf_stored_across(p);
    if (t >= MF_TILE * MF_DEEP / 8) return;
    constexpr int ROWS = BACK ? MF_DEEP : MF_TILE, EIGHTS = MF_TILE * MF_DEEP / 8 / ROWS;
    const int row = across ? t % ROWS : t / EIGHTS, eight = across ? t / ROWS : t % EIGHTS;
    const int64_t o = (BACK ? k : c0) + row, i = (BACK ? c0 : k) + eight * 8;
    float v[8] = {};
    if (o < p.rows && i < in) mf_stored_eight(p, in, o, i, v);
    MF_UNROLL
    for (int c = 0; c < 8; c++) {
        if (BACK)
            to[row][eight * 8 + c] = v[c];
        else
            to[eight * 8 + c][row] = v[c];
    }
}

/* Rows first .. of x, and of the inner indices k .. those below k1, into to[inner][row]. */
template <bool BACK, class T>
MF_INLINE void mf_stored_load_x(const mf_stored_gemm_args &g, const mf_stored_part &p,
                                int64_t first, int64_t end, int64_t k, int64_t k1,
                                float (*to)[MF_TILE + MF_SIDE])
{
    MF_UNROLL
    for (int step = 0; step < MF_TILE * MF_DEEP / MF_THREADS; step++) {
        const int q = (int)threadIdx.x % MF_DEEP,
                  i = (int)threadIdx.x / MF_DEEP + MF_THREADS / MF_DEEP * step;
        float v = 0;
        if (first + i < end && k + q < k1) {
            const int64_t r = g.row ? g.row[first + i] : first + i;
            const int64_t c = BACK ? mf_stored_output(&p, k + q) : k + q;
            if (r >= 0) v = mf_get((const T *)g.x + r * g.ldx + c);
        }
        to[q][i] = v;
    }
}

template <bool BACK, class T>
__global__ void __launch_bounds__(MF_THREADS, MF_ARCH < 1000 ? 2 : 1)
    mf_cu_stored_many(const mf_fault *fault, mf_stored w, mf_stored_gemm_args g)
{
    MF_SHARED(float, sx, [MF_DEEP][MF_TILE + MF_SIDE]);
    MF_SHARED(float, sw, [MF_DEEP][MF_TILE + MF_SIDE]);
    const int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    int64_t e, first, end, c0 = (int64_t)blockIdx.y * MF_TILE, q = 0;
    if (mf_failed(fault)) return;
    if (!mf_stored_tile(w, g, blockIdx.x, MF_TILE, &e, &first, &end)) return;
    if (!BACK) q = mf_stored_rows_of(w, blockIdx.y, MF_TILE, &c0);
    float total[MF_SIDE][MF_SIDE] = {};
    for (const int64_t last = BACK ? w.parts - 1 : q; q <= last; q++) {
        const mf_stored_part p = w.part[e * w.parts + q];
        const int64_t k1 = BACK ? p.rows : w.in;
        float acc[MF_SIDE][MF_SIDE] = {};
        for (int64_t k = 0; k < k1; k += MF_DEEP) {
            mf_stored_load_x<BACK, T>(g, p, first, end, k, k1, sx);
            mf_stored_load<BACK>(p, w.in, c0, k, sw);
            __syncthreads();
            MF_UNROLL
            for (int d = 0; d < MF_DEEP; d++) {
                float u[MF_SIDE], v[MF_SIDE];
                MF_UNROLL
                for (int s = 0; s < MF_SIDE; s++)
                    u[s] = sx[d][ty * MF_SIDE + s], v[s] = sw[d][tx * MF_SIDE + s];
                MF_UNROLL
                for (int s = 0; s < MF_SIDE; s++) {
                    MF_UNROLL
                    for (int r = 0; r < MF_SIDE; r++)
                        acc[s][r] = fmaf(u[s], v[r], acc[s][r]);
                }
            }
            __syncthreads(); /* all have multiplied this step */
            if (k % MF_CHAIN != MF_CHAIN - MF_DEEP && k + MF_DEEP < k1) continue;
            MF_UNROLL
            for (int s = 0; s < MF_SIDE; s++) {
                MF_UNROLL
                for (int r = 0; r < MF_SIDE; r++)
                    total[s][r] += acc[s][r], acc[s][r] = 0;
            }
        }
    }
    const mf_stored_part &p = w.part[e * w.parts + (BACK ? 0 : q - 1)];
    MF_UNROLL
    for (int s = 0; s < MF_SIDE; s++) {
        MF_UNROLL
        for (int r = 0; r < MF_SIDE; r++) {
            const int64_t i = first + ty * MF_SIDE + s, j = c0 + tx * MF_SIDE + r;
            if (i >= end || j >= (BACK ? w.in : p.rows)) continue;
            const int64_t to = BACK ? j : mf_stored_output(&p, j);
            g.y[i * g.ldy + to] = g.alpha * total[s][r] + (g.bias ? g.bias[e * w.out + to] : 0);
        }
    }
}

/* Rows of y that are in no group become 0. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_stored_outside(const mf_fault *fault, mf_stored_gemm_args g, int64_t groups,
                         int64_t n)
{
    if (mf_failed(fault)) return;
    const int64_t before = g.offset[0], after = g.offset[groups];
    for (int64_t at = mf_thread(); at < (before + g.rows - after) * n; at += mf_threads()) {
        const int64_t r = at / n, i = r < before ? r : after + (r - before);
        g.y[i * g.ldy + at % n] = 0;
    }
}

/* ---- rows of W ---- */

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_stored_rows(const mf_fault *fault, mf_stored w, mf_stored_rows_args a, bool wide)
{
    const int64_t chunks = (w.in + 7) / 8;
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < a.count * chunks; at += mf_threads()) {
        const int64_t r = at / chunks, i = at % chunks * 8;
        const unsigned id = a.ids ? (unsigned)a.ids[r] : (unsigned)r, out = (unsigned)w.out;
        const int64_t e = id / out, j = id % out;
        int64_t q = 0;
        while (j >= w.part[q].first + w.part[q].rows)
            q++;
        const mf_stored_part &p = w.part[e * w.parts + q];
        const int64_t here = j - p.first, half = p.rows / 2;
        float v[8];
        mf_stored_eight(p, w.in,
                        !p.pairs      ? here
                        : here < half ? 2 * here
                                      : 2 * (here - half) + 1,
                        i, v);
        float *y = a.y + r * w.in + i;
        if (wide) {
            mf_put4(y, v);
            mf_put4(y + 4, v + 4);
            continue;
        }
        MF_UNROLL
        for (int c = 0; c < 8; c++)
            if (i + c < w.in) y[c] = v[c];
    }
}
