/* kernels/cuda/code.c: kernels that plugins contain as data. Images are loaded as libraries of
 * CUDA, and their kernels are launched in a stream like those of the backend. */
#include "kernels/cuda/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Judges a load. If a load finds nothing for this GPU, this is no fault of the image: the op
 * runs on the host. */
static int judge_load(mf_cuda *c, cudaError_t error, const char *what)
{
    int major = 0, minor = 0;
    switch (error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction: /* CUDA reports this error if a kernel is loaded
                                          * too late */
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
        (void)cudaGetLastError();
        (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c->index);
        (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, c->index);
        snprintf(c->message, sizeof c->message,
                 "nothing in its image is for compute capability %d.%d (%s)", major, minor,
                 cudaGetErrorString(error));
        return MF_EDEP;
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorSymbolNotFound:
        (void)mf_cuda_judge(c, error, what);
        return MF_EPLUGIN;
    default:
        return mf_cuda_judge(c, error, what);
    }
}

int mf_cuda_code_load(mf_device *d, const void *image, void **ret)
{
    cudaLibrary_t library;
    const int rc = judge_load(
        mf_cuda_of(d), cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0),
        "loading its image");
    if (rc == MF_OK) *ret = library;
    return rc;
}

/* Loads a kernel. It also reads the kernel's attributes, because CUDA loads a kernel at its
 * first use, and must not load it while launches are recorded. */
int mf_cuda_code_kernel(mf_device *d, void *code, const char *name, void **ret)
{
    char what[200];
    struct cudaFuncAttributes unused;
    cudaKernel_t kernel;
    snprintf(what, sizeof what, "finding kernel '%.127s' in its image", name);
    int rc = judge_load(mf_cuda_of(d), cudaLibraryGetKernel(&kernel, code, name), what);
    if (rc == MF_OK)
        rc = judge_load(mf_cuda_of(d),
                        cudaFuncGetAttributes(&unused, (const void *)(uintptr_t)kernel), what);
    if (rc == MF_OK) *ret = kernel;
    return rc;
}

int mf_cuda_code_launch(mf_device *d, void *stream, void *kernel, const mf_kernel_launch *l,
                        const mf_kernel_args *args)
{
    const dim3 grid = {l->grid[0], l->grid[1], l->grid[2]};
    const dim3 block = {l->block[0], l->block[1], l->block[2]};
    void *list[] = {(void *)(uintptr_t)args};
    int rc = MF_OK;
    /* Up to 48 KiB need no permission, but they include the kernel's static memory, whose size
     * is not known here. So permission is always requested. */
    if (l->shared_bytes > 0)
        rc = mf_cuda_judge(mf_cuda_of(d),
                           cudaFuncSetAttribute(kernel,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                (int)l->shared_bytes),
                           "the permission for its shared memory");
    if (rc != MF_OK) return rc;
    return mf_cuda_judge(mf_cuda_of(d),
                         cudaLaunchKernel(kernel, grid, block, list, l->shared_bytes, stream),
                         "the launch");
}

void mf_cuda_code_free(mf_device *d, void *code)
{
    (void)mf_cuda_judge(mf_cuda_of(d), cudaLibraryUnload(code), "unloading an image");
}
