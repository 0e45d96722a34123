/* occupancy.cc: how many blocks of a kernel run on a multiprocessor at once, by the header that
 * the CUDA Toolkit has for this, for many sizes of kernels: lines for static.awk, which counts
 * for itself. It needs no GPU. */
#include <cuda_runtime_api.h>
#include <cuda_occupancy.h>
#include <cstdio>

struct limits {
    const char *arch;
    int major, minor, threads;
    size_t shared;
};
static const limits all[] = {{"sm_80", 8, 0, 2048, 164 << 10},
                             {"sm_90a", 9, 0, 2048, 228 << 10},
                             {"sm_100", 10, 0, 2048, 228 << 10},
                             {"sm_120", 12, 0, 1536, 100 << 10}};

static int blocks_of(const limits &l, int registers, int threads, size_t shared)
{
    cudaOccDeviceProp p{};
    p.computeMajor = l.major, p.computeMinor = l.minor;
    p.maxThreadsPerBlock = 1024, p.maxThreadsPerMultiprocessor = l.threads;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32, p.numSms = 1;
    p.sharedMemPerBlock = 48 << 10, p.sharedMemPerMultiprocessor = l.shared;
    p.reservedSharedMemPerBlock = 1024, p.sharedMemPerBlockOptin = l.shared - 1024;
    cudaOccFuncAttributes f{};
    f.maxThreadsPerBlock = 1024, f.numRegs = registers, f.numBlockBarriers = 1;
    f.partitionedGCConfig = PARTITIONED_GC_OFF, f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    f.maxDynamicSharedSizeBytes = l.shared;
    cudaOccDeviceState s{};
    s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r{};
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, threads, shared) !=
        CUDA_OCC_SUCCESS)
        return -1;
    return r.activeBlocksPerMultiprocessor;
}

int main()
{
    for (const limits &l : all)
        for (int registers = 16; registers <= 255; registers += 7)
            for (int threads = 32; threads <= 1024; threads += threads < 128 ? 32 : 128)
                for (size_t shared = 0; shared + 1024 <= l.shared; shared += 7168)
                    printf("%s %d %d %zu %d\n", l.arch, registers, threads, shared,
                           blocks_of(l, registers, threads, shared));
    return 0;
}
