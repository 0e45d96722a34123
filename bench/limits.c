/* limits.c: measures the limits of this machine and prints them in one line of JSON.
 *
 *     limits THREADS
 *
 * The benchmarks report their figures as fractions of these limits, so the limits are measured
 * in the same minute: multiply-adds on registers in f32 and, if the processor has the
 * instructions, on pairs of bf16 and on matrix registers (AMX); an f32 gemm of the linked BLAS,
 * 1024^3; reads from memory by one thread and by all, and by all from data that fit the last
 * cache; one fused AdamW pass, which
 * reads four streams and writes three, over data that fit the last cache, and over data that do
 * not fit. Each limit is the best of several tries, because a limit is the possible rate, not
 * the usual one. */
#include <cblas.h>
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
typedef float lanes __attribute__((vector_size(4 * LANES)));

#define CHAINS 12 /* number of independent chains; more than latency x issue ports */
#define TRIES  7

static int threads;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *pages(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (p == NULL) abort();
    return p;
}

/* The rate of the fastest try; each try uses all threads. */
static double best(double work, void (*fn)(void *), void *arg)
{
    double least = 1e30;
    for (int i = 0; i < TRIES; i++) {
        const double began = now();
        fn(arg);
        const double t = now() - began;
        if (t < least) least = t;
    }
    return work / least * 1e-9;
}

/* ---- registers ---- */

#define ROUNDS 4000000L

static void fma_f32(void *sink)
{
#pragma omp parallel num_threads(threads)
    {
        lanes a[CHAINS], x, y;
        for (int j = 0; j < LANES; j++) {
            x[j] = 0.999f;
            y[j] = 0.001f;
        }
        for (int i = 0; i < CHAINS; i++)
            a[i] = y;
        for (long r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++)
                a[i] = a[i] * x + y;
            __asm__ volatile("" : "+x"(x), "+x"(y));
        }
        for (int i = 1; i < CHAINS; i++)
            a[0] += a[i];
#pragma omp atomic
        *(float *)sink += a[0][0];
    }
}

#ifdef __AVX512BF16__
static void fma_bf16(void *sink)
{
#pragma omp parallel num_threads(threads)
    {
        __m512 a[CHAINS];
        __m512i x = _mm512_set1_epi32(0x3f803f80), y = _mm512_set1_epi32(0x3c003c00);
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm512_set1_ps(0);
        for (long r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++)
                a[i] = _mm512_dpbf16_ps(a[i], (__m512bh)x, (__m512bh)y);
            __asm__ volatile("" : "+x"(x), "+x"(y));
        }
        for (int i = 1; i < CHAINS; i++)
            a[0] = _mm512_add_ps(a[0], a[i]);
#pragma omp atomic
        *(float *)sink += _mm512_cvtss_f32(a[0]);
    }
}
#endif

#if defined __AMX_BF16__ && defined __linux__
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA          18     /* number of the state that Linux then saves for a thread */
#define TILE_ROUNDS        400000L

/* Six sums hide the latency of 52 cycles, where an instruction starts every 16. */
static void amx_bf16(void *sink)
{
    (void)sink;
#pragma omp parallel num_threads(threads)
    {
        struct {
            unsigned char palette, start_row, reserved[14];
            unsigned short row_bytes[16];
            unsigned char rows[16];
        } config;
        memset(&config, 0, sizeof config);
        config.palette = 1;
        for (int t = 0; t < 8; t++) {
            config.row_bytes[t] = 64;
            config.rows[t] = 16;
        }
        /* Compilers may take the instruction for one that reads eight bytes of it. */
        __asm__ volatile("" : : "r"(&config) : "memory");
        _tile_loadconfig(&config);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_zero(4);
        _tile_zero(5);
        _tile_zero(6);
        _tile_zero(7);
        for (long r = 0; r < TILE_ROUNDS; r++) {
            _tile_dpbf16ps(0, 6, 7);
            _tile_dpbf16ps(1, 6, 7);
            _tile_dpbf16ps(2, 6, 7);
            _tile_dpbf16ps(3, 6, 7);
            _tile_dpbf16ps(4, 6, 7);
            _tile_dpbf16ps(5, 6, 7);
        }
        _tile_release();
    }
}

static void print_amx(void)
{
    const double flops = 6 * 2.0 * 16 * 16 * 32 * (double)TILE_ROUNDS * threads;
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0)
        printf(",\"amx_bf16\":%.1f", best(flops, amx_bf16, NULL));
}
#else
static void print_amx(void) {}
#endif

/* ---- gemms ---- */

typedef struct {
    int m, n, k;
    float *a, *b, *c;
} gemm;

static void multiply(void *arg)
{
    const gemm *p = arg;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->m, p->n, p->k, 1, p->a, p->k, p->b,
                p->k, 0, p->c, p->n);
}

static double gemm_rate(int m, int n, int k)
{
    gemm p = {m, n, k, NULL, NULL, NULL};
    p.a = pages(sizeof(float) * (size_t)m * (size_t)k);
    p.b = pages(sizeof(float) * (size_t)n * (size_t)k);
    p.c = pages(sizeof(float) * (size_t)m * (size_t)n);
    for (long i = 0; i < (long)m * k; i++)
        p.a[i] = (float)(i % 13) * 0.1f;
    for (long i = 0; i < (long)n * k; i++)
        p.b[i] = (float)(i % 11) * 0.1f;
    multiply(&p);
    const double rate = best(2.0 * m * n * k, multiply, &p);
    free(p.a);
    free(p.b);
    free(p.c);
    return rate;
}

/* ---- memory ---- */

typedef struct {
    float *p, *g, *m, *v;
    long n;
    int rounds, readers;
    float sum;
} streams;

static void read_all(void *arg)
{
    streams *s = arg;
    for (int round = 0; round < s->rounds; round++) {
#pragma omp parallel num_threads(s->readers)
        {
            const long at = omp_get_thread_num(),
                       part = s->n / s->readers / (8 * LANES) * (8 * LANES);
            const lanes *x = (const lanes *)(const void *)(s->p + at * part);
            lanes sum[8] = {{0}};
            for (long i = 0; i < part / LANES; i += 8)
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++)
                    sum[j] += x[i + j];
            for (int j = 1; j < 8; j++)
                sum[0] += sum[j];
#pragma omp atomic
            s->sum += sum[0][0];
        }
    }
}

static double read_rate(int readers, long bytes, int rounds)
{
    streams s = {
        .p = pages((size_t)bytes), .n = bytes / 4, .rounds = rounds, .readers = readers};
#pragma omp parallel for num_threads(threads)
    for (long i = 0; i < s.n; i++)
        s.p[i] = 1e-9f;
    read_all(&s);
    const double rate = best((double)bytes * rounds, read_all, &s);
    free(s.p);
    return rate;
}

#define LINE 16 /* number of values per cache line */
/* Prefetch distance in values. Without prefetch one core keeps too few reads in flight. */
#define AHEAD 1024

static void adamw(void *arg)
{
    const streams *s = arg;
    float *restrict p = s->p, *restrict m = s->m, *restrict v = s->v;
    const float *restrict g = s->g;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long line = 0; line < s->n; line += LINE) {
        __builtin_prefetch(p + line + AHEAD);
        __builtin_prefetch(g + line + AHEAD);
        __builtin_prefetch(m + line + AHEAD);
        __builtin_prefetch(v + line + AHEAD);
#pragma omp simd
        for (long i = line; i < line + LINE; i++) {
            m[i] += 0.1f * (g[i] - m[i]);
            v[i] += 0.05f * (g[i] * g[i] - v[i]);
            p[i] -= 1e-4f * (m[i] / (sqrtf(v[i]) + 1e-8f) + 0.01f * p[i]);
        }
    }
}

static double adamw_rate(long n)
{
    float *all = pages(16 * (size_t)n);
    streams s = {.p = all, .g = all + n, .m = all + 2 * n, .v = all + 3 * n, .n = n};
#pragma omp parallel for num_threads(threads)
    for (long i = 0; i < 4 * n; i++)
        all[i] = 0.01f;
    adamw(&s);
    const double rate = best(28.0 * (double)n, adamw, &s);
    free(all);
    return rate;
}

int main(int argc, char **argv)
{
    float sink = 0;
    threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1) return 2;
    omp_set_num_threads(threads);
    const double pairs = (double)threads * ROUNDS * CHAINS;
    printf("{\"threads\":%d", threads);
    printf(",\"fma_f32\":%.1f", best(2 * pairs * LANES, fma_f32, &sink));
#ifdef __AVX512BF16__
    printf(",\"fma_bf16\":%.1f", best(4 * pairs * LANES, fma_bf16, &sink));
#endif
    print_amx();
    printf(",\"blas_f32\":%.1f", gemm_rate(1024, 1024, 1024));
    printf(",\"read_one_gb\":%.2f", read_rate(1, 256L << 20, 1));
    printf(",\"read_gb\":%.2f", read_rate(threads, 256L << 20, 1));
    printf(",\"read_cache_gb\":%.2f", read_rate(threads, 6L << 20, 40));
    printf(",\"adamw_gb\":%.2f", adamw_rate(8L << 20));
    printf(",\"adamw_memory_gb\":%.2f}\n", adamw_rate(64L << 20));
    return sink == 1.5f;
}
