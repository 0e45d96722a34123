/* ops/layers/position.c: rotary positions, and appending to a key-value cache.
 *
 *   rope          rotates pairs in each of the first n_heads heads by position theta^(-2i/n)
 *                 factor[i] (Su et al. 2021, eq. 34). x [N,w], position [N] i32, factor [n/2]
 *                 or absent; attr: i0 head_dim, i1 n_heads, i2 pairs (i, i + n/2) instead of
 *                 (2i, 2i+1), i3 rotate backwards, i4 first rotated column of a head, i5 number
 *                 n of rotated columns (0: all from i4 on), f0 theta, f1 factor on the results
 *                 (0: 1). The gradient rotates backwards.
 *   cache_append  cache[b S + pos[b] + t] = x[b T + t], in place. cache [B S,w], x [B T,w],
 *                 pos [B] i32. No gradient. */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { X, POSITION, FACTOR };

/* Number of rotated columns of a head. */
static int64_t turned_of(const mf_attr *t)
{
    return t->i[5] > 0 ? t->i[5] : t->i[0] - t->i[4];
}

static int rope_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    if ((in->n_in != 2 && mf_infer_inputs(in, 3)) || mf_infer_tensor(in, X, "x", MF_F32, 2, 2))
        return MF_ESHAPE;
    mf_shape x = in->in[X].shape;
    int64_t hd = in->attr->i[0], heads = in->attr->i[1], turned = turned_of(in->attr);
    if (mf_infer_shape(in, POSITION, "position", MF_I32, mf_shape1(x.dim[0])) ||
        mf_infer_attr(in, 0, "head_dim", 2, MF_MAX_HEAD_DIM) ||
        mf_infer_attr(in, 1, "n_heads", 0, INT32_MAX) || mf_infer_attr(in, 2, "half", 0, 1) ||
        mf_infer_attr(in, 3, "inverse", 0, 1) || mf_infer_attr(in, 4, "first", 0, hd - 1) ||
        mf_infer_attr(in, 5, "turned", 0, hd - in->attr->i[4]))
        return MF_ESHAPE;
    if (turned % 2 != 0)
        return in->fail(in,
                        "expected an even number of rotated columns, found %lld of head_dim",
                        (long long)turned);
    if (in->n_in > FACTOR && !mf_infer_absent(in, FACTOR) &&
        mf_infer_shape(in, FACTOR, "factor", MF_F32, mf_shape1(turned / 2)))
        return MF_ESHAPE;
    if (heads * hd > x.dim[1])
        return in->fail(in, "expected x [N, >= %lld] for %lld heads of %lld, found %s",
                        (long long)heads * hd, (long long)heads, (long long)hd,
                        mf_shape_text(x, text));
    if (!(in->attr->f[0] > 0))
        return in->fail(in, "expected theta > 0, found %g", in->attr->f[0]);
    if (!(in->attr->f[1] >= 0))
        return in->fail(in, "expected a factor >= 0 on the results, found %g", in->attr->f[1]);
    return mf_infer_set(in, 0, MF_F32, x);
}

static int rope_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_attr *t = call->attr;
    mf_shape s = call->in[X].shape;
    const mf_rope_args args = {.rows = s.dim[0],
                               .width = s.dim[1],
                               .head_dim = t->i[0],
                               .n_heads = t->i[1],
                               .first = t->i[4],
                               .turned = turned_of(t),
                               .half = t->i[2] != 0,
                               .inverse = t->i[3] != 0,
                               .bf16 = call->in[X].dtype == MF_BF16, /* graph/plan/fuse.c */
                               .theta = t->f[0],
                               .magnitude = t->f[1] > 0 ? t->f[1] : 1,
                               .position = mf_call_i32(call, POSITION),
                               .factor = call->n_in > FACTOR ? mf_call_f32(call, FACTOR) : NULL,
                               .a = mf_call_f32(call, X),
                               .y = mf_call_out(call, 0)};
    mf_call_kernels(call)->rope(&x, &args);
    return MF_OK;
}

static int rope_grad(mf_graph *g, const mf_gradient *at)
{
    mf_attr back = *at->attr;
    back.i[3] = !back.i[3];
    mf_tensor *factor = at->n_in > FACTOR ? at->in[FACTOR] : NULL;
    at->din[X] = factor ? mf_op3(g, "rope", at->dout[0], at->in[POSITION], factor, &back)
                        : mf_op2(g, "rope", at->dout[0], at->in[POSITION], &back);
    return mf_graph_status(g);
}

const mf_opdef mf_op_rope = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_INPLACE,
    .name = "rope",
    .formula = "(u, v) = (u cos a - v sin a, u sin a + v cos a)",
    .infer = rope_infer,
    .forward = rope_forward,
    .grad = rope_grad,
    .diff_in = 1,
};

static int append_infer(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "cache", MF_F32, 2, 2) ||
        mf_infer_tensor(in, 1, "x", MF_F32, 2, 2) ||
        mf_infer_tensor(in, 2, "pos", MF_I32, 1, 1))
        return MF_ESHAPE;
    mf_shape cache = in->in[0].shape, x = in->in[1].shape;
    int64_t batch = in->in[2].shape.dim[0];
    if (batch < 1 || cache.dim[0] % batch != 0 || x.dim[0] % batch != 0 ||
        cache.dim[1] != x.dim[1] || x.dim[0] > cache.dim[0])
        return in->fail(
            in,
            "expected cache [B S,w] and x [B T,w] with B = %lld and T <= S, found %s "
            "and %s",
            (long long)batch, mf_shape_text(cache, a), mf_shape_text(x, b));
    return mf_infer_set(in, 0, MF_F32, cache);
}

static int append_forward(const mf_call *call)
{
    const int32_t *pos = mf_call_i32(call, 2);
    int64_t batch = call->in[2].shape.dim[0], s = call->in[0].shape.dim[0] / batch;
    int64_t t = call->in[1].shape.dim[0] / batch;
    MF_RUN_OP(call, cache_append, .batch = batch, .s = s, .t = t, .n = call->in[0].shape.dim[1],
              .pos = pos, .a = mf_call_f32(call, 1), .cache = mf_call_out(call, 0));
    return MF_OK;
}

const mf_opdef mf_op_cache_append = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_STATE | MF_OP_NO_GRAD,
    .name = "cache_append",
    .formula = "cache[b S + pos[b] + t] = x[b T + t]",
    .infer = append_infer,
    .forward = append_forward,
};
