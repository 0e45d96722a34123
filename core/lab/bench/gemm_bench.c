/* Times gemms of the sizes that models have, and measures the limits of the machine:
 * multiply-adds on registers and memory bandwidth. All are measured in this process, so a speed
 * can be given as a fraction of what the machine can do at present. */
#include "lab/bench/gemm_bench.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "lab/bench/timing.h"

#define TRIES       7
#define ROUNDS      40000
#define READ_FLOATS (64 << 20)
#define MIN_FLOPS   4e7 /* per timing, so small gemms are repeated */
#define MOST_GROUPS 8

/* ---- limits ---- */

static void multiply_tile(void *arg, int64_t tile)
{
    ((double *)arg)[8 * tile] = mf_kernels_multiply(ROUNDS);
}

static double multiply_rate(void)
{
    double flops[8 * MF_THREADS_MAX], best = 0;
    const int threads = mf_parallel_threads();
    for (int t = 0; t < TRIES; t++) {
        const double began = mf_clock();
        mf_parallel(threads, multiply_tile, flops);
        const double rate = 1e-9 * threads * flops[0] / (mf_clock() - began);
        if (t > 0 && rate > best) best = rate; /* the first run also wakes the threads */
    }
    return best;
}

int mf_machine_limits_measure(mf_machine_limits *ret)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = {.parallel = mf_parallel};
    float *a = mf_alloc(READ_FLOATS, sizeof *a);
    double sum, work[MF_SUMSQ_TILES];
    if (!a) return MF_ENOMEM;
    ret->peak_gflops = multiply_rate();
    ret->read_gb = 0;
    k->set(&x, READ_FLOATS, 1, a);
    for (int t = 0; t < TRIES; t++) {
        const double began = mf_clock();
        k->sumsq(&x, READ_FLOATS, a, false, &sum, work);
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
    {X_W, 1, 1024, 1024, 1024}, {X_W, 1, 2048, 2048, 2048}, {X_WT, 1, 1, 2048, 512},
    {X_WT, 1, 16, 2048, 512},   {X_WT, 1, 64, 2048, 512},   {X_WT, 1, 256, 2048, 512},
    {X_WT, 1, 1024, 2048, 512}, {X_WT, 1, 4096, 2048, 512}, {X_W, 1, 16, 2048, 512},
    {X_W, 1, 64, 2048, 512},    {X_W, 1, 1024, 512, 2048},  {XT_Y, 1, 2048, 512, 1024},
    {X_WT, 8, 4800, 2048, 512}, {X_W, 8, 4800, 512, 2048}, /* experts, 512 to 2048 */
    {XT_Y, 8, 2048, 512, 4800}, {X_WT, 8, 4800, 512, 2048}, {X_WT, 8, 4096, 3072, 768},
    {X_W, 8, 4096, 768, 3072},                             /* experts, 768 to 3072 */
    {XT_Y, 8, 3072, 768, 4096}, {X_WT, 1, 4096, 384, 128}, /* small models */
    {X_WT, 1, 4096, 128, 512},  {X_W, 1, 4096, 128, 384},   {XT_Y, 1, 384, 128, 4096},
    {X_WT, 8, 4096, 256, 64},   {X_WT, 8, 4096, 1024, 256}, {XT_Y, 8, 1024, 256, 4096},
};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

typedef struct job {
    const mf_kernels *k;
    mf_gemm g;
    int calls;
} job;

static int run(void *arg, double *ret_ms)
{
    const job *j = arg;
    const mf_kctx x = {.parallel = mf_parallel, .threads = mf_parallel_threads()};
    const double began = mf_clock();
    for (int i = 0; i < j->calls; i++)
        j->k->gemm(&x, &j->g);
    *ret_ms = 1e3 * (mf_clock() - began) / j->calls;
    return MF_OK;
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

/* `count` random numbers of one stream, as f32 or bf16. */
static void *numbers(const mf_kernels *k, int64_t count, uint64_t stream, bool bf16)
{
    const mf_draw_key key = {.seed = 1};
    const mf_kctx x = {.parallel = mf_parallel, .rng_block = mf_rng_block, .key = &key};
    float *f = mf_alloc((size_t)count, sizeof *f);
    if (!f) return NULL;
    k->random(&x, MF_RANDOM_UNIFORM, stream, count, f);
    if (!bf16) return f;
    void *rounded = mf_alloc((size_t)count, 2);
    if (rounded) k->cast(&x, count, MF_CAST_F32, MF_CAST_BF16, f, rounded);
    mf_free(f);
    return rounded;
}

static int measure(const struct size *s, bool bf16, int repetitions, mf_gemm_bench *ret)
{
    static const char *const whats[] = {"x w", "x w^T", "x^T y"};
    const mf_timing_how how = {.repetitions = repetitions};
    const mf_cast_type type = bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t of_b = s->kind == XT_Y ? 1 : s->groups,
                  of_c = s->kind == XT_Y ? s->groups : 1;
    const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    int32_t offset[MOST_GROUPS + 1];
    mf_timing time = {0};
    job j = {mf_backend_kernels(), describe(s, offset), 1 + (int)(MIN_FLOPS / flops)};
    void *a = numbers(j.k, s->m * s->k, 1, bf16),
         *b = numbers(j.k, of_b * s->n * s->k, 2, bf16);
    void *c = numbers(j.k, of_c * s->m * s->n, 3, bf16);
    j.g.a.type = j.g.b.type = j.g.c.type = type;
    j.g.a.data = a;
    j.g.b.data = b;
    j.g.c.data = c;
    int rc = a && b && c ? mf_timing_run(&how, 2, run, &j, &time) : MF_ENOMEM;
    *ret = (mf_gemm_bench){.what = whats[s->kind],
                           .types = bf16 ? "bf16" : "f32",
                           .groups = s->groups,
                           .m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .ms = time.ms,
                           .gflops = flops / (1e6 * time.ms)};
    mf_free(a);
    mf_free(b);
    mf_free(c);
    return rc;
}

int mf_gemm_bench_run(int repetitions, void (*each)(void *arg, const mf_gemm_bench *r),
                      void *arg)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        mf_gemm_bench r;
        int rc = measure(&sizes[i % SIZES], i >= SIZES, repetitions, &r);
        if (rc != MF_OK) return rc;
        each(arg, &r);
    }
    return MF_OK;
}
