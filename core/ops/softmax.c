/* ops/softmax.c: functions of rows, the last dimension's vectors. x f32, rank 1 to 4.
 *
 *   softmax      y = e^x / sum e^x         dx = y (dy - <y, dy>)
 *   log_softmax  y = x - ln sum e^x        dx = dy - e^y sum dy
 *   logsumexp    y = ln sum e^x            dx = e^(x - y) dy              [...,n] -> [...,1]
 *   row_max      y = the largest           dx = dy at the first largest   [...,n] -> [...,1]
 *
 * All are computed after the row's largest has been taken off, so that no e^x overflows.
 */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int infer_rows(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 1, 4)) return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, in->in[0].shape);
}

static int infer_one(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 1, 4)) return MF_ESHAPE;
    mf_shape y = in->in[0].shape;
    if (y.dim[y.rank - 1] < 1) return in->fail(in, "expected rows of at least 1 element");
    y.dim[y.rank - 1] = 1;
    return mf_infer_set(in, 0, MF_F32, y);
}

#define FORWARD(op)                                                                            \
    static int forward_##op(const mf_call *call)                                               \
    {                                                                                          \
        const mf_kctx x = mf_call_kctx(call);                                                  \
        mf_shape s = call->in[0].shape;                                                        \
        mf_call_kernels(call)->op(&x, mf_shape_rows(s), mf_shape_last(s),                      \
                                  mf_call_f32(call, 0), mf_call_out(call, 0));                 \
        return MF_OK;                                                                          \
    }
FORWARD(softmax)
FORWARD(log_softmax)
FORWARD(logsumexp)
FORWARD(row_max)

enum { X, Y, DY };

static int backward_softmax(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->softmax_grad(&x, mf_shape_rows(s), mf_shape_last(s),
                                        mf_call_f32(call, Y), mf_call_f32(call, DY),
                                        mf_call_out(call, 0));
    return MF_OK;
}

static int backward_log_softmax(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->log_softmax_grad(&x, mf_shape_rows(s), mf_shape_last(s),
                                            mf_call_f32(call, Y), mf_call_f32(call, DY),
                                            mf_call_out(call, 0));
    return MF_OK;
}

static int backward_logsumexp(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->logsumexp_grad(&x, mf_shape_rows(s), mf_shape_last(s),
                                          mf_call_f32(call, X), mf_call_f32(call, Y),
                                          mf_call_f32(call, DY), mf_call_out(call, 0));
    return MF_OK;
}

static int backward_row_max(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape s = call->in[X].shape;
    mf_call_kernels(call)->row_max_grad(&x, mf_shape_rows(s), mf_shape_last(s),
                                        mf_call_f32(call, X), mf_call_f32(call, DY),
                                        mf_call_out(call, 0));
    return MF_OK;
}

#define ROWS(op, judge, text, by_x, by_y, more)                                                \
    const mf_opdef mf_op_##op = {.size = sizeof(mf_opdef),                                     \
                                 .flags = more,                                                \
                                 .name = #op,                                                  \
                                 .formula = text,                                              \
                                 .infer = judge,                                               \
                                 .forward = forward_##op,                                      \
                                 .backward = backward_##op,                                    \
                                 .backward_in = by_x,                                          \
                                 .backward_out = by_y,                                         \
                                 .diff_in = 1};
ROWS(softmax, infer_rows, "y = e^x / sum e^x", 0, 1, MF_OP_INPLACE | MF_OP_GRAD_INPLACE)
ROWS(log_softmax, infer_rows, "y = x - ln sum e^x", 0, 1, MF_OP_INPLACE | MF_OP_GRAD_INPLACE)
ROWS(logsumexp, infer_one, "y = ln sum e^x", 1, 1, 0)
ROWS(row_max, infer_one, "y = max x", 1, 0, 0)
