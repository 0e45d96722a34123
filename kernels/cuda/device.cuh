/* device.cuh: the few things that kernels say differently to nvcc and to an ordinary C++
 * compiler, which makes of the same file what tests run on a CPU (tests/cuda/emu.hh).
 *
 * Inline assembly is here and nowhere else; the ordinary compiler calls a function of emu.hh in
 * its place. */
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
#else
#include "emu.hh"
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
#endif

#endif
