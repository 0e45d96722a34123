/* lab/product_bench.h: matrix products of the sizes that models have, against what the
 * registers of this machine can multiply and its memory can deliver, measured in the same
 * process.
 */
#ifndef MF_LAB_PRODUCT_BENCH_H
#define MF_LAB_PRODUCT_BENCH_H

#include <stdint.h>

typedef struct mf_product_bench {
    const char *what;  /* "x w", "x w^T", "x^T y" */
    const char *types; /* of operands and result: "f32", "bf16" */
    int64_t groups;    /* 1: none; m (x^T y: k) counts the rows of all */
    int64_t m, n, k;
    double ms, gflops; /* median */
} mf_product_bench;

typedef struct mf_machine_limits {
    double peak_gflops; /* multiply-adds in f32 on registers, all threads */
    double read_gb;     /* GB/s, from memory */
} mf_machine_limits;

int mf_machine_limits_measure(mf_machine_limits *ret);
/* Calls each for every size; stops at an error and returns it. */
int mf_product_bench_run(int repetitions, void (*each)(void *arg, const mf_product_bench *r),
                         void *arg);

#endif
