/* ops/moe/grouped.c: gemms of rows with the weight of their group (Gale et al. 2022,
 * MegaBlocks), and sums by group. The gradient of each op is composed of the other ops. Offsets
 * and row lists come from data, so a kernel checks them before the gemm uses them. */

/*   grouped_linear       y[r] = w[e] x[r] + b[e]              x [R,in], w [E,out,in], b [E,out]
 *   grouped_linear_dx    y[r] = w[e]^T x[r]                   x [R,out] -> [R,in]
 *   grouped_swiglu       h = grouped_linear, y[r] = g[r] silu(h[r, :n]) h[r, n:], h [R,2n]
 *   grouped_weight_grad  y[e] = sum_r a[r] b[r]^T             a [R,out], b [R,in] -> [E,out,in]
 *   group_sum            y[e] = sum_r x[r]                    x [R,n] -> [E,n]
 *
 * e is the group with offset[e] <= r < offset[e+1], offset [E+1] i32. Rows before offset[0]
 * and from offset[E] on are in no group: they are not read, and are 0 in y. With the
 * optional inputs row, row_a, row_b [R] i32, row r is row row[r] of the input x, a or b, or
 * zeros if row[r] < 0. x, w, a, b are f32 or bf16. i0: type of y; for group_sum the type is
 * always f32. */
#include "ops/moe/grouped.h"
#include "ops/index.h"

/* ---- offsets ---- */

/* Checks that input i is an offset, [E+1] with E >= 1. Sets *ret_groups to E. */
static int infer_offset(const mf_infer *in, int i, int64_t *ret_groups)
{
    if (mf_infer_tensor(in, i, "offset", MF_I32, 1, 1)) return MF_ESHAPE;
    *ret_groups = in->in[i].shape.dim[0] - 1;
    if (*ret_groups < 1) return in->fail(in, "expected offset [E+1] with E >= 1, found [1]");
    return MF_OK;
}

/* ---- grouped_linear ---- */

enum { X, W, OFFSET, BIAS };
enum { ROW = 3, ROW_A = 3, ROW_B }; /* inputs of the next two ops */

static mf_tensor *linear_as(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *offset,
                            mf_dtype type)
{
    return mf_op4(g, "grouped_linear", x, w, offset, NULL, &(mf_attr){.i = {MF_AS(type)}});
}

/* Checks input i, an optional list of indices of rows. If it is present, sets *rows to
 * its length. */
static int infer_rows(const mf_infer *in, int i, const char *what, int64_t *rows)
{
    if (in->n_in <= i || mf_infer_absent(in, i)) return MF_OK;
    if (mf_infer_tensor(in, i, what, MF_I32, 1, 1)) return MF_ESHAPE;
    *rows = in->in[i].shape.dim[0];
    return MF_OK;
}

static void check_rows(const mf_call *call, int i, mf_fault_what what, int of)
{
    if (call->n_in > i) mf_call_check_below(call, i, what, call->in[of].shape.dim[0]);
}

static const int32_t *rows_of(const mf_call *call, int i)
{
    return call->n_in > i ? mf_call_i32(call, i) : NULL;
}

/* Returns the common part of the gemms of grouped_linear and grouped_linear_dx. */
static mf_gemm by_rows(const mf_call *call, int64_t rows, mf_shape w)
{
    mf_gemm g = {.m = rows,
                 .a = mf_call_operand(call, X, 0),
                 .b = mf_call_operand(call, W, w.dim[2]),
                 .c = mf_call_result(call, 0),
                 .alpha = 1,
                 .by = MF_BY_ROWS,
                 .groups = w.dim[0],
                 .offset = mf_call_i32(call, OFFSET)};
    g.b.step = w.dim[1] * w.dim[2];
    return g;
}

static int linear_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    int64_t groups;
    mf_dtype type = mf_infer_float(in, X), result;
    if (mf_infer_inputs(in, 4) || mf_infer_tensor(in, X, "x", type, 2, 2) ||
        mf_infer_tensor(in, W, "w", type, 3, 3) || infer_offset(in, OFFSET, &groups) ||
        mf_infer_result(in, 0, type, &result))
        return MF_ESHAPE;
    mf_shape x = in->in[X].shape, w = in->in[W].shape;
    if (w.dim[0] != groups || w.dim[2] != x.dim[1])
        return in->fail(in, "expected w [%lld,out,%lld], found %s", (long long)groups,
                        (long long)x.dim[1], mf_shape_text(w, text));
    if (mf_infer_maybe(in, BIAS, "b", MF_F32, mf_shape2(groups, w.dim[1]))) return MF_ESHAPE;
    in->flops = 2.0 * (double)x.dim[0] * (double)x.dim[1] * (double)w.dim[1];
    return mf_infer_set(in, 0, result, mf_shape2(x.dim[0], w.dim[1]));
}

static int linear_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_shape w = call->in[W].shape;
    const int64_t rows = call->in[X].shape.dim[0];
    mf_gemm g = by_rows(call, rows, w);
    mf_call_check_offset(call, OFFSET, rows);
    if (call->n_in > 4) { /* fuse_token.c: return_rows, and what it adds */
        g.epilogue = MF_EPILOGUE_SUM;
        g.place = mf_call_i32(call, 4);
        g.from = mf_call_f32(call, 5);
        g.per = rows / call->out[0].shape.dim[0];
    }
    if (mf_call_stored(call, W)) {
        mf_call_multiply_stored(call, false, NULL, g.offset, mf_call_f32(call, BIAS));
        return MF_OK;
    }
    g.n = g.c.ld = g.step_bias = w.dim[1];
    g.k = g.a.ld = w.dim[2];
    g.b.trans = true;
    g.b.packed = mf_call_packed(call);
    g.bias = mf_call_f32(call, BIAS);
    mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

static int linear_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *dy = at->dout[0], *offset = at->in[OFFSET];
    /* The gradient of the weight is computed first, so x is no longer needed when memory for dx
     * is allocated. */
    if (at->wants[W])
        at->din[W] =
            mf_grouped_weight_grad(g, dy, at->in[X], offset, mf_tensor_grad_type(at->in[W]));
    if (at->wants[X])
        at->din[X] =
            mf_grouped_linear_dx(g, dy, at->in[W], offset, mf_tensor_grad_type(at->in[X]));
    if (at->wants[BIAS]) at->din[BIAS] = mf_group_sum(g, dy, offset);
    return mf_graph_status(g);
}

const mf_opdef mf_op_grouped_linear = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM | MF_OP_PANELS | MF_OP_STORED_1 | MF_OP_STORED_BF16,
    .name = "grouped_linear",
    .formula = "y[r] = w[e] x[r] + b[e]",
    .infer = linear_infer,
    .forward = linear_forward,
    .grad = linear_grad,
    .diff_in = 1u << X | 1u << W | 1u << BIAS,
    .bf16_in = 1u << X | 1u << W,
    .role = MF_ROLE_GROUPED_LINEAR,
};

/* ---- grouped_swiglu ----
 *
 * In graphs on a device this op replaces two ops (graph/plan/fuse.c), after gradients are
 * built. i1: no node reads h, so h need not be written. For few rows it also replaces a norm
 * and dispatch_rows (fuse_token.c); then x is the norm's input, and there are three more. */

enum { GATE = 4, TOKENS };

static int swiglu_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 5) || mf_infer_attr(in, 1, "whether h is not read", 0, 1))
        return MF_ESHAPE;
    in->n_in = 4;
    const int rc = linear_infer(in);
    in->n_in = 5;
    if (rc) return rc;
    mf_shape y = in->out[0].shape;
    if (y.dim[1] % 2 != 0)
        return in->fail(in, "expected w [E,2n,in], found 2n = %lld", (long long)y.dim[1]);
    y.dim[1] /= 2;
    if (mf_infer_maybe(in, GATE, "gate", MF_F32, mf_shape2(y.dim[0], 1))) return MF_ESHAPE;
    return mf_infer_set(in, 1, in->out[0].dtype, y);
}

static int swiglu_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    const mf_shape w = call->in[W].shape;
    const int64_t rows = call->out[1].shape.dim[0], n = w.dim[1] / 2;
    mf_gemm g = by_rows(call, rows, w);
    mf_call_check_offset(call, OFFSET, rows);
    if (call->n_in > TOKENS) {
        mf_call_check_below(call, TOKENS, MF_WHAT_TOKEN, call->in[X].shape.dim[0]);
        g.a.row = mf_call_i32(call, TOKENS);
        mf_call_norm(call, TOKENS + 1, &g);
    }
    g.n = g.c.ld = g.step_bias = 2 * n;
    g.k = g.a.ld = w.dim[2];
    g.b.trans = true;
    g.bias = mf_call_f32(call, BIAS);
    g.epilogue = MF_EPILOGUE_SWIGLU;
    g.y = (mf_gemm_result){
        .data = call->out[1].data, .type = mf_call_type(&call->out[1]), .ld = n};
    g.gate = mf_call_f32(call, GATE);
    g.keep = call->attr->i[1] == 0;
    if (k->can_swiglu && k->can_swiglu(&g)) {
        k->gemm(&x, &g);
        return MF_OK;
    }
    g.epilogue = MF_EPILOGUE_NONE;
    k->gemm(&x, &g);
    const char *u = g.c.data, *v = u + n * mf_cast_size((int)g.c.type);
    MF_RUN(k, &x, swiglu, .type = (int)g.c.type, .rows = rows, .n = n, .a = u, .lda = 2 * n,
           .b = v, .ldb = 2 * n, .gate = g.gate, .y = g.y.data);
    return MF_OK;
}

const mf_opdef mf_op_grouped_swiglu = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM,
    .name = "grouped_swiglu",
    .formula = "h[r] = w[e] x[r] + b[e], y[r] = g[r] silu(h[r, :n]) h[r, n:]",
    .infer = swiglu_infer,
    .forward = swiglu_forward,
    .bf16_in = 1u << X | 1u << W,
};

/* ---- grouped_linear_dx ---- */

static int dx_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    int64_t groups;
    mf_dtype type = mf_infer_float(in, X), result;
    if ((in->n_in != 3 && mf_infer_inputs(in, 4)) || mf_infer_tensor(in, X, "x", type, 2, 2) ||
        mf_infer_tensor(in, W, "w", type, 3, 3) || infer_offset(in, OFFSET, &groups) ||
        mf_infer_result(in, 0, type, &result))
        return MF_ESHAPE;
    mf_shape x = in->in[X].shape, w = in->in[W].shape;
    if (infer_rows(in, ROW, "row", &x.dim[0])) return MF_ESHAPE;
    if (w.dim[0] != groups || w.dim[1] != x.dim[1])
        return in->fail(in, "expected w [%lld,%lld,in], found %s", (long long)groups,
                        (long long)x.dim[1], mf_shape_text(w, text));
    in->flops = 2.0 * (double)x.dim[0] * (double)x.dim[1] * (double)w.dim[2];
    return mf_infer_set(in, 0, result, mf_shape2(x.dim[0], w.dim[2]));
}

static int dx_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_shape w = call->in[W].shape;
    const int64_t rows = call->out[0].shape.dim[0];
    mf_gemm g = by_rows(call, rows, w);
    mf_call_check_offset(call, OFFSET, rows);
    check_rows(call, ROW, MF_WHAT_ROW, X);
    if (mf_call_stored(call, W)) {
        mf_call_multiply_stored(call, true, rows_of(call, ROW), g.offset, NULL);
        return MF_OK;
    }
    g.n = g.c.ld = w.dim[2];
    g.k = g.a.ld = w.dim[1];
    g.a.row = rows_of(call, ROW);
    mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

/* Returns the rows of input i in the form in which the gemm reads them. */
static mf_tensor *input_rows(mf_graph *g, const mf_gradient *at, int i, int row)
{
    mf_tensor *x = at->in[i];
    return at->n_in > row && at->in[row] ? mf_gather_rows(g, x, at->in[row]) : x;
}

/* Computes the gradient of input i from the gradient of its rows. */
static mf_tensor *rows_back(mf_graph *g, const mf_gradient *at, int i, int row, mf_tensor *d)
{
    if (at->n_in <= row || !at->in[row]) return d;
    return mf_scatter_rows(g, mf_graph_to_f32(g, d), at->in[row], at->in[i]->shape.dim[0]);
}

static int dx_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *dy = at->dout[0], *offset = at->in[OFFSET];
    if (at->wants[X])
        at->din[X] = rows_back(
            g, at, X, ROW, linear_as(g, dy, at->in[W], offset, mf_tensor_grad_type(at->in[X])));
    if (at->wants[W])
        at->din[W] = mf_grouped_weight_grad(g, input_rows(g, at, X, ROW), dy, offset,
                                            mf_tensor_grad_type(at->in[W]));
    return mf_graph_status(g);
}

const mf_opdef mf_op_grouped_linear_dx = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM | MF_OP_STORED_1 | MF_OP_STORED_BF16,
    .name = "grouped_linear_dx",
    .formula = "y[r] = w[e]^T x[r]",
    .infer = dx_infer,
    .forward = dx_forward,
    .grad = dx_grad,
    .diff_in = 1u << X | 1u << W,
    .bf16_in = 1u << X | 1u << W,
};

/* ---- grouped_weight_grad ---- */

enum { A, B };

static int weight_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    int64_t groups;
    mf_dtype type = mf_infer_float(in, A), result;
    if ((in->n_in != 3 && mf_infer_inputs(in, 5)) || mf_infer_tensor(in, A, "a", type, 2, 2) ||
        mf_infer_tensor(in, B, "b", type, 2, 2) || infer_offset(in, OFFSET, &groups) ||
        mf_infer_result(in, 0, type, &result))
        return MF_ESHAPE;
    mf_shape a = in->in[A].shape, b = in->in[B].shape;
    if (infer_rows(in, ROW_A, "row_a", &a.dim[0]) || infer_rows(in, ROW_B, "row_b", &b.dim[0]))
        return MF_ESHAPE;
    if (a.dim[0] != b.dim[0])
        return in->fail(in, "expected b of %lld rows like a, found %s", (long long)a.dim[0],
                        mf_shape_text(b, text));
    in->flops = 2.0 * (double)a.dim[0] * (double)a.dim[1] * (double)b.dim[1];
    return mf_infer_set(in, 0, result, mf_shape3(groups, a.dim[1], b.dim[1]));
}

static int weight_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const int64_t m = call->in[A].shape.dim[1], n = call->in[B].shape.dim[1];
    const int32_t *row_a = rows_of(call, ROW_A);
    mf_gemm g = {.m = m,
                 .n = n,
                 .k = call->in[row_a ? (int)ROW_A : (int)A].shape.dim[0],
                 .a = mf_call_operand(call, A, m),
                 .b = mf_call_operand(call, B, n),
                 .c = mf_call_result(call, n),
                 .alpha = 1,
                 .by = MF_BY_INNER,
                 .groups = call->out[0].shape.dim[0],
                 .offset = mf_call_i32(call, OFFSET)};
    mf_call_check_offset(call, OFFSET, g.k);
    check_rows(call, ROW_A, MF_WHAT_ROW_A, A);
    check_rows(call, ROW_B, MF_WHAT_ROW_B, B);
    g.a.trans = true;
    g.a.row = row_a;
    g.b.row = rows_of(call, ROW_B);
    g.c.step = m * n;
    mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

static int weight_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *dy = at->dout[0], *offset = at->in[OFFSET];
    if (at->wants[A])
        at->din[A] = rows_back(g, at, A, ROW_A,
                               linear_as(g, input_rows(g, at, B, ROW_B), dy, offset,
                                         mf_tensor_grad_type(at->in[A])));
    if (at->wants[B])
        at->din[B] = rows_back(g, at, B, ROW_B,
                               mf_grouped_linear_dx(g, input_rows(g, at, A, ROW_A), dy, offset,
                                                    mf_tensor_grad_type(at->in[B])));
    return mf_graph_status(g);
}

const mf_opdef mf_op_grouped_weight_grad = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM,
    .name = "grouped_weight_grad",
    .formula = "y[e] = sum_r a[r] b[r]^T",
    .infer = weight_infer,
    .forward = weight_forward,
    .grad = weight_grad,
    .diff_in = 1u << A | 1u << B,
    .bf16_in = 1u << A | 1u << B,
};

/* ---- ops of gradients ---- */

/* If *x is the output of dispatch_rows, replaces *x by the tensor from which its rows were
 * copied, and returns their indices in that tensor. Otherwise returns NULL. */
static mf_tensor *unmoved(mf_tensor **x)
{
    enum { FROM, TOKEN };
    if (*x == NULL || (*x)->node < 0) return NULL;
    const mf_node *made = mf_tensor_producer(*x);
    if (made->backward || made->op->role != MF_ROLE_DISPATCH_ROWS) return NULL;
    *x = made->in[FROM];
    return made->in[TOKEN];
}

mf_tensor *mf_grouped_linear_dx(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *offset,
                                mf_dtype type)
{
    mf_tensor *row = unmoved(&x);
    return mf_op4(g, "grouped_linear_dx", x, w, offset, row, &(mf_attr){.i = {MF_AS(type)}});
}

mf_tensor *mf_grouped_weight_grad(mf_graph *g, mf_tensor *a, mf_tensor *b, mf_tensor *offset,
                                  mf_dtype type)
{
    mf_tensor *row_a = unmoved(&a), *row_b = unmoved(&b);
    mf_tensor *in[] = {a, b, offset, row_a, row_b};
    return mf_graph_op_named(g, "grouped_weight_grad", 5, in, &(mf_attr){.i = {MF_AS(type)}}, 1,
                             NULL);
}

/* ---- group_sum ---- */

static int sum_infer(mf_infer *in)
{
    int64_t groups;
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", mf_infer_float(in, 0), 2, 2) ||
        infer_offset(in, 1, &groups))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, mf_shape2(groups, in->in[0].shape.dim[1]));
}

static int sum_forward(const mf_call *call)
{
    const mf_shape s = call->in[0].shape;
    mf_call_check_offset(call, 1, s.dim[0]);
    MF_RUN_OP(call, group_sum, .type = (int)mf_call_type(&call->in[0]),
              .groups = call->out[0].shape.dim[0], .rows = s.dim[0], .n = s.dim[1],
              .offset = mf_call_i32(call, 1), .a = call->in[0].data, .y = mf_call_out(call, 0));
    return MF_OK;
}

mf_tensor *mf_group_spread(mf_graph *g, mf_tensor *x, mf_tensor *offset, int64_t rows)
{
    const float one = 1;
    if (x == NULL || offset == NULL) return NULL;
    mf_shape s = MF_HOST_SLOT->shape(x);
    mf_tensor *ones =
        mf_broadcast(g, mf_graph_const(g, MF_F32, mf_shape2(1, 1), &one), mf_shape2(rows, 1));
    bool was = mf_graph_set_bf16(g, false); /* copies must not be rounded */
    mf_tensor *y = mf_grouped_linear(
        g, ones, mf_reshape(g, x, mf_shape3(s.dim[0], s.dim[1], 1)), offset, NULL);
    mf_graph_set_bf16(g, was);
    return y;
}

static int sum_grad(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_group_spread(g, at->dout[0], at->in[1], at->in[0]->shape.dim[0]);
    return mf_graph_status(g);
}

const mf_opdef mf_op_group_sum = {
    .size = sizeof(mf_opdef),
    .name = "group_sum",
    .formula = "y[e] = sum_r x[r]",
    .infer = sum_infer,
    .forward = sum_forward,
    .grad = sum_grad,
    .diff_in = 1,
    .bf16_in = 1,
};
