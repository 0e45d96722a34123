/* graph_ops.h: small ops for tests of graphs, written like ops of a plugin.
 *
 * They work on f32, most of them elementwise, in one thread, and are simple, so a test can
 * compute the result, too. Each has one property that a test needs: the kind of its gradient,
 * the tensors that it reads, or the memory that it shares. */
#ifndef GRAPH_OPS_H
#define GRAPH_OPS_H

#include "graph/graph.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__)
#define GRAPH_OP __attribute__((unused)) static
#else
#define GRAPH_OP static
#endif

/* ---- building ---- */

GRAPH_OP mf_tensor *op1(mf_graph *g, const mf_opdef *op, mf_tensor *a)
{
    return mf_graph_op(g, op, 1, &a, NULL, 1, NULL);
}

GRAPH_OP mf_tensor *op2(mf_graph *g, const mf_opdef *op, mf_tensor *a, mf_tensor *b)
{
    mf_tensor *in[2] = {a, b};
    return mf_graph_op(g, op, 2, in, NULL, 1, NULL);
}

GRAPH_OP mf_tensor *plus(mf_graph *g, mf_tensor *a, mf_tensor *b)
{
    mf_tensor *in[2] = {a, b};
    return mf_graph_op_named(g, "add", 2, in, NULL, 1, NULL);
}

/* ---- shapes ---- */

static int t_same(mf_infer *in)
{
    for (int i = 0; i < in->n_in; i++)
        if (!mf_shape_equal(in->in[i].shape, in->in[0].shape))
            return in->fail(in, "expected inputs of one shape, found rank %d and rank %d",
                            in->in[0].shape.rank, in->in[i].shape.rank);
    in->out[0].dtype = MF_F32;
    in->out[0].shape = in->in[0].shape;
    in->n_out = 1;
    return MF_OK;
}

static int t_scalar(mf_infer *in)
{
    in->out[0].dtype = MF_F32;
    in->out[0].shape = mf_shape0();
    in->n_out = 1;
    return MF_OK;
}

static int64_t t_n(const mf_call *c)
{
    return mf_shape_count(c->in[0].shape);
}

static const float *t_in(const mf_call *c, int i)
{
    return (const float *)c->in[i].data;
}

static float *t_out(const mf_call *c, int i)
{
    return (float *)c->out[i].data;
}

/* ---- a b: fused gradient, reads its inputs, may work in place ---- */

static int t_mul_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = t_in(c, 0)[i] * t_in(c, 1)[i];
    return MF_OK;
}

static int t_mul_backward(const mf_call *c) /* inputs: a, b, y, dy; outputs: da, db */
{
    if (c->in[2].data) return c->fail(c, MF_EPLUGIN, "was given an output it does not read");
    for (int64_t i = 0; i < t_n(c); i++) {
        float a = t_in(c, 0)[i], b = t_in(c, 1)[i], d = t_in(c, 3)[i];
        if (t_out(c, 0)) t_out(c, 0)[i] = d * b;
        if (t_out(c, 1)) t_out(c, 1)[i] = d * a;
    }
    return MF_OK;
}

GRAPH_OP const mf_opdef t_mul = {.size = sizeof t_mul,
                                 .name = "t_mul",
                                 .flags = MF_OP_INPLACE | MF_OP_INPLACE_SECOND,
                                 .infer = t_same,
                                 .forward = t_mul_forward,
                                 .backward = t_mul_backward,
                                 .backward_in = 3,
                                 .diff_in = 3};

/* ---- tanh: fused gradient, reads only its output ---- */

static int t_tanh_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = tanhf(t_in(c, 0)[i]);
    return MF_OK;
}

static int t_tanh_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    if (c->in[0].data) return c->fail(c, MF_EPLUGIN, "was given an input it does not read");
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = t_in(c, 2)[i] * (1 - t_in(c, 1)[i] * t_in(c, 1)[i]);
    return MF_OK;
}

GRAPH_OP const mf_opdef t_tanh = {.size = sizeof t_tanh,
                                  .name = "t_tanh",
                                  .flags = MF_OP_INPLACE | MF_OP_GRAD_INPLACE,
                                  .infer = t_same,
                                  .forward = t_tanh_forward,
                                  .backward = t_tanh_backward,
                                  .backward_out = 1,
                                  .diff_in = 1};

/* ---- square: composed gradient: x^2 with gradient (2 dy) x ---- */

static int t_twice_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = 2 * t_in(c, 0)[i];
    return MF_OK;
}

GRAPH_OP const mf_opdef t_twice = {
    .size = sizeof t_twice, .name = "t_twice", .infer = t_same, .forward = t_twice_forward};

static int t_square_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = t_in(c, 0)[i] * t_in(c, 0)[i];
    return MF_OK;
}

static int t_square_grad(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = op2(g, &t_mul, op1(g, &t_twice, at->dout[0]), at->in[0]);
    return mf_graph_status(g);
}

GRAPH_OP const mf_opdef t_square = {.size = sizeof t_square,
                                    .name = "t_square",
                                    .infer = t_same,
                                    .forward = t_square_forward,
                                    .grad = t_square_grad,
                                    .diff_in = 1};

/* ---- sum of all elements: fused gradient that reads only the shape of x ---- */

static int t_sum_forward(const mf_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < t_n(c); i++)
        sum += t_in(c, 0)[i];
    t_out(c, 0)[0] = (float)sum;
    return MF_OK;
}

static int t_sum_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = t_in(c, 2)[0];
    return MF_OK;
}

GRAPH_OP const mf_opdef t_sum = {.size = sizeof t_sum,
                                 .name = "t_sum",
                                 .infer = t_scalar,
                                 .forward = t_sum_forward,
                                 .backward = t_sum_backward,
                                 .diff_in = 1};

/* ---- two outputs, a + b and a - b ---- */

static int t_two_infer(mf_infer *in)
{
    int code = t_same(in);
    in->out[1] = in->out[0];
    in->n_out = 2;
    return code;
}

static int t_two_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++) {
        float a = t_in(c, 0)[i], b = t_in(c, 1)[i];
        t_out(c, 0)[i] = a + b;
        t_out(c, 1)[i] = a - b;
    }
    return MF_OK;
}

static int t_two_backward(const mf_call *c) /* inputs: a, b, s, d, ds, dd; outputs: da, db */
{
    for (int64_t i = 0; i < t_n(c); i++) {
        float s = t_in(c, 4) ? t_in(c, 4)[i] : 0, d = t_in(c, 5) ? t_in(c, 5)[i] : 0;
        if (t_out(c, 0)) t_out(c, 0)[i] = s + d;
        if (t_out(c, 1)) t_out(c, 1)[i] = s - d;
    }
    return MF_OK;
}

GRAPH_OP const mf_opdef t_two = {.size = sizeof t_two,
                                 .name = "t_two",
                                 .infer = t_two_infer,
                                 .forward = t_two_forward,
                                 .backward = t_two_backward,
                                 .diff_in = 3};

/* ---- the same memory as a vector, without computation ---- */

static int t_flat_infer(mf_infer *in)
{
    in->out[0].dtype = in->in[0].dtype;
    in->out[0].shape = mf_shape1(mf_shape_count(in->in[0].shape));
    in->n_out = 1;
    return MF_OK;
}

static int t_flat_grad(mf_graph *g, const mf_gradient *at);

GRAPH_OP const mf_opdef t_flat = {.size = sizeof t_flat,
                                  .name = "t_flat",
                                  .flags = MF_OP_ALIAS,
                                  .infer = t_flat_infer,
                                  .grad = t_flat_grad,
                                  .diff_in = 1};

/* Reshapes to the shape of a second input. */
static int t_like_infer(mf_infer *in)
{
    in->out[0].dtype = in->in[0].dtype;
    in->out[0].shape = in->in[1].shape;
    in->n_out = 1;
    return MF_OK;
}

GRAPH_OP const mf_opdef t_like = {
    .size = sizeof t_like, .name = "t_like", .flags = MF_OP_ALIAS, .infer = t_like_infer};

static int t_flat_grad(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = op2(g, &t_like, at->dout[0], at->in[0]);
    return mf_graph_status(g);
}

/* ---- no gradient rule at all ---- */

GRAPH_OP const mf_opdef t_rough = {.size = sizeof t_rough,
                                   .name = "t_rough",
                                   .infer = t_same,
                                   .forward = t_square_forward,
                                   .diff_in = 1};

/* ---- x, without a gradient ---- */

GRAPH_OP const mf_opdef t_stop = {.size = sizeof t_stop,
                                  .name = "t_stop",
                                  .flags = MF_OP_NO_GRAD | MF_OP_ALIAS,
                                  .infer = t_same,
                                  .diff_in = 1};

/* ---- x times uniform numbers; the gradient draws the same stream again ---- */

static int t_noise_forward(const mf_call *c)
{
    c->exec->rng_uniform(c->exec, c->stream, 0, t_n(c), t_out(c, 0));
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] *= t_in(c, 0)[i];
    return MF_OK;
}

static int t_noise_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    c->exec->rng_uniform(c->exec, c->stream, 0, t_n(c), t_out(c, 0));
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] *= t_in(c, 2)[i];
    return MF_OK;
}

GRAPH_OP const mf_opdef t_noise = {.size = sizeof t_noise,
                                   .name = "t_noise",
                                   .flags = MF_OP_RANDOM,
                                   .infer = t_same,
                                   .forward = t_noise_forward,
                                   .backward = t_noise_backward,
                                   .diff_in = 1};

/* ---- the elements in reverse order, using scratch memory ---- */

static int t_reverse_infer(mf_infer *in)
{
    in->work_bytes = in->backward_work_bytes =
        (size_t)mf_shape_count(in->in[0].shape) * sizeof(float);
    return t_same(in);
}

static int reverse(const mf_call *c, const float *from)
{
    int64_t n = t_n(c);
    float *work = (float *)c->work;
    if ((uintptr_t)work % 64 != 0) return c->fail(c, MF_EPLUGIN, "scratch is not aligned");
    for (int64_t i = 0; i < n; i++)
        work[n - 1 - i] = from[i];
    memcpy(t_out(c, 0), work, (size_t)n * sizeof *work);
    return MF_OK;
}

static int t_reverse_forward(const mf_call *c)
{
    return reverse(c, t_in(c, 0));
}

static int t_reverse_backward(const mf_call *c)
{
    return reverse(c, t_in(c, 2));
}

GRAPH_OP const mf_opdef t_reverse = {.size = sizeof t_reverse,
                                     .name = "t_reverse",
                                     .infer = t_reverse_infer,
                                     .forward = t_reverse_forward,
                                     .backward = t_reverse_backward,
                                     .diff_in = 1};

/* ---- state: in[0] += in[1] ---- */

static int t_count_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] += t_in(c, 1)[i];
    return MF_OK;
}

GRAPH_OP const mf_opdef t_count = {.size = sizeof t_count,
                                   .name = "t_count",
                                   .flags = MF_OP_STATE | MF_OP_NO_GRAD,
                                   .infer = t_same,
                                   .forward = t_count_forward};

#endif
