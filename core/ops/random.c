/* ops/random.c: random numbers in a graph. Number i of a node's stream depends only on (seed,
 * stream, step, i) (base/rng.h). So nothing is kept for the backward pass: the gradient of
 * dropout computes the same mask from the same numbers.
 *
 *   uniform   y[i] in [0,1)
 *   gaussian  y[i] standard normal
 *   dropout   y[i] = x[i] / (1 - p) where uniform number i >= p, else 0; without training
 *             y = x. dx is the same function of dy. (Srivastava et al. 2014, inverted form) */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int infer_numbers(mf_infer *in)
{
    if (mf_infer_inputs(in, 0) || mf_infer_attr(in, 0, "rank", 0, MF_MAX_RANK))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, mf_attr_shape(in->attr));
}

static int forward_uniform(const mf_call *call)
{
    MF_RUN_OP(call, random, .kind = MF_RANDOM_UNIFORM, .stream = call->stream,
              .n = mf_shape_count(call->out[0].shape), .out = mf_call_out(call, 0));
    return MF_OK;
}

static int forward_gaussian(const mf_call *call)
{
    MF_RUN_OP(call, random, .kind = MF_RANDOM_NORMAL, .stream = call->stream,
              .n = mf_shape_count(call->out[0].shape), .out = mf_call_out(call, 0));
    return MF_OK;
}

static int infer_dropout(mf_infer *in)
{
    double p = in->attr->f[0];
    if (!(p >= 0 && p < 1)) return in->fail(in, "expected p in [0,1), found %g", p);
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 0, 4)) return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, in->in[0].shape);
}

static int drop(const mf_call *call, const float *from, float *to)
{
    int64_t n = mf_shape_count(call->out[0].shape);
    float p = (float)call->attr->f[0];
    if (call->exec->training && p > 0)
        MF_RUN_OP(call, dropout, .stream = call->stream, .n = n, .p = p, .in = from, .out = to);
    else if (to != from)
        MF_RUN_OP(call, copy4, .dim = {1, 1, 1, n}, .stride_in = {0, 0, 0, 1},
                  .stride_out = {0, 0, 0, 1}, .in = from, .out = to);
    return MF_OK;
}

static int forward_dropout(const mf_call *call)
{
    return drop(call, mf_call_f32(call, 0), mf_call_out(call, 0));
}

static int backward_dropout(const mf_call *call)
{
    enum { X, Y, DY };
    return drop(call, mf_call_f32(call, DY), mf_call_out(call, 0));
}

const mf_opdef mf_op_uniform = {.size = sizeof(mf_opdef),
                                .flags = MF_OP_RANDOM | MF_OP_NO_GRAD,
                                .name = "uniform",
                                .formula = "y uniform in [0,1)",
                                .infer = infer_numbers,
                                .forward = forward_uniform};
const mf_opdef mf_op_gaussian = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_RANDOM | MF_OP_NO_GRAD,
                                 .name = "gaussian",
                                 .formula = "y standard normal",
                                 .infer = infer_numbers,
                                 .forward = forward_gaussian};
const mf_opdef mf_op_dropout = {.size = sizeof(mf_opdef),
                                .flags = MF_OP_RANDOM | MF_OP_INPLACE | MF_OP_GRAD_INPLACE,
                                .name = "dropout",
                                .formula = "y = x u / (1 - p), u Bernoulli(1 - p)",
                                .infer = infer_dropout,
                                .forward = forward_dropout,
                                .backward = backward_dropout,
                                .diff_in = 1};
