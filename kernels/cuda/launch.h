/* launch.h: the CUDA kernels in the form in which the host calls them. For each kernel of
 * kernels.def there is a function of the same type, which launches the kernel in the stream of
 * the context and returns at once.
 *
 * Pointers follow the rules of kernel.h; the context's fault and key are memory of the device.
 * Nothing is checked here: cudaGetLastError returns an error of a launch. */
#ifndef MF_CUDA_LAUNCH_H
#define MF_CUDA_LAUNCH_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MF_KERNEL(fn, ...) void mf_cuda_##fn(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"

/* The table of these functions. pack_weights is NULL, because can_pack always returns false. */
extern const mf_kernels mf_kernels_cuda;

/* Implements mf_kernels.can_swiglu of this table. */
bool mf_cuda_can_swiglu(const mf_gemm *g);

/* Number of multiprocessors of the device; the backend sets it before the first launch. */
extern int mf_cuda_processors;

/* Compute capability of the device, 90 for 9.0. It is set together with the number of
 * multiprocessors, and decides between kernels. */
extern int mf_cuda_capability;

/* The gemm that other kernels call, for example linear_cross_entropy. It is mf_cuda_gemm unless
 * the backend has a faster gemm. */
extern void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g);

/* Memory of the device for one launch, valid until the next call for the same GPU: 256-byte
 * aligned; NULL if the request is more than MF_CUDA_SCRATCH bytes. The backend owns it. */
#define MF_CUDA_SCRATCH ((size_t)32 << 20)
void *mf_cuda_scratch(const mf_kctx *x, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
