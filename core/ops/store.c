/* ops/store.c: the last ops of the backward pass, which write the storage of a gradient.
 *
 *   assign      grad = value; 0 if value is absent
 *   accumulate  grad = grad + value */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int assign_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "grad", MF_F32, 0, MF_MAX_RANK) ||
        mf_infer_maybe(in, 1, "value", MF_F32, in->in[0].shape))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, in->in[0].shape);
}

static int accumulate_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "grad", MF_F32, 0, MF_MAX_RANK) ||
        mf_infer_shape(in, 1, "value", MF_F32, in->in[0].shape))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, in->in[0].shape);
}

static int assign_forward(const mf_call *call)
{
    const int64_t n = mf_shape_count(call->out[0].shape);
    if (call->in[1].data)
        MF_RUN_OP(call, copy4, .dim = {1, 1, 1, n}, .stride_in = {[3] = 1},
                  .stride_out = {[3] = 1}, .in = call->in[1].data, .out = call->out[0].data);
    else
        MF_RUN_OP(call, set, .n = n, .value = 0, .out = mf_call_out(call, 0));
    return MF_OK;
}

static int accumulate_forward(const mf_call *call)
{
    const int64_t n = mf_shape_count(call->out[0].shape);
    MF_RUN_OP(call, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, n},
              .stride_a = {[3] = 1}, .stride_b = {[3] = 1}, .a = mf_call_f32(call, 0),
              .b = mf_call_f32(call, 1), .out = mf_call_out(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_assign = {
    .size = sizeof mf_op_assign,
    .flags = MF_OP_STATE | MF_OP_NO_GRAD,
    .name = "assign",
    .formula = "grad = value",
    .infer = assign_infer,
    .forward = assign_forward,
    .role = MF_ROLE_ASSIGN,
};

const mf_opdef mf_op_accumulate = {
    .size = sizeof mf_op_accumulate,
    .flags = MF_OP_STATE | MF_OP_NO_GRAD,
    .name = "accumulate",
    .formula = "grad = grad + value",
    .infer = accumulate_infer,
    .forward = accumulate_forward,
    .role = MF_ROLE_ACCUMULATE,
};
