/* ops/moe/grouped_norm.c: layer normalisation of rows grouped by expert. Each expert has its
 * own weights.
 *
 *   y[r] = w[e] (x[r] - mean) / sqrt(var + eps) + b[e]
 *   x [R,n], offset [E+1] i32, w and b [E,n]; f0 eps -> y [R,n], 0 in rows of no group
 *
 * The kernel is that of layernorm, with offsets. */
#include "ops/call.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

#include <math.h>

enum { X, OFFSET, W, BIAS, INPUTS };

static int norm_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, INPUTS) || mf_infer_tensor(in, X, "x", MF_F32, 2, 2) ||
        mf_infer_tensor(in, OFFSET, "offset", MF_I32, 1, 1))
        return MF_ESHAPE;
    const mf_shape x = in->in[X].shape;
    const int64_t groups = in->in[OFFSET].shape.dim[0] - 1;
    if (groups < 1) return in->fail(in, "expected offset [E+1] with E >= 1, found [1]");
    if (!(in->attr->f[0] >= 0) || !isfinite(in->attr->f[0]))
        return in->fail(in, "expected eps >= 0, found %g", in->attr->f[0]);
    const mf_shape each = mf_shape2(groups, x.dim[1]);
    if (mf_infer_shape(in, W, "w", MF_F32, each) || mf_infer_shape(in, BIAS, "b", MF_F32, each))
        return MF_ESHAPE;
    in->backward_work_bytes = mf_norm_work(x.dim[1]);
    return mf_infer_set(in, 0, MF_F32, x);
}

/* Returns the arguments that forward and backward share. */
static mf_norm_args args_of(const mf_call *call)
{
    const mf_shape x = call->in[X].shape;
    return (mf_norm_args){.kind = MF_NORM_FN_LAYER,
                          .rows = x.dim[0],
                          .n = x.dim[1],
                          .eps = (float)call->attr->f[0],
                          .a = mf_call_f32(call, X),
                          .w = mf_call_f32(call, W),
                          .b = mf_call_f32(call, BIAS),
                          .groups = call->in[OFFSET].shape.dim[0] - 1,
                          .offset = mf_call_i32(call, OFFSET)};
}

static int norm_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_norm_args args = args_of(call);
    mf_call_check_offset(call, OFFSET, args.rows);
    args.y = call->out[0].data;
    mf_call_kernels(call)->norm(&x, &args);
    return MF_OK;
}

static int norm_backward(const mf_call *call)
{
    enum { DY = INPUTS + 1 };
    const mf_kctx x = mf_call_kctx(call);
    mf_norm_args args = args_of(call);
    mf_call_check_offset(call, OFFSET, args.rows);
    args.dy = call->in[DY].data;
    args.da = mf_call_out(call, X);
    args.dw = mf_call_out(call, W);
    args.db = mf_call_out(call, BIAS);
    args.work = call->work;
    mf_call_kernels(call)->norm_backward(&x, &args);
    return MF_OK;
}

const mf_opdef mf_op_grouped_layernorm = {
    .size = sizeof(mf_opdef),
    .name = "grouped_layernorm",
    .formula = "y = w_e (x - mean) / sqrt(var + eps) + b_e for the rows of expert e",
    .infer = norm_infer,
    .forward = norm_forward,
    .backward = norm_backward,
    .backward_in = 1u << X | 1u << OFFSET | 1u << W,
    .diff_in = 1u << X | 1u << W | 1u << BIAS,
};
