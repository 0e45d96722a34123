/* launch.h: the kernels of CUDA as the host calls them: for each kernel of kernels.def a
 * function of the same type, which launches it in the stream of the context and
 * returns at once.
 *
 * Pointers follow the rules of kernel.h; the context's fault and key are memory of the
 * device. Nothing is checked here: an error of a launch is found by cudaGetLastError. */
#ifndef MF_CUDA_LAUNCH_H
#define MF_CUDA_LAUNCH_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MF_KERNEL(fn, ...) void mf_cuda_##fn(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"

/* The table of these functions. pack_weights is NULL, since can_pack is always false. */
extern const mf_kernels mf_kernels_cuda;

/* mf_kernels.can_swiglu of this table. */
bool mf_cuda_can_swiglu(const mf_gemm *g);

/* Number of multiprocessors of the device; the backend sets it before the first launch. */
extern int mf_cuda_processors;

/* Compute capability of the device, 90 for 9.0; it is set with the number of multiprocessors,
 * and chooses among kernels. */
extern int mf_cuda_capability;

/* The gemm that other kernels call, as linear_cross_entropy does; mf_cuda_gemm unless the
 * backend has a faster one. */
extern void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g);

/* Memory of the device for one launcher, valid until the next call for the same GPU:
 * 256-byte aligned; NULL if it is more than MF_CUDA_SCRATCH bytes. The backend has it. */
#define MF_CUDA_SCRATCH ((size_t)32 << 20)
void *mf_cuda_scratch(const mf_kctx *x, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
