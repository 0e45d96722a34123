/* kernels/kernel.h: the table of numeric kernels, by backend.
 *
 * A kernel gets raw pointers, sizes and strides, never a tensor. Each is declared once, in
 * kernels.def, with its formula. `ref` implements all of them with plain loops and double
 * accumulators: it is the truth. Another set begins as a copy of `ref` and puts its faster ones
 * over it, so a set may be incomplete but never has a hole. The CUDA backend has the same table
 * over device pointers.
 *
 * Rules: no allocation (work memory is handed in); nothing depends on the number of threads:
 * tiles are cut by shape; sums are in a fixed order.
 */
#ifndef MF_KERNEL_H
#define MF_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a kernel runs: handed to each as its first argument. */
typedef struct mf_kctx {
    /* Runs fn(arg, t) for all t in [0, tiles). */
    void (*parallel)(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg);
    /* One Philox block: words 4 block .. 4 block + 3 of the stream (base/rng.h). */
    void (*rng_block)(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                      uint32_t out[4]);
    uint64_t seed, step; /* of random kernels */
} mf_kctx;

typedef struct mf_kernels {
    const char *name; /* "ref", "cpu" */
#define MF_KERNEL(ret, fn, args) ret(*fn) args;
#include "kernels/kernels.def"
#undef MF_KERNEL
} mf_kernels;

extern const mf_kernels mf_kernels_ref;

/* ref + what kernels/cpu does better, for the best instruction set of this machine, or the one
 * that the environment variable MOEFW_ISA names. NULL when that name is unknown, or not to be had
 * on this machine: the caller reports it, with mf_kernels_isas for what was expected. Judged on
 * the first call, which must be on one thread. Results differ between instruction sets, within
 * rounding; on one of them they are the same bits always. */
const mf_kernels *mf_kernels_cpu(void);
/* Instruction sets that this build has and this machine runs, best first, NULL-terminated. */
const char *const *mf_kernels_isas(void);
/* The one that mf_kernels_cpu uses; NULL where it returns NULL. */
const char *mf_kernels_isa(void);
/* The product library under the cpu set: name, version, build, the kernels it chose. */
const char *mf_kernels_blas(void);
/* For tests and benchmarks: the cpu set compiled for one of mf_kernels_isas; NULL if unknown.
 * Overwritten by the next call. */
const mf_kernels *mf_kernels_cpu_for(const char *isa);

/* The set by name: "ref", "cpu"; NULL or "" means cpu. NULL for an unknown name: the caller, who
 * read MOEFW_KERNELS, reports it. */
const mf_kernels *mf_kernels_select(const char *name);

#endif
