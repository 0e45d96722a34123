/* kernels/cuda/backend.h: declarations that the files of the CUDA backend share: an open GPU.
 *
 * The backend is one shared object, backend_cuda.so, found at run time (graph/device/device.h);
 * only it is linked with CUDA's libraries. Functions that return int return a code of
 * moefw/status.h and set a text in `message`.
 *
 * The CUDA backend (kernels/cuda, in C) implements the interface of graph/device/device.h.
 * cuBLASLt computes dense gemms. The first gemm of a form chooses an algorithm for a workspace
 * of fixed size, and later gemms reuse it, so they have the same bits and allocate nothing.
 * Recordings are CUDA graphs. MFU is computed relative to a peak rate, which comes from data
 * sheets by the GPU's name, or else from the GPU's clock (peak.c).
 *
 * Our own kernels compute grouped gemms and gemms with gathered rows. If rows begin at
 * multiples of 16 bytes, cp.async prefetches steps of 128 bytes of inner indices, and gathers
 * rows at the same time (gemm_feed.cuh). bf16 is multiplied by wgmma on devices of capability
 * 9.0 (gemm_wgmma.cuh: two warpgroups, both operands in shared memory, tiles of up to 128 x 256
 * elements) and by mma.sync on other devices (gemm_bf16.cuh); f32 is multiplied by tiles of 8 x
 * 8 elements per thread (gemm_f32.cuh). For at most 16 rows of bf16, as in decoding, each warp
 * computes two columns over all inner indices (gemm_few.cuh). gemm_tile.cuh has the code that
 * these files share; gemm.cuh computes all other gemms. Main loops process the parts that need
 * no checks: whole steps of gemms, and tiles of attention without hidden keys. A second loop
 * processes the rest.
 *
 * Attention of bf16 is FlashAttention-2 by mma.sync (attention/attention_bf16.cuh): one pass
 * over tiles of keys, weights rounded to bf16 in registers, gradients by two kernels without
 * atomic sums. Graphs that compute in bf16 pass bf16 to attention if the backend requests it
 * (MF_DEVICE_BF16_ATTENTION). Attention is computed in f32 in all other graphs, and for heads
 * whose width is no multiple of 8 or above 256.
 *
 * If the kernel set supports it (mf_kernels.can_swiglu), the first gemm of SwiGLU experts also
 * writes the activation. It writes its own result only if the backward pass reads it.
 * graph/plan/fuse.c makes one node of the two ops when a graph on a device is finished, after
 * gradients are built. Plugins and the CPU use only the two separate ops.
 *
 * The tests run the same C files on libraries that replace those of CUDA
 * (tests/cuda/fake_*.cc). They are compiled against a few declarations of our own
 * (tests/cuda/include), because most machines have no toolkit. A build with a toolkit compiles
 * the backend against the toolkit's headers, so a call that they do not allow does not compile.
 * No test checks that our declarations have the same types. */
#ifndef KERNELS_CUDA_BACKEND_H
#define KERNELS_CUDA_BACKEND_H

#include <cuda_runtime_api.h>
#include "graph/device/device.h"

typedef struct mf_cuda_lt mf_cuda_lt;

/* Peak rates of dense gemms, FLOP per second; 0: not known. */
typedef struct mf_cuda_peak {
    double f32, bf16;
} mf_cuda_peak;

typedef struct mf_cuda {
    int index; /* number of the GPU */
    mf_cuda_peak peak;
    mf_cuda_lt *lt;
    void *scratch; /* MF_CUDA_SCRATCH bytes, which launches use one after the other */
    char message[512];
} mf_cuda;

static inline mf_cuda *mf_cuda_of(const mf_device *d)
{
    return d->self;
}
/* Returns the code of a call of CUDA; if the call failed, sets `message` to "what: reason". */
int mf_cuda_judge(mf_cuda *c, cudaError_t error, const char *what);

/* ---- memory.c, queue.c: the functions of mf_device_ops ---- */
int mf_cuda_alloc(mf_device *d, size_t bytes, void **ret);
void mf_cuda_free(mf_device *d, void *block);
int mf_cuda_alloc_host(mf_device *d, size_t bytes, void **ret);
void mf_cuda_free_host(mf_device *d, void *block);
int mf_cuda_memory(mf_device *d, size_t *ret_free, size_t *ret_total);
int mf_cuda_write(mf_device *d, void *stream, void *to, const void *from_host, size_t bytes);
int mf_cuda_read(mf_device *d, void *stream, void *to_host, const void *from, size_t bytes);
int mf_cuda_copy(mf_device *d, void *stream, void *to, const void *from, size_t bytes);
int mf_cuda_fill(mf_device *d, void *stream, void *to, int byte, size_t bytes);

/* Returns the open GPU to which a stream belongs; NULL: none. */
mf_cuda *mf_cuda_of_stream(const void *stream);
int mf_cuda_stream_new(mf_device *d, void **ret);
void mf_cuda_stream_free(mf_device *d, void *stream);
int mf_cuda_event_new(mf_device *d, void **ret);
void mf_cuda_event_free(mf_device *d, void *event);
int mf_cuda_event_record(mf_device *d, void *event, void *stream);
int mf_cuda_stream_wait(mf_device *d, void *stream, void *event);
int mf_cuda_event_wait(mf_device *d, void *event);
int mf_cuda_event_elapsed(mf_device *d, void *from, void *to, double *ret_ms);
int mf_cuda_synchronize(mf_device *d, void *stream);

int mf_cuda_record_begin(mf_device *d, void *stream);
int mf_cuda_record_end(mf_device *d, void *stream, void **ret);
int mf_cuda_replay(mf_device *d, void *stream, void *recording);
void mf_cuda_recording_free(mf_device *d, void *recording);

/* ---- code.c: kernels of plugins ---- */
int mf_cuda_code_load(mf_device *d, const void *image, void **ret);
int mf_cuda_code_kernel(mf_device *d, void *code, const char *name, void **ret);
int mf_cuda_code_launch(mf_device *d, void *stream, void *kernel, const mf_kernel_launch *l,
                        const mf_kernel_args *args);
void mf_cuda_code_free(mf_device *d, void *code);

/* ---- peak.c ---- */
/* khz: clock of the multiprocessors; 0: not known. */
void mf_cuda_peak_of(const char *name, int capability, int processors, int khz,
                     mf_cuda_peak *ret);
double mf_cuda_peak_at(mf_device *d, bool bf16);

/* ---- lt.c: gemms by cuBLASLt ---- */
int mf_cuda_lt_new(mf_cuda *c, mf_cuda_lt **ret);
void mf_cuda_lt_free(mf_cuda_lt *p);
/* Returns the error of the gemms that were launched since the last call; `message` has
 * its text. */
int mf_cuda_lt_error(mf_cuda *c);
/* The kernel `gemm`: uses cuBLASLt if it can compute g, otherwise a kernel of our own. */
void mf_cuda_lt_gemm(const mf_kctx *x, const mf_gemm *g);

#endif
