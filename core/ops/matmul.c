/* ops/matmul.c: y = s op(a) op(b), of two matrices or of two lists of matrices.
 *
 *   a [m,k], b [k,n] or a [i,m,k], b [i,k,n]; transposed they are stored as [..,k,m], [..,n,k]
 *   f32 or bf16; attr: i0 transpose a, i1 transpose b, i2 type of y, f0 = s
 *   y [m,n] or [i,m,n]
 *   da = s dy op(b)^T (stored transposed: s op(b) dy^T),  db = s op(a)^T dy (s dy^T op(a)) */
#include "ops/gemm.h"

typedef struct sizes {
    int64_t batch, m, n, k, k_of_b;
    bool trans_a, trans_b;
} sizes;

static sizes sizes_of(const mf_view *in, const mf_attr *attr)
{
    mf_shape a = in[0].shape, b = in[1].shape;
    int last = a.rank - 1;
    bool ta = attr->i[0] != 0, tb = attr->i[1] != 0;
    return (sizes){.batch = a.rank == 3 ? a.dim[0] : 1,
                   .m = a.dim[ta ? last : last - 1],
                   .k = a.dim[ta ? last - 1 : last],
                   .n = b.dim[tb ? last - 1 : last],
                   .k_of_b = b.dim[tb ? last : last - 1],
                   .trans_a = ta,
                   .trans_b = tb};
}

static int matmul_infer(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_dtype type = mf_infer_float(in, 0), result;
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "a", type, 2, 3) ||
        mf_infer_tensor(in, 1, "b", type, in->in[0].shape.rank, in->in[0].shape.rank) ||
        mf_infer_result(in, 2, type, &result) || mf_infer_attr(in, 0, "transpose of a", 0, 1) ||
        mf_infer_attr(in, 1, "transpose of b", 0, 1))
        return MF_ESHAPE;
    sizes s = sizes_of(in->in, in->attr);
    mf_shape sa = in->in[0].shape, sb = in->in[1].shape;
    if (sa.rank == 3 && sa.dim[0] != sb.dim[0])
        return in->fail(in, "expected a and b with one first dimension, found %s and %s",
                        mf_shape_text(sa, a), mf_shape_text(sb, b));
    if (s.k != s.k_of_b)
        return in->fail(in, "expected one inner dimension, found a %s%s and b %s%s",
                        mf_shape_text(sa, a), s.trans_a ? " transposed" : "",
                        mf_shape_text(sb, b), s.trans_b ? " transposed" : "");
    in->flops = 2.0 * (double)s.batch * (double)s.m * (double)s.n * (double)s.k;
    return mf_infer_set(in, 0, result,
                        sa.rank == 2 ? mf_shape2(s.m, s.n) : mf_shape3(s.batch, s.m, s.n));
}

static int matmul_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const sizes s = sizes_of(call->in, call->attr);
    mf_gemm g = {.m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = mf_call_operand(call, 0, s.trans_a ? s.m : s.k),
                 .b = mf_call_operand(call, 1, s.trans_b ? s.k : s.n),
                 .c = mf_call_result(call, s.n),
                 .alpha = (float)call->attr->f[0],
                 .groups = s.batch};
    g.a.trans = s.trans_a;
    g.a.step = s.m * s.k;
    g.b.trans = s.trans_b;
    g.b.step = s.k * s.n;
    g.c.step = s.m * s.n;
    if (call->n_in > 2) g.beta = 1, g.from = mf_call_f32(call, 2); /* fuse_residual.c */
    if (s.batch > 0) mf_call_kernels(call)->gemm(&x, &g);
    return MF_OK;
}

static int matmul_grad(mf_graph *g, const mf_gradient *at)
{
    mf_tensor *a = at->in[0], *b = at->in[1], *dy = at->dout[0];
    bool ta = at->attr->i[0] != 0, tb = at->attr->i[1] != 0;
    double s = at->attr->f[0];
    mf_dtype da = mf_tensor_grad_type(a), db = mf_tensor_grad_type(b);
    if (at->wants[1])
        at->din[1] = tb ? mf_matmul_as(g, dy, true, a, ta, s, db)
                        : mf_matmul_as(g, a, !ta, dy, false, s, db);
    if (at->wants[0])
        at->din[0] = ta ? mf_matmul_as(g, b, tb, dy, true, s, da)
                        : mf_matmul_as(g, dy, false, b, !tb, s, da);
    return mf_graph_status(g);
}

const mf_opdef mf_op_matmul = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_GEMM,
    .name = "matmul",
    .formula = "y = s op(a) op(b)",
    .infer = matmul_infer,
    .forward = matmul_forward,
    .grad = matmul_grad,
    .diff_in = 3,
    .bf16_in = 3,
};
