/* ops/moe/grouped.h: typed wrappers of the ops of which gradients of grouped gemms
 * are composed.
 *
 * Rows offset[e] <= r < offset[e+1] belong to group e; offset [E+1] i32 as for
 * mf_grouped_linear. `type`: type of the result. */
#ifndef MF_OPS_GROUPED_H
#define MF_OPS_GROUPED_H

#include "ops/gemm.h"

/* y[r] = w[e]^T x[r], 0 after offset[E]. x [R,out], w [E,out,in] -> [R,in]. If dispatch_rows
 * made x, the rows are read at their source, and x need not be stored. */
mf_tensor *mf_grouped_linear_dx(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *offset,
                                mf_dtype type);
/* y[e] = sum over r of a[r] b[r]^T. a [R,out], b [R,in] -> [E,out,in]; a and b are read as
 * x above. */
mf_tensor *mf_grouped_weight_grad(mf_graph *g, mf_tensor *a, mf_tensor *b, mf_tensor *offset,
                                  mf_dtype type);
/* y[e] = sum of x[r] over the rows r of group e. x [R,n] -> [E,n] */
static inline mf_tensor *mf_group_sum(mf_graph *g, mf_tensor *x, mf_tensor *offset)
{
    return mf_op2(g, "group_sum", x, offset, NULL);
}
/* y[r] = x[e], 0 after offset[E]. x [E,n], `rows` = R -> [R,n] */
mf_tensor *mf_group_spread(mf_graph *g, mf_tensor *x, mf_tensor *offset, int64_t rows);

#endif
