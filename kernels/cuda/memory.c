/* kernels/cuda/memory.c: memory of the GPU, host memory that the GPU can access, and copies.
 * Copies are queued. If CUDA did not allocate the host memory, a copy reads it before the
 * function returns. */
#include <stdio.h>
#include "kernels/cuda/backend.h"

int mf_cuda_alloc(mf_device *d, size_t bytes, void **ret)
{
    mf_cuda *c = mf_cuda_of(d);
    const cudaError_t error = cudaMalloc(ret, bytes ? bytes : 64);
    size_t free = 0, total = 0;
    if (error != cudaErrorMemoryAllocation)
        return mf_cuda_judge(c, error, "an allocation of memory");
    /* clears the error, which is reported here and must not be reported again */
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = total = 0;
    snprintf(c->message, sizeof c->message,
             "no memory for %.1f MiB: %.1f MiB of %.1f MiB are free", (double)bytes / 1048576,
             (double)free / 1048576, (double)total / 1048576);
    return MF_ENOMEM;
}

void mf_cuda_free(mf_device *d, void *block)
{
    if (block) (void)mf_cuda_judge(mf_cuda_of(d), cudaFree(block), "freeing memory");
}

int mf_cuda_alloc_host(mf_device *d, size_t bytes, void **ret)
{
    return mf_cuda_judge(mf_cuda_of(d),
                         cudaHostAlloc(ret, bytes ? bytes : 64, cudaHostAllocDefault),
                         "an allocation of host memory");
}

void mf_cuda_free_host(mf_device *d, void *block)
{
    if (block) (void)mf_cuda_judge(mf_cuda_of(d), cudaFreeHost(block), "freeing host memory");
}

int mf_cuda_memory(mf_device *d, size_t *ret_free, size_t *ret_total)
{
    return mf_cuda_judge(mf_cuda_of(d), cudaMemGetInfo(ret_free, ret_total),
                         "the size of memory");
}

int mf_cuda_write(mf_device *d, void *stream, void *to, const void *from_host, size_t bytes)
{
    return mf_cuda_judge(mf_cuda_of(d),
                         cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream),
                         "a copy to the GPU");
}

int mf_cuda_read(mf_device *d, void *stream, void *to_host, const void *from, size_t bytes)
{
    return mf_cuda_judge(mf_cuda_of(d),
                         cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream),
                         "a copy from the GPU");
}

int mf_cuda_copy(mf_device *d, void *stream, void *to, const void *from, size_t bytes)
{
    return mf_cuda_judge(mf_cuda_of(d),
                         cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                         "a copy within the GPU");
}

int mf_cuda_fill(mf_device *d, void *stream, void *to, int byte, size_t bytes)
{
    return mf_cuda_judge(mf_cuda_of(d), cudaMemsetAsync(to, byte, bytes, stream), "a fill");
}
