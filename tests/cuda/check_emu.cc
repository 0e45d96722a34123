/* check_emu: the emulator finds what it says it finds. Each case is a kernel with a planted
 * fault, and beside it the same kernel without, in which nothing must be found: three orders,
 * two seeds.
 *
 * The first case is also what pins the compiler: if its calls for reads and writes were no
 * longer made, or were made with other arguments, a race in three lines would not be found. */
#include "device.cuh"
#include "kernels/bf16.h"

#include <math.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

/* FAULT: the kernel has its fault. A template, so that a kernel is written once. */
#define KERNEL template <bool FAULT> __global__ void

KERNEL shared_race(int *out)
{
    MF_SHARED(int, box, [64]);
    box[threadIdx.x] = (int)threadIdx.x;
    if (!FAULT) __syncthreads();
    out[threadIdx.x] = box[(threadIdx.x + 1) % 64];
}
KERNEL shared_written_early(int *out)
{
    MF_SHARED(int, box, [64]);
    box[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = box[63 - threadIdx.x];
    if (!FAULT) __syncthreads();
    box[threadIdx.x] = 2;
}
KERNEL blocks_race(int *out)
{
    out[FAULT ? threadIdx.x : threadIdx.x + 64 * blockIdx.x] = (int)blockIdx.x;
}
/* The thread, or the block, that reads last is also the one that writes. */
KERNEL read_by_many(int *out)
{
    const int v = out[0];
    if (!FAULT) __syncthreads();
    if (threadIdx.x == 63) out[0] = 1;
    out[64 + threadIdx.x] = v; /* or only the last thread would need to read */
}
KERNEL read_by_blocks(int *out)
{
    const int v = out[FAULT ? 0 : blockIdx.x];
    if (blockIdx.x == 1) out[1 - FAULT] = 1;
    out[2 + blockIdx.x] = v;
}
KERNEL threads_race(int *out)
{
    out[FAULT ? threadIdx.x / 2 : threadIdx.x] = 1;
}
KERNEL warps_race(int *out)
{
    MF_SHARED(int, box, [64]);
    box[threadIdx.x] = 1;
    __syncwarp();
    out[threadIdx.x] = box[threadIdx.x ^ (FAULT ? 32 : 1)];
}
KERNEL shuffle_orders_nothing(int *out)
{
    MF_SHARED(int, box, [64]);
    box[threadIdx.x] = 1;
    __shfl_xor_sync(0xffffffffu, 1, 1);
    if (!FAULT) __syncwarp();
    out[threadIdx.x] = box[threadIdx.x ^ 1];
}
KERNEL global_bounds(int *out)
{
    out[threadIdx.x + (FAULT && threadIdx.x == 63 ? 65 : 0)] = 1;
}
KERNEL shared_bounds(int *out)
{
    MF_SHARED(int, box, [64]);
    box[threadIdx.x + (FAULT && threadIdx.x == 63)] = 1;
    __syncthreads();
    out[threadIdx.x] = box[threadIdx.x];
}
KERNEL first_use_of_shared(int *out)
{
    MF_SHARED(int, box, [64]);
    if (!FAULT || threadIdx.x > 0) box[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = box[threadIdx.x];
}
KERNEL first_use_of_global(int *out, const int *in)
{
    out[threadIdx.x] = FAULT ? in[threadIdx.x] : 1;
}
int of_the_host[64]; /* not static: the compiler must not know its values */
KERNEL host_memory(int *out, const int *in)
{
    out[threadIdx.x] = FAULT ? *in : 1;
}
KERNEL barrier_of_some(int *out)
{
    if (FAULT && threadIdx.x >= 40) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
KERNEL two_barriers(int *out)
{
    if (FAULT && threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}
KERNEL lane_is_missing(int *out)
{
    if (FAULT && threadIdx.x == 5) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
}
KERNEL lane_outside_of_mask(int *out)
{
    int v = 0;
    if (threadIdx.x % 32 < 16) v = __shfl_sync(0xffffu, 1, FAULT ? 20 : 3);
    out[threadIdx.x] = v;
}
KERNEL copy_read_early(int *out)
{
    MF_SHARED(uint4, box, [16]);
    if (threadIdx.x < 16) {
        mf_copy16(&box[threadIdx.x], out + 4 * threadIdx.x, 16);
        mf_copy_commit();
        if (!FAULT) mf_copy_wait<0>();
    }
    __syncthreads();
    const int v = ((const int *)box)[threadIdx.x];
    if (FAULT && threadIdx.x < 16) mf_copy_wait<0>();
    out[64 + threadIdx.x] = v;
}
KERNEL copy_left_open(int *out)
{
    MF_SHARED(uint4, box, [64]);
    mf_copy16(&box[threadIdx.x], out, 16);
    mf_copy_commit();
    if (!FAULT) mf_copy_wait<0>();
}
KERNEL copy_not_aligned(int *out)
{
    MF_SHARED(uint4, box, [64]);
    mf_copy16(&box[threadIdx.x], out + FAULT, 16);
    mf_copy_commit();
    mf_copy_wait<0>();
}
KERNEL not_aligned(int *out)
{
    MF_ALIGNED(out + FAULT, 16);
    out[threadIdx.x] = 1;
}
KERNEL mbarrier_used_early(int *out)
{
    MF_SHARED(uint64_t, bar, [1]);
    if (threadIdx.x == 0) emu::mbar_init(bar, 64, __FILE__, __LINE__);
    if (!FAULT) __syncthreads();
    emu::mbar_arrive(bar, 0, __FILE__, __LINE__);
    emu::mbar_wait(bar, 0, __FILE__, __LINE__);
    out[threadIdx.x] = 1;
}
KERNEL bulk_copy_read_early(int *out)
{
    MF_SHARED(uint64_t, bar, [1]);
    MF_SHARED(uint4, box, [16]);
    if (threadIdx.x == 0) emu::mbar_init(bar, 1, __FILE__, __LINE__);
    __syncthreads();
    if (threadIdx.x == 0) {
        emu::bulk_copy(box, out, 256, bar, __FILE__, __LINE__);
        emu::mbar_arrive(bar, 256, __FILE__, __LINE__);
    }
    if (!FAULT) emu::mbar_wait(bar, 0, __FILE__, __LINE__);
    out[64 + threadIdx.x] = ((const int *)box)[threadIdx.x];
}

/* Two wgmma of a warpgroup. a [m,k] = m + 1 where m = k, b [k,n] = k + 1 where n = 2 k, so that
 * d [m,2m] = (m + 1)^2 for m < 16; with TRANS both lie in memory by inner indices. */
enum fault {
    NONE,
    NO_FENCE,        /* of registers */
    NO_PROXY_FENCE,  /* of what a thread wrote itself */
    NO_PROXY_OF_ONE, /* thread 5 alone lacks it */
    NO_PROXY_OF_COPY,
    WRITTEN_EARLY, /* an operand, before it is waited for */
    COPIED_EARLY,
    NO_WAIT,
    READ_EARLY, /* sums, before they are waited for */
    ONE_GROUP_EARLY,
    OPERANDS_DIFFER,  /* within a warpgroup */
    NOT_AT_EIGHT,     /* rows: the descriptor begins at the second one of eight */
    NO_SWIZZLE,       /* in the descriptor */
    BEHIND,           /* the end of shared memory */
    A_WARP_IS_MISSING /* for one of the two */
};

template <bool TRANS> MF_INLINE int wgmma_place(int i, int k)
{
    const int at = TRANS ? i / 64 * 8192 + k * 128 + i % 64 * 2 : i * 128 + k * 2;
    return (at ^ (at >> 7 & 7) << 4) / 2;
}
template <fault F, bool TRANS> __global__ void wgmma(int *out)
{
    MF_SHARED_DYNAMIC(tile); /* a in 8 KiB, b in 16 KiB */
    const int t = (int)threadIdx.x;
    float d[64] = {};
    uint64_t a = mf_wgmma_operand(tile, 8192, 1024);
    uint64_t b = mf_wgmma_operand(tile + 8192, 8192, 1024);
    for (int i = t; i < 24 << 8; i += 128)
        ((int *)tile)[i] = 0;
    __syncthreads();
    mf_bf16 *of_a = (mf_bf16 *)tile, *of_b = (mf_bf16 *)(tile + 8192);
    if (t < 16) of_a[wgmma_place<TRANS>(t, t)] = mf_bf16_from_f32((float)t + 1);
    if (t < 16) of_b[wgmma_place<TRANS>(2 * t, t)] = mf_bf16_from_f32((float)t + 1);
    if (F == NO_PROXY_OF_COPY) mf_proxy_fence();
    if (F == NO_PROXY_OF_COPY) mf_copy16(tile, out, 16);
    mf_copy_commit();
    mf_copy_wait<0>();
    if (F != NO_PROXY_FENCE && F != NO_PROXY_OF_COPY && (F != NO_PROXY_OF_ONE || t != 5))
        mf_proxy_fence();
    __syncthreads();
    if (F == OPERANDS_DIFFER && t >= 96) b += 2;
    if (F == NOT_AT_EIGHT) a += 8;
    if (F == NO_SWIZZLE) a &= ~((uint64_t)3 << 62);
    if (F == BEHIND) b = mf_wgmma_operand(tile + (226 << 10), 8192, 1024);
    if (F != NO_FENCE) mf_wgmma_fence();
    if (F != A_WARP_IS_MISSING || t < 96) mf_wgmma<TRANS, TRANS>(d, a, b);
    mf_wgmma_commit();
    mf_wgmma_fence();
    mf_wgmma<TRANS, TRANS>(d, a, F == A_WARP_IS_MISSING ? b + 128 : b);
    mf_wgmma_commit();
    if (F == WRITTEN_EARLY || F == COPIED_EARLY) __syncthreads();
    if (F == WRITTEN_EARLY) ((int *)tile)[t] = 1;
    if (F == COPIED_EARLY) mf_copy16(tile + 16 * t, out, 16), mf_copy_commit();
    if (F == ONE_GROUP_EARLY) mf_wgmma_wait<1>(d);
    float early = d[0]; /* NaN until all that adds to it was waited for */
    if (F != NO_WAIT) mf_wgmma_wait<0>(d);
    mf_copy_wait<0>();
    if (F != READ_EARLY && F != ONE_GROUP_EARLY) early = d[0];
    /* lane l of the first warp has rows l / 4 + 8 h, in them columns 8 j + l % 4 * 2 */
    int right = !isnan(early);
    for (int h = 0; h < 2; h++) {
        const int row = t / 4 + 8 * h, column = 2 * row;
        if (F == NONE && t < 32 && t % 4 == column % 8 / 2)
            right &= d[column / 8 * 4 + 2 * h] == 2 * (float)((row + 1) * (row + 1));
    }
    out[t] = right;
}

/* ---- cases ---- */

static int number, failed;

static void say(bool good, const char *name, const char *what)
{
    number++;
    failed += !good;
    printf("%sok %d - %s: %s\n", good ? "" : "not ", number, name, what);
}

struct arrays {
    int *out, *unwritten, *freed;
};
struct memory : arrays {
    memory()
    {
        out = (int *)emu::dev_alloc(128 * sizeof(int));
        unwritten = (int *)emu::dev_alloc(64 * sizeof(int));
        emu::dev_show(true);
        memset(out, 0, 128 * sizeof(int));
        emu::dev_mark_written(out, 128 * sizeof(int));
        freed = (int *)emu::dev_alloc(128 * sizeof(int));
        emu::dev_free(freed);
    }
    ~memory()
    {
        emu::dev_free(out);
        emu::dev_free(unwritten);
    }
};

/* Runs one kernel in all orders. kind: what must be found each time; NULL: nothing. */
template <class F> static void all_orders(const char *name, const char *kind, F launch)
{
    int runs = 0, found = 0, others = 0;
    for (int order = 0; order < 3; order++)
        for (int seed = 1; seed <= 2; seed++) {
            memory m;
            emu::opt.order = order;
            emu::opt.seed = (uint64_t)seed;
            emu::forget();
            launch(m);
            runs++;
            found += kind && emu::findings(strcmp(kind, "any finding") == 0 ? NULL : kind) > 0;
            others += emu::findings() > 0;
        }
    say(kind ? found == runs : others == 0, name, kind ? kind : "no finding");
}

#define CASE(kernel, grid, block, kind, ...)                                                   \
    all_orders(#kernel, kind, [](arrays m) {                                                   \
        (void)m;                                                                               \
        emu::launch("faulty", grid, block, 0, [=] { kernel<true>(__VA_ARGS__); });             \
    });                                                                                        \
    all_orders(#kernel, NULL, [](arrays m) {                                                   \
        (void)m;                                                                               \
        emu::launch("right", grid, block, 0, [=] { kernel<false>(__VA_ARGS__); });             \
    })
/* A thread whose numbers are wrong writes 0. */
static void want_ones(const int *out)
{
    for (int t = 0; t < 128; t++)
        if (out[t] != 1) emu::finding("numbers", "thread %d", t);
}

#define WGMMA(what, kind)                                                                      \
    all_orders("wgmma " #what, kind, [](arrays m) {                                            \
        emu::launch("wgmma", 1, 128, 24 << 10, [=] { wgmma<what, false>(m.out); });            \
        want_ones(m.out);                                                                      \
    });                                                                                        \
    all_orders("wgmma by inner indices " #what, kind, [](arrays m) {                           \
        emu::launch("wgmma", 1, 128, 24 << 10, [=] { wgmma<what, true>(m.out); });             \
        want_ones(m.out);                                                                      \
    })

int main()
{
    emu::opt.quiet = !getenv("LOUD");
    CASE(shared_race, 1, 64, "race", m.out);
    CASE(shared_written_early, 1, 64, "race", m.out);
    CASE(blocks_race, 2, 64, "race", m.out);
    CASE(threads_race, 1, 64, "race", m.out);
    CASE(read_by_many, 1, 64, "race", m.out);
    CASE(read_by_blocks, 2, 1, "race", m.out);
    CASE(warps_race, 1, 64, "race", m.out);
    CASE(shuffle_orders_nothing, 1, 64, "race", m.out);
    CASE(global_bounds, 1, 64, "bounds", m.out);
    CASE(shared_bounds, 1, 64, "bounds", m.out);
    CASE(first_use_of_shared, 1, 64, "first use", m.out);
    CASE(first_use_of_global, 1, 64, "first use", m.out, m.unwritten);
    CASE(host_memory, 1, 64, "host memory", m.out, of_the_host);
    CASE(barrier_of_some, 1, 64, "deadlock", m.out);
    CASE(two_barriers, 1, 64, "barrier", m.out);
    CASE(lane_is_missing, 1, 64, "warp", m.out);
    CASE(lane_outside_of_mask, 1, 64, "shuffle", m.out);
    CASE(copy_read_early, 1, 64, "race", m.out);
    CASE(copy_left_open, 1, 64, "cp.async", m.out);
    CASE(copy_not_aligned, 1, 64, "align", m.out);
    CASE(not_aligned, 1, 64, "align", m.out);
    CASE(mbarrier_used_early, 1, 64, "any finding", m.out);
    CASE(bulk_copy_read_early, 1, 64, "race", m.out);
    WGMMA(NONE, NULL);
    WGMMA(NO_FENCE, "wgmma");
    WGMMA(NO_PROXY_FENCE, "proxy");
    WGMMA(NO_PROXY_OF_ONE, "proxy");
    WGMMA(NO_PROXY_OF_COPY, "proxy");
    WGMMA(WRITTEN_EARLY, "wgmma");
    WGMMA(COPIED_EARLY, "any finding");
    WGMMA(NO_WAIT, "wgmma");
    WGMMA(READ_EARLY, "numbers");
    WGMMA(ONE_GROUP_EARLY, "numbers");
    WGMMA(OPERANDS_DIFFER, "wgmma");
    WGMMA(NOT_AT_EIGHT, "wgmma");
    WGMMA(NO_SWIZZLE, "wgmma");
    WGMMA(BEHIND, "bounds");
    WGMMA(A_WARP_IS_MISSING, "wgmma");
    all_orders("freed memory", "bounds", [](arrays m) {
        emu::launch("freed", 1, 64, 0, [=] { threads_race<false>(m.freed); });
    });
    all_orders("a block of 2048 threads", "launch", [](arrays m) {
        emu::launch("large", 1, 2048, 0, [=] { threads_race<false>(m.out); });
    });
    all_orders("more shared memory than there is", "launch", [](arrays m) {
        emu::launch("large", 1, 64, 228 << 10, [=] { threads_race<false>(m.out); });
    });
    printf("1..%d\n", number);
    return failed != 0;
}
