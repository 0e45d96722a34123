/* op_harness.h: a row of op_case.h as a graph: inputs, runs, comparison. */
#ifndef MF_OP_HARNESS_H
#define MF_OP_HARNESS_H

#include "kernels/kernel.h"
#include "op_case.h"

enum { OT_MAX_RESULTS = MF_OP_MAX_OUT + MF_OP_MAX_IN };

/* Outputs, then the gradients that were asked for. */
typedef struct ot_results {
    int n, n_out;
    float *data[OT_MAX_RESULTS]; /* or i32 */
    mf_shape shape[OT_MAX_RESULTS];
    int64_t count[OT_MAX_RESULTS];
    bool is_int[OT_MAX_RESULTS];
    int input_of[OT_MAX_RESULTS]; /* whose gradient it is */
    void *input[MF_OP_MAX_IN];    /* copies of what went in */
} ot_results;

int ot_inputs(const mf_op_row *row); /* number, absent ones included */
mf_shape ot_shape(const ot_in *in);
mf_dtype ot_dtype(const ot_in *in);
/* How rows are built and filled: inputs that the op takes as bf16 hold numbers that are exactly
 * so; cast, they also get there as bf16, and what comes out is converted to f32. */
typedef enum ot_type { OT_ALL_F32, OT_ROUNDED, OT_ROUNDED_CAST } ot_type;
extern ot_type ot_types;

/* A graph with the row's inputs and its op; NULL in ret_out[0] when that is refused. `wants`:
 * bit i: input i will be asked for its gradient. */
mf_graph *ot_build(const mf_op_row *row, uint32_t wants, mf_tensor **in, mf_tensor **ret_out);
void ot_fill(const mf_op_row *row, bool whole, mf_tensor *const *in);
/* Inputs that a gradient may flow into, as the op and the row have it. */
uint32_t ot_wants(const mf_op_row *row);
/* Builds and runs; gradients of the inputs in `wants`. Asserts that all of it works. */
void ot_compute(const mf_op_row *row, const mf_kernels *k, bool whole, uint32_t wants,
                ot_results *ret);
void ot_results_free(ot_results *r);
bool ot_same_bits(const ot_results *a, const ot_results *b);
/* Largest difference as a part of the largest number of the same result; integers and places of
 * NaN and Inf must agree. */
double ot_difference(const ot_results *a, const ot_results *b);
double ot_difference_of(const float *a, const float *b, int64_t n);

#endif
