/* kernels/cuda/backend.c: opens GPUs, and reports why a GPU cannot be used. A function that
 * fails has freed what it allocated. */
#include "kernels/cuda/backend.h"

#include <moefw/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>
#include "kernels/cuda/launch.h"

#define OLDEST 80 /* compute capability 8.0, the oldest for which cuBLASLt has bf16 gemms */

int mf_cuda_judge(mf_cuda *c, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return MF_OK;
    /* Clears a temporary error, so that no later call reports it again. */
    (void)cudaGetLastError();
    snprintf(c->message, sizeof c->message, "%s failed: %s", what, cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? MF_ENOMEM : MF_ERUN;
}

static const char *message(mf_device *d)
{
    return mf_cuda_of(d)->message;
}

static void free_gpu(mf_cuda *c)
{
    mf_cuda_lt_free(c->lt);
    if (c->scratch) (void)cudaFree(c->scratch);
    free(c);
}

static void close_device(mf_device *d)
{
    free_gpu(mf_cuda_of(d));
}

/* The kernel set of the process, with NULL for kernels that the backend does not have. */
static mf_kernels kernels;

/* Returns the kernel set. Runs and stores call this before they launch, perhaps in a thread
 * that did not open the device. The number of the current GPU belongs to the thread, so it is
 * set here. */
static const mf_kernels *kernels_like(mf_device *d, const mf_kernels *host)
{
    (void)host;
    (void)cudaSetDevice(mf_cuda_of(d)->index);
    return &kernels;
}

static const mf_device_ops ops = {
    .size = sizeof ops,
    .flags = MF_DEVICE_BF16_ATTENTION,
    .name = "cuda",
    .close = close_device,
    .message = message,
    .alloc = mf_cuda_alloc,
    .free = mf_cuda_free,
    .alloc_host = mf_cuda_alloc_host,
    .free_host = mf_cuda_free_host,
    .memory = mf_cuda_memory,
    .write = mf_cuda_write,
    .read = mf_cuda_read,
    .copy = mf_cuda_copy,
    .fill = mf_cuda_fill,
    .stream_new = mf_cuda_stream_new,
    .stream_free = mf_cuda_stream_free,
    .event_new = mf_cuda_event_new,
    .event_free = mf_cuda_event_free,
    .event_record = mf_cuda_event_record,
    .stream_wait = mf_cuda_stream_wait,
    .event_wait = mf_cuda_event_wait,
    .synchronize = mf_cuda_synchronize,
    .kernels_like = kernels_like,
    .record_begin = mf_cuda_record_begin,
    .record_end = mf_cuda_record_end,
    .replay = mf_cuda_replay,
    .recording_free = mf_cuda_recording_free,
    .code_load = mf_cuda_code_load,
    .code_kernel = mf_cuda_code_kernel,
    .code_launch = mf_cuda_code_launch,
    .code_free = mf_cuda_code_free,
    .peak = mf_cuda_peak_at,
    .event_elapsed = mf_cuda_event_elapsed,
};

/* ---- opening ---- */

typedef struct gpu {
    int count, capability, processors;
    char name[256];
} gpu;

static int number(int *ret, enum cudaDeviceAttr attribute, int index)
{
    return cudaDeviceGetAttribute(ret, attribute, index) == cudaSuccess;
}

/* Returns MF_EDEP if the driver, the GPUs or this GPU cannot be used; text then says why. */
static int look(int index, gpu *ret, char *text, size_t size)
{
    struct cudaDeviceProp prop;
    int major = 0, minor = 0;
    const cudaError_t error = cudaGetDeviceCount(&ret->count);
    if (error != cudaSuccess || ret->count == 0) {
        snprintf(text, size,
                 "no GPU can be used: %s; expected an NVIDIA GPU and a driver for CUDA %d or "
                 "later (Debian package: nvidia-driver), or use device cpu",
                 error == cudaSuccess ? "there is none" : cudaGetErrorString(error),
                 CUDART_VERSION / 1000);
        return MF_EDEP;
    }
    if (index >= ret->count) {
        snprintf(text, size, "GPU %d does not exist: expected 0 .. %d", index, ret->count - 1);
        return MF_EDEP;
    }
    if (cudaGetDeviceProperties(&prop, index) != cudaSuccess ||
        !number(&major, cudaDevAttrComputeCapabilityMajor, index) ||
        !number(&minor, cudaDevAttrComputeCapabilityMinor, index) ||
        !number(&ret->processors, cudaDevAttrMultiProcessorCount, index)) {
        snprintf(text, size, "GPU %d: its properties cannot be read: %s", index,
                 cudaGetErrorString(cudaGetLastError()));
        return MF_EDEP;
    }
    snprintf(ret->name, sizeof ret->name, "%.255s", prop.name);
    ret->capability = 10 * major + minor;
    if (ret->capability >= OLDEST) return MF_OK;
    snprintf(text, size,
             "GPU %d (%s) has compute capability %d.%d: expected %d.%d or higher (Ampere)",
             index, ret->name, major, minor, OLDEST / 10, OLDEST % 10);
    return MF_EDEP;
}

static int open_device(const mf_backend_host *host, int index, mf_device *d, char *text,
                       size_t size)
{
    gpu g = {0};
    int khz = 0;
    (void)host;
    int rc = look(index, &g, text, size);
    if (rc != MF_OK) return rc;
    mf_cuda *c = calloc(1, sizeof *c);
    if (!c) return MF_ENOMEM;
    c->index = index;
    if (!number(&khz, cudaDevAttrClockRate, index)) {
        khz = 0;
        (void)cudaGetLastError(); /* the peak may then be unknown, which is no error */
    }
    mf_cuda_peak_of(g.name, g.capability, g.processors, khz, &c->peak);
    rc = mf_cuda_judge(c, cudaSetDevice(index), "the choice of the GPU");
    if (rc == MF_OK)
        rc =
            mf_cuda_judge(c, cudaMalloc(&c->scratch, MF_CUDA_SCRATCH), "the memory of kernels");
    if (rc == MF_OK) rc = mf_cuda_lt_new(c, &c->lt);
    if (rc != MF_OK) {
        snprintf(text, size, "GPU %d (%s): %.300s", index, g.name, c->message);
        free_gpu(c);
        return rc;
    }
    mf_cuda_processors = g.processors;
    mf_cuda_capability = g.capability;
    mf_cuda_multiply = mf_cuda_lt_gemm;
    kernels = mf_kernels_cuda;
    kernels.gemm = mf_cuda_lt_gemm;
    d->ops = &ops;
    d->self = c;
    d->kernels = &kernels;
    return MF_OK;
}

/* ---- what doctor shows ---- */

static bool describe(int i, char *text, size_t size)
{
    int driver = 0, runtime = 0;
    gpu g = {0};
    size_t free = 0, total = 0;
    if (i == 0) {
        (void)cudaDriverGetVersion(&driver);
        (void)cudaRuntimeGetVersion(&runtime);
        char loaded[40] = "no driver";
        if (driver > 0)
            snprintf(loaded, sizeof loaded, "driver for CUDA %d.%d", driver / 1000,
                     driver % 1000 / 10);
        snprintf(text, size, "%s, runtime %d.%d, cuBLASLt %zu.%zu.%zu", loaded, runtime / 1000,
                 runtime % 1000 / 10, cublasLtGetVersion() / 10000,
                 cublasLtGetVersion() / 100 % 100, cublasLtGetVersion() % 100);
        return true;
    }
    char why[512];
    if (look(i - 1, &g, why, sizeof why) != MF_OK) {
        if (i > 1 && i > g.count) return false;
        snprintf(text, size, "%s", why);
        return true;
    }
    if (cudaSetDevice(i - 1) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess)
        snprintf(text, size, "%d: %s: %s", i - 1, g.name,
                 cudaGetErrorString(cudaGetLastError()));
    else
        snprintf(
            text, size,
            "%d: %s, compute capability %d.%d, %d multiprocessors, %.0f MiB, %.0f MiB free",
            i - 1, g.name, g.capability / 10, g.capability % 10, g.processors,
            (double)total / 1048576, (double)free / 1048576);
    return true;
}

__attribute__((visibility("default"))) const mf_backend moefw_backend = {
    .magic = MF_BACKEND_MAGIC,
    .size = sizeof moefw_backend,
    .device_size = sizeof(mf_device_ops),
    .kernels_size = sizeof(mf_kernels),
    .version = MOEFW_VERSION,
    .name = "cuda",
    .open = open_device,
    .describe = describe,
};
