/* ops/gemm.h: gemm ops with a chosen type of the result, and helpers that describe a gemm to
 * the kernel.
 *
 * The attribute for the type is 0 (the type of the first operand) or MF_AS(type). Sums are f32
 * (ref: double) and are rounded to bf16 at most once. */
#ifndef MF_OPS_GEMM_H
#define MF_OPS_GEMM_H

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

/* Sets *ret to the type of a gemm's output, which attr.i[slot] chooses. x: type of the
 * first operand. */
static inline int mf_infer_result(const mf_infer *in, int slot, mf_dtype x, mf_dtype *ret)
{
    if (mf_infer_attr(in, slot, "type of the result", 0, MF_AS(MF_BF16))) return MF_ESHAPE;
    *ret = mf_attr_type(in->attr->i[slot], x);
    return MF_OK;
}

/* Returns input i of a call as an operand whose stored rows are `ld` elements apart. */
static inline mf_gemm_operand mf_call_operand(const mf_call *call, int i, int64_t ld)
{
    return (mf_gemm_operand){
        .data = call->in[i].data, .type = mf_call_type(&call->in[i]), .ld = ld};
}
/* Returns output 0 of a call as the result of a gemm. */
static inline mf_gemm_result mf_call_result(const mf_call *call, int64_t ld)
{
    return (mf_gemm_result){
        .data = call->out[0].data, .type = mf_call_type(&call->out[0]), .ld = ld};
}

/* Sets the norm that graph/plan/fuse_token.c has put before an op, if there is one. Its weights
 * are inputs `in` and in + 1 of the call. */
static inline void mf_call_norm(const mf_call *call, int in, mf_gemm *g)
{
    const mf_attr *attr = call->attr;
    g->norms = attr->i[MF_NORM_KIND] > 0;
    if (!g->norms) return;
    g->norm = (mf_norm_fn)(attr->i[MF_NORM_KIND] - 1);
    g->eps_outside = attr->i[MF_NORM_OUTSIDE] != 0;
    g->eps = (float)attr->f[MF_NORM_EPS];
    g->norm_w = mf_call_f32(call, in);
    g->norm_b = mf_call_f32(call, in + 1);
}

/* Multiplies rows of input 0 with the stored weight in input 1: y = x W^T + bias, or y = x W.
 * row, offset, bias: as in mf_stored_gemm_args. */
static inline void mf_call_multiply_stored(const mf_call *call, bool back, const int32_t *row,
                                           const int32_t *offset, const float *bias)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_stored *w = mf_call_stored(call, 1);
    const mf_stored_gemm_args g = {.w = w,
                                   .back = back,
                                   .rows = mf_shape_rows(call->out[0].shape),
                                   .x = call->in[0].data,
                                   .bf16 = call->in[0].dtype == MF_BF16,
                                   .ldx = back ? w->out : w->in,
                                   .row = row,
                                   .offset = offset,
                                   .alpha = 1,
                                   .bias = bias,
                                   .y = mf_call_out(call, 0),
                                   .ldy = back ? w->in : w->out};
    mf_call_kernels(call)->stored_gemm(&x, &g);
}

#endif
