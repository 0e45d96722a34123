/* ops/layers/linear_cross_entropy.c: head and loss in one op, so that the matrix of logits is
 * never stored.
 *
 *   x [N,d], w [V,d] both f32 or both bf16, b [V] or absent, target [N] i32,
 *   weight [N] f32 or absent
 *   attr: i0 = 0 -> loss scalar, row loss [N]; else -> loss, then the gradients whose bit is
 *         set in i0, 1: dx [N,d], 2: dw [V,d], 4: db [V], then, with i2 = 1, row loss (with
 *         two gradients at most); i1: as_bf16, i3: most_logits of the kernel
 *   loss and row loss as in cross_entropy of x w^T + b; dx, dw, db are the gradients of the
 *   loss; dx has the type of x; all other values, logits too, are f32
 *
 * The kernel computes the gradients of the loss while it has the logits. They are linear in the
 * gradient of the loss itself, so the backward pass only scales them. In training that gradient
 * is the constant 1, and the backward pass does nothing. So there are three gemms, not four. */
#include "ops/layers/linear_cross_entropy.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { X, W, BIAS, TARGET, WEIGHT, INPUTS };
enum { WANT_X = 1, WANT_W = 2, WANT_BIAS = 4 };

/* ---- shapes ---- */

static int loss_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    const mf_dtype type = mf_infer_float(in, X);
    if (mf_infer_inputs(in, INPUTS) || mf_infer_tensor(in, X, "x", type, 2, 2) ||
        mf_infer_tensor(in, W, "w", type, 2, 2))
        return MF_ESHAPE;
    const mf_shape x = in->in[X].shape, w = in->in[W].shape, rows = mf_shape1(x.dim[0]);
    if (w.dim[1] != x.dim[1] || w.dim[0] < 1)
        return in->fail(in, "expected w [V,in] with V >= 1 and in = %lld, found %s",
                        (long long)x.dim[1], mf_shape_text(w, text));
    const mf_shape bias = mf_shape1(w.dim[0]);
    if (mf_infer_maybe(in, BIAS, "b", MF_F32, bias) ||
        mf_infer_shape(in, TARGET, "target", MF_I32, rows) ||
        mf_infer_maybe(in, WEIGHT, "weight", MF_F32, rows) ||
        mf_infer_attr(in, 0, "wanted gradients", 0, WANT_X | WANT_W | WANT_BIAS) ||
        mf_infer_attr(in, 1, "rounding to bf16", 0, 1) ||
        mf_infer_attr(in, 2, "row loss", 0, 1) ||
        mf_infer_attr(in, 3, "bytes of logits", 0, INT64_MAX))
        return MF_ESHAPE;
    const int64_t want = in->attr->i[0], row_loss = in->attr->i[2];
    if (row_loss && (want == 0 || want == (WANT_X | WANT_W | WANT_BIAS)))
        return in->fail(in, "expected row losses beside one or two gradients");
    if (want & WANT_BIAS && mf_infer_absent(in, BIAS))
        return in->fail(in, "expected b, whose gradient is wanted");
    const int gemms = 1 + !!(want & WANT_X) + !!(want & WANT_W);
    in->flops = 2.0 * gemms * (double)x.dim[0] * (double)x.dim[1] * (double)w.dim[0];
    in->work_bytes =
        mf_linear_cross_entropy_work(x.dim[0], x.dim[1], w.dim[0], (int)type, in->attr->i[3],
                                     (want & WANT_X) != 0, (want & WANT_BIAS) != 0);
    int n = 0;
    if (mf_infer_set(in, n++, MF_F32, mf_shape0())) return MF_ESHAPE;
    if (want == 0) return mf_infer_set(in, n, MF_F32, rows);
    if (want & WANT_X && mf_infer_set(in, n++, type, x)) return MF_ESHAPE;
    if (want & WANT_W && mf_infer_set(in, n++, MF_F32, w)) return MF_ESHAPE;
    if (want & WANT_BIAS && mf_infer_set(in, n++, MF_F32, bias)) return MF_ESHAPE;
    return row_loss ? mf_infer_set(in, n, MF_F32, rows) : MF_OK;
}

static int loss_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_stored *stored = mf_call_stored(call, W);
    const int64_t want = call->attr->i[0];
    int n = 1;
    mf_linear_cross_entropy_args args = {.rows = call->in[X].shape.dim[0],
                                         .d = call->in[X].shape.dim[1],
                                         .vocab = call->in[W].shape.dim[0],
                                         .type = mf_call_type(&call->in[X]),
                                         .x = call->in[X].data,
                                         .w = stored ? NULL : call->in[W].data,
                                         .stored = stored,
                                         .as_bf16 = call->attr->i[1] != 0,
                                         .most_logits = call->attr->i[3],
                                         .bias = mf_call_f32(call, BIAS),
                                         .target = mf_call_i32(call, TARGET),
                                         .weight = mf_call_f32(call, WEIGHT),
                                         .loss = mf_call_out(call, 0),
                                         .work = call->work};
    if (want == 0) args.row_loss = mf_call_out(call, n);
    if (want & WANT_X) args.dx = call->out[n++].data;
    if (want & WANT_W) args.dw = mf_call_out(call, n++);
    if (want & WANT_BIAS) args.dbias = mf_call_out(call, n++);
    if (call->attr->i[2]) args.row_loss = mf_call_out(call, n);
    mf_call_check_below(call, TARGET, MF_WHAT_TARGET, args.vocab);
    mf_call_kernels(call)->linear_cross_entropy(&x, &args);
    return MF_OK;
}

/* ---- gradient ---- */

static int gradients(int64_t want)
{
    return !!(want & WANT_X) + !!(want & WANT_W) + !!(want & WANT_BIAS);
}

static mf_tensor *add_node(mf_graph *g, mf_tensor *const *in, int64_t want, bool row_loss,
                           mf_tensor **out)
{
    /* in[W] is NULL if the graph has failed */
    const bool as_bf16 = mf_graph_is_bf16(g) && in[W] && mf_tensor_is_stored(in[W]);
    const mf_kernels *device = mf_graph_device_kernels(g);
    const mf_attr attr = {.i = {want, as_bf16, row_loss, device ? device->most_logits : 0}};
    return mf_graph_op_named(g, "linear_cross_entropy", INPUTS, in, &attr,
                             want ? 1 + gradients(want) + row_loss : 2, out);
}

static bool is_one(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_CONST && mf_shape_count(t->shape) == 1 &&
           *(const float *)mf_tensor_host(t) == 1;
}

static int loss_grad(mf_graph *g, const mf_gradient *at)
{
    int64_t want = at->attr->i[0], asked = 0;
    mf_tensor *again[MF_OP_MAX_OUT], *const *out = at->out, *above = at->dout[0];
    for (int i = 0; i < 3; i++)
        if (at->wants[i]) asked |= (int64_t)1 << i;
    if (want == 0 && at->dout[1])
        return mf_graph_fail(g, MF_ENOGRAD,
                             "linear_cross_entropy: no gradient can pass through the losses of "
                             "the rows");
    if (!above) return MF_OK;
    /* The backward pass needs more gradients than the graph needed when the node was added. */
    if ((want & asked) != asked) {
        add_node(g, at->in, want = asked, false, again);
        out = again;
    }
    for (int i = 0, n = 1; i < 3; i++) {
        if (!(want >> i & 1)) continue;
        if (at->wants[i]) at->din[i] = is_one(above) ? out[n] : mf_mul(g, out[n], above);
        n++;
    }
    return mf_graph_status(g);
}

mf_tensor *mf_linear_cross_entropy(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b,
                                   mf_tensor *target, mf_tensor *weight, mf_tensor **ret_rows)
{
    mf_tensor *in[INPUTS] = {x, w, b, target, weight}, *out[MF_OP_MAX_OUT] = {NULL};
    int64_t want = 0;
    for (int i = 0; i < 3; i++)
        if (in[i] && in[i]->needs_grad) want |= (int64_t)1 << i;
    mf_tensor *loss = add_node(g, in, want, ret_rows && want, out);
    if (ret_rows) *ret_rows = out[want ? 1 + gradients(want) : 1];
    return loss;
}

mf_tensor *mf_cross_entropy_rows(mf_graph *g, mf_tensor *logits, mf_tensor *target,
                                 mf_tensor *weight, mf_tensor **ret_rows)
{
    mf_tensor *in[3] = {logits, target, weight}, *out[2] = {NULL};
    mf_tensor *loss = mf_graph_op_named(g, "cross_entropy", 3, in, NULL, 2, out);
    *ret_rows = out[1];
    return loss;
}

const mf_opdef mf_op_linear_cross_entropy = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM | MF_OP_STORED_1,
    .name = "linear_cross_entropy",
    .formula = "loss = mean of -ln softmax(x w^T + b)[target]",
    .infer = loss_infer,
    .forward = loss_forward,
    .grad = loss_grad,
    .diff_in = 1u << X | 1u << W | 1u << BIAS,
    .bf16_in = 1u << X | 1u << W,
};
