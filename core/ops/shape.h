/* ops/shape.h: ops on shapes that only gradients use. moefw/ops.h has the ops that
 * plugins use. */
#ifndef MF_OPS_SHAPE_H
#define MF_OPS_SHAPE_H

#include "ops/ops.h"

/* Reverses a broadcast to x's shape: sums over the dimensions that broadcasting from `to`
 * repeats. Returns x itself if it already has the shape `to`. */
mf_tensor *mf_sum_to(mf_graph *g, mf_tensor *x, mf_shape to);
/* Reverses mf_slice: places x at `start` of the axis, whose new length is `total`, with zeros
 * before and after it. f32 only. */
mf_tensor *mf_pad(mf_graph *g, mf_tensor *x, int axis, int64_t start, int64_t total);

#endif
