/* kernel_case.h: how a kernel gets its row in check_kernels.
 *
 * A row is a function that calls one kernel on inputs it asks for, and says which arrays are
 * results. The harness runs it with `ref`, then with `cpu` for every instruction set and for 1,
 * 2 and 4 threads, and compares:
 *   - `cpu` with `ref`: equal bits on inputs that are small whole numbers if the row is `exact`
 *     (all its sums are then exact); within `tol` of the largest result on broken numbers;
 *   - `cpu` with itself: equal bits at any number of threads.
 * Rows stand in kernel_rows_*.c, one array a family, listed in check_kernels.c. A kernel of
 * kernels.def without a row fails the suite, so adding a kernel = adding a row (or several):
 *
 *     static void run_scale(mf_kt *t)
 *     {
 *         int64_t n = t->variant == 0 ? 1000 : 70001;   // variants: other shapes, t->variant
 *         float *a = kt_result(t, n);                   // results begin filled like inputs
 *         t->k->scale_inplace(t->x, n, 3, a);
 *     }
 *     ... {"scale_inplace", run_scale, 2, true, 1e-6} ...  // kernel, function,
 *                                                          // variants, exact, tol
 */
#ifndef MF_KERNEL_CASE_H
#define MF_KERNEL_CASE_H

#include "kernels/kernel.h"

typedef struct mf_kt mf_kt;
struct mf_kt {
    const mf_kernels *k;
    const mf_kctx *x;
    mf_fault fault; /* what kernels record: x->fault */
    int variant;    /* 0 .. variants - 1 */
    bool whole;     /* inputs are small whole numbers now */
    uint64_t drawn;
    int n_results, n_blocks;
    struct {
        void *data;
        int64_t count;
        bool is_int;
    } result[8];
    void *block[24];
};

typedef struct mf_kernel_row {
    const char *kernel;
    void (*run)(mf_kt *t);
    int variants;
    bool exact;
    double tol;
} mf_kernel_row;

/* Inputs: broken numbers in [-2, 2), or whole ones in [-4, 4]. The same in every run. */
float *kt_f32(mf_kt *t, int64_t count);
/* Positive: [0.25, 1.25) or 1 .. 4. */
float *kt_positive(mf_kt *t, int64_t count);
/* Whole numbers lo .. hi. */
int32_t *kt_i32(mf_kt *t, int64_t count, int64_t lo, int64_t hi);
/* Rising offsets 0 .. rows with empty groups and rows past the last. [groups + 1] */
int32_t *kt_offsets(mf_kt *t, int64_t groups, int64_t rows);
/* Results, filled like kt_f32 and kt_i32 before the kernel runs. */
float *kt_result(mf_kt *t, int64_t count);
int32_t *kt_result_i32(mf_kt *t, int64_t count);
/* A number that the kernel returned. */
void kt_returned(mf_kt *t, double value);
/* The fault that kernels have recorded by now becomes a result, and is taken back. */
void kt_faulted(mf_kt *t);
/* A copy of these bytes in memory that kernels may read. */
void *kt_given(mf_kt *t, const void *from, size_t bytes);
void *kt_work(mf_kt *t, size_t bytes); /* filled with NaN */

extern const mf_kernel_row mf_kernel_cases_bf16[];
extern const mf_kernel_row mf_kernel_cases_gemm[];
/* Slow ones, that run for libraries only. */
extern const mf_kernel_row mf_kernel_cases_many[];
extern const mf_kernel_row mf_kernel_cases_layers[];
extern const mf_kernel_row mf_kernel_cases_maps[];
extern const mf_kernel_row mf_kernel_cases_routing[];

#endif
