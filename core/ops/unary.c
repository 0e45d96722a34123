/* ops/unary.c: functions of one value, y = f(x), dx = f'(x) dy.
 *
 * mf_map1_fn in kernels/kernel.h lists the functions and their derivatives. Here backward_in
 * and backward_out say whether a derivative is computed from x or from y. x and y are f32 or
 * bf16, of any rank. Sources: gelu: Hendrycks, Gimpel 2016, "x Phi(x)" and its tanh
 * approximation; silu: the same paper, and Ramachandran et al. 2017 (swish, beta 1). */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int infer(mf_infer *in)
{
    mf_dtype type = mf_infer_float(in, 0);
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", type, 0, 4)) return MF_ESHAPE;
    return mf_infer_set(in, 0, type, in->in[0].shape);
}

static int infer_clamp(mf_infer *in)
{
    if (!(in->attr->f[0] <= in->attr->f[1]))
        return in->fail(in, "expected lo <= hi, found %g and %g", in->attr->f[0],
                        in->attr->f[1]);
    return infer(in);
}

static int forward(const mf_call *call)
{
    MF_RUN_OP(call, map1, .fn = *(const int *)call->user,
              .type = (int)mf_call_type(&call->in[0]), .n = mf_shape_count(call->in[0].shape),
              .a = (float)call->attr->f[0], .b = (float)call->attr->f[1],
              .in = call->in[0].data, .out = call->out[0].data);
    return MF_OK;
}

static int backward(const mf_call *call)
{
    enum { X, Y, DY };
    MF_RUN_OP(call, map1_grad, .fn = *(const int *)call->user,
              .type = (int)mf_call_type(&call->in[X]), .n = mf_shape_count(call->in[X].shape),
              .a = (float)call->attr->f[0], .b = (float)call->attr->f[1],
              .in = call->in[X].data, .out = call->in[Y].data, .dout = call->in[DY].data,
              .din = call->out[0].data,
              .width = call->n_out > 1 ? call->out[1].shape.dim[0] : 0, /* fuse_residual.c */
              .sum = call->n_out > 1 ? mf_call_out(call, 1) : NULL, .work = call->work);
    return MF_OK;
}

static int grad_affine(mf_graph *g, const mf_gradient *at)
{
    double a = at->attr->f[0];
    at->din[0] = a == 1 ? at->dout[0] : mf_scale(g, at->dout[0], a);
    return mf_graph_status(g);
}

#define UNARY(op, map, text, judge, composed, fused, by_x, by_y, more)                         \
    static const int op##_fn = map;                                                            \
    const mf_opdef mf_op_##op = {.size = sizeof(mf_opdef),                                     \
                                 .flags = MF_OP_INPLACE | MF_OP_GRAD_INPLACE | (more),         \
                                 .name = #op,                                                  \
                                 .formula = text,                                              \
                                 .infer = judge,                                               \
                                 .forward = forward,                                           \
                                 .grad = composed,                                             \
                                 .backward = fused,                                            \
                                 .backward_in = by_x,                                          \
                                 .backward_out = by_y,                                         \
                                 .diff_in = 1,                                                 \
                                 .backward_over = by_x,                                        \
                                 .bf16_in = 1,                                                 \
                                 .user = &op##_fn};
#define BY_X(op, map, text) UNARY(op, map, text, infer, NULL, backward, 1, 0, MF_OP_CHEAP)
#define BY_Y(op, map, text) UNARY(op, map, text, infer, NULL, backward, 0, 1, 0)
BY_Y(exp, MF_MAP_EXP, "y = e^x")
BY_X(log, MF_MAP_LOG, "y = ln x")
BY_Y(sqrt, MF_MAP_SQRT, "y = sqrt(x)")
BY_X(square, MF_MAP_SQUARE, "y = x^2")
BY_Y(reciprocal, MF_MAP_RECIPROCAL, "y = 1 / x")
BY_X(abs, MF_MAP_ABS, "y = |x|")
BY_Y(relu, MF_MAP_RELU, "y = max(x, 0)")
BY_X(gelu, MF_MAP_GELU, "y = x (1 + erf(x / sqrt 2)) / 2")
BY_X(gelu_tanh, MF_MAP_GELU_TANH, "y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2")
BY_X(silu, MF_MAP_SILU, "y = x / (1 + e^-x)")
BY_Y(sigmoid, MF_MAP_SIGMOID, "y = 1 / (1 + e^-x)")
BY_Y(tanh, MF_MAP_TANH, "y = tanh x")
BY_X(softplus, MF_MAP_SOFTPLUS, "y = ln(1 + e^x)")
BY_X(normal_cdf, MF_MAP_NORMAL_CDF, "y = (1 + erf(x / sqrt 2)) / 2")
BY_X(xlogx, MF_MAP_XLOGX, "y = x ln x, 0 at 0")
UNARY(sign, MF_MAP_SIGN, "y = -1, 0 or 1", infer, NULL, NULL, 0, 0, MF_OP_NO_GRAD)
UNARY(affine, MF_MAP_AFFINE, "y = a x + b", infer, grad_affine, NULL, 0, 0, 0)
UNARY(clamp, MF_MAP_CLAMP, "y = min(max(x, lo), hi)", infer_clamp, NULL, backward, 1, 0, 0)
