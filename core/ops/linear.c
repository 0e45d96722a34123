/* ops/linear.c: y = x w^T + b.
 *
 *   x [...,in], w [out,in], b [out] or absent -> y [...,out]; x, w f32 or bf16; i0: type of y
 *   dx = dy w,  dw = dy^T x,  db = sum of dy over rows
 *
 * linear_dx is y = x w. It computes dx if w is a stored weight: x [T,out], w [out,in], f32 or
 * bf16 -> y [T,in], f32. */
#include "ops/gemm.h"

static int linear_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    mf_dtype type = mf_infer_float(in, 0), result;
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "x", type, 1, MF_MAX_RANK) ||
        mf_infer_tensor(in, 1, "w", type, 2, 2) || mf_infer_result(in, 0, type, &result))
        return MF_ESHAPE;
    mf_shape y = in->in[0].shape, w = in->in[1].shape;
    int64_t n_in = mf_shape_last(y);
    if (w.dim[1] != n_in)
        return in->fail(in, "expected w [out,in] with in = %lld, found %s", (long long)n_in,
                        mf_shape_text(w, text));
    if (mf_infer_maybe(in, 2, "b", MF_F32, mf_shape1(w.dim[0]))) return MF_ESHAPE;
    y.dim[y.rank - 1] = w.dim[0];
    in->flops = 2.0 * (double)mf_shape_rows(y) * (double)w.dim[0] * (double)n_in;
    return mf_infer_set(in, 0, result, y);
}

static int linear_forward(const mf_call *call)
{
    if (mf_call_stored(call, 1)) {
        mf_call_multiply_stored(call, false, NULL, NULL, mf_call_f32(call, 2));
        return MF_OK;
    }
    const mf_kctx x = mf_call_kctx(call);
    const mf_shape w = call->in[1].shape;
    mf_gemm g = {.m = mf_shape_rows(call->in[0].shape),
                 .n = w.dim[0],
                 .k = w.dim[1],
                 .a = mf_call_operand(call, 0, w.dim[1]),
                 .b = mf_call_operand(call, 1, w.dim[1]),
                 .c = mf_call_result(call, w.dim[0]),
                 .alpha = 1,
                 .bias = mf_call_f32(call, 2)};
    g.b.trans = true;
    g.b.packed = mf_call_packed(call);
    if (call->n_in > 3 && call->in[3].data) /* fuse_residual.c */
        g.beta = 1, g.from = mf_call_f32(call, 3);
    if (call->n_in > 4) mf_call_norm(call, 4, &g);
    mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

/* Returns x as a matrix of rows. */
static mf_tensor *flat(mf_graph *g, mf_tensor *x)
{
    mf_shape s = MF_HOST_SLOT->shape(x);
    return s.rank == 2 ? x : mf_reshape(g, x, mf_shape2(mf_shape_rows(s), mf_shape_last(s)));
}

static int linear_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *x = at->in[0], *w = at->in[1], *dy = flat(g, at->dout[0]);
    /* The gradient of the weight is computed first, so x is no longer needed when memory for dx
     * is allocated. */
    if (at->wants[1])
        at->din[1] = mf_matmul_as(g, dy, true, flat(g, x), false, 1, mf_tensor_grad_type(w));
    if (at->wants[0]) {
        mf_tensor *dx = mf_tensor_is_stored(w)
                            ? mf_op2(g, "linear_dx", dy, w, NULL)
                            : mf_matmul_as(g, dy, false, w, false, 1, mf_tensor_grad_type(x));
        at->din[0] = mf_reshape(g, dx, MF_HOST_SLOT->shape(x));
    }
    if (at->wants[2]) at->din[2] = mf_sum(g, dy, 1u, false);
    return MF_HOST_SLOT->status(g);
}

const mf_opdef mf_op_linear = {
    .size = sizeof mf_op_linear,
    .flags = MF_OP_GEMM | MF_OP_PANELS | MF_OP_STORED_1 | MF_OP_STORED_BF16,
    .name = "linear",
    .formula = "y = x w^T + b",
    .infer = linear_infer,
    .forward = linear_forward,
    .grad = linear_grad,
    .diff_in = 7,
    .bf16_in = 3,
    .role = MF_ROLE_LINEAR,
};

/* ---- linear_dx ---- */

static int dx_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    const mf_dtype type = mf_infer_float(in, 0);
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", type, 2, 2) ||
        mf_infer_tensor(in, 1, "w", type, 2, 2))
        return MF_ESHAPE;
    const mf_shape x = in->in[0].shape, w = in->in[1].shape;
    if (w.dim[0] != x.dim[1])
        return in->fail(in, "expected w [out,in] with out = %lld, found %s",
                        (long long)x.dim[1], mf_shape_text(w, text));
    in->flops = 2.0 * (double)x.dim[0] * (double)w.dim[0] * (double)w.dim[1];
    return mf_infer_set(in, 0, MF_F32, mf_shape2(x.dim[0], w.dim[1]));
}

static int dx_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_shape w = call->in[1].shape;
    const mf_gemm g = {.m = call->in[0].shape.dim[0],
                       .n = w.dim[1],
                       .k = w.dim[0],
                       .a = mf_call_operand(call, 0, w.dim[0]),
                       .b = mf_call_operand(call, 1, w.dim[1]),
                       .c = mf_call_result(call, w.dim[1]),
                       .alpha = 1};
    if (mf_call_stored(call, 1))
        mf_call_multiply_stored(call, true, NULL, NULL, NULL);
    else
        mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

static int dx_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *x = at->in[0], *w = at->in[1], *dy = at->dout[0];
    if (at->wants[1]) at->din[1] = mf_matmul(g, x, true, dy, false, 1);
    if (at->wants[0]) at->din[0] = mf_linear(g, dy, w, NULL);
    return MF_HOST_SLOT->status(g);
}

const mf_opdef mf_op_linear_dx = {
    .size = sizeof mf_op_linear_dx,
    .flags = MF_OP_GEMM | MF_OP_STORED_1 | MF_OP_STORED_BF16,
    .name = "linear_dx",
    .formula = "y = x w",
    .infer = dx_infer,
    .forward = dx_forward,
    .grad = dx_grad,
    .diff_in = 3,
    .bf16_in = 3,
};
