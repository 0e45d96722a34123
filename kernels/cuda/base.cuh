/* base.cuh: what kernels share: numbers of two types, sums of warps and blocks, sizes of grids.
 *
 * Results depend on neither the number of multiprocessors nor the order of blocks: sums have a
 * fixed order, and no float is added atomically. */
#ifndef MF_CUDA_BASE_CUH
#define MF_CUDA_BASE_CUH

#include <string.h>

#include "device.cuh"
#include "launch.h"

/* Launches another kernel of kernels.def, with its fields in their order. */
#define MF_CUDA_RUN(x, fn, ...)                                                                \
    do {                                                                                       \
        const mf_##fn##_args args_ = {__VA_ARGS__};                                            \
        mf_cuda_##fn(x, &args_);                                                               \
    } while (0)

constexpr int MF_THREADS = 256, MF_WARP = 32;
#define MF_ALL_LANES 0xffffffffu

/* ---- f32 and bf16 ---- */

MF_INLINE float mf_get(const float *p)
{
    return *p;
}
MF_INLINE float mf_get(const mf_bf16 *p)
{
    return mf_bf16_to_f32(*p);
}
MF_INLINE void mf_put(float *p, float value)
{
    *p = value;
}
MF_INLINE void mf_put(mf_bf16 *p, float value)
{
    *p = mf_bf16_from_f32(value);
}

/* Two elements at an address that is aligned to both. */
MF_INLINE void mf_get2(const float *p, float v[2])
{
    const uint64_t bits = *(const uint64_t *)p;
    memcpy(v, &bits, sizeof bits);
}
MF_INLINE void mf_put2(float *p, const float v[2])
{
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    *(uint64_t *)p = bits;
}

MF_INLINE void mf_get2(const mf_bf16 *p, float v[2])
{
    const uint32_t bits = *(const uint32_t *)(const void *)p;
    v[0] = mf_bf16_to_f32((mf_bf16)bits), v[1] = mf_bf16_to_f32((mf_bf16)(bits >> 16));
}
MF_INLINE void mf_put2(mf_bf16 *p, const float v[2])
{
    *(uint32_t *)(void *)p = mf_round2(v[0], v[1]);
}

/* Four elements at an address that is aligned to all of them. */
MF_INLINE void mf_get4(const float *p, float v[4])
{
    MF_ALIGNED(p, 16);
    const float4 q = *(const float4 *)p;
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}
MF_INLINE void mf_get4(const mf_bf16 *p, float v[4])
{
    MF_ALIGNED(p, 8);
    const uint2 q = *(const uint2 *)p;
    v[0] = mf_bf16_to_f32((mf_bf16)q.x), v[1] = mf_bf16_to_f32((mf_bf16)(q.x >> 16));
    v[2] = mf_bf16_to_f32((mf_bf16)q.y), v[3] = mf_bf16_to_f32((mf_bf16)(q.y >> 16));
}
MF_INLINE uint32_t mf_pair(float low, float high)
{
    return (uint32_t)mf_bf16_from_f32(low) | (uint32_t)mf_bf16_from_f32(high) << 16;
}
MF_INLINE void mf_put4(float *p, const float v[4])
{
    MF_ALIGNED(p, 16);
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}
MF_INLINE void mf_put4(mf_bf16 *p, const float v[4])
{
    MF_ALIGNED(p, 8);
    uint2 q;
    q.x = mf_pair(v[0], v[1]), q.y = mf_pair(v[2], v[3]);
    *(uint2 *)p = q;
}

/* As many elements as v has: one, or four at an address that is aligned to all of them. */
template <class T> MF_INLINE void mf_get_each(const T *p, float (&v)[1])
{
    v[0] = mf_get(p);
}
template <class T> MF_INLINE void mf_get_each(const T *p, float (&v)[4])
{
    mf_get4(p, v);
}
template <class T> MF_INLINE void mf_put_each(T *p, const float (&v)[1])
{
    mf_put(p, v[0]);
}
template <class T> MF_INLINE void mf_put_each(T *p, const float (&v)[4])
{
    mf_put4(p, v);
}
/* Calls fn with the number of elements that a thread moves at once, as a constant. */
template <int EACH> struct mf_each_of {
    enum { each = EACH };
};
template <class F> static inline void mf_by_each(bool four, F fn)
{
    if (four)
        fn(mf_each_of<4>());
    else
        fn(mf_each_of<1>());
}

/* Calls fn with a number of the C type of `type`. */
template <class F> static inline void mf_by_type(int type, F fn)
{
    if (type == MF_CAST_BF16)
        fn((mf_bf16)0);
    else
        fn(0.0f);
}
/* Whether four elements of each of these arrays can be moved at once. */
static inline bool mf_aligned(int type, const void *a, const void *b = NULL,
                              const void *c = NULL, const void *d = NULL)
{
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d;
    return all % (4 * (uintptr_t)mf_cast_size(type)) == 0;
}

/* ---- grids ---- */

/* Number of blocks for n items, `each` a block. */
static inline dim3 mf_grid(int64_t n, int64_t each)
{
    const int64_t blocks = (n + each - 1) / each;
    return dim3((unsigned)(blocks < 1 ? 1 : blocks > 0x7fffffff ? 0x7fffffff : blocks));
}
/* The second and the third dimension of a grid have at most this many blocks. */
constexpr int64_t MF_MOST_Z = 65535;
static inline unsigned mf_most_z(int64_t n)
{
    return (unsigned)(n < MF_MOST_Z ? n : MF_MOST_Z);
}
MF_INLINE int64_t mf_thread()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
MF_INLINE int64_t mf_threads()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* i / n of what is not negative: divisions of 32 bits are much faster. */
MF_INLINE int64_t mf_over(int64_t i, int64_t n)
{
    if ((i | n) <= 0x7fffffff) return (uint32_t)i / (uint32_t)n;
    return i / n;
}

/* ---- sums ---- */

struct mf_add {
    template <class T> static MF_ON_DEVICE inline T of(T a, T b) { return a + b; }
};
struct mf_least {
    template <class T> static MF_ON_DEVICE inline T of(T a, T b) { return b < a ? b : a; }
};
struct mf_most { /* NaN if one is */
    template <class T> static MF_ON_DEVICE inline T of(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

template <class OP, class T> MF_INLINE T mf_warp(T v)
{
    MF_UNROLL
    for (int d = MF_WARP / 2; d > 0; d >>= 1)
        v = OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, d));
    return v;
}
/* Over the W threads of a row: a warp, or the whole block. All of them call it. */
template <int W, class OP, class T> MF_INLINE T mf_row(T v)
{
    v = mf_warp<OP>(v);
    if (W == MF_WARP) return v;
    MF_SHARED(T, part, [W / MF_WARP]);
    __syncthreads(); /* of an earlier call: its results were read */
    if (threadIdx.x % MF_WARP == 0) part[threadIdx.x / MF_WARP] = v;
    __syncthreads();
    v = part[threadIdx.x % (W / MF_WARP)];
    MF_UNROLL
    for (int d = W / MF_WARP / 2; d > 0; d >>= 1)
        v = OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, d));
    return v;
}

/* Rows of up to this many elements get a warp each, longer ones a block. */
constexpr int MF_SHORT_ROW = 1024;
/* Calls fn with the number of threads of a row of n, as an integral_constant. */
template <int W> struct mf_width {
    enum { threads = W };
    static dim3 grid(int64_t rows) { return mf_grid(rows, MF_THREADS / W); }
};
template <class F> static inline void mf_by_width(int64_t n, F fn)
{
    if (n <= MF_SHORT_ROW)
        fn(mf_width<MF_WARP>());
    else
        fn(mf_width<MF_THREADS>());
}
/* The row of this thread, and its number within the row. */
template <int W> MF_INLINE int64_t mf_my_row()
{
    return (int64_t)blockIdx.x * (MF_THREADS / W) + threadIdx.x / W;
}
template <int W> MF_INLINE int mf_my_lane()
{
    return (int)threadIdx.x % W;
}

/* ---- faults ---- */

/* Whether an earlier launch has recorded a fault. */
MF_INLINE bool mf_failed(const mf_fault *fault)
{
    return fault && fault->kind != MF_FAULT_NONE;
}

#endif
