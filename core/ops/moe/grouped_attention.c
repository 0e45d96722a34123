/* ops/moe/grouped_attention.c: attention of assignments grouped by expert. Each expert has its
 * own keys and values, and only its assignments are queries.
 *
 * The assignments of an expert must be in the order of their tokens, as ops/moe/dispatch.c
 * groups them. With own = 0 the kernel checks this order. */

/*   q [R, heads hd], assignments of expert e at offset[e] .. offset[e+1]-1, token [R] i32, B S
 *   tokens; y[p] = softmax(scale q[p] k^T) v for each head, over the keys that p attends to:
 *     own = 0   kv [B S, E 2 heads hd]: keys, then values, of expert e at column e 2 heads hd.
 *               p attends to the tokens of its sequence, token[p] / S, that mask [B S] (f32 or
 *               absent) does not hide; causal: only to tokens up to its own
 *     own = 1   kv [R, 2 heads hd]: p attends to all assignments of its expert, of any sequence
 *   attr: i0 B, i1 heads, i2 causal, i3 own, f0 scale
 *   -> y [R, heads hd], lse [R, heads] = ln sum e^score; both 0 from offset[E] on */
#include "ops/call.h"
#include "ops/moe/grouped_attention.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { Y = MF_ATTEND_INPUTS, LSE, DY, DLSE }; /* further inputs of backward */

static int infer_sizes(mf_infer *in, int64_t *experts)
{
    if (mf_infer_inputs(in, MF_ATTEND_INPUTS) ||
        mf_infer_tensor(in, MF_ATTEND_Q, "q", MF_F32, 2, 2) ||
        mf_infer_tensor(in, MF_ATTEND_KV, "kv", MF_F32, 2, 2) ||
        mf_infer_tensor(in, MF_ATTEND_OFFSET, "offset", MF_I32, 1, 1) ||
        mf_infer_attr(in, MF_ATTEND_BATCH, "batch", 1, INT32_MAX) ||
        mf_infer_attr(in, MF_ATTEND_HEADS, "heads", 1, INT32_MAX) ||
        mf_infer_attr(in, MF_ATTEND_CAUSAL, "causal", 0, 1) ||
        mf_infer_attr(in, MF_ATTEND_OWN, "own", 0, 1))
        return MF_ESHAPE;
    const int64_t heads = in->attr->i[MF_ATTEND_HEADS],
                  width = in->in[MF_ATTEND_Q].shape.dim[1];
    *experts = in->in[MF_ATTEND_OFFSET].shape.dim[0] - 1;
    if (*experts < 1) return in->fail(in, "expected offset [E+1] with E >= 1, found [1]");
    if (width < heads || width % heads != 0 || width / heads > MF_MAX_HEAD_DIM)
        return in->fail(in, "expected q [R, %lld head_dim], head_dim <= %d, found width %lld",
                        (long long)heads, MF_MAX_HEAD_DIM, (long long)width);
    if (in->attr->i[MF_ATTEND_CAUSAL] && in->attr->i[MF_ATTEND_OWN])
        return in->fail(in, "rows of all sequences see one another: no order to be causal by");
    return mf_infer_shape(in, MF_ATTEND_TOKEN, "token", MF_I32,
                          mf_shape1(in->in[MF_ATTEND_Q].shape.dim[0]));
}

static int grouped_infer(mf_infer *in)
{
    int64_t experts;
    char text[MF_SHAPE_TEXT];
    if (infer_sizes(in, &experts)) return MF_ESHAPE;
    const mf_shape q = in->in[MF_ATTEND_Q].shape, kv = in->in[MF_ATTEND_KV].shape;
    const int64_t batch = in->attr->i[MF_ATTEND_BATCH], heads = in->attr->i[MF_ATTEND_HEADS];
    const bool own = in->attr->i[MF_ATTEND_OWN] != 0;
    const int64_t columns = 2 * q.dim[1] * (own ? 1 : experts);
    if (kv.dim[1] != columns || (own ? kv.dim[0] != q.dim[0] : kv.dim[0] % batch != 0))
        return in->fail(
            in,
            own ? "expected kv [%lld,%lld], found %s" : "expected kv [%lld S,%lld], found %s",
            (long long)(own ? q.dim[0] : batch), (long long)columns, mf_shape_text(kv, text));
    if (own && !mf_infer_absent(in, MF_ATTEND_MASK))
        return in->fail(in, "expected no mask: rows see rows, and padding has none");
    if (!own && mf_infer_maybe(in, MF_ATTEND_MASK, "mask", MF_F32, mf_shape1(kv.dim[0])))
        return MF_ESHAPE;
    const double keys = (double)kv.dim[0] / (double)(own ? experts : batch);
    in->flops = 4 * (double)q.dim[0] * keys * (double)q.dim[1];
    in->backward_flops = 2.5 * in->flops;
    in->work_bytes = in->backward_work_bytes =
        mf_grouped_attention_work(q.dim[0], experts, own ? 1 : batch);
    if (mf_infer_set(in, 0, MF_F32, q)) return MF_ESHAPE;
    return mf_infer_set(in, 1, MF_F32, mf_shape2(q.dim[0], heads));
}

/* Returns the arguments that forward and backward share. Also launches the checks
 * of offsets. */
static mf_grouped_attention_args args_of(const mf_call *call)
{
    const mf_shape q = call->in[MF_ATTEND_Q].shape, kv = call->in[MF_ATTEND_KV].shape;
    const mf_attr *a = call->attr;
    mf_call_check_offset(call, MF_ATTEND_OFFSET, q.dim[0]);
    mf_call_check_first(call, MF_ATTEND_OFFSET);
    return (mf_grouped_attention_args){.rows = q.dim[0],
                                       .experts = call->in[MF_ATTEND_OFFSET].shape.dim[0] - 1,
                                       .batch = a->i[MF_ATTEND_BATCH],
                                       .s = kv.dim[0] / a->i[MF_ATTEND_BATCH],
                                       .heads = a->i[MF_ATTEND_HEADS],
                                       .head_dim = q.dim[1] / a->i[MF_ATTEND_HEADS],
                                       .own = a->i[MF_ATTEND_OWN] != 0,
                                       .causal = a->i[MF_ATTEND_CAUSAL] != 0,
                                       .as_bf16 = a->i[MF_AS_BF16] != 0,
                                       .scale = (float)a->f[MF_ATTEND_SCALE],
                                       .offset = mf_call_i32(call, MF_ATTEND_OFFSET),
                                       .token = mf_call_i32(call, MF_ATTEND_TOKEN),
                                       .q = mf_call_f32(call, MF_ATTEND_Q),
                                       .kv = mf_call_f32(call, MF_ATTEND_KV),
                                       .mask = mf_call_f32(call, MF_ATTEND_MASK),
                                       .work = call->work};
}

static int grouped_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_grouped_attention_args args = args_of(call);
    args.y = mf_call_out(call, 0);
    args.lse = mf_call_out(call, 1);
    mf_call_kernels(call)->grouped_attention(&x, &args);
    return MF_OK;
}

static int grouped_backward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    if (call->in[DLSE].data || !call->in[DY].data)
        return call->fail(call, MF_ENOGRAD, "no gradient can pass through the second output");
    mf_grouped_attention_args args = args_of(call);
    args.y = call->in[Y].data;
    args.lse = call->in[LSE].data;
    args.dy = mf_call_f32(call, DY);
    args.dq = mf_call_out(call, MF_ATTEND_Q);
    args.dkv = mf_call_out(call, MF_ATTEND_KV);
    mf_call_kernels(call)->grouped_attention_backward(&x, &args);
    return MF_OK;
}

const mf_opdef mf_op_grouped_attention = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_ATTENTION,
    .name = "grouped_attention",
    .formula = "y = softmax(scale q k_e^T) v_e for the rows of expert e",
    .infer = grouped_infer,
    .forward = grouped_forward,
    .backward = grouped_backward,
    .backward_in = 1u << MF_ATTEND_Q | 1u << MF_ATTEND_KV | 1u << MF_ATTEND_OFFSET |
                   1u << MF_ATTEND_TOKEN | 1u << MF_ATTEND_MASK,
    .backward_out = 3,
    .diff_in = 1u << MF_ATTEND_Q | 1u << MF_ATTEND_KV,
    .role = MF_ROLE_GROUPED_ATTENTION,
};
