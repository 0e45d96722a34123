/* ops/shape.c: ops that move elements without computing. Types: f32 or i32; pad only f32;
 * reshape and stop_gradient any type.
 *
 *   reshape    the same elements in row-major order            dx = dy reshaped back
 *   broadcast  y = x repeated up to a shape                    dx = sum_to(dy)
 *   transpose  dimension i of y is dimension perm_i of x       dx = dy, permuted back
 *   slice      y = x at start .. start+count-1 of an axis      dx = pad(dy)
 *   pad        y = x at start .. of an axis, 0 elsewhere       dx = slice(dy)
 *   concat     y = x0, x1, .. one after the other on an axis   dx_i = slice(dy) */
#include "ops/shape.h"
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/stride.h"

/* Checks that an input is present and has a type that copy4 can move. */
static int judge_input(const mf_infer *in, int i, int lo)
{
    mf_dtype type = in->in[i].dtype;
    if (!mf_infer_absent(in, i) && type != MF_F32 && type != MF_I32)
        return in->fail(in, "expected x of type f32 or i32, found %s", mf_dtype_text(type));
    return mf_infer_tensor(in, i, "x", type, lo, MF_MAX_RANK);
}

static int judge_shape(const mf_infer *in)
{
    if (mf_infer_attr(in, 0, "rank", 0, MF_MAX_RANK)) return MF_ESHAPE;
    for (int i = 1; i <= in->attr->i[0]; i++)
        if (mf_infer_attr(in, i, "dimension", 0, INT32_MAX)) return MF_ESHAPE;
    return MF_OK;
}

static void move(const mf_call *call, const mf_walk *w, const void *from, void *to)
{
    mf_walk merged = *w;
    mf_walk_merge(&merged);
    MF_RUN_OP(call, copy4, .dim = MF_FOUR(merged.dim), .stride_in = MF_FOUR(merged.stride[0]),
              .stride_out = MF_FOUR(merged.stride[1]), .in = from, .out = to);
}

/* ---- reshape ---- */

static int infer_reshape(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    if (mf_infer_inputs(in, 1) || judge_shape(in)) return MF_ESHAPE;
    if (mf_infer_absent(in, 0)) return in->fail(in, "expected input x, found none");
    mf_shape to = mf_attr_shape(in->attr), x = in->in[0].shape;
    if (mf_shape_count(to) != mf_shape_count(x))
        return in->fail(in, "expected a shape of %lld elements as %s, found %s",
                        (long long)mf_shape_count(x), mf_shape_text(x, a),
                        mf_shape_text(to, b));
    return mf_infer_set(in, 0, in->in[0].dtype, to);
}

static int grad_reshape(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_reshape(g, at->dout[0], at->in[0]->shape);
    return mf_graph_status(g);
}

const mf_opdef mf_op_reshape = {.size = sizeof(mf_opdef),
                                .flags = MF_OP_ALIAS,
                                .name = "reshape",
                                .formula = "y = x in another shape",
                                .infer = infer_reshape,
                                .grad = grad_reshape,
                                .diff_in = 1,
                                .bf16_in = 1};

static int infer_same(mf_infer *in)
{
    if (mf_infer_inputs(in, 1)) return MF_ESHAPE;
    if (mf_infer_absent(in, 0)) return in->fail(in, "expected input x, found none");
    return mf_infer_set(in, 0, in->in[0].dtype, in->in[0].shape);
}

const mf_opdef mf_op_stop_gradient = {.size = sizeof(mf_opdef),
                                      .flags = MF_OP_ALIAS | MF_OP_NO_GRAD,
                                      .name = "stop_gradient",
                                      .formula = "y = x, dx = 0",
                                      .infer = infer_same,
                                      .bf16_in = 1};

/* ---- broadcast ---- */

static int infer_broadcast(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_shape both;
    if (mf_infer_inputs(in, 1) || judge_input(in, 0, 0) || judge_shape(in)) return MF_ESHAPE;
    mf_shape to = mf_attr_shape(in->attr), x = in->in[0].shape;
    if (!mf_shape_broadcast(x, to, &both) || !mf_shape_equal(both, to))
        return in->fail(in, "expected x of a shape that broadcasts to %s, found %s",
                        mf_shape_text(to, a), mf_shape_text(x, b));
    return mf_infer_set(in, 0, in->in[0].dtype, to);
}

static int forward_broadcast(const mf_call *call)
{
    mf_walk w = mf_walk_over(call->out[0].shape);
    mf_walk_add(&w, call->in[0].shape);
    mf_walk_add(&w, call->out[0].shape);
    move(call, &w, call->in[0].data, call->out[0].data);
    return MF_OK;
}

static int grad_broadcast(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_sum_to(g, at->dout[0], at->in[0]->shape);
    return mf_graph_status(g);
}

const mf_opdef mf_op_broadcast = {.size = sizeof(mf_opdef),
                                  .name = "broadcast",
                                  .formula = "y = x repeated",
                                  .infer = infer_broadcast,
                                  .forward = forward_broadcast,
                                  .grad = grad_broadcast,
                                  .diff_in = 1};

/* ---- transpose ---- */

static int infer_transpose(mf_infer *in)
{
    unsigned seen = 0;
    if (mf_infer_inputs(in, 1) || judge_input(in, 0, 1)) return MF_ESHAPE;
    mf_shape x = in->in[0].shape, y = x;
    for (int32_t i = 0; i < x.rank; i++) {
        int64_t p = in->attr->i[i];
        if (p < 0 || p >= x.rank || (seen >> p & 1))
            return in->fail(in, "expected a permutation of 0 .. %d, found %lld at place %d",
                            x.rank - 1, (long long)p, i);
        seen |= 1u << p;
        y.dim[i] = x.dim[p];
    }
    return mf_infer_set(in, 0, in->in[0].dtype, y);
}

static int forward_transpose(const mf_call *call)
{
    mf_shape x = call->in[0].shape;
    int64_t of_x[MF_MAX_RANK] = {0}, stride[MF_MAX_RANK] = {0};
    mf_walk w = mf_walk_over(call->out[0].shape);
    mf_shape_strides(x, of_x);
    for (int32_t i = 0; i < x.rank; i++)
        stride[i] = of_x[call->attr->i[i]];
    mf_walk_add_strides(&w, x.rank, stride);
    mf_walk_add(&w, call->out[0].shape);
    move(call, &w, call->in[0].data, call->out[0].data);
    return MF_OK;
}

static int grad_transpose(mf_graph *g, const mf_gradient *at)
{
    int inverse[MF_MAX_RANK] = {0};
    for (int i = 0; i < at->in[0]->shape.rank; i++)
        inverse[at->attr->i[i]] = i;
    at->din[0] = mf_transpose(g, at->dout[0], inverse[0], inverse[1], inverse[2], inverse[3]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_transpose = {.size = sizeof(mf_opdef),
                                  .name = "transpose",
                                  .formula = "y[i_0, ..] = x[i_perm]",
                                  .infer = infer_transpose,
                                  .forward = forward_transpose,
                                  .grad = grad_transpose,
                                  .diff_in = 1};

/* ---- slice, pad, concat: a block of a larger tensor along one axis ---- */

/* Copies all elements between two tensors. One is a dense tensor of shape `block`; the other is
 * the part of a larger tensor, of shape `whole`, that begins at `start` of the axis. If `into`
 * is true, the larger tensor is written, else it is read. */
static void move_block(const mf_call *call, mf_shape block, mf_shape whole, int axis,
                       int64_t start, const void *from, void *to, bool into)
{
    enum { BYTES = 4 };
    int64_t stride[MF_MAX_RANK] = {0};
    mf_walk w = mf_walk_over(block);
    mf_shape_strides(whole, stride);
    int64_t skip = start * stride[axis] * BYTES;
    if (into) mf_walk_add(&w, block);
    mf_walk_add_strides(&w, whole.rank, stride);
    if (!into) mf_walk_add(&w, block);
    move(call, &w, into ? from : (const char *)from + skip, into ? (char *)to + skip : to);
}

static int infer_slice(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || judge_input(in, 0, 1)) return MF_ESHAPE;
    mf_shape x = in->in[0].shape;
    if (mf_infer_attr(in, 0, "axis", 0, x.rank - 1)) return MF_ESHAPE;
    int64_t axis = in->attr->i[0], start = in->attr->i[1], count = in->attr->i[2];
    if (start < 0 || count < 0 || start > x.dim[axis] || count > x.dim[axis] - start)
        return in->fail(
            in, "expected elements within 0 .. %lld of axis %lld, found %lld from %lld",
            (long long)x.dim[axis] - 1, (long long)axis, (long long)count, (long long)start);
    x.dim[axis] = count;
    return mf_infer_set(in, 0, in->in[0].dtype, x);
}

static int forward_slice(const mf_call *call)
{
    move_block(call, call->out[0].shape, call->in[0].shape, (int)call->attr->i[0],
               call->attr->i[1], call->in[0].data, call->out[0].data, false);
    return MF_OK;
}

static int grad_slice(mf_graph *g, const mf_gradient *at)
{
    int axis = (int)at->attr->i[0];
    at->din[0] = mf_pad(g, at->dout[0], axis, at->attr->i[1], at->in[0]->shape.dim[axis]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_slice = {.size = sizeof(mf_opdef),
                              .name = "slice",
                              .formula = "y = x[start .. start+count-1]",
                              .infer = infer_slice,
                              .forward = forward_slice,
                              .grad = grad_slice,
                              .diff_in = 1};

static int infer_pad(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 1, MF_MAX_RANK))
        return MF_ESHAPE;
    mf_shape x = in->in[0].shape;
    if (mf_infer_attr(in, 0, "axis", 0, x.rank - 1) ||
        mf_infer_attr(in, 2, "total", x.dim[in->attr->i[0]], INT32_MAX) ||
        mf_infer_attr(in, 1, "start", 0, in->attr->i[2] - x.dim[in->attr->i[0]]))
        return MF_ESHAPE;
    x.dim[in->attr->i[0]] = in->attr->i[2];
    return mf_infer_set(in, 0, MF_F32, x);
}

static int forward_pad(const mf_call *call)
{
    MF_RUN_OP(call, set, .n = mf_shape_count(call->out[0].shape), .value = 0,
              .out = mf_call_out(call, 0));
    move_block(call, call->in[0].shape, call->out[0].shape, (int)call->attr->i[0],
               call->attr->i[1], call->in[0].data, call->out[0].data, true);
    return MF_OK;
}

static int grad_pad(mf_graph *g, const mf_gradient *at)
{
    int axis = (int)at->attr->i[0];
    at->din[0] = mf_slice(g, at->dout[0], axis, at->attr->i[1], at->in[0]->shape.dim[axis]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_pad = {.size = sizeof(mf_opdef),
                            .name = "pad",
                            .formula = "y[start ..] = x, 0 elsewhere",
                            .infer = infer_pad,
                            .forward = forward_pad,
                            .grad = grad_pad,
                            .diff_in = 1};

mf_tensor *mf_pad(mf_graph *g, mf_tensor *x, int axis, int64_t start, int64_t total)
{
    return mf_op1(g, "pad", x, &(mf_attr){.i = {axis, start, total}});
}

static int infer_concat(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    if (in->n_in < 1) return in->fail(in, "expected at least 1 input, found none");
    if (judge_input(in, 0, 1) || mf_infer_attr(in, 0, "axis", 0, in->in[0].shape.rank - 1))
        return MF_ESHAPE;
    mf_shape y = in->in[0].shape;
    int64_t axis = in->attr->i[0];
    for (int i = 1; i < in->n_in; i++) {
        mf_shape x = in->in[i].shape;
        if (mf_infer_tensor(in, i, "x", in->in[0].dtype, y.rank, y.rank)) return MF_ESHAPE;
        int64_t size = x.dim[axis];
        x.dim[axis] = y.dim[axis];
        if (!mf_shape_equal(x, y))
            return in->fail(in, "expected input %d as %s but for axis %lld, found %s", i,
                            mf_shape_text(in->in[0].shape, a), (long long)axis,
                            mf_shape_text(in->in[i].shape, b));
        y.dim[axis] += size;
    }
    return mf_infer_set(in, 0, in->in[0].dtype, y);
}

static int forward_concat(const mf_call *call)
{
    int axis = (int)call->attr->i[0];
    int64_t start = 0;
    for (int i = 0; i < call->n_in; i++) {
        mf_shape x = call->in[i].shape;
        move_block(call, x, call->out[0].shape, axis, start, call->in[i].data,
                   call->out[0].data, true);
        start += x.dim[axis];
    }
    return MF_OK;
}

static int grad_concat(mf_graph *g, const mf_gradient *at)
{
    int axis = (int)at->attr->i[0];
    int64_t start = 0;
    for (int i = 0; i < at->n_in; i++) {
        int64_t count = at->in[i]->shape.dim[axis];
        if (at->wants[i]) at->din[i] = mf_slice(g, at->dout[0], axis, start, count);
        start += count;
    }
    return mf_graph_status(g);
}

const mf_opdef mf_op_concat = {.size = sizeof(mf_opdef),
                               .name = "concat",
                               .formula = "y = x0, x1, .. along an axis",
                               .infer = infer_concat,
                               .forward = forward_concat,
                               .grad = grad_concat,
                               .diff_in = (1u << MF_OP_MAX_IN) - 1};
