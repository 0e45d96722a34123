/* probe.cu: what each instruction of device.cuh gives, and those of CUDA that kernels use, for
 * small whole numbers, which are exact: a line for each result. nvcc makes a program of it that
 * runs on a GPU, an ordinary compiler one that runs on the emulator; both must print the same
 * (check_gpu.sh). What an architecture lacks is printed as "none". */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base.cuh"

enum { THREADS = 128, RESULTS = THREADS * 128 };

/* bf16 of a whole number up to 256 */
MF_INLINE mf_bf16 small(int value)
{
    return mf_bf16_from_f32((float)value);
}

/* 16 bytes of each thread, of which 2 (thread mod 9) are read. */
__global__ void probe_copies(const mf_bf16 *in, float *out)
{
    MF_SHARED_DYNAMIC(shared);
    mf_bf16 *to = (mf_bf16 *)(void *)shared;
    const int t = (int)threadIdx.x;
    mf_copy16(to + 8 * t, in + 8 * t, 2 * (t % 9));
    mf_copy_commit();
    mf_copy16(to + 8 * (THREADS + t), in + 8 * (THREADS - 1 - t), 16);
    mf_copy_commit();
    mf_copy_wait<1>();
    for (int i = 0; i < 8; i++)
        out[t * 16 + i] = mf_bf16_to_f32(to[8 * t + i]);
    mf_copy_wait<0>();
    for (int i = 0; i < 8; i++)
        out[t * 16 + 8 + i] = mf_bf16_to_f32(to[8 * (THREADS + t) + i]);
}

/* Four matrices of 8 x 8, by one warp, as they are and transposed. */
__global__ void probe_ldmatrix(const mf_bf16 *in, float *out)
{
    MF_SHARED_DYNAMIC(shared);
    mf_bf16 *at = (mf_bf16 *)(void *)shared;
    const int t = (int)threadIdx.x;
    for (int i = t; i < 256; i += THREADS)
        at[i] = in[i];
    __syncthreads();
    if (t >= 32) return;
    uint32_t r[2][4];
    mf_ldmatrix(r[0], at + 8 * t);
    mf_ldmatrix_trans(r[1], at + 8 * (t ^ 5));
    for (int i = 0; i < 8; i++) {
        out[t * 16 + 2 * i] = mf_bf16_to_f32((mf_bf16)r[i / 4][i % 4]);
        out[t * 16 + 2 * i + 1] = mf_bf16_to_f32((mf_bf16)(r[i / 4][i % 4] >> 16));
    }
}

/* Two gemms, one added to the other; each lane's registers hold numbers of its own. */
__global__ void probe_mma(float *out)
{
    const int t = (int)threadIdx.x;
    uint32_t a[4], b[2];
    float d[4];
    if (t >= 32) return;
    for (int i = 0; i < 4; i++) {
        d[i] = (float)(t - 4 * i);
        a[i] = small((t * 7 + i) % 15 - 7) | (uint32_t)small((t * 3 + i) % 13 - 6) << 16;
    }
    for (int i = 0; i < 2; i++)
        b[i] = small((t * 5 + i) % 11 - 5) | (uint32_t)small((t + 4 * i) % 9 - 4) << 16;
    mf_mma(d, a, b);
    mf_mma(d, a, b);
    for (int i = 0; i < 4; i++)
        out[t * 4 + i] = d[i];
}

/* Shuffles, votes, sums of a block, conversions. */
__global__ void probe_warps(float *out)
{
    MF_SHARED(int, count, [4]);
    const int t = (int)threadIdx.x, lane = t % 32;
    if (t < 4) count[t] = t;
    __syncthreads();
    atomicAdd(&count[t % 4], t);
    __syncthreads();
    float *mine = out + t * 8;
    mine[0] = __shfl_xor_sync(MF_ALL_LANES, (float)t, 5);
    mine[1] = (float)__shfl_sync(MF_ALL_LANES, t, (lane * 7) % 32);
    mine[2] = (float)__popc(__ballot_sync(MF_ALL_LANES, t % 3 == 0));
    mine[3] = mf_row<THREADS, mf_add>((float)(t % 5));
    mine[4] = mf_warp<mf_most>((float)(t % 29));
    mine[5] = (float)count[t % 4];
    mine[6] = mf_bf16_to_f32(mf_bf16_from_f32(1.0f + (float)t * 0x1p-9f)); /* ties, too */
    mine[7] = (float)(mf_pair((float)t, (float)-t) >> 16);
}

/* Powers of 2 and reciprocals, of which rounding takes what ex2.approx and rcp.approx may be
 * off by; numbers that are not finite or too small; conversions of two numbers, with ties. */
__global__ void probe_numbers(float *out)
{
    const int t = (int)threadIdx.x;
    const float edge[] = {-INFINITY, -127, -126, 0, 127, 128, INFINITY, NAN};
    float *mine = out + t * 6;
    mine[0] = mf_bf16_to_f32(mf_bf16_from_f32(mf_exp2((float)(t - 64))));
    mine[1] = mf_bf16_to_f32(mf_bf16_from_f32(mf_exp2(edge[t % 8])));
    const uint32_t two = mf_round2(1.0f + (float)t * 0x1p-9f, t == 0 ? INFINITY : (float)-t);
    mine[2] = mf_bf16_to_f32((mf_bf16)two);
    mine[3] = mf_bf16_to_f32((mf_bf16)(two >> 16));
    mine[4] = mf_bf16_to_f32(mf_bf16_from_f32(mf_reciprocal((float)(t - 64))));
    const float small_or_not = t % 9 == 8 ? -0x1p-127f : edge[t % 9] * 0x1p120f;
    mine[5] = mf_bf16_to_f32(mf_bf16_from_f32(mf_reciprocal(small_or_not)));
}

#if defined(MF_HAS_WGMMA) || defined(__CUDACC__)
/* A 64 x 16, B 16 x 128, inner indices along rows or across them. */
template <bool TRANS> __global__ void probe_wgmma(const mf_bf16 *in, float *out)
{
#ifdef MF_HAS_WGMMA
    MF_SHARED_DYNAMIC(shared);
    mf_bf16 *to = (mf_bf16 *)(void *)shared;
    const int t = (int)threadIdx.x;
    for (int i = t; i < 192 * 64; i += THREADS)
        to[i] = in[i % 1024];
    float d[64];
    for (int i = 0; i < 64; i++)
        d[i] = (float)(i - t);
    mf_proxy_fence();
    __syncthreads();
    const uint64_t a = mf_wgmma_operand(shared, 1024, 1024);
    const uint64_t b = mf_wgmma_operand(shared + 64 * 128, 1024, TRANS ? 2048u : 1024u);
    mf_wgmma_fence();
    mf_wgmma<TRANS, TRANS>(d, a, b);
    mf_wgmma_commit();
    mf_wgmma_wait<0>(d);
    for (int i = 0; i < 64; i++)
        out[t * 64 + i] = d[i];
#else
    (void)in, (void)out;
#endif
}
#endif

/* ---- the two sides ---- */

#ifdef __CUDACC__
static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "probe: %s: %s\n", what, cudaGetErrorString(e));
    exit(e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver ? 6 : 1);
}
static void *make(size_t bytes, const void *from)
{
    void *p = NULL;
    must(cudaMalloc(&p, bytes), "memory");
    must(from ? cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice) : cudaMemset(p, 0, bytes),
         "a copy to the GPU");
    return p;
}
static void fetch(void *to, const void *from, size_t bytes)
{
    must(cudaDeviceSynchronize(), "a kernel");
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a copy from the GPU");
}
#else
static void *make(size_t bytes, const void *from)
{
    void *p = emu::dev_alloc(bytes);
    emu::dev_show(true);
    if (from)
        memcpy(p, from, bytes);
    else
        memset(p, 0, bytes);
    emu::dev_mark_written(p, bytes);
    emu::dev_show(false);
    return p;
}
static void fetch(void *to, const void *from, size_t bytes)
{
    emu::dev_show(true);
    memcpy(to, from, bytes);
    emu::dev_show(false);
}
#endif

static void print(const char *name, float *results, int n)
{
    std::vector<float> got((size_t)n);
    fetch(got.data(), results, (size_t)n * sizeof(float));
    for (int i = 0; i < n; i++)
        printf("%s %d %.9g\n", name, i, (double)got[(size_t)i]);
}

/* Whether the device that runs has wgmma. */
static bool has_wgmma()
{
#ifdef __CUDACC__
    cudaDeviceProp p;
    must(cudaGetDeviceProperties(&p, 0), "the GPU");
    fprintf(stderr, "%s, compute capability %d.%d, %d multiprocessors\n", p.name, p.major,
            p.minor, p.multiProcessorCount);
#ifdef PROBE_WGMMA
    return p.major == 9;
#else
    return false;
#endif
#elif defined(MF_HAS_WGMMA)
    return true;
#else
    return false;
#endif
}

int main()
{
    const mf_kctx context = {}, *x = &context;
    const bool wgmma = has_wgmma();
    std::vector<mf_bf16> numbers(1024);
    for (int i = 0; i < 1024; i++)
        numbers[(size_t)i] = mf_bf16_from_f32((float)(i % 251 % 17 - 8));
    const mf_bf16 *in = (const mf_bf16 *)make(numbers.size() * sizeof(mf_bf16), numbers.data());
    float *out = (float *)make(RESULTS * sizeof(float), NULL);
    MF_LAUNCH(probe_copies, dim3(1), dim3(THREADS), 2 * THREADS * 16, x, in, out);
    print("copies", out, THREADS * 16);
    MF_LAUNCH(probe_ldmatrix, dim3(1), dim3(THREADS), 512, x, in, out);
    print("ldmatrix", out, 32 * 16);
    MF_LAUNCH(probe_mma, dim3(1), dim3(THREADS), 0, x, out);
    print("mma", out, 32 * 4);
    MF_LAUNCH(probe_warps, dim3(1), dim3(THREADS), 0, x, out);
    print("warps", out, THREADS * 8);
    MF_LAUNCH(probe_numbers, dim3(1), dim3(THREADS), 0, x, out);
    print("numbers", out, THREADS * 6);
    if (!wgmma) printf("wgmma none\n");
#if defined(MF_HAS_WGMMA) || defined(PROBE_WGMMA)
    if (wgmma) {
        MF_LAUNCH(probe_wgmma<false>, dim3(1), dim3(THREADS), 192 * 128, x, in, out);
        print("wgmma", out, THREADS * 64);
        MF_LAUNCH(probe_wgmma<true>, dim3(1), dim3(THREADS), 192 * 128, x, in, out);
        print("wgmma trans", out, THREADS * 64);
    }
#endif
#ifndef __CUDACC__
    return emu::findings() != 0;
#else
    return 0;
#endif
}
