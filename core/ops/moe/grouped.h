/* ops/moe/grouped.h: typed wrappers of the ops that compute the gradients of grouped gemms.
 *
 * Rows offset[e] <= r < offset[e+1] belong to group e; offset [E+1] i32 as for
 * mf_grouped_linear. `type`: type of the result. */
#ifndef MF_OPS_GROUPED_H
#define MF_OPS_GROUPED_H

#include "ops/gemm.h"

/* y[r] = w[e]^T x[r], 0 from offset[E] on. x [R,out], w [E,out,in] -> [R,in]. If x is the
 * output of dispatch_rows, the rows are read from its source, and x need not be stored. */
mf_tensor *mf_grouped_linear_dx(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *offset,
                                mf_dtype type);
/* y[e] = sum over r of a[r] b[r]^T. a [R,out], b [R,in] -> [E,out,in]. a and b are read like x
 * of mf_grouped_linear_dx. */
mf_tensor *mf_grouped_weight_grad(mf_graph *g, mf_tensor *a, mf_tensor *b, mf_tensor *offset,
                                  mf_dtype type);
/* y[e] = sum of x[r] over the rows r of group e. x [R,n] -> [E,n] */
static inline mf_tensor *mf_group_sum(mf_graph *g, mf_tensor *x, mf_tensor *offset)
{
    return mf_op2(g, "group_sum", x, offset, NULL);
}
/* y[r] = x[e], 0 from offset[E] on. x [E,n], `rows` = R -> [R,n] */
mf_tensor *mf_group_spread(mf_graph *g, mf_tensor *x, mf_tensor *offset, int64_t rows);

#endif
