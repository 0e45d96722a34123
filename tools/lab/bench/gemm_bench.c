/* Times gemms of the sizes that models have, and measures the limits of the machine:
 * multiply-adds on registers and memory bandwidth. All are measured in this process, so a speed
 * can be expressed as a fraction of the machine's present limit. */
#include "lab/bench/gemm_bench.h"
#include <math.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/device/device.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "lab/bench/timing.h"

#define TRIES       7
#define ROUNDS      40000
#define READ_FLOATS (64 << 20)
#define MIN_FLOPS   4e7 /* work of one timing; small gemms are repeated to reach it */
#define MOST_GROUPS 8

/* ---- limits ---- */

typedef struct {
    bool bf16;
    double flops[8 * MF_THREADS_MAX]; /* every eighth: threads write to lines of their own */
} multiply_job;

static void multiply_tile(void *arg, int64_t tile)
{
    multiply_job *j = arg;
    j->flops[8 * tile] = mf_kernels_multiply(j->bf16, ROUNDS);
}

static double multiply_rate(bool bf16)
{
    multiply_job j = {.bf16 = bf16};
    double best = 0;
    const int threads = mf_parallel_threads();
    for (int t = 0; t < TRIES; t++) {
        const double began = mf_clock();
        mf_parallel(threads, multiply_tile, &j);
        const double rate = 1e-9 * threads * j.flops[0] / (mf_clock() - began);
        if (t > 0 && rate > best) best = rate; /* the first run also wakes the threads */
    }
    return best;
}

/* Measures the bandwidth of copies within the device. A copy reads and writes each byte. */
static int limits_of_device(mf_device *d, bool memory, mf_machine_limits *ret)
{
    const size_t bytes = (size_t)READ_FLOATS * sizeof(float) / 2;
    void *a = NULL, *b = NULL;
    *ret = (mf_machine_limits){.peak_gflops = 1e-9 * mf_device_peak(d, false),
                               .peak_bf16_gflops = 1e-9 * mf_device_peak(d, true),
                               .read_gb = memory ? 0 : (double)NAN};
    if (ret->peak_gflops <= 0) ret->peak_gflops = (double)NAN;
    if (ret->peak_bf16_gflops <= 0) ret->peak_bf16_gflops = (double)NAN;
    if (!memory) return MF_OK;
    int rc = mf_device_alloc(d, bytes, &a);
    if (rc == MF_OK) rc = mf_device_alloc(d, bytes, &b);
    for (int t = 0; rc == MF_OK && t < TRIES; t++) {
        rc = mf_device_wait(d);
        const double began = mf_clock();
        if (rc == MF_OK) rc = mf_device_failed(d, d->ops->copy(d, d->stream, b, a, bytes));
        if (rc == MF_OK) rc = mf_device_wait(d);
        const double rate = 2e-9 * (double)bytes / (mf_clock() - began);
        if (rate > ret->read_gb) ret->read_gb = rate;
    }
    mf_device_free(d, a);
    mf_device_free(d, b);
    return rc;
}

int mf_machine_limits_measure(mf_device *d, bool memory, mf_machine_limits *ret)
{
    if (!mf_device_is_host(d)) return limits_of_device(d, memory, ret);
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = {.parallel = mf_parallel};
    float *a = mf_alloc(READ_FLOATS, sizeof *a);
    double sum, work[MF_SUMSQ_TILES];
    if (!a) return MF_ENOMEM;
    ret->peak_gflops = multiply_rate(false);
    /* Where the instruction for bf16 is the slower one, gemms in bf16 are computed in f32. */
    ret->peak_bf16_gflops = fmax(ret->peak_gflops, multiply_rate(true));
    ret->read_gb = memory ? 0 : (double)NAN;
    if (memory) MF_RUN(k, &x, set, .n = READ_FLOATS, .value = 1, .out = a);
    for (int t = 0; memory && t < TRIES; t++) {
        const double began = mf_clock();
        MF_RUN(k, &x, sumsq, .count = READ_FLOATS, .a = a, .add = false, .sum = &sum,
               .work = work);
        const double rate = 1e-9 * sizeof *a * READ_FLOATS / (mf_clock() - began);
        if (rate > ret->read_gb) ret->read_gb = rate;
    }
    mf_free(a);
    return MF_OK;
}

/* ---- gemms ---- */

typedef enum kind { X_W, X_WT, XT_Y } kind; /* c = x w, x w^T, x^T y */

static const struct size {
    kind kind;
    int64_t groups, m, n, k;
} sizes[] = {
    {X_W, 1, 1024, 1024, 1024},
    {X_W, 1, 2048, 2048, 2048},
    {X_WT, 1, 1, 2048, 512},
    {X_WT, 1, 16, 2048, 512},
    {X_WT, 1, 64, 2048, 512},
    {X_WT, 1, 256, 2048, 512},
    {X_WT, 1, 1024, 2048, 512},
    {X_WT, 1, 4096, 2048, 512},
    {X_W, 1, 16, 2048, 512},
    {X_W, 1, 64, 2048, 512},
    {X_W, 1, 1024, 512, 2048},
    {XT_Y, 1, 2048, 512, 1024},
    /* experts with dim 512 and hidden width 2048 */
    {X_WT, 8, 4800, 2048, 512},
    {X_W, 8, 4800, 512, 2048},
    {XT_Y, 8, 2048, 512, 4800},
    {X_WT, 8, 4800, 512, 2048},
    /* experts with dim 768 and hidden width 3072 */
    {X_WT, 8, 4096, 3072, 768},
    {X_W, 8, 4096, 768, 3072},
    {XT_Y, 8, 3072, 768, 4096},
    /* small models */
    {X_WT, 1, 4096, 384, 128},
    {X_WT, 1, 4096, 128, 512},
    {X_W, 1, 4096, 128, 384},
    {XT_Y, 1, 384, 128, 4096},
    {X_WT, 8, 4096, 256, 64},
    {X_WT, 8, 4096, 1024, 256},
    {XT_Y, 8, 1024, 256, 4096},
};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

typedef struct job {
    mf_device *device; /* NULL: the CPU */
    const mf_kernels *k;
    mf_gemm g;
    int calls;
} job;

static int run(void *arg, double *ret_ms)
{
    const job *j = arg;
    const mf_kctx x = mf_device_context(j->device);
    int rc = mf_device_wait(j->device);
    const double began = mf_clock();
    for (int i = 0; i < j->calls; i++)
        j->k->gemm(&x, &j->g);
    if (rc == MF_OK) rc = mf_device_wait(j->device);
    *ret_ms = 1e3 * (mf_clock() - began) / j->calls;
    return rc;
}

/* Describes gemms of equal groups. Operands by kind: x [m,k] and w [k,n], x [m,k] and w [n,k],
 * or x [k,m] and y [k,n]. */
static mf_gemm describe(const struct size *s, int32_t *offset)
{
    const int64_t rows = s->kind == XT_Y ? s->k : s->m;
    for (int64_t e = 0; e <= s->groups; e++)
        offset[e] = (int32_t)(rows * e / s->groups);
    return (mf_gemm){.m = s->m,
                     .n = s->n,
                     .k = s->k,
                     .a = {.trans = s->kind == XT_Y, .ld = s->kind == XT_Y ? s->m : s->k},
                     .b = {.trans = s->kind == X_WT,
                           .ld = s->kind == X_WT ? s->k : s->n,
                           .step = s->kind == XT_Y ? 0 : s->n * s->k},
                     .c = {.ld = s->n, .step = s->kind == XT_Y ? s->m * s->n : 0},
                     .alpha = 1,
                     .by = s->groups == 1    ? MF_BY_BATCH
                           : s->kind == XT_Y ? MF_BY_INNER
                                             : MF_BY_ROWS,
                     .groups = s->groups,
                     .offset = offset};
}

/* Allocates `count` random numbers of one stream, as f32 or bf16, in the memory in which
 * d computes. */
static int numbers(mf_device *d, int64_t count, uint64_t stream, bool bf16, void **ret)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_draw_key key = {.seed = 1};
    const mf_kctx x = {.parallel = mf_parallel, .rng_block = mf_rng_block, .key = &key};
    const size_t bytes = (size_t)count * (bf16 ? sizeof(uint16_t) : sizeof(float));
    float *f = mf_alloc((size_t)count, sizeof *f);
    void *rounded = f;
    if (!f) return MF_ENOMEM;
    MF_RUN(k, &x, random, .kind = MF_RANDOM_UNIFORM, .stream = stream, .n = count, .out = f);
    if (bf16) {
        rounded = mf_alloc((size_t)count, sizeof(uint16_t));
        if (rounded)
            MF_RUN(k, &x, cast, .n = count, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = f,
                   .out = rounded);
        mf_free(f);
    }
    if (!rounded) return MF_ENOMEM;
    *ret = rounded;
    if (mf_device_is_host(d)) return MF_OK;
    int rc = mf_device_alloc(d, bytes, ret);
    if (rc == MF_OK) rc = mf_device_write_now(d, *ret, rounded, bytes);
    mf_free(rounded);
    return rc;
}

static int measure(mf_device *d, const struct size *s, bool bf16, int repetitions,
                   mf_gemm_bench *ret)
{
    static const char *const whats[] = {"x w", "x w^T", "x^T y"};
    const mf_timing_how how = {.repetitions = repetitions};
    const mf_cast_type type = bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t of_b = s->kind == XT_Y ? 1 : s->groups,
                  of_c = s->kind == XT_Y ? s->groups : 1;
    const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    int32_t offset[MOST_GROUPS + 1];
    mf_timing time = {0};
    job j = {d, mf_device_kernels(d, NULL), describe(s, offset), 1 + (int)(MIN_FLOPS / flops)};
    void *a = NULL, *b = NULL, *c = NULL, *at = NULL;
    int rc = numbers(d, s->m * s->k, 1, bf16, &a);
    if (rc == MF_OK) rc = numbers(d, of_b * s->n * s->k, 2, bf16, &b);
    if (rc == MF_OK) rc = numbers(d, of_c * s->m * s->n, 3, bf16, &c);
    /* kernels of a device read offsets from device memory */
    if (rc == MF_OK && !mf_device_is_host(d)) {
        rc = mf_device_alloc(d, sizeof offset, &at);
        if (rc == MF_OK) rc = mf_device_write_now(d, at, offset, sizeof offset);
        j.g.offset = at;
    }
    j.g.a.type = j.g.b.type = j.g.c.type = type;
    j.g.a.data = a;
    j.g.b.data = b;
    j.g.c.data = c;
    if (rc == MF_OK && !j.k->gemm)
        rc = mf_fail(MF_EDEP, "device %s has no kernel gemm", mf_device_name(d));
    if (rc == MF_OK) rc = mf_timing_run(&how, 2, run, &j, &time);
    *ret = (mf_gemm_bench){.what = whats[s->kind],
                           .types = bf16 ? "bf16" : "f32",
                           .groups = s->groups,
                           .m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .ms = time.ms,
                           .gflops = flops / (1e6 * time.ms)};
    mf_device_free(d, a);
    mf_device_free(d, b);
    mf_device_free(d, c);
    mf_device_free(d, at);
    return rc;
}

int64_t mf_gemm_bench_least(void)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < SIZES; i++) {
        const int64_t adds = sizes[i].m * sizes[i].n * sizes[i].k;
        if (adds < least) least = adds;
    }
    return least;
}

int mf_gemm_bench_run(mf_device *d, int64_t most, int repetitions,
                      void (*each)(void *arg, const mf_gemm_bench *r), void *arg)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        mf_gemm_bench r;
        const struct size *s = &sizes[i % SIZES];
        if (most > 0 && s->m * s->n * s->k > most) continue;
        int rc = measure(d, s, i >= SIZES, repetitions, &r);
        if (rc != MF_OK) return rc;
        each(arg, &r);
    }
    return MF_OK;
}
