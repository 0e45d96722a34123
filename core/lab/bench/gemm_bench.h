/* lab/bench/gemm_bench.h: the speed of gemms of the sizes that models have, and the limits of
 * the machine: multiply-adds on registers and memory bandwidth. All are measured in
 * one process. */
#ifndef MF_LAB_GEMM_BENCH_H
#define MF_LAB_GEMM_BENCH_H

#include <stdint.h>

typedef struct mf_gemm_bench {
    const char *what;  /* "x w", "x w^T", "x^T y" */
    const char *types; /* of operands and result: "f32", "bf16" */
    int64_t groups;    /* 1: not grouped; m (k for x^T y) is the sum over the groups */
    int64_t m, n, k;
    double ms, gflops; /* median */
} mf_gemm_bench;

typedef struct mf_machine_limits {
    double peak_gflops; /* f32 multiply-adds on registers, all threads */
    double read_gb;     /* GB/s read from memory */
} mf_machine_limits;

int mf_machine_limits_measure(mf_machine_limits *ret);
/* Times every size in f32, then every size in bf16, and calls `each` after each of them. Stops
 * at the first error and returns it. */
int mf_gemm_bench_run(int repetitions, void (*each)(void *arg, const mf_gemm_bench *r),
                      void *arg);

#endif
