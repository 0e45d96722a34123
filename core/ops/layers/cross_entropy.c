/* ops/layers/cross_entropy.c: the loss of classifiers and language models.
 *
 *   logits [N,V], target [N] i32, weight [N] f32 or absent
 *   -> loss scalar: weighted mean of -ln softmax(logits)[target] over rows with target >= 0;
 *      0 without such rows
 *      row loss [N]: -ln softmax(logits)[target] of each row without weight; 0 if target < 0
 *      lse [N]: ln sum e^logits of each row, through which no gradient passes
 *
 * Logits have gradients through loss and row loss, weight through loss. A target >= V ends
 * the run. */
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { LOGITS, TARGET, WEIGHT, INPUTS };                  /* inputs of forward */
enum { LOSS = INPUTS, ROW_LOSS, LSE, DLOSS, DROW, DLSE }; /* further inputs of backward */

static int entropy_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, INPUTS) || mf_infer_tensor(in, LOGITS, "logits", MF_F32, 2, 2))
        return MF_ESHAPE;
    mf_shape rows = mf_shape1(in->in[LOGITS].shape.dim[0]);
    if (mf_infer_shape(in, TARGET, "target", MF_I32, rows) ||
        mf_infer_maybe(in, WEIGHT, "weight", MF_F32, rows))
        return MF_ESHAPE;
    if (in->in[LOGITS].shape.dim[1] < 1)
        return in->fail(in, "expected logits of at least 1 class");
    if (mf_infer_set(in, 0, MF_F32, mf_shape0()) || mf_infer_set(in, 1, MF_F32, rows))
        return MF_ESHAPE;
    return mf_infer_set(in, 2, MF_F32, rows);
}

static int entropy_forward(const mf_call *call)
{
    mf_shape s = call->in[LOGITS].shape;
    mf_call_check_below(call, TARGET, MF_WHAT_TARGET, s.dim[1]);
    MF_RUN_OP(call, cross_entropy, .rows = s.dim[0], .n = s.dim[1],
              .logits = mf_call_f32(call, LOGITS), .target = mf_call_i32(call, TARGET),
              .weight = mf_call_f32(call, WEIGHT), .loss = mf_call_out(call, 0),
              .row_loss = mf_call_out(call, 1), .lse = mf_call_out(call, 2));
    return MF_OK;
}

static int entropy_backward(const mf_call *call)
{
    mf_shape s = call->in[LOGITS].shape;
    if (call->in[DLSE].data)
        return call->fail(call, MF_ENOGRAD, "no gradient can pass through the third output");
    MF_RUN_OP(call, cross_entropy_backward, .rows = s.dim[0], .n = s.dim[1],
              .logits = mf_call_f32(call, LOGITS), .target = mf_call_i32(call, TARGET),
              .weight = mf_call_f32(call, WEIGHT), .loss = mf_call_f32(call, LOSS),
              .row_loss = mf_call_f32(call, ROW_LOSS), .lse = mf_call_f32(call, LSE),
              .dloss = mf_call_f32(call, DLOSS), .drow = mf_call_f32(call, DROW),
              .dlogits = mf_call_out(call, LOGITS), .dweight = mf_call_out(call, WEIGHT));
    return MF_OK;
}

const mf_opdef mf_op_cross_entropy = {
    .size = sizeof(mf_opdef),
    .name = "cross_entropy",
    .formula = "loss = mean of -ln softmax(logits)[target]",
    .infer = entropy_infer,
    .forward = entropy_forward,
    .backward = entropy_backward,
    .backward_in = 7,
    .backward_out = 7,
    .diff_in = 1u << LOGITS | 1u << WEIGHT,
};
