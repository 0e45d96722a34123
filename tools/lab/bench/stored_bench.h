/* lab/bench/stored_bench.h: how fast decoding reads weights as stored in files.
 *
 * Each type is measured as a token meets it in a layer of experts: one row of x for each of 8
 * chosen experts, of which a pass takes 8 after 8 until it has read all of them, more than the
 * caches hold. The row is f32, or bf16 as in models that are opened so. Next to each pass a
 * loop that does nothing else reads the same memory, so the share of both rates is what the
 * arithmetic leaves of the memory's. Pages have 4 KiB, as those of mapped files do. */
#ifndef MF_LAB_STORED_BENCH_H
#define MF_LAB_STORED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_stored_bench {
    const char *type; /* "f32", "bf16", "f16", "int4" (GPTQ, groups of 128), "mxfp4" */
    int64_t experts, out, in;
    int64_t bytes; /* that a pass reads, scales included */
    /* medians in GB/s: of the gemms, and of a loop that only reads the weights */
    double gb, read_gb;
    double share, share_lo, share_hi; /* of the pairs: median, lowest, highest */
} mf_stored_bench;

/* Measures every type by `pairs` pairs of passes (at least 1), and calls `each` after each of
 * them. bf16: so are the rows of x. MF_ENOMEM. */
int mf_stored_bench_run(int pairs, bool bf16, void (*each)(void *arg, const mf_stored_bench *r),
                        void *arg);

#endif
