/* ops/cast.c: conversions of types. y is x in the type that i0 names; dx is dy in the type of
 * x. Only conversions between float types have a gradient. */
#include "graph/shape.h"
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_attr(in, 0, "type", MF_F32, MF_U8)) return MF_ESHAPE;
    if (mf_infer_absent(in, 0)) return in->fail(in, "expected input x, found none");
    return mf_infer_set(in, 0, (mf_dtype)in->attr->i[0], in->in[0].shape);
}

static int forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_stored *w = mf_call_stored(call, 0);
    const mf_stored_rows_args rows = {
        .w = w, .count = w ? w->groups * w->out : 0, .y = mf_call_out(call, 0)};
    if (w)
        mf_call_kernels(call)->stored_rows(&x, &rows);
    else
        MF_RUN_OP(call, cast, .n = mf_shape_count(call->in[0].shape),
                  .from = (int)call->in[0].dtype, .to = (int)call->out[0].dtype,
                  .in = call->in[0].data, .out = call->out[0].data);
    return MF_OK;
}

static int grad(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_cast(g, at->dout[0], at->in[0]->dtype);
    return mf_graph_status(g);
}

const mf_opdef mf_op_cast = {.size = sizeof(mf_opdef),
                             .flags = MF_OP_STORED_0,
                             .name = "cast",
                             .formula = "y = x in another type",
                             .infer = infer,
                             .forward = forward,
                             .grad = grad,
                             .diff_in = 1,
                             .bf16_in = 1,
                             .role = MF_ROLE_CAST};
