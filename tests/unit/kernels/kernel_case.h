/* kernel_case.h: how to add a case for a kernel to check_kernels.
 *
 * A case is a function that calls one kernel on inputs that it requests, and declares which
 * arrays are results. check_kernels.c runs it with `ref`, then with `cpu` for every instruction
 * set at 1, 2 and 4 threads, and compares:
 *
 *   - `cpu` with `ref`: if the case is `exact`, results are equal on inputs that are small
 *     integers, for which all sums are exact; otherwise results differ by at most `tol` times
 *     the largest element of the result;
 *   - `cpu` with itself: the bits are equal at any number of threads.
 *
 * Cases are in kernel_cases_*.c, one array per family, which check_kernels.c lists. If a kernel
 * of kernels.def has no case, the suite fails, so a new kernel needs at least one case:
 *
 *     static void run_scale(mf_kt *t)
 *     {
 *         int64_t n = t->variant == 0 ? 1000 : 70001;   // variants: other shapes, t->variant
 *         float *a = kt_result(t, n);                   // results are first filled like inputs
 *         KT_RUN(t, scale_inplace, .count = n, .factor = 3, .a = a);
 *     }
 *     ... {"scale_inplace", run_scale, 2, true, 1e-6} ...  // kernel, function,
 *                                                          // variants, exact, tol */
#ifndef MF_KERNEL_CASE_H
#define MF_KERNEL_CASE_H

#include "kernels/kernel.h"

#define MF_KT_BLOCKS 96 /* largest number of blocks of a case */

typedef struct mf_kt mf_kt;
struct mf_kt {
    const mf_kernels *k;
    const mf_kctx *x;
    mf_fault fault; /* where kernels record faults: x->fault */
    int variant;    /* 0 .. variants - 1 */
    bool whole;     /* inputs are small integers in this run */
    uint64_t drawn;
    int n_results, n_blocks;
    struct {
        void *data;
        int64_t count;
        bool is_int;
    } result[8];
    void *block[MF_KT_BLOCKS];
    size_t bytes[MF_KT_BLOCKS];
};

/* Returns a kernel set that launches the kernels of `set` on the device under test
 * (tests/lib/device.h). Each kernel works on copies of all blocks of t on the device, which are
 * copied back after it has run. Returns `set` itself if there is no such device. */
const mf_kernels *mf_kernels_launched(mf_kt *t, const mf_kernels *set);

typedef struct mf_kernel_row {
    const char *kernel;
    void (*run)(mf_kt *t);
    int variants;
    bool exact;
    double tol;
} mf_kernel_row;

/* Runs the kernel of the case, with fields in the form of MF_RUN. */
#define KT_RUN(t, fn, ...) MF_RUN((t)->k, (t)->x, fn, __VA_ARGS__)

/* Inputs in [-2, 2), or integers from -4 to 4. They are the same in every run. */
float *kt_f32(mf_kt *t, int64_t count);
/* Positive inputs: [0.25, 1.25), or integers 1 .. 4. */
float *kt_positive(mf_kt *t, int64_t count);
/* Integers from lo to hi. */
int32_t *kt_i32(mf_kt *t, int64_t count, int64_t lo, int64_t hi);
/* Offsets from 0 to at most `rows`, [groups + 1], in ascending order. Some groups are empty,
 * and some rows come after the last group if rows >= 16. */
int32_t *kt_offsets(mf_kt *t, int64_t groups, int64_t rows);
/* Results, filled like kt_f32, or with integers from -9 to 9, before the kernel runs. */
float *kt_result(mf_kt *t, int64_t count);
int32_t *kt_result_i32(mf_kt *t, int64_t count);
/* Whether dense gemms also write nothing after a fault. A device may use a library for dense
 * gemms, which does not check for faults; the output is then undefined. */
bool kt_gemms_stop(void);
/* Whether such a library may compute the gemms of the case. A library may round a bf16 c in
 * two steps. */
bool kt_by_library(const mf_kernel_row *row);
/* Whether kernels decode every type of stored weights. CUDA does not (graph/store/stored.h). */
bool kt_decodes_all(void);
/* Adds the recorded fault to the results, and clears it. */
void kt_faulted(mf_kt *t);
/* A copy of these bytes in memory that kernels may read. */
void *kt_given(mf_kt *t, const void *from, size_t bytes);
void *kt_work(mf_kt *t, size_t bytes); /* work memory, filled with NaN */
/* kt_typed: work memory with these numbers in a type. kt_give: adds numbers of a type to the
 * results, as f32. */
void *kt_typed(mf_kt *t, int type, int64_t count, const float *from);
void kt_give(mf_kt *t, int type, int64_t count, const void *from);

extern const mf_kernel_row mf_kernel_cases_aligned[];
extern const mf_kernel_row mf_kernel_cases_attention[];
extern const mf_kernel_row mf_kernel_cases_bf16[];
extern const mf_kernel_row mf_kernel_cases_gemm[];
extern const mf_kernel_row mf_kernel_cases_stored[];
/* Slow cases, only for matrix registers. */
extern const mf_kernel_row mf_kernel_cases_stored_many[];
/* Slow cases, only for libraries. */
extern const mf_kernel_row mf_kernel_cases_many[];
extern const mf_kernel_row mf_kernel_cases_layers[];
extern const mf_kernel_row mf_kernel_cases_maps[];
extern const mf_kernel_row mf_kernel_cases_routing[];
extern const mf_kernel_row mf_kernel_cases_token[];
extern const mf_kernel_row mf_kernel_cases_wide[];

/* Tests the kernels k with numbers that are not finite, in weights of each type and in x
 * (stored_special.c). name: the name of the tested code. */
void mf_test_stored_special(const mf_kernels *k, const char *name);
/* Tests how the kernels k round few rows of bf16 (stored_special.c). */
void mf_test_stored_few(const mf_kernels *k, const char *name);

#endif
