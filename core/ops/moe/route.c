/* ops/moe/route.c: choice of experts, gates, and statistics of both.
 *
 * T tokens, E experts, R assignments. Assignment r belongs to token token[r]; without this list
 * it belongs to token r / k, so R = T k. */

/*   route_select   chosen[t k + j]: the expert with the (j+1)-th largest score of token t; of
 *                  equal scores the lower index; -1 for padding  (Shazeer et al. 2017, eq. 5)
 *   route_gates    gate[r] = scale p[r]; with renormalize, scale p[r] / S, where S is the sum
 *                  of p over the token's assignments. Here p[r] = prob[t, e[r]], and e is
 *                  admitted where that is >= 0, else chosen. The gate is 0 where e < 0 or
 *                  S < 1e-20.
 *                  dprob[t, e[r]] += scale dgate[r]; with renormalize, scale (dgate[r] - mean)
 *                  / S, where mean is the sum of dgate p over the token's assignments, over S
 *                  (Shazeer et al. 2017, eq. 3; without the division Fedus et al. 2021, eq. 2)
 *   mask_rows      expert, or -1 for padding
 *   routing_stats  see mf_routing_sums (ops/moe/dispatch.h)
 *   joint_count    n[e,l]: number of assignments to expert e whose token has label l */
#include "ops/moe/dispatch.h"
#include "ops/index.h"
#include "ops/infer.h"

/* ---- mask_rows: expert, mask, token ---- */

/* Checks the number of assignments: without a token list at input `token` there must be
 * attr.i[0] = k per token. */
static int judge_rows(const mf_infer *in, int token, int64_t rows, int64_t tokens)
{
    if (mf_infer_maybe(in, token, "token", MF_I32, mf_shape1(rows))) return MF_ESHAPE;
    if (!mf_infer_absent(in, token)) return MF_OK;
    if (mf_infer_attr(in, 0, "k", 1, INT32_MAX)) return MF_ESHAPE;
    if (rows != tokens * in->attr->i[0])
        return in->fail(in, "expected %lld rows for each of %lld tokens, found %lld in all",
                        (long long)in->attr->i[0], (long long)tokens, (long long)rows);
    return MF_OK;
}

static int infer_mask(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "expert", MF_I32, 1, 1) ||
        mf_infer_tensor(in, 1, "mask", MF_F32, 1, 1) ||
        judge_rows(in, 2, in->in[0].shape.dim[0], in->in[1].shape.dim[0]))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_I32, in->in[0].shape);
}

static int forward_mask(const mf_call *call)
{
    mf_call_check_below(call, 2, MF_WHAT_TOKEN, call->in[1].shape.dim[0]);
    mf_call_tell_of(call, 0, 0);
    MF_RUN_OP(call, mask_rows, .rows = call->in[0].shape.dim[0], .k = call->attr->i[0],
              .expert = mf_call_i32(call, 0), .token = mf_call_i32(call, 2),
              .mask = mf_call_f32(call, 1), .out = mf_call_out_i32(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_mask_rows = {.size = sizeof(mf_opdef),
                                  .flags = MF_OP_NO_GRAD,
                                  .name = "mask_rows",
                                  .formula = "y[r] = expert[r], -1 where the token is padding",
                                  .infer = infer_mask,
                                  .forward = forward_mask};

mf_tensor *mf_mask_rows(mf_graph *g, mf_tensor *expert, mf_tensor *mask, mf_tensor *token,
                        int k)
{
    return mf_op3(g, "mask_rows", expert, mask, token, &(mf_attr){.i = {k}});
}

/* ---- route_select: score, mask ---- */

static int infer_select(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "score", MF_F32, 2, 2) ||
        mf_infer_maybe(in, 1, "mask", MF_F32, mf_shape1(in->in[0].shape.dim[0])) ||
        mf_infer_attr(in, 0, "k", 1, in->in[0].shape.dim[1]))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_I32, mf_shape1(in->in[0].shape.dim[0] * in->attr->i[0]));
}

static int forward_select(const mf_call *call)
{
    mf_shape s = call->in[0].shape;
    mf_call_tell(call, 0, false, -1, s.dim[1]);
    MF_RUN_OP(call, topk, .n = s.dim[0], .width = s.dim[1], .k = call->attr->i[0],
              .in = mf_call_f32(call, 0), .mask = mf_call_f32(call, 1),
              .out = mf_call_out_i32(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_route_select = {.size = sizeof(mf_opdef),
                                     .flags = MF_OP_NO_GRAD,
                                     .name = "route_select",
                                     .formula = "y = the k experts with the largest score",
                                     .infer = infer_select,
                                     .forward = forward_select};

mf_tensor *mf_route_select(mf_graph *g, mf_tensor *score, mf_tensor *mask, int k)
{
    return mf_op2(g, "route_select", score, mask, &(mf_attr){.i = {k}});
}

/* ---- route_gates: prob, chosen, admitted ---- */

static int infer_gates(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "prob", MF_F32, 2, 2) ||
        mf_infer_attr(in, 0, "k", 1, INT32_MAX) || mf_infer_attr(in, 1, "renormalize", 0, 1))
        return MF_ESHAPE;
    mf_shape rows = mf_shape1(in->in[0].shape.dim[0] * in->attr->i[0]);
    if (mf_infer_shape(in, 1, "chosen", MF_I32, rows) ||
        mf_infer_maybe(in, 2, "admitted", MF_I32, rows))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, rows);
}

static int forward_gates(const mf_call *call)
{
    mf_shape s = call->in[0].shape;
    mf_call_check_below(call, 1, MF_WHAT_EXPERT, s.dim[1]);
    mf_call_check_below(call, 2, MF_WHAT_EXPERT, s.dim[1]);
    MF_RUN_OP(call, route_gates, .tokens = s.dim[0], .experts = s.dim[1], .k = call->attr->i[0],
              .prob = mf_call_f32(call, 0), .chosen = mf_call_i32(call, 1),
              .admitted = mf_call_i32(call, 2), .renormalize = call->attr->i[1] != 0,
              .scale = call->attr->f[0], .gate = mf_call_out(call, 0));
    return MF_OK;
}

static int backward_gates(const mf_call *call)
{
    enum { PROB, CHOSEN, ADMITTED, GATE, DGATE };
    mf_shape s = call->in[PROB].shape;
    MF_RUN_OP(call, route_gates_grad, .tokens = s.dim[0], .experts = s.dim[1],
              .k = call->attr->i[0], .prob = mf_call_f32(call, PROB),
              .chosen = mf_call_i32(call, CHOSEN), .admitted = mf_call_i32(call, ADMITTED),
              .renormalize = call->attr->i[1] != 0, .scale = call->attr->f[0],
              .dgate = mf_call_f32(call, DGATE), .dprob = mf_call_out(call, PROB));
    return MF_OK;
}

const mf_opdef mf_op_route_gates = {.size = sizeof(mf_opdef),
                                    .name = "route_gates",
                                    .formula =
                                        "y[r] = scale p[r] / sum p, p[r] = prob[t, e[r]]",
                                    .infer = infer_gates,
                                    .forward = forward_gates,
                                    .backward = backward_gates,
                                    .backward_in = 7,
                                    .diff_in = 1};

mf_tensor *mf_route_gates(mf_graph *g, mf_tensor *prob, mf_tensor *chosen, mf_tensor *admitted,
                          int k, bool renormalize, double scale)
{
    const mf_attr attr = {.i = {k, renormalize}, .f = {scale}};
    return mf_op3(g, "route_gates", prob, chosen, admitted, &attr);
}

/* ---- routing_stats: prob, chosen, admitted, gate, mask, token ---- */

enum { PROB, CHOSEN, ADMITTED, GATE, MASK, TOKEN };
enum { K, EXPERTS, TOKENS }; /* attr.i */

static int infer_stats(mf_infer *in)
{
    if (mf_infer_inputs(in, 6) || mf_infer_tensor(in, CHOSEN, "chosen", MF_I32, 1, 1) ||
        mf_infer_attr(in, EXPERTS, "experts", 1, INT32_MAX) ||
        mf_infer_attr(in, TOKENS, "tokens", 0, INT32_MAX))
        return MF_ESHAPE;
    const int64_t experts = in->attr->i[EXPERTS], tokens = in->attr->i[TOKENS];
    const mf_shape rows = in->in[CHOSEN].shape;
    if (mf_infer_maybe(in, PROB, "prob", MF_F32, mf_shape2(tokens, experts)) ||
        mf_infer_shape(in, ADMITTED, "admitted", MF_I32, rows) ||
        mf_infer_maybe(in, GATE, "gate", MF_F32, rows) ||
        mf_infer_maybe(in, MASK, "mask", MF_F32, mf_shape1(tokens)) ||
        judge_rows(in, TOKEN, rows.dim[0], tokens))
        return MF_ESHAPE;
    in->work_bytes = mf_routing_stats_work(tokens, rows.dim[0], experts);
    for (int i = 0; i < 3; i++)
        if (mf_infer_set(in, i, MF_F32, mf_shape1(experts))) return MF_ESHAPE;
    return mf_infer_set(in, 3, MF_F32, mf_shape1(MF_STATS_SUMS));
}

static int forward_stats(const mf_call *call)
{
    const int64_t experts = call->attr->i[EXPERTS], tokens = call->attr->i[TOKENS];
    mf_call_check_below(call, CHOSEN, MF_WHAT_EXPERT, experts);
    mf_call_check_below(call, ADMITTED, MF_WHAT_EXPERT, experts);
    mf_call_check_below(call, TOKEN, MF_WHAT_TOKEN, tokens);
    MF_RUN_OP(call, routing_stats, .tokens = tokens, .rows = call->in[CHOSEN].shape.dim[0],
              .experts = experts, .k = call->attr->i[K], .prob = mf_call_f32(call, PROB),
              .chosen = mf_call_i32(call, CHOSEN), .admitted = mf_call_i32(call, ADMITTED),
              .gate = mf_call_f32(call, GATE), .mask = mf_call_f32(call, MASK),
              .token = mf_call_i32(call, TOKEN), .chosen_sum = mf_call_out(call, 0),
              .admitted_sum = mf_call_out(call, 1), .importance = mf_call_out(call, 2),
              .scalars = mf_call_out(call, 3), .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_routing_stats = {.size = sizeof(mf_opdef),
                                      .flags = MF_OP_NO_GRAD,
                                      .name = "routing_stats",
                                      .formula = "counts, importance and sums of a routing",
                                      .infer = infer_stats,
                                      .forward = forward_stats};

mf_routing_sums mf_routing_stats(mf_graph *g, mf_tensor *prob, mf_tensor *chosen,
                                 mf_tensor *admitted, mf_tensor *gate, mf_tensor *mask,
                                 mf_tensor *token, int k, int experts, int tokens)
{
    mf_tensor *in[] = {prob, chosen, admitted, gate, mask, token}, *out[4] = {NULL};
    mf_graph_op_named(g, "routing_stats", 6, in, &(mf_attr){.i = {k, experts, tokens}}, 4, out);
    return (mf_routing_sums){out[0], out[1], out[2], out[3]};
}

/* ---- joint_count: expert, token, labels ---- */

static int infer_joint(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "expert", MF_I32, 1, 1) ||
        mf_infer_tensor(in, 2, "labels", MF_I32, 1, 1) ||
        judge_rows(in, 1, in->in[0].shape.dim[0], in->in[2].shape.dim[0]) ||
        mf_infer_attr(in, 1, "experts", 1, INT32_MAX) ||
        mf_infer_attr(in, 2, "labels", 1, INT32_MAX))
        return MF_ESHAPE;
    const int64_t experts = in->attr->i[1], labels = in->attr->i[2];
    if (mf_infer_set(in, 0, MF_F32, mf_shape2(experts, labels))) return MF_ESHAPE;
    in->work_bytes = mf_count_work(in->in[0].shape.dim[0], experts * labels);
    return MF_OK;
}

static int forward_joint(const mf_call *call)
{
    const int64_t experts = call->attr->i[1], labels = call->attr->i[2];
    mf_call_check_below(call, 0, MF_WHAT_EXPERT, experts);
    mf_call_check_below(call, 2, MF_WHAT_LABEL, labels);
    mf_call_check_below(call, 1, MF_WHAT_TOKEN, call->in[2].shape.dim[0]);
    MF_RUN_OP(call, joint_count, .rows = call->in[0].shape.dim[0], .k = call->attr->i[0],
              .experts = experts, .labels = labels, .expert = mf_call_i32(call, 0),
              .token = mf_call_i32(call, 1), .label = mf_call_i32(call, 2),
              .out = mf_call_out(call, 0), .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_joint_count = {.size = sizeof(mf_opdef),
                                    .flags = MF_OP_NO_GRAD,
                                    .name = "joint_count",
                                    .formula = "y[e,l] = rows of expert e and label l",
                                    .infer = infer_joint,
                                    .forward = forward_joint};

mf_tensor *mf_joint_count(mf_graph *g, mf_tensor *expert, mf_tensor *token, mf_tensor *labels,
                          int k, int experts, int n_labels)
{
    return mf_op3(g, "joint_count", expert, token, labels,
                  &(mf_attr){.i = {k, experts, n_labels}});
}
