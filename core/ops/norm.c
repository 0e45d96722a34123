/* ops/norm.c: norms of rows, the last dimension's vectors. x f32, rank 1 to 4; w, b [n] or
 * absent; y f32, or of the type MF_AS(type) in i1 of the first two.
 *
 *   rmsnorm       w x / sqrt(mean(x^2) + eps); i0: w x / (sqrt(mean(x^2)) + eps)
 *                 (Zhang, Sennrich 2019, eq. 4)                                  attr: f0 = eps
 *   layernorm     w (x - mean) / sqrt(var + eps) + b  (Ba et al. 2016, eq. 4)    attr: f0 = eps
 *   l2_normalize  x / max(|x|, eps)                                              attr: f0 = eps
 *
 * Gradients are fused; they read x and compute the row's statistics again, which costs less
 * than to keep them. Formulas: kernels/ref/norm.c.
 */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

#include <math.h>

enum { X, W, BIAS };

/* Inputs x and `weights` optional vectors as long as its rows. */
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
    if (weights > 0) in->backward_work_bytes = mf_kernel_norm_work(n);
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

static int rmsnorm_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t rows = mf_shape_rows(s), n = mf_shape_last(s);
    const float eps = (float)call->attr->f[0];
    const bool outside = call->attr->i[0] != 0;
    if (call->out[0].dtype == MF_BF16)
        k->rmsnorm_bf16(&x, rows, n, eps, outside, mf_call_f32(call, X), mf_call_f32(call, W),
                        call->out[0].data);
    else
        k->rmsnorm(&x, rows, n, eps, outside, mf_call_f32(call, X), mf_call_f32(call, W),
                   mf_call_out(call, 0));
    return MF_OK;
}

static int rmsnorm_backward(const mf_call *call)
{
    enum { DY = 3 };
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t rows = mf_shape_rows(s), n = mf_shape_last(s);
    const float eps = (float)call->attr->f[0];
    const bool outside = call->attr->i[0] != 0;
    if (mf_call_is_bf16(call, DY))
        k->rmsnorm_bf16_backward(&x, rows, n, eps, outside, mf_call_f32(call, X),
                                 mf_call_f32(call, W), call->in[DY].data, mf_call_out(call, X),
                                 mf_call_out(call, W), call->work);
    else
        k->rmsnorm_backward(&x, rows, n, eps, outside, mf_call_f32(call, X),
                            mf_call_f32(call, W), mf_call_f32(call, DY), mf_call_out(call, X),
                            mf_call_out(call, W), call->work);
    return MF_OK;
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
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t rows = mf_shape_rows(s), n = mf_shape_last(s);
    const float eps = (float)call->attr->f[0];
    if (call->out[0].dtype == MF_BF16)
        k->layernorm_bf16(&x, rows, n, eps, mf_call_f32(call, X), mf_call_f32(call, W),
                          mf_call_f32(call, BIAS), call->out[0].data);
    else
        k->layernorm(&x, rows, n, eps, mf_call_f32(call, X), mf_call_f32(call, W),
                     mf_call_f32(call, BIAS), mf_call_out(call, 0));
    return MF_OK;
}

static int layernorm_backward(const mf_call *call)
{
    enum { DY = 4 };
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t rows = mf_shape_rows(s), n = mf_shape_last(s);
    const float eps = (float)call->attr->f[0];
    if (mf_call_is_bf16(call, DY))
        k->layernorm_bf16_backward(&x, rows, n, eps, mf_call_f32(call, X), mf_call_f32(call, W),
                                   call->in[DY].data, mf_call_out(call, X),
                                   mf_call_out(call, W), mf_call_out(call, BIAS), call->work);
    else
        k->layernorm_backward(&x, rows, n, eps, mf_call_f32(call, X), mf_call_f32(call, W),
                              mf_call_f32(call, DY), mf_call_out(call, X), mf_call_out(call, W),
                              mf_call_out(call, BIAS), call->work);
    return MF_OK;
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
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->l2_normalize(&x, mf_shape_rows(s), mf_shape_last(s),
                                        (float)call->attr->f[0], mf_call_f32(call, X),
                                        mf_call_out(call, 0));
    return MF_OK;
}

static int l2_backward(const mf_call *call)
{
    enum { DY = 2 };
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->l2_normalize_backward(&x, mf_shape_rows(s), mf_shape_last(s),
                                                 (float)call->attr->f[0], mf_call_f32(call, X),
                                                 mf_call_f32(call, DY), mf_call_out(call, X));
    return MF_OK;
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
