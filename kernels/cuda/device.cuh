/* device.cuh: the few things that kernels say differently to nvcc and to an ordinary C++
 * compiler, which makes of the same file what tests run on a CPU (tests/cuda/emu.hh).
 *
 * Inline assembly is here and nowhere else; the ordinary compiler calls a function of emu.hh in
 * its place.
 *
 * Kernels of CUDA (kernels/cuda) are written in a small dialect that nvcc and an ordinary C++
 * compiler both compile. What the latter makes runs on an emulator (tests/cuda), where
 * check_kernels compares it with ref. The emulator gets each access from the compiler's
 * instrumentation for races (-fsanitize=thread, without its library), so kernels need no
 * wrappers. What goes on after its instruction (cp.async, wgmma) happens there as late as it
 * may: operands are read when they are waited for, and sums are NaN until then. */
#ifndef MF_CUDA_DEVICE_CUH
#define MF_CUDA_DEVICE_CUH

#include <stdint.h>

/* MF_LAUNCH(kernel, grid, block, bytes of shared memory, context, arguments ...); macros may
 * stand for several of these. A kernel with commas is in parentheses. */
#define MF_LAUNCH(...) MF_LAUNCH_AS(__VA_ARGS__)

#ifdef __CUDACC__
#define MF_UNROLL                   _Pragma("unroll")
#define MF_UNROLL_BY(n)             MF_PRAGMA(unroll n)
#define MF_PRAGMA(text)             _Pragma(#text)
#define MF_INLINE                   static __device__ __forceinline__
#define MF_METHOD                   __device__ __forceinline__
#define MF_SHARED(type, name, dims) __shared__ type name dims
#define MF_SHARED_DYNAMIC(name)     extern __shared__ __align__(1024) unsigned char name[]
#define MF_LAUNCH_AS(kernel, grid, block, shared, x, ...)                                      \
    do {                                                                                       \
        auto kernel_ = kernel;                                                                 \
        if ((shared) > 48 << 10)                                                               \
            (void)cudaFuncSetAttribute((const void *)kernel_,                                  \
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, (shared)); \
        kernel_<<<grid, block, shared, (cudaStream_t)(x)->stream>>>(__VA_ARGS__);              \
    } while (0)

#define MF_ALIGNED(p, n) ((void)0)

/* What is compiled for: 800 for sm_80; 0 for the host. */
#ifdef __CUDA_ARCH__
#define MF_ARCH __CUDA_ARCH__
#else
#define MF_ARCH 0
#endif

MF_INLINE uint32_t mf_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
/* Starts to copy 16 bytes to shared memory, of which `valid` are read and the others become
 * 0. */
MF_INLINE void mf_copy16(void *to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(mf_shared_address(to)),
                 "l"(from), "r"(valid)
                 : "memory");
}
MF_INLINE void mf_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most N groups of this thread's copies are under way. */
template <int N> MF_INLINE void mf_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
/* Four matrices of 8 x 8 bf16; lane l gives the address of row l % 8 of matrix l / 8. */
MF_INLINE void mf_ldmatrix(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mf_shared_address(row))
                 : "memory");
}
MF_INLINE void mf_ldmatrix_trans(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mf_shared_address(row))
                 : "memory");
}
/* d += a b, a 16 x 16, b 16 x 8 */
MF_INLINE void mf_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* 2^v, off by at most 2 units in the last place; what is below 2^-126 becomes 0. */
MF_INLINE float mf_exp2(float v)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
/* a b as one instruction; for the plain form the compiler may add upper halves, which are 0. */
MF_INLINE uint64_t mf_wide(uint32_t a, uint32_t b)
{
    uint64_t r;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b));
    return r;
}
/* The smaller one; NaN if one of them is. One instruction. */
MF_INLINE float mf_smaller(float a, float b)
{
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
/* 1 / v, off by at most 1 unit in the last place; what is below 2^-126 is 0, on both sides. */
MF_INLINE float mf_reciprocal(float v)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
/* Two numbers as bf16, to the nearest one, ties to even. */
MF_INLINE uint32_t mf_round2(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* Instructions of a warpgroup, 4 warps. Only code for sm_90a has them. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MF_HAS_WGMMA 1
/* What this thread has written to shared memory, its copies that have ended too, is seen by
 * wgmma after this and a barrier. */
MF_INLINE void mf_proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Before the first wgmma of a group, whose registers were written by other instructions. */
MF_INLINE void mf_wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
MF_INLINE void mf_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* The sums pass through the asm, so that the compiler moves no access to them before it. */
#define MF_F4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MF_F16(i) MF_F4(i), MF_F4(i + 4), MF_F4(i + 8), MF_F4(i + 12)
#define MF_F64(i) MF_F16(i), MF_F16(i + 16), MF_F16(i + 32), MF_F16(i + 48)
/* Waits until at most LEFT committed groups are under way. */
template <int LEFT> MF_INLINE void mf_wgmma_wait(float (&d)[64])
{
    asm volatile("wgmma.wait_group.sync.aligned %64;" : MF_F64(0) : "n"(LEFT) : "memory");
}
template <int LEFT> MF_INLINE void mf_wgmma_wait(float (&d)[128])
{
    asm volatile("wgmma.wait_group.sync.aligned %128;"
                 : MF_F64(0), MF_F64(64)
                 : "n"(LEFT)
                 : "memory");
}
/* d += a b, a 64 x 16, b 16 x 128 or 16 x 256, by descriptors (mf_wgmma_operand). TRANS: in
 * memory rows or columns follow each other, not inner indices. */
template <bool TRANS_A, bool TRANS_B>
MF_INLINE void mf_wgmma(float (&d)[64], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, "
        "%65, 1, 1, 1, %66, %67;"
        : MF_F64(0)
        : "l"(a), "l"(b), "n"(TRANS_A), "n"(TRANS_B));
}
template <bool TRANS_A, bool TRANS_B>
MF_INLINE void mf_wgmma(float (&d)[128], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
        "%126, %127}, %128, %129, 1, 1, 1, %130, %131;"
        : MF_F64(0), MF_F64(64)
        : "l"(a), "l"(b), "n"(TRANS_A), "n"(TRANS_B));
}
#undef MF_F64
#undef MF_F16
#undef MF_F4
#endif
#else
#include "emu.hh"
#define MF_ARCH      0
#define MF_HAS_WGMMA 1
#define MF_UNROLL
#define MF_UNROLL_BY(n)
#define MF_INLINE static inline
#define MF_METHOD inline
#define MF_SHARED(type, name, dims)                                                            \
    typedef type name##_type dims;                                                             \
    name##_type &name =                                                                        \
        *static_cast<name##_type *>(emu::shared_at(__FILE__, __LINE__, sizeof(name##_type)))
#define MF_SHARED_DYNAMIC(name)                                                                \
    unsigned char *name = static_cast<unsigned char *>(emu::shared_dyn())
#define MF_LAUNCH_AS(kernel, grid, block, shared, x, ...)                                      \
    emu::start<kernel>(#kernel, grid, block, shared, (x)->stream, __VA_ARGS__)

/* Before several elements are moved at once, which an ordinary compiler may do one by one. */
#define MF_ALIGNED(p, n) emu::aligned(p, n)

static inline void mf_copy16(void *to, const void *from, int valid)
{
    emu::cp_async(to, from, 16, valid, __FILE__, __LINE__);
}
static inline void mf_copy_commit()
{
    emu::cp_async_commit();
}
template <int N> static inline void mf_copy_wait()
{
    emu::cp_async_wait(N);
}
static inline void mf_ldmatrix(uint32_t r[4], const void *row)
{
    emu::ldmatrix_x4(r, row, false, __FILE__, __LINE__);
}
static inline void mf_ldmatrix_trans(uint32_t r[4], const void *row)
{
    emu::ldmatrix_x4(r, row, true, __FILE__, __LINE__);
}
static inline void mf_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emu::mma_bf16(d, a, b, d, __FILE__, __LINE__);
}
static inline float mf_exp2(float v)
{
    return emu::exp2_ftz(v);
}
static inline uint64_t mf_wide(uint32_t a, uint32_t b)
{
    return (uint64_t)a * b;
}
static inline float mf_smaller(float a, float b)
{
    return a != a || a < b ? a : b;
}
static inline float mf_reciprocal(float v)
{
    return emu::reciprocal_ftz(v);
}
static inline uint32_t mf_round2(float low, float high)
{
    return emu::round_bf16x2(low, high);
}
static inline uint32_t mf_shared_address(const void *p)
{
    return emu::shared_address(p);
}
static inline void mf_proxy_fence()
{
    emu::fence_proxy_async();
}
static inline void mf_wgmma_fence()
{
    emu::wg_fence();
}
static inline void mf_wgmma_commit()
{
    emu::wg_commit();
}
template <int LEFT, int N> static inline void mf_wgmma_wait(float (&d)[N])
{
    (void)d;
    emu::wg_wait(LEFT);
}
template <bool TRANS_A, bool TRANS_B, int N>
static inline void mf_wgmma(float (&d)[N], uint64_t a, uint64_t b)
{
    emu::wg_mma(d, {a, b, 2 * N, TRANS_A, TRANS_B}, __FILE__, __LINE__);
}
#endif

/* The descriptor of an operand of wgmma in shared memory, in rows of 128 bytes of which eight
 * begin at a multiple of 1024. The 16 bytes of place p of row r lie at place p ^ r % 8.
 *   inner indices along rows:  eight rows follow each other after `stride` bytes
 *   else                       the next 8 inner indices begin after `stride` bytes, and what is
 *                              right of these 64 rows or columns after `leading` bytes */
#ifdef MF_HAS_WGMMA
MF_INLINE uint64_t mf_wgmma_operand(const void *at, unsigned leading, unsigned stride)
{
    return (uint64_t)((mf_shared_address(at) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}
/* The same operand, `bytes` further on. */
MF_INLINE uint64_t mf_wgmma_at(uint64_t operand, unsigned bytes)
{
    return operand + (bytes >> 4);
}
#endif

#endif
