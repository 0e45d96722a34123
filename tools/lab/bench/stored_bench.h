/* lab/bench/stored_bench.h: how fast decoding reads weights in the types in which files
 * store them.
 *
 * Each type is measured as in decoding with a layer of experts: one row of x is multiplied with
 * each of 8 chosen experts. A pass continues with the next 8 experts until it has read all of
 * them, which are larger than the caches. The row is f32, or bf16 as in models opened with
 * bf16. Next to each pass a loop that only reads the same memory is timed. The ratio of both
 * rates is the share of the memory's rate that the arithmetic reaches. Pages have 4 KiB, like
 * those of mapped files. */
#ifndef MF_LAB_STORED_BENCH_H
#define MF_LAB_STORED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_stored_bench {
    const char *type; /* "f32", "bf16", "f16", "int4" (GPTQ, groups of 128), "mxfp4" */
    int64_t experts, out, in;
    int64_t bytes; /* bytes that a pass reads, including scales */
    /* median rates in GB/s: of the gemms, and of a loop that only reads the weights */
    double gb, read_gb;
    double share, share_lo, share_hi; /* ratio of both rates over the pairs: median,
                                       * lowest, highest */
} mf_stored_bench;

/* Measures every type with `pairs` pairs of passes (at least 1), and calls `each` after each
 * type. bf16: the rows of x are bf16, too. Can fail with MF_ENOMEM. */
int mf_stored_bench_run(int pairs, bool bf16, void (*each)(void *arg, const mf_stored_bench *r),
                        void *arg);

#endif
