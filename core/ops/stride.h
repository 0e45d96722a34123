/* ops/stride.h: dense tensors as four strided dimensions, for kernels that broadcast or copy.
 *
 * Shapes are aligned at the last dimension and padded in front with dimensions of size 1. A
 * stride of 0 repeats an operand along a dimension. */
#ifndef MF_OPS_STRIDE_H
#define MF_OPS_STRIDE_H

#include <moefw/types.h>

typedef struct mf_walk {
    int64_t dim[4];
    int64_t stride[3][4]; /* strides of up to three operands */
    int operands;
} mf_walk;

/* Computes the broadcast of two shapes, as numpy defines it; false if the shapes are
 * not compatible. */
bool mf_shape_broadcast(mf_shape a, mf_shape b, mf_shape *ret);

/* Returns a walk over all elements of shape `to`, row-major. */
mf_walk mf_walk_over(mf_shape to);
/* Adds a dense operand of shape `from`, repeated up to the walk's shape. */
void mf_walk_add(mf_walk *w, mf_shape from);
/* Adds an operand with given strides for the last `rank` dimensions of the walk. */
void mf_walk_add_strides(mf_walk *w, int rank, const int64_t *stride);
/* Merges neighbouring dimensions over which each operand has a single stride, so that inner
 * loops are long. */
void mf_walk_merge(mf_walk *w);

/* Computes the strides of a dense tensor, one for each of its dimensions. */
void mf_shape_strides(mf_shape s, int64_t stride[MF_MAX_RANK]);

#endif
