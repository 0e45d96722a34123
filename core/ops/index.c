/* ops/index.c: selects and writes rows and elements by index. Indices are i32; an index below 0
 * means none.
 *
 *   gather_rows   y[m] = x[index[m]], 0 for none; x may be bf16  dx = scatter_rows(dy)
 *   scatter_rows  y[index[m]] += x[m], in the order of m         dx = gather_rows(dy)
 *   take          y[n,j] = x[n, index[n,j]], 0 for none          dx = put(dy)
 *   put           y[n, index[n,j]] += x[n,j], in the order of j  dx = take(dy)
 *   topk          indices of the k largest elements of each row
 *   one_hot       y[..,j] = 1 where index = j
 *   bincount      y[v] = sum of weight over index = v            dweight = gather(dy)
 *   score_bins    y[e,i] = number of x[.,e] in bin i
 *
 * An index that is too large ends the run with MF_EPLUGIN, before it is used to read or write.
 * one_hot instead writes a row of zeros for such an index. */
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

/* ---- checks while running ---- */

void mf_call_check(const mf_call *call, int i, mf_fault_what what, int64_t lo, int64_t hi)
{
    if (!call->in[i].data || !mf_call_must_check(call, i, false, lo, hi)) return;
    MF_RUN_OP(call, check_index, .what = (int)what, .n = mf_shape_count(call->in[i].shape),
              .index = mf_call_i32(call, i), .lo = lo, .hi = hi);
}

void mf_call_check_below(const mf_call *call, int i, mf_fault_what what, int64_t hi)
{
    mf_call_check(call, i, what, INT32_MIN, hi);
}

void mf_call_check_offset(const mf_call *call, int i, int64_t rows)
{
    if (!mf_call_must_check(call, i, true, 0, rows + 1)) return;
    MF_RUN_OP(call, check_offset, .groups = call->in[i].shape.dim[0] - 1,
              .offset = mf_call_i32(call, i), .rows = rows);
}

void mf_call_check_first(const mf_call *call, int i)
{
    MF_RUN_OP(call, check_index, .what = MF_WHAT_ROW, .n = 1, .index = mf_call_i32(call, i),
              .lo = 0, .hi = 1);
}

/* ---- rows ---- */

void mf_gather(const mf_call *call, const mf_kctx *x, const void *in, const int32_t *index)
{
    const mf_shape y = call->out[0].shape;
    MF_RUN(mf_call_kernels(call), x, gather_rows, .type = (int)mf_call_type(&call->out[0]),
           .m = y.dim[0], .d = y.dim[1], .in = in, .index = index, .out = call->out[0].data);
}

static int infer_gather(mf_infer *in)
{
    mf_dtype type = mf_infer_float(in, 0);
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", type, 2, 2) ||
        mf_infer_tensor(in, 1, "index", MF_I32, 1, 1))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, type, mf_shape2(in->in[1].shape.dim[0], in->in[0].shape.dim[1]));
}

static int forward_gather(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_call_check_below(call, 1, MF_WHAT_INDEX, call->in[0].shape.dim[0]);
    mf_gather(call, &x, call->in[0].data, mf_call_i32(call, 1));
    return MF_OK;
}

static int grad_gather(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_scatter_rows(g, at->dout[0], at->in[1], at->in[0]->shape.dim[0]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_gather_rows = {.size = sizeof(mf_opdef),
                                    .name = "gather_rows",
                                    .formula = "y[m] = x[index[m]]",
                                    .infer = infer_gather,
                                    .forward = forward_gather,
                                    .grad = grad_gather,
                                    .diff_in = 1,
                                    .bf16_in = 1};

static int infer_scatter(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) ||
        mf_infer_shape(in, 1, "index", MF_I32, mf_shape1(in->in[0].shape.dim[0])) ||
        mf_infer_attr(in, 0, "number of rows", 0, INT32_MAX - 1))
        return MF_ESHAPE;
    in->work_bytes = (size_t)(in->in[0].shape.dim[0] + in->attr->i[0] + 1) * sizeof(int32_t);
    return mf_infer_set(in, 0, MF_F32, mf_shape2(in->attr->i[0], in->in[0].shape.dim[1]));
}

static int forward_scatter(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    int64_t m = call->in[0].shape.dim[0], n = call->out[0].shape.dim[0];
    int32_t *offset = call->work, *list = offset + n + 1;
    mf_call_check_below(call, 1, MF_WHAT_INDEX, n);
    MF_RUN(k, &x, index_lists, .m = m, .n = n, .index = mf_call_i32(call, 1), .offset = offset,
           .list = list);
    MF_RUN(k, &x, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = n,
           .d = call->out[0].shape.dim[1], .k = 0, .offset = offset, .list = list,
           .in = mf_call_f32(call, 0), .out = mf_call_out(call, 0));
    return MF_OK;
}

static int grad_scatter(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_gather_rows(g, at->dout[0], at->in[1]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_scatter_rows = {.size = sizeof(mf_opdef),
                                     .name = "scatter_rows",
                                     .formula = "y[index[m]] += x[m]",
                                     .infer = infer_scatter,
                                     .forward = forward_scatter,
                                     .grad = grad_scatter,
                                     .diff_in = 1};

/* ---- elements of rows ---- */

static int infer_take(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) ||
        mf_infer_tensor(in, 1, "index", MF_I32, 2, 2) ||
        mf_infer_shape(in, 1, "index", MF_I32,
                       mf_shape2(in->in[0].shape.dim[0], in->in[1].shape.dim[1])))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, in->in[1].shape);
}

static int forward_take(const mf_call *call)
{
    mf_shape s = call->in[0].shape;
    mf_call_check_below(call, 1, MF_WHAT_INDEX, s.dim[1]);
    MF_RUN_OP(call, take, .n = s.dim[0], .width = s.dim[1], .k = call->out[0].shape.dim[1],
              .in = mf_call_f32(call, 0), .index = mf_call_i32(call, 1),
              .out = mf_call_out(call, 0));
    return MF_OK;
}

static int grad_take(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_put(g, at->dout[0], at->in[1], at->in[0]->shape.dim[1]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_take = {.size = sizeof(mf_opdef),
                             .name = "take",
                             .formula = "y[n,j] = x[n, index[n,j]]",
                             .infer = infer_take,
                             .forward = forward_take,
                             .grad = grad_take,
                             .diff_in = 1};

static int infer_put(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) ||
        mf_infer_shape(in, 1, "index", MF_I32, in->in[0].shape) ||
        mf_infer_attr(in, 0, "width", 0, INT32_MAX))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, mf_shape2(in->in[0].shape.dim[0], in->attr->i[0]));
}

static int forward_put(const mf_call *call)
{
    mf_shape s = call->in[0].shape;
    mf_call_check_below(call, 1, MF_WHAT_INDEX, call->attr->i[0]);
    MF_RUN_OP(call, put, .n = s.dim[0], .width = call->attr->i[0], .k = s.dim[1],
              .in = mf_call_f32(call, 0), .index = mf_call_i32(call, 1),
              .out = mf_call_out(call, 0));
    return MF_OK;
}

static int grad_put(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_take(g, at->dout[0], at->in[1]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_put = {.size = sizeof(mf_opdef),
                            .name = "put",
                            .formula = "y[n, index[n,j]] += x[n,j]",
                            .infer = infer_put,
                            .forward = forward_put,
                            .grad = grad_put,
                            .diff_in = 1};

static int infer_topk(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) ||
        mf_infer_attr(in, 0, "k", 1, in->in[0].shape.dim[1]))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_I32, mf_shape2(in->in[0].shape.dim[0], in->attr->i[0]));
}

static int forward_topk(const mf_call *call)
{
    mf_shape s = call->in[0].shape;
    mf_call_tell(call, 0, false, -1, s.dim[1]);
    MF_RUN_OP(call, topk, .n = s.dim[0], .width = s.dim[1], .k = call->attr->i[0],
              .in = mf_call_f32(call, 0), .out = mf_call_out_i32(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_topk = {.size = sizeof(mf_opdef),
                             .flags = MF_OP_NO_GRAD,
                             .name = "topk",
                             .formula = "y = indices of the k largest, largest first",
                             .infer = infer_topk,
                             .forward = forward_topk};

/* ---- counts ---- */

static int infer_one_hot(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "index", MF_I32, 0, 3) ||
        mf_infer_attr(in, 0, "n", 1, INT32_MAX))
        return MF_ESHAPE;
    mf_shape y = in->in[0].shape;
    y.dim[y.rank++] = in->attr->i[0];
    return mf_infer_set(in, 0, MF_F32, y);
}

static int forward_one_hot(const mf_call *call)
{
    MF_RUN_OP(call, one_hot, .m = mf_shape_count(call->in[0].shape), .n = call->attr->i[0],
              .index = mf_call_i32(call, 0), .out = mf_call_out(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_one_hot = {.size = sizeof(mf_opdef),
                                .flags = MF_OP_NO_GRAD,
                                .name = "one_hot",
                                .formula = "y[..,j] = 1 where index = j",
                                .infer = infer_one_hot,
                                .forward = forward_one_hot};

static int infer_bincount(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "index", MF_I32, 0, 4) ||
        mf_infer_maybe(in, 1, "weight", MF_F32, in->in[0].shape) ||
        mf_infer_attr(in, 0, "n", 1, INT32_MAX))
        return MF_ESHAPE;
    in->work_bytes = mf_count_work(mf_shape_count(in->in[0].shape), in->attr->i[0]);
    return mf_infer_set(in, 0, MF_F32, mf_shape1(in->attr->i[0]));
}

static int forward_bincount(const mf_call *call)
{
    mf_call_check_below(call, 0, MF_WHAT_INDEX, call->attr->i[0]);
    MF_RUN_OP(call, bincount, .m = mf_shape_count(call->in[0].shape), .n = call->attr->i[0],
              .index = mf_call_i32(call, 0), .weight = mf_call_f32(call, 1),
              .out = mf_call_out(call, 0), .work = call->work);
    return MF_OK;
}

static int grad_bincount(mf_graph *g, const mf_gradient *at)
{
    int64_t m = mf_shape_count(at->in[0]->shape), n = at->attr->i[0];
    mf_tensor *column = mf_reshape(g, at->dout[0], mf_shape2(n, 1));
    mf_tensor *d = mf_gather_rows(g, column, mf_reshape(g, at->in[0], mf_shape1(m)));
    at->din[1] = mf_reshape(g, d, at->in[0]->shape);
    return mf_graph_status(g);
}

const mf_opdef mf_op_bincount = {.size = sizeof(mf_opdef),
                                 .name = "bincount",
                                 .formula = "y[v] = sum of weight[i] over index[i] = v",
                                 .infer = infer_bincount,
                                 .forward = forward_bincount,
                                 .grad = grad_bincount,
                                 .diff_in = 2};

/* ---- score_bins: x, mask, bias; attributes: number of bins, lo, hi ---- */

static int infer_score_bins(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) ||
        mf_infer_maybe(in, 1, "mask", MF_F32, mf_shape1(in->in[0].shape.dim[0])) ||
        mf_infer_maybe(in, 2, "bias", MF_F32, mf_shape1(in->in[0].shape.dim[1])) ||
        mf_infer_attr(in, 0, "bins", 1, 8192))
        return MF_ESHAPE;
    if (!(in->attr->f[0] < in->attr->f[1]))
        return in->fail(in, "expected lo < hi, found %g and %g", in->attr->f[0],
                        in->attr->f[1]);
    const int64_t experts = in->in[0].shape.dim[1], bins = in->attr->i[0];
    in->work_bytes = mf_score_bins_work(experts, bins);
    return mf_infer_set(in, 0, MF_F32, mf_shape2(experts, bins));
}

static int forward_score_bins(const mf_call *call)
{
    const mf_shape s = call->in[0].shape;
    MF_RUN_OP(call, score_bins, .tokens = s.dim[0], .experts = s.dim[1],
              .bins = call->attr->i[0], .lo = call->attr->f[0], .hi = call->attr->f[1],
              .in = mf_call_f32(call, 0), .mask = mf_call_f32(call, 1),
              .bias = mf_call_f32(call, 2), .out = mf_call_out(call, 0), .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_score_bins = {.size = sizeof(mf_opdef),
                                   .flags = MF_OP_NO_GRAD,
                                   .name = "score_bins",
                                   .formula = "y[e,i] = number of x[.,e] in bin i",
                                   .infer = infer_score_bins,
                                   .forward = forward_score_bins};
