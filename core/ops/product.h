/* ops/product.h: products whose result has a type of its own; what the gradients of products
 * use.
 *
 * In all of them attr.i[TYPE slot] is 0, the result then has the type of the first operand, or
 * MF_AS(type). The sums are f32 in any case.
 */
#ifndef MF_OPS_PRODUCT_H
#define MF_OPS_PRODUCT_H

#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

/* y = x w^T + b, of type `type`. */
static inline mf_tensor *mf_linear_as(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b,
                                      mf_dtype type)
{
    return mf_op3(g, "linear", x, w, b, &(mf_attr){.i = {MF_AS(type)}});
}
/* y = s op(a) op(b), of type `type`. */
static inline mf_tensor *mf_matmul_as(mf_graph *g, mf_tensor *a, bool trans_a, mf_tensor *b,
                                      bool trans_b, double s, mf_dtype type)
{
    return mf_op2(g, "matmul", a, b,
                  &(mf_attr){.i = {trans_a, trans_b, MF_AS(type)}, .f = {s}});
}

/* The output type of a product: what attr.i[slot] says, in a graph of type x. */
static inline int mf_infer_result(const mf_infer *in, int slot, mf_dtype x, mf_dtype *ret)
{
    if (mf_infer_attr(in, slot, "type of the result", 0, MF_AS(MF_BF16))) return MF_ESHAPE;
    *ret = mf_attr_type(in->attr->i[slot], x);
    return MF_OK;
}
static inline mf_cast_type mf_call_type(const mf_view *v)
{
    return v->dtype == MF_BF16 ? MF_CAST_BF16 : MF_CAST_F32;
}

#endif
