/* ops/elementwise.c: functions of two values, with broadcasting.
 *
 *   add      a + b          da = g           db = g
 *   sub      a - b          da = g           db = -g
 *   mul      a b            da = g b         db = g a
 *   div      a / b          da = g / b       db = -g y / b
 *   maximum  max(a, b)      da = g - db      db = g [b > a]
 *   minimum  min(a, b)      da = g - db      db = g [a > b]
 *   greater  [a > b]        no gradient
 *
 * a and b have the same type, f32, bf16 or i32 (modulo 2^32, a / 0 = 0, no gradient), and rank
 * 0 to 4; y has their type and the broadcast shape. Gradients are composed of ops, and are
 * summed over repeated dimensions. So the graph keeps only the values that the ops of the
 * gradients read. */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/shape.h"
#include "ops/stride.h"

static int infer(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_shape to;
    mf_dtype type = mf_infer_float(in, 0);
    if (!mf_infer_absent(in, 0) && in->in[0].dtype == MF_I32) type = MF_I32;
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "a", type, 0, 4) ||
        mf_infer_tensor(in, 1, "b", type, 0, 4))
        return MF_ESHAPE;
    if (!mf_shape_broadcast(in->in[0].shape, in->in[1].shape, &to))
        return in->fail(
            in, "expected shapes that broadcast (equal or 1 from the end), found %s and %s",
            mf_shape_text(in->in[0].shape, a), mf_shape_text(in->in[1].shape, b));
    return mf_infer_set(in, 0, type, to);
}

static int forward(const mf_call *call)
{
    const int fn = *(const int *)call->user;
    mf_walk w = mf_walk_over(call->out[0].shape);
    mf_walk_add(&w, call->in[0].shape);
    mf_walk_add(&w, call->in[1].shape);
    mf_walk_merge(&w);
    MF_RUN_OP(call, map2, .fn = fn, .type = (int)mf_call_type(&call->in[0]),
              .dim = MF_FOUR(w.dim), .stride_a = MF_FOUR(w.stride[0]),
              .stride_b = MF_FOUR(w.stride[1]), .a = call->in[0].data, .b = call->in[1].data,
              .out = call->out[0].data);
    return MF_OK;
}

/* Sets the gradient of input i to d, summed to the shape of the input. */
static void give(mf_graph *g, const mf_gradient *at, int i, mf_tensor *d)
{
    at->din[i] = mf_sum_to(g, d, at->in[i]->shape);
}

static int grad_add(mf_graph *g, const mf_gradient *at)
{
    for (int i = 0; i < 2; i++)
        if (at->wants[i]) give(g, at, i, at->dout[0]);
    return mf_graph_status(g);
}

static int grad_sub(mf_graph *g, const mf_gradient *at)
{
    if (at->wants[0]) give(g, at, 0, at->dout[0]);
    if (at->wants[1]) at->din[1] = mf_scale(g, mf_sum_to(g, at->dout[0], at->in[1]->shape), -1);
    return mf_graph_status(g);
}

static int grad_mul(mf_graph *g, const mf_gradient *at)
{
    for (int i = 0; i < 2; i++)
        if (at->wants[i]) give(g, at, i, mf_mul(g, at->dout[0], at->in[1 - i]));
    return mf_graph_status(g);
}

static int grad_div(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *quotient = mf_div(g, at->dout[0], at->in[1]);
    if (at->wants[0]) give(g, at, 0, quotient);
    if (at->wants[1]) {
        mf_tensor *d = mf_sum_to(g, mf_mul(g, quotient, at->out[0]), at->in[1]->shape);
        at->din[1] = mf_scale(g, d, -1);
    }
    return mf_graph_status(g);
}

/* Sets both gradients. The gradient goes to b where b_wins is 1, else to a. */
static int grad_choice(mf_graph *g, const mf_gradient *at, mf_tensor *b_wins)
{
    mf_tensor *to_b = mf_mul(g, at->dout[0], b_wins);
    if (at->wants[0]) give(g, at, 0, mf_sub(g, at->dout[0], to_b));
    if (at->wants[1]) give(g, at, 1, to_b);
    return mf_graph_status(g);
}

static int grad_maximum(mf_graph *g, const mf_gradient *at)
{
    return grad_choice(g, at, mf_greater(g, at->in[1], at->in[0]));
}

static int grad_minimum(mf_graph *g, const mf_gradient *at)
{
    return grad_choice(g, at, mf_greater(g, at->in[0], at->in[1]));
}

#define BINARY(op, map, text, gradient, more, part)                                            \
    static const int op##_fn = map;                                                            \
    const mf_opdef mf_op_##op = {.size = sizeof(mf_opdef),                                     \
                                 .flags = MF_OP_INPLACE | MF_OP_INPLACE_SECOND | (more),       \
                                 .name = #op,                                                  \
                                 .formula = text,                                              \
                                 .infer = infer,                                               \
                                 .forward = forward,                                           \
                                 .grad = gradient,                                             \
                                 .diff_in = 3,                                                 \
                                 .bf16_in = 3,                                                 \
                                 .user = &op##_fn,                                             \
                                 .role = part};
BINARY(add, MF_MAP_ADD, "y = a + b", grad_add, 0, MF_ROLE_ADD)
BINARY(sub, MF_MAP_SUB, "y = a - b", grad_sub, 0, MF_ROLE_NONE)
BINARY(mul, MF_MAP_MUL, "y = a b", grad_mul, 0, MF_ROLE_NONE)
BINARY(div, MF_MAP_DIV, "y = a / b", grad_div, 0, MF_ROLE_NONE)
BINARY(maximum, MF_MAP_MAXIMUM, "y = max(a, b)", grad_maximum, 0, MF_ROLE_NONE)
BINARY(minimum, MF_MAP_MINIMUM, "y = min(a, b)", grad_minimum, 0, MF_ROLE_NONE)
BINARY(greater, MF_MAP_GREATER, "y = 1 where a > b, else 0", NULL, MF_OP_NO_GRAD, MF_ROLE_NONE)
