/* ops/layers/softmax.c: functions of rows, which are vectors of the last dimension. x is f32,
 * of rank 1 to 4.
 *
 *   softmax      y = e^x / sum e^x         dx = y (dy - <y, dy>)
 *   log_softmax  y = x - ln sum e^x        dx = dy - e^y sum dy
 *   logsumexp    y = ln sum e^x            dx = e^(x - y) dy              [...,n] -> [...,1]
 *   row_max      y = largest element       dx = dy at the first largest   [...,n] -> [...,1]
 *
 * The largest element of a row is subtracted first, so e^x cannot overflow. */
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

enum { X, Y, DY };

static int forward(const mf_call *call)
{
    const mf_shape s = call->in[X].shape;
    MF_RUN_OP(call, row_map, .fn = *(const int *)call->user, .rows = mf_shape_rows(s),
              .n = mf_shape_last(s), .in = mf_call_f32(call, X), .out = mf_call_out(call, 0));
    return MF_OK;
}

static int backward(const mf_call *call)
{
    const mf_shape s = call->in[X].shape;
    MF_RUN_OP(call, row_map_grad, .fn = *(const int *)call->user, .rows = mf_shape_rows(s),
              .n = mf_shape_last(s), .in = mf_call_f32(call, X), .out = mf_call_f32(call, Y),
              .dout = mf_call_f32(call, DY), .din = mf_call_out(call, 0));
    return MF_OK;
}

#define ROWS(op, fn, judge, text, by_x, by_y, more)                                            \
    static const int op##_fn = fn;                                                             \
    const mf_opdef mf_op_##op = {.size = sizeof(mf_opdef),                                     \
                                 .flags = more,                                                \
                                 .name = #op,                                                  \
                                 .formula = text,                                              \
                                 .infer = judge,                                               \
                                 .forward = forward,                                           \
                                 .backward = backward,                                         \
                                 .backward_in = by_x,                                          \
                                 .backward_out = by_y,                                         \
                                 .diff_in = 1,                                                 \
                                 .user = &op##_fn};
ROWS(softmax, MF_ROW_SOFTMAX, infer_rows, "y = e^x / sum e^x", 0, 1,
     MF_OP_INPLACE | MF_OP_GRAD_INPLACE)
ROWS(log_softmax, MF_ROW_LOG_SOFTMAX, infer_rows, "y = x - ln sum e^x", 0, 1,
     MF_OP_INPLACE | MF_OP_GRAD_INPLACE)
ROWS(logsumexp, MF_ROW_LOGSUMEXP, infer_one, "y = ln sum e^x", 1, 1, 0)
ROWS(row_max, MF_ROW_MAX, infer_one, "y = max x", 1, 0, 0)
