/* ops/moe/dispatch.c: groups assignments by expert, and returns results to tokens.
 *
 * There are T tokens and R assignments. Assignment r belongs to token token_of_row[r]; without
 * this list it belongs to token r / k, so R = T k. Source order is the order of r. Grouped
 * order (p) is sorted by expert, and within an expert by token, so experts that read sequences
 * get the tokens of a sequence side by side. */

/*   group_rows     order[p] = r, offset[e] = first p of expert e, token[p], place[r] = p
 *   dispatch_rows  y[p] = x[token[p]], 0 for -1;  dx[t] = sum of dy[place[r]] over t's r
 *   combine_rows   y[t] = sum over t's r of gate[r] x[place[r]]
 *                  dx[place[r]] = gate[r] dy[t],  dgate[r] = <x[place[r]], dy[t]>
 *                  (Shazeer et al. 2017, eq. 1)
 *   return_rows    y[t] = sum of x[place[r]] over t's r;  dx[p] = dy[token[p]], 0 for -1
 *
 * If x of dispatch_rows is bf16, y is bf16, too. x of combine_rows and return_rows may be bf16,
 * but their sums are f32. The assignments of a token are summed in source order. Without a
 * token list the sums need no work memory. With a token list, a counting sort in the work
 * memory first lists the assignments of each token. */
#include "ops/moe/dispatch.h"
#include "ops/gemm.h"
#include "ops/index.h"
#include "ops/infer.h"

/* ---- group_rows: expert, token_of_row ---- */

static int infer_group(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "expert", MF_I32, 1, 1) ||
        mf_infer_maybe(in, 1, "token", MF_I32, in->in[0].shape) ||
        mf_infer_attr(in, 0, "k", 1, INT32_MAX) ||
        mf_infer_attr(in, 1, "experts", 1, INT32_MAX - 1))
        return MF_ESHAPE;
    const mf_shape rows = in->in[0].shape;
    if (!mf_infer_absent(in, 1)) in->work_bytes = (size_t)rows.dim[0] * sizeof(int32_t);
    if (mf_infer_set(in, 0, MF_I32, rows) ||
        mf_infer_set(in, 1, MF_I32, mf_shape1(in->attr->i[1] + 1)) ||
        mf_infer_set(in, 2, MF_I32, rows))
        return MF_ESHAPE;
    return mf_infer_set(in, 3, MF_I32, rows);
}

/* A choice of experts and its groups in one launch (graph/plan/fuse_token.c), from the values
 * before a norm and a router. */
static int forward_route(const mf_call *call)
{
    enum { X, NO_TOKEN, W, BIAS, NORM_W, NORM_B, DIVISOR };             /* inputs */
    enum { ORDER, OFFSET, TOKEN, PLACE, PROB, CHOSEN, GATE, ROW_GATE }; /* outputs */
    const mf_kctx x = mf_call_kctx(call);
    const mf_shape in = call->in[X].shape, router = call->in[W].shape;
    const int64_t rows = in.dim[0] * call->attr->i[0];
    mf_gemm norm = {0};
    mf_call_norm(call, NORM_W, &norm);
    mf_call_tell(call, ORDER, false, -1, rows);
    mf_call_tell(call, OFFSET, true, 0, rows + 1);
    mf_call_tell(call, TOKEN, false, -1, in.dim[0]);
    mf_call_tell(call, PLACE, false, -1, rows);
    mf_call_tell(call, CHOSEN, false, -1, router.dim[0]);
    MF_RUN(mf_call_kernels(call), &x, token_route, .tokens = in.dim[0], .d = in.dim[1],
           .experts = router.dim[0], .k = call->attr->i[0], .norm = norm.norm, .eps = norm.eps,
           .eps_outside = norm.eps_outside, .renormalize = call->attr->i[2] != 0,
           .scale = call->attr->f[0], .x = mf_call_f32(call, X), .norm_w = norm.norm_w,
           .norm_b = norm.norm_b, .w = mf_call_f32(call, W), .bias = mf_call_f32(call, BIAS),
           .divisor = mf_call_f32(call, DIVISOR), .prob = mf_call_out(call, PROB),
           .gate = mf_call_out(call, GATE), .row_gate = mf_call_out(call, ROW_GATE),
           .chosen = mf_call_out_i32(call, CHOSEN), .order = mf_call_out_i32(call, ORDER),
           .offset = mf_call_out_i32(call, OFFSET), .token = mf_call_out_i32(call, TOKEN),
           .place = mf_call_out_i32(call, PLACE));
    return MF_OK;
}

static int forward_group(const mf_call *call)
{
    if (call->n_in > 2) return forward_route(call);
    const mf_kctx x = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t rows = call->in[0].shape.dim[0], experts = call->attr->i[1];
    const int32_t *token = mf_call_i32(call, 1);
    int32_t *offset = mf_call_out_i32(call, 1), *order = mf_call_out_i32(call, 0);
    mf_call_check(call, 0, MF_WHAT_EXPERT, -1, experts);
    mf_call_tell(call, 0, false, -1, rows);
    mf_call_tell(call, 1, true, 0, rows + 1);
    if (token)
        mf_call_tell_of(call, 2, 1);
    else
        mf_call_tell(call, 2, false, -1, (rows + call->attr->i[0] - 1) / call->attr->i[0]);
    mf_call_tell(call, 3, false, -1, rows);
    MF_RUN(k, &x, index_lists, .m = rows, .n = experts, .index = mf_call_i32(call, 0),
           .offset = offset, .list = order);
    MF_RUN(k, &x, group_rows, .rows = rows, .k = call->attr->i[0], .experts = experts,
           .offset = offset, .token_of_row = token, .order = order,
           .token = mf_call_out_i32(call, 2), .place = mf_call_out_i32(call, 3),
           .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_group_rows = {.size = sizeof(mf_opdef),
                                   .flags = MF_OP_NO_GRAD,
                                   .name = "group_rows",
                                   .formula = "order, offset, token, place of rows by expert",
                                   .infer = infer_group,
                                   .forward = forward_group};

mf_row_groups mf_group_rows(mf_graph *g, mf_tensor *expert, mf_tensor *token, int k,
                            int experts)
{
    mf_tensor *in[] = {expert, token}, *out[4] = {NULL};
    mf_graph_op_named(g, "group_rows", 2, in, &(mf_attr){.i = {k, experts}}, 4, out);
    return (mf_row_groups){out[0], out[1], out[2], out[3]};
}

/* ---- sums over the assignments of each token ---- */

static size_t list_bytes(int64_t rows, int64_t tokens)
{
    return (size_t)(rows + tokens + 1) * sizeof(int32_t);
}

/* Output 0 [t] = sum of gate[r] x[place[r]] over the assignments r of token t. token_of_row and
 * gate may be NULL. Output 0 is f32 if x is f32. Input `add`, if the call has it, is added
 * (graph/plan/fuse_residual.c). */
static void sum_over_rows(const mf_call *call, int64_t tokens, int64_t rows, int64_t d,
                          const int32_t *token_of_row, const int32_t *place, const float *gate,
                          const mf_view *x, int add)
{
    const mf_kctx kx = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    int32_t *offset = NULL, *list = NULL;
    if (token_of_row) {
        offset = call->work;
        list = offset + tokens + 1;
        MF_RUN(k, &kx, index_lists, .m = rows, .n = tokens, .index = token_of_row,
               .offset = offset, .list = list);
    }
    MF_RUN(k, &kx, sum_rows, .type_in = (int)mf_call_type(x),
           .type_out = (int)mf_call_type(&call->out[0]), .n = tokens, .d = d,
           .k = call->attr->i[0], .offset = offset, .list = list, .place = place, .gate = gate,
           .in = x->data, .add = add < call->n_in ? mf_call_f32(call, add) : NULL,
           .out = call->out[0].data);
}

static int judge_rows(const mf_infer *in, int list, int64_t rows, int64_t tokens)
{
    if (mf_infer_maybe(in, list, "token of row", MF_I32, mf_shape1(rows)) ||
        mf_infer_attr(in, 0, "k", 1, INT32_MAX))
        return MF_ESHAPE;
    if (mf_infer_absent(in, list) && rows != tokens * in->attr->i[0])
        return in->fail(in, "expected %lld rows for each of %lld tokens, found %lld in all",
                        (long long)in->attr->i[0], (long long)tokens, (long long)rows);
    return MF_OK;
}

/* ---- dispatch_rows: x, token, place, token_of_row ---- */

static int infer_dispatch(mf_infer *in)
{
    const mf_dtype type = mf_infer_float(in, 0);
    if (mf_infer_inputs(in, 4) || mf_infer_tensor(in, 0, "x", type, 2, 2) ||
        mf_infer_tensor(in, 1, "token", MF_I32, 1, 1))
        return MF_ESHAPE;
    const int64_t rows = in->in[1].shape.dim[0];
    const mf_shape x = in->in[0].shape;
    if (mf_infer_shape(in, 2, "place", MF_I32, mf_shape1(rows)) ||
        judge_rows(in, 3, rows, x.dim[0]))
        return MF_ESHAPE;
    if (!mf_infer_absent(in, 3)) in->backward_work_bytes = list_bytes(rows, x.dim[0]);
    return mf_infer_set(in, 0, type, mf_shape2(rows, x.dim[1]));
}

static int forward_dispatch(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const int64_t tokens = call->in[0].shape.dim[0], rows = call->out[0].shape.dim[0];
    mf_call_check_below(call, 1, MF_WHAT_TOKEN, tokens);
    mf_call_check_below(call, 2, MF_WHAT_PLACE, rows);
    mf_call_check_below(call, 3, MF_WHAT_TOKEN, tokens);
    mf_gather(call, &x, call->in[0].data, mf_call_i32(call, 1));
    return MF_OK;
}

static int backward_dispatch(const mf_call *call)
{
    enum { X, TOKEN, PLACE, LIST, Y, DY };
    const mf_shape x = call->in[X].shape;
    sum_over_rows(call, x.dim[0], call->in[DY].shape.dim[0], x.dim[1], mf_call_i32(call, LIST),
                  mf_call_i32(call, PLACE), NULL, &call->in[DY], DY + 1);
    return MF_OK;
}

const mf_opdef mf_op_dispatch_rows = {.size = sizeof(mf_opdef),
                                      .flags = MF_OP_CHEAP,
                                      .name = "dispatch_rows",
                                      .formula = "y[p] = x[token[p]]",
                                      .infer = infer_dispatch,
                                      .forward = forward_dispatch,
                                      .backward = backward_dispatch,
                                      .backward_in = 4 | 8,
                                      .diff_in = 1,
                                      .bf16_in = 1,
                                      .role = MF_ROLE_DISPATCH_ROWS};

mf_tensor *mf_dispatch_rows(mf_graph *g, mf_tensor *x, const mf_row_groups *groups,
                            mf_tensor *token_of_row, int k)
{
    return mf_op4(g, "dispatch_rows", x, groups->token, groups->place, token_of_row,
                  &(mf_attr){.i = {k}});
}

/* ---- combine_rows: y, gate, place, token_of_row ---- */

static int infer_combine(mf_infer *in)
{
    if (mf_infer_inputs(in, 4) || mf_infer_tensor(in, 0, "y", mf_infer_float(in, 0), 2, 2) ||
        mf_infer_attr(in, 1, "tokens", 0, INT32_MAX - 1))
        return MF_ESHAPE;
    const mf_shape y = in->in[0].shape, rows = mf_shape1(y.dim[0]);
    const int64_t tokens = in->attr->i[1];
    if (mf_infer_maybe(in, 1, "gate", MF_F32, rows) ||
        mf_infer_shape(in, 2, "place", MF_I32, rows) || judge_rows(in, 3, y.dim[0], tokens))
        return MF_ESHAPE;
    if (!mf_infer_absent(in, 3)) in->work_bytes = list_bytes(y.dim[0], tokens);
    return mf_infer_set(in, 0, MF_F32, mf_shape2(tokens, y.dim[1]));
}

static int forward_combine(const mf_call *call)
{
    const mf_shape y = call->in[0].shape;
    const int64_t tokens = call->out[0].shape.dim[0];
    mf_call_check_below(call, 2, MF_WHAT_PLACE, y.dim[0]);
    mf_call_check_below(call, 3, MF_WHAT_TOKEN, tokens);
    sum_over_rows(call, tokens, y.dim[0], y.dim[1], mf_call_i32(call, 3), mf_call_i32(call, 2),
                  mf_call_f32(call, 1), &call->in[0], call->n_in);
    return MF_OK;
}

static int backward_combine(const mf_call *call)
{
    enum { Y, GATE, PLACE, LIST, Z, DZ };
    const mf_shape y = call->in[Y].shape;
    MF_RUN_OP(call, combine_grad, .type = (int)mf_call_type(&call->in[Y]), .rows = y.dim[0],
              .k = call->attr->i[0], .d = y.dim[1], .y = call->in[Y].data,
              .gate = mf_call_f32(call, GATE), .place = mf_call_i32(call, PLACE),
              .token = mf_call_i32(call, LIST), .dout = mf_call_f32(call, DZ),
              .dy = call->out[Y].data, .dgate = mf_call_out(call, GATE));
    return MF_OK;
}

const mf_opdef mf_op_combine_rows = {.size = sizeof(mf_opdef),
                                     .name = "combine_rows",
                                     .formula = "y[t] = sum of gate[r] x[place[r]], r of t",
                                     .infer = infer_combine,
                                     .forward = forward_combine,
                                     .backward = backward_combine,
                                     .backward_in = 1 | 2 | 4 | 8,
                                     .diff_in = 3,
                                     .backward_over = 1,
                                     .bf16_in = 1};

mf_tensor *mf_combine_rows(mf_graph *g, mf_tensor *y, mf_tensor *gate,
                           const mf_row_groups *groups, mf_tensor *token_of_row, int tokens,
                           int k)
{
    return mf_op4(g, "combine_rows", y, gate, groups->place, token_of_row,
                  &(mf_attr){.i = {k, tokens}});
}

/* ---- return_rows: y, token, place, token_of_row ---- */

static int infer_return(mf_infer *in)
{
    if (mf_infer_inputs(in, 4) || mf_infer_tensor(in, 0, "y", mf_infer_float(in, 0), 2, 2) ||
        mf_infer_attr(in, 1, "tokens", 0, INT32_MAX - 1))
        return MF_ESHAPE;
    const mf_shape y = in->in[0].shape, rows = mf_shape1(y.dim[0]);
    const int64_t tokens = in->attr->i[1];
    if (mf_infer_shape(in, 1, "token", MF_I32, rows) ||
        mf_infer_shape(in, 2, "place", MF_I32, rows) || judge_rows(in, 3, y.dim[0], tokens))
        return MF_ESHAPE;
    if (!mf_infer_absent(in, 3)) in->work_bytes = list_bytes(y.dim[0], tokens);
    return mf_infer_set(in, 0, MF_F32, mf_shape2(tokens, y.dim[1]));
}

static int forward_return(const mf_call *call)
{
    const mf_shape y = call->in[0].shape;
    const int64_t tokens = call->out[0].shape.dim[0];
    mf_call_check_below(call, 1, MF_WHAT_TOKEN, tokens);
    mf_call_check_below(call, 2, MF_WHAT_PLACE, y.dim[0]);
    mf_call_check_below(call, 3, MF_WHAT_TOKEN, tokens);
    sum_over_rows(call, tokens, y.dim[0], y.dim[1], mf_call_i32(call, 3), mf_call_i32(call, 2),
                  NULL, &call->in[0], 4);
    return MF_OK;
}

/* The gradient reads only indices of the forward pass. */
static int grad_return(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *dy = at->dout[0];
    if (at->in[0]->dtype == MF_BF16) dy = mf_cast(g, dy, MF_BF16);
    at->din[0] = mf_op4(g, "dispatch_rows", dy, at->in[1], at->in[2], at->in[3],
                        &(mf_attr){.i = {at->attr->i[0]}});
    return mf_graph_status(g);
}

const mf_opdef mf_op_return_rows = {.size = sizeof(mf_opdef),
                                    .name = "return_rows",
                                    .formula = "y[t] = sum of x[place[r]], r of t",
                                    .infer = infer_return,
                                    .forward = forward_return,
                                    .grad = grad_return,
                                    .diff_in = 1,
                                    .bf16_in = 1};

mf_tensor *mf_return_rows(mf_graph *g, mf_tensor *y, const mf_row_groups *groups,
                          mf_tensor *token_of_row, int tokens, int k)
{
    return mf_op4(g, "return_rows", y, groups->token, groups->place, token_of_row,
                  &(mf_attr){.i = {k, tokens}});
}
