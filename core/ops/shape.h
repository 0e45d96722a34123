/* ops/shape.h: ops on shapes that only gradients use; the public ones are in moefw/ops.h. */
#ifndef MF_OPS_SHAPE_H
#define MF_OPS_SHAPE_H

#include "ops/ops.h"

/* The reverse of broadcasting to x's shape: sums over the dimensions that shape `to` repeats.
 * Gives x itself if it has that shape already. */
mf_tensor *mf_sum_to(mf_graph *g, mf_tensor *x, mf_shape to);
/* The reverse of mf_slice: x at start .. along the axis, zeros before and behind it, `total` in
 * all. f32 only. */
mf_tensor *mf_pad(mf_graph *g, mf_tensor *x, int axis, int64_t start, int64_t total);

#endif
