/* ops/shape.h: ops on shapes that only gradients use; the public ones are in moefw/ops.h. */
#ifndef MF_OPS_SHAPE_H
#define MF_OPS_SHAPE_H

#include "ops/ops.h"

/* The reverse of broadcasting to x's shape: sums over the dimensions that broadcasting from
 * `to` repeats. Returns x itself if it already has the shape `to`. */
mf_tensor *mf_sum_to(mf_graph *g, mf_tensor *x, mf_shape to);
/* The reverse of mf_slice: x at start .. of the axis, which gets the length `total`; zeros
 * before and after. f32 only. */
mf_tensor *mf_pad(mf_graph *g, mf_tensor *x, int axis, int64_t start, int64_t total);

#endif
