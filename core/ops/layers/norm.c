/* ops/layers/norm.c: norms of rows, which are vectors of the last dimension. x is f32, of rank
 * 1 to 4; w, b are [n] or absent. y is f32; for the first two ops, i1 = MF_AS(type) chooses
 * another type.
 *
 *   rmsnorm       w x / sqrt(mean(x^2) + eps); i0 = 1: w x / (sqrt(mean(x^2)) + eps)
 *                 (Zhang, Sennrich 2019, eq. 4)                                  attr: f0 = eps
 *   layernorm     w (x - mean) / sqrt(var + eps) + b  (Ba et al. 2016, eq. 4)    attr: f0 = eps
 *   l2_normalize  x / max(|x|, eps)                                              attr: f0 = eps
 *
 * Gradients are fused. They read x and recompute the statistics of each row, which costs less
 * than keeping them. kernels/ref/norm.c has the formulas of the gradients. */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

#include <math.h>

enum { X, W, BIAS };

/* Checks input x and the optional inputs [n]; `weights` is their number. */
static int infer_norm(mf_infer *in, int weights)
{
    if (weights > 0 && mf_infer_attr(in, 1, "type of the result", 0, MF_AS(MF_BF16)))
        return MF_ESHAPE;
    if (mf_infer_inputs(in, 1 + weights) || mf_infer_tensor(in, X, "x", MF_F32, 1, MF_MAX_RANK))
        return MF_ESHAPE;
    mf_shape s = in->in[X].shape;
    int64_t n = mf_shape_last(s);
    if (n < 1) return in->fail(in, "expected rows of at least 1 element");
    for (int i = 1; i <= weights; i++)
        if (mf_infer_maybe(in, i, i == W ? "w" : "b", MF_F32, mf_shape1(n))) return MF_ESHAPE;
    if (!(in->attr->f[0] >= 0) || !isfinite(in->attr->f[0]))
        return in->fail(in, "expected eps >= 0, found %g", in->attr->f[0]);
    if (weights > 0) in->backward_work_bytes = mf_norm_work(n);
    return mf_infer_set(in, 0, weights > 0 ? mf_attr_type(in->attr->i[1], MF_F32) : MF_F32, s);
}

static int rmsnorm_infer(mf_infer *in)
{
    return infer_norm(in, 1);
}
static int layernorm_infer(mf_infer *in)
{
    return infer_norm(in, 2);
}
static int l2_infer(mf_infer *in)
{
    return infer_norm(in, 0);
}

/* Returns the arguments that forward and backward share. */
static mf_norm_args args_of(const mf_call *call, mf_norm_fn kind)
{
    const mf_shape s = call->in[X].shape;
    return (mf_norm_args){.kind = kind,
                          .rows = mf_shape_rows(s),
                          .n = mf_shape_last(s),
                          .eps = (float)call->attr->f[0],
                          .eps_outside = kind == MF_NORM_FN_RMS && call->attr->i[0] != 0,
                          .a = mf_call_f32(call, X),
                          .w = kind != MF_NORM_FN_L2 ? mf_call_f32(call, W) : NULL,
                          .b = kind == MF_NORM_FN_LAYER ? mf_call_f32(call, BIAS) : NULL};
}

static int run_forward(const mf_call *call, mf_norm_fn kind)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_norm_args args = args_of(call, kind);
    args.type = mf_call_type(&call->out[0]);
    args.y = call->out[0].data;
    if (call->n_out > 1) args.wide = mf_call_out(call, 1); /* graph/plan/fuse_residual.c */
    mf_call_kernels(call)->norm(&x, &args);
    return MF_OK;
}

/* dy: index of the input that is the gradient of y. */
static int run_backward(const mf_call *call, mf_norm_fn kind, int dy)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_norm_args args = args_of(call, kind);
    args.type = mf_call_type(&call->in[dy]);
    args.dy = call->in[dy].data;
    args.da = mf_call_out(call, X);
    if (kind != MF_NORM_FN_L2) args.dw = mf_call_out(call, W);
    if (kind == MF_NORM_FN_LAYER) args.db = mf_call_out(call, BIAS);
    args.work = call->work;
    if (call->n_in > dy + 1) { /* graph/plan/fuse_residual.c */
        args.add = mf_call_f32(call, dy + 1);
        args.copy = call->out[call->n_out - 2].data;
        args.sum = mf_call_out(call, call->n_out - 1);
    }
    mf_call_kernels(call)->norm_backward(&x, &args);
    return MF_OK;
}

static int rmsnorm_forward(const mf_call *call)
{
    return run_forward(call, MF_NORM_FN_RMS);
}
static int rmsnorm_backward(const mf_call *call)
{
    return run_backward(call, MF_NORM_FN_RMS, 3);
}

const mf_opdef mf_op_rmsnorm = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_INPLACE | MF_OP_GRAD_INPLACE | MF_OP_CHEAP,
    .name = "rmsnorm",
    .formula = "y = w x / sqrt(mean(x^2) + eps)",
    .infer = rmsnorm_infer,
    .forward = rmsnorm_forward,
    .backward = rmsnorm_backward,
    .backward_in = 3,
    .diff_in = 3,
};

static int layernorm_forward(const mf_call *call)
{
    return run_forward(call, MF_NORM_FN_LAYER);
}
static int layernorm_backward(const mf_call *call)
{
    return run_backward(call, MF_NORM_FN_LAYER, 4);
}

const mf_opdef mf_op_layernorm = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_INPLACE | MF_OP_GRAD_INPLACE | MF_OP_CHEAP,
    .name = "layernorm",
    .formula = "y = w (x - mean) / sqrt(var + eps) + b",
    .infer = layernorm_infer,
    .forward = layernorm_forward,
    .backward = layernorm_backward,
    .backward_in = 3,
    .diff_in = 7,
};

static int l2_forward(const mf_call *call)
{
    return run_forward(call, MF_NORM_FN_L2);
}
static int l2_backward(const mf_call *call)
{
    return run_backward(call, MF_NORM_FN_L2, 2);
}

const mf_opdef mf_op_l2_normalize = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_INPLACE | MF_OP_GRAD_INPLACE,
    .name = "l2_normalize",
    .formula = "y = x / max(|x|, eps)",
    .infer = l2_infer,
    .forward = l2_forward,
    .backward = l2_backward,
    .backward_in = 1,
    .diff_in = 1,
};
