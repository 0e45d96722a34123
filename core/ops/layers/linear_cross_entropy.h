/* ops/layers/linear_cross_entropy.h: the loss of a linear head, computed without
 * stored logits. */
#ifndef MF_OPS_LINEAR_CROSS_ENTROPY_H
#define MF_OPS_LINEAR_CROSS_ENTROPY_H

#include "ops/ops.h"

/* Returns the scalar loss of mf_cross_entropy(mf_linear(x, w, b), target, weight). x [N,d], w
 * [V,d], b [V] or NULL, target [N] i32, weight [N] or NULL (without gradient). If x, w or b
 * needs a gradient, the gradient is computed together with the loss. *ret_rows (ret_rows may be
 * NULL): the loss of each row [N], 0 if target < 0, without a gradient; it is not available if
 * b needs a gradient. */
mf_tensor *mf_linear_cross_entropy(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b,
                                   mf_tensor *target, mf_tensor *weight, mf_tensor **ret_rows);
/* Like mf_cross_entropy, and also returns the loss of each row. */
mf_tensor *mf_cross_entropy_rows(mf_graph *g, mf_tensor *logits, mf_tensor *target,
                                 mf_tensor *weight, mf_tensor **ret_rows);

#endif
