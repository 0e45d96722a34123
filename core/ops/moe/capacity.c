/* ops/moe/capacity.c: computes how many assignments an expert admits, selects these
 * assignments, and reassigns the assignments over capacity. kernels/ref/dispatch.c has the
 * kernels. These ops have no gradients.
 *
 *   capacity_of  cap[e] = max(1, floor(factor real k / E)), real: number of tokens that are not
 *                padding (Fedus et al. 2021, eq. 3)
 *   admit        admitted = chosen for the cap[e] assignments of e with the largest priority,
 *                -1 for the rest; of equal priorities the lower index is admitted, NaN comes
 *                last; without priorities the order of the index decides
 *   reassign     assignments over capacity, ordered by (chosen expert, falling importance,
 *                index), go to the expert with the largest prob[t,j] / (1 + load_j) that has
 *                capacity left and that the token has neither chosen nor been given; then
 *                load_j grows by 1 ("no token left behind") */
#include "ops/moe/dispatch.h"
#include "ops/index.h"
#include "ops/infer.h"

/* ---- capacity_of: factor, mask ---- */

enum { TOKENS, K, EXPERTS }; /* attr.i */

static int infer_of(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "factor", MF_F32, 0, 1) ||
        mf_infer_attr(in, TOKENS, "tokens", 0, INT32_MAX) ||
        mf_infer_attr(in, K, "k", 1, INT32_MAX) ||
        mf_infer_attr(in, EXPERTS, "experts", 1, INT32_MAX) ||
        mf_infer_maybe(in, 1, "mask", MF_F32, mf_shape1(in->attr->i[TOKENS])))
        return MF_ESHAPE;
    if (mf_shape_count(in->in[0].shape) != 1)
        return in->fail(in, "expected factor to be one number, found %lld",
                        (long long)mf_shape_count(in->in[0].shape));
    return mf_infer_set(in, 0, MF_F32, mf_shape1(in->attr->i[EXPERTS]));
}

static int forward_of(const mf_call *call)
{
    const int64_t *i = call->attr->i;
    MF_RUN_OP(call, capacity_of, .tokens = i[TOKENS], .k = i[K], .experts = i[EXPERTS],
              .factor = mf_call_f32(call, 0), .mask = mf_call_f32(call, 1),
              .cap = mf_call_out(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_capacity_of = {.size = sizeof(mf_opdef),
                                    .flags = MF_OP_NO_GRAD,
                                    .name = "capacity_of",
                                    .formula = "cap[e] = max(1, floor(factor T k / E))",
                                    .infer = infer_of,
                                    .forward = forward_of};

mf_tensor *mf_capacity_of(mf_graph *g, mf_tensor *factor, mf_tensor *mask, int tokens, int k,
                          int experts)
{
    return mf_op2(g, "capacity_of", factor, mask, &(mf_attr){.i = {tokens, k, experts}});
}

/* ---- capacity: chosen, priority, cap ---- */

static int infer_capacity(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "chosen", MF_I32, 1, 1) ||
        mf_infer_maybe(in, 1, "priority", MF_F32, in->in[0].shape) ||
        mf_infer_tensor(in, 2, "cap", MF_F32, 1, 1))
        return MF_ESHAPE;
    in->work_bytes = mf_capacity_work(in->in[0].shape.dim[0], in->in[2].shape.dim[0]);
    return mf_infer_set(in, 0, MF_I32, in->in[0].shape);
}

static int forward_capacity(const mf_call *call)
{
    const int64_t experts = call->in[2].shape.dim[0];
    mf_call_check(call, 0, MF_WHAT_EXPERT, -1, experts);
    mf_call_tell_of(call, 0, 0);
    MF_RUN_OP(call, capacity, .rows = call->in[0].shape.dim[0], .experts = experts,
              .chosen = mf_call_i32(call, 0), .priority = mf_call_f32(call, 1),
              .cap = mf_call_f32(call, 2), .admitted = mf_call_out_i32(call, 0),
              .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_capacity = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_NO_GRAD,
                                 .name = "admit",
                                 .formula = "admitted = chosen for the first cap[e] rows of e",
                                 .infer = infer_capacity,
                                 .forward = forward_capacity};

mf_tensor *mf_capacity(mf_graph *g, mf_tensor *chosen, mf_tensor *priority, mf_tensor *cap)
{
    return mf_op3(g, "admit", chosen, priority, cap, NULL);
}

/* ---- reassign: chosen, admitted, prob, importance, cap ---- */

static int infer_reassign(mf_infer *in)
{
    if (mf_infer_inputs(in, 5) || mf_infer_tensor(in, 2, "prob", MF_F32, 2, 2) ||
        mf_infer_attr(in, 0, "k", 1, INT32_MAX) ||
        mf_infer_attr(in, 1, "most rows moved", 0, INT32_MAX))
        return MF_ESHAPE;
    const int64_t tokens = in->in[2].shape.dim[0], experts = in->in[2].shape.dim[1];
    const mf_shape rows = mf_shape1(tokens * in->attr->i[0]);
    if (mf_infer_shape(in, 0, "chosen", MF_I32, rows) ||
        mf_infer_shape(in, 1, "admitted", MF_I32, rows) ||
        mf_infer_maybe(in, 3, "importance", MF_F32, rows) ||
        mf_infer_shape(in, 4, "cap", MF_F32, mf_shape1(experts)))
        return MF_ESHAPE;
    in->work_bytes = mf_reassign_work(rows.dim[0], experts);
    if (mf_infer_set(in, 0, MF_I32, rows)) return MF_ESHAPE;
    return mf_infer_set(in, 1, MF_F32, mf_shape0());
}

static int forward_reassign(const mf_call *call)
{
    const mf_shape prob = call->in[2].shape;
    mf_call_check(call, 0, MF_WHAT_EXPERT, -1, prob.dim[1]);
    mf_call_check(call, 1, MF_WHAT_EXPERT, -1, prob.dim[1]);
    mf_call_tell(call, 0, false, -1, prob.dim[1]);
    MF_RUN_OP(call, reassign, .tokens = prob.dim[0], .experts = prob.dim[1],
              .k = call->attr->i[0], .most = call->attr->i[1], .chosen = mf_call_i32(call, 0),
              .admitted = mf_call_i32(call, 1), .prob = mf_call_f32(call, 2),
              .importance = mf_call_f32(call, 3), .cap = mf_call_f32(call, 4),
              .out = mf_call_out_i32(call, 0), .moved = mf_call_out(call, 1),
              .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_reassign = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_NO_GRAD,
                                 .name = "reassign",
                                 .formula = "overflow to the largest prob[t,j] / (1 + load_j)",
                                 .infer = infer_reassign,
                                 .forward = forward_reassign};

mf_tensor *mf_reassign(mf_graph *g, mf_tensor *chosen, mf_tensor *admitted, mf_tensor *prob,
                       mf_tensor *importance, mf_tensor *cap, int k, int max_moved,
                       mf_tensor **ret_moved)
{
    mf_tensor *in[] = {chosen, admitted, prob, importance, cap}, *out[2] = {NULL};
    mf_graph_op_named(g, "reassign", 5, in, &(mf_attr){.i = {k, max_moved}}, 2, out);
    *ret_moved = out[1];
    return out[0];
}
