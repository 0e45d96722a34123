/* lab/bench/gemm_bench.h: measures the speed of gemms of the sizes that models have, and the
 * limits of the machine: multiply-adds on registers and memory bandwidth. All are measured in
 * one process. */
#ifndef MF_LAB_GEMM_BENCH_H
#define MF_LAB_GEMM_BENCH_H

#include <stdbool.h>
#include <stdint.h>

struct mf_device;

typedef struct mf_gemm_bench {
    const char *what;  /* "x w", "x w^T", "x^T y" */
    const char *types; /* types of operands and result */
    int64_t groups;    /* number of groups, 1: not grouped; m (k for x^T y) is the sum over
                        * the groups */
    int64_t m, n, k;
    double ms, gflops; /* medians */
} mf_gemm_bench;

typedef struct mf_machine_limits {
    /* rate of multiply-adds on registers with all threads, in f32, and the higher of those in
     * f32 and bf16; for a device the rates in its data sheet, NaN if no sheet is known */
    double peak_gflops, peak_bf16_gflops;
    double read_gb; /* GB/s read from memory; for a device, GB/s of copies within
                              * its memory */
} mf_machine_limits;

/* Measures the limits of the machine. d NULL: the CPU. memory: whether bandwidth is measured,
 * in blocks larger than any cache; otherwise the bandwidth is NaN. */
int mf_machine_limits_measure(struct mf_device *d, bool memory, mf_machine_limits *ret);
/* Number of multiply-adds of the smallest size. */
int64_t mf_gemm_bench_least(void);
/* Times every size of at most `most` multiply-adds (0: no limit), in f32, then in bf16, and
 * calls `each` after each measurement. Stops at the first error and returns it. */
int mf_gemm_bench_run(struct mf_device *d, int64_t most, int repetitions,
                      void (*each)(void *arg, const mf_gemm_bench *r), void *arg);

#endif
