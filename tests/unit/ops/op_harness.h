/* op_harness.h: builds a graph for a case of op_case.h, fills its inputs, runs it and
 * compares results. */
#ifndef MF_OP_HARNESS_H
#define MF_OP_HARNESS_H

#include "kernels/kernel.h"
#include "op_case.h"

enum { OT_MAX_RESULTS = MF_OP_MAX_OUT + MF_OP_MAX_IN };

/* The outputs of a run, followed by the requested gradients. */
typedef struct ot_results {
    int n, n_out;
    float *data[OT_MAX_RESULTS]; /* values as f32, or as i32 */
    mf_shape shape[OT_MAX_RESULTS];
    int64_t count[OT_MAX_RESULTS];
    bool is_int[OT_MAX_RESULTS];
    int input_of[OT_MAX_RESULTS]; /* the input to which a gradient belongs; -1: an output */
    void *input[MF_OP_MAX_IN];    /* copies of the inputs */
} ot_results;

int ot_inputs(const mf_op_row *row); /* number of inputs, including missing ones */
mf_shape ot_shape(const ot_in *in);
mf_dtype ot_dtype(const ot_in *in);
/* How cases are built and filled. OT_ROUNDED: inputs that the op accepts as bf16 have values
 * that bf16 can represent. OT_ROUNDED_CAST: these inputs are also cast to bf16, and results are
 * converted to f32. */
typedef enum ot_type { OT_ALL_F32, OT_ROUNDED, OT_ROUNDED_CAST } ot_type;
extern ot_type ot_types;

/* A graph with the case's inputs and its op. ret_out[0] is NULL if the op is refused. wants:
 * bit i requests the gradient of input i. */
mf_graph *ot_build(const mf_op_row *row, uint32_t wants, mf_tensor **in, mf_tensor **ret_out);
/* Adds the backward pass from the outputs in row->flow. The gradients of these outputs have the
 * same values in every build. Returns the graph's status. */
int ot_differentiate(const mf_op_row *row, mf_graph *g, bool whole, uint32_t wants,
                     mf_tensor *const *in, mf_tensor *const *out);
void ot_fill(const mf_op_row *row, bool whole, mf_tensor *const *in);
/* The inputs that may have a gradient, according to op and case. */
uint32_t ot_wants(const mf_op_row *row);
/* Builds and runs the case, with gradients of the inputs in `wants`. Asserts that
 * this succeeds. */
void ot_compute(const mf_op_row *row, const mf_kernels *k, bool whole, uint32_t wants,
                ot_results *ret);
void ot_results_free(ot_results *r);
bool ot_same_bits(const ot_results *a, const ot_results *b);
/* Largest difference, relative to the largest element of the same result. Integers must be
 * equal, and NaN and Inf must be in the same places. */
double ot_difference(const ot_results *a, const ot_results *b);
double ot_difference_of(const float *a, const float *b, int64_t n);

#endif
