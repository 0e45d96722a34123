/* ops/layers/attention.c: y = softmax(scale q k^T) v per head (Vaswani et al. 2017, eq. 1).
 *
 *   q [B T, heads hd], k and v [B S, kv_heads hd]; or packed: q [B T, (heads + 2 kv_heads) hd]
 *   with k, v absent. mask [B S] f32, kv_len [B] i32 or absent.
 *   attr: i0 B, i1 heads, i2 kv_heads, i3 causal, i4 window (0: none; else a query attends to
 *   the last `window` keys up to its own position), i5 since: there is one more input, the
 *   first key of each query, [B T] i32, not decreasing within a sequence; f0 scale
 *   q, k, v f32 (MF_AS_BF16: may be rounded), or bf16 where kernels exist (MF_OP_ATTENTION)
 *   -> y [B T, heads hd] of their type, lse [B T, heads] = ln sum e^score
 *
 * The matrix of scores is never stored. The backward pass recomputes the scores block by block
 * from q, k and lse (Dao 2023). */
#include "ops/call.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { Q, K, V, MASK, KV_LEN, FIRST }; /* inputs of forward; FIRST with SINCE */
enum { Y, LSE, DY, DLSE };             /* further inputs of backward */
enum { BATCH, HEADS, KV_HEADS, CAUSAL, WINDOW, SINCE, SCALE = 0 }; /* attributes */

static mf_attention_args args_of(const mf_view *in, const mf_attr *attr)
{
    int64_t batch = attr->i[BATCH], heads = attr->i[HEADS], kv_heads = attr->i[KV_HEADS];
    bool packed = in[K].shape.rank < 0;
    mf_shape q = in[Q].shape;
    int64_t hd = q.dim[1] / (packed ? heads + 2 * kv_heads : heads);
    mf_attention_args p = {.bf16 = in[Q].dtype == MF_BF16,
                           .as_bf16 = attr->i[MF_AS_BF16] != 0,
                           .batch = batch,
                           .t = q.dim[0] / batch,
                           .s = (packed ? q : in[K].shape).dim[0] / batch,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .head_dim = hd,
                           .ldq = q.dim[1],
                           .ldk = packed ? q.dim[1] : kv_heads * hd,
                           .ldv = packed ? q.dim[1] : kv_heads * hd,
                           .causal = attr->i[CAUSAL] != 0,
                           .window = attr->i[WINDOW],
                           .scale = (float)attr->f[SCALE]};
    return p;
}

static int infer_sizes(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    if (mf_infer_attr(in, SINCE, "since", 0, in->attr->i[WINDOW] == 0) ||
        mf_infer_inputs(in, FIRST + (int)in->attr->i[SINCE]) ||
        mf_infer_tensor(in, Q, "q", mf_infer_float(in, Q), 2, 2) ||
        mf_infer_attr(in, BATCH, "batch", 1, INT32_MAX) ||
        mf_infer_attr(in, HEADS, "heads", 1, INT32_MAX) ||
        mf_infer_attr(in, KV_HEADS, "kv_heads", 1, INT32_MAX) ||
        mf_infer_attr(in, CAUSAL, "causal", 0, 1) ||
        mf_infer_attr(in, WINDOW, "window", 0, INT32_MAX))
        return MF_ESHAPE;
    int64_t heads = in->attr->i[HEADS], kv_heads = in->attr->i[KV_HEADS];
    mf_shape q = in->in[Q].shape;
    if (heads % kv_heads != 0)
        return in->fail(in, "expected heads a multiple of kv_heads, found %lld and %lld",
                        (long long)heads, (long long)kv_heads);
    if (mf_infer_absent(in, K) != mf_infer_absent(in, V))
        return in->fail(in, "expected k and v, or neither with q, k, v packed in q");
    int64_t parts = mf_infer_absent(in, K) ? heads + 2 * kv_heads : heads;
    if (q.dim[0] % in->attr->i[BATCH] != 0 || q.dim[1] < parts || q.dim[1] % parts != 0)
        return in->fail(in, "expected q [%lld T, %lld head_dim], found %s",
                        (long long)in->attr->i[BATCH], (long long)parts,
                        mf_shape_text(q, text));
    if (q.dim[1] / parts > MF_MAX_HEAD_DIM)
        return in->fail(in, "expected head_dim <= %d, found %lld", MF_MAX_HEAD_DIM,
                        (long long)(q.dim[1] / parts));
    return MF_OK;
}

static int attention_infer(mf_infer *in)
{
    if (infer_sizes(in)) return MF_ESHAPE;
    mf_attention_args p = args_of(in->in, in->attr);
    const mf_dtype type = in->in[Q].dtype;
    if (!mf_infer_absent(in, K)) {
        char text[MF_SHAPE_TEXT];
        if (mf_infer_tensor(in, K, "k", type, 2, 2)) return MF_ESHAPE;
        mf_shape k = in->in[K].shape;
        if (k.dim[0] % p.batch != 0 || k.dim[1] != p.ldk)
            return in->fail(in, "expected k [%lld S, %lld], found %s", (long long)p.batch,
                            (long long)p.ldk, mf_shape_text(k, text));
        if (mf_infer_shape(in, V, "v", type, k)) return MF_ESHAPE;
    }
    if (mf_infer_maybe(in, MASK, "mask", MF_F32, mf_shape1(p.batch * p.s)) ||
        mf_infer_maybe(in, KV_LEN, "kv_len", MF_I32, mf_shape1(p.batch)) ||
        (in->attr->i[SINCE] &&
         mf_infer_shape(in, FIRST, "since", MF_I32, mf_shape1(p.batch * p.t))))
        return MF_ESHAPE;
    double pairs = (double)(p.batch * p.heads) * (double)p.t * (double)p.s;
    if (p.causal) pairs -= (double)(p.batch * p.heads) * (double)p.t * (double)(p.t - 1) / 2;
    in->flops = 4 * pairs * (double)p.head_dim;
    in->backward_flops = 10 * pairs * (double)p.head_dim;
    if (mf_infer_set(in, 0, type, mf_shape2(p.batch * p.t, p.heads * p.head_dim)))
        return MF_ESHAPE;
    return mf_infer_set(in, 1, MF_F32, mf_shape2(p.batch * p.t, p.heads));
}

/* Returns the address of the column after the first `heads` heads, in a matrix of the type
 * of p. */
static float *behind(const mf_attention_args *p, const float *from, int64_t heads)
{
    const int64_t bytes =
        heads * p->head_dim * mf_cast_size(p->bf16 ? MF_CAST_BF16 : MF_CAST_F32);
    return (float *)(void *)((char *)(uintptr_t)from + bytes);
}

/* Sets the arguments that forward and backward share. */
static mf_attention_args bind(const mf_call *call)
{
    mf_attention_args p = args_of(call->in, call->attr);
    bool packed = call->in[K].shape.rank < 0;
    p.q = mf_call_f32(call, Q);
    p.k = packed ? behind(&p, p.q, p.heads) : mf_call_f32(call, K);
    p.v = packed ? behind(&p, p.k, p.kv_heads) : mf_call_f32(call, V);
    p.mask = mf_call_f32(call, MASK);
    p.kv_len = mf_call_i32(call, KV_LEN);
    if (call->attr->i[SINCE]) p.since = mf_call_i32(call, FIRST);
    return p;
}

/* Attention of a token of each sequence with rope and cache_append (graph/plan/fuse_token.c): q
 * has queries, keys and values; k and v are caches. */
static int token_forward(const mf_call *call)
{
    enum { POSITION = FIRST + 1, FACTOR, POS }; /* inputs */
    const mf_attr *t = call->attr;
    const mf_kctx x = mf_call_kctx(call);
    const int64_t batch = t->i[BATCH], heads = t->i[HEADS], kv_heads = t->i[KV_HEADS];
    const mf_token_attention_args p = {.batch = batch,
                                       .s = call->in[K].shape.dim[0] / batch,
                                       .heads = heads,
                                       .kv_heads = kv_heads,
                                       .head_dim =
                                           call->in[Q].shape.dim[1] / (heads + 2 * kv_heads),
                                       .first = t->i[MF_TOKEN_FIRST],
                                       .turned = t->i[MF_TOKEN_TURNED] / 2,
                                       .window = t->i[WINDOW],
                                       .half = t->i[MF_TOKEN_TURNED] % 2 != 0,
                                       .theta = t->f[MF_TOKEN_THETA],
                                       .magnitude = t->f[MF_TOKEN_MAGNITUDE],
                                       .scale = t->f[SCALE],
                                       .position = mf_call_i32(call, POSITION),
                                       .pos = mf_call_i32(call, POS),
                                       .kv_len = mf_call_i32(call, KV_LEN),
                                       .factor = mf_call_f32(call, FACTOR),
                                       .qkv = mf_call_f32(call, Q),
                                       .k = (float *)(uintptr_t)call->in[K].data,
                                       .v = (float *)(uintptr_t)call->in[V].data,
                                       .y = mf_call_out(call, 0)};
    mf_call_check(call, KV_LEN, MF_WHAT_KV_LEN, 0, p.s + 1);
    mf_call_kernels(call)->token_attention(&x, &p);
    return MF_OK;
}

static int attention_forward(const mf_call *call)
{
    if (call->n_in > FIRST + 1) return token_forward(call);
    const mf_kctx x = mf_call_kctx(call);
    mf_attention_args p = bind(call);
    mf_call_check(call, KV_LEN, MF_WHAT_KV_LEN, 0, p.s + 1);
    p.y = mf_call_out(call, 0);
    p.lse = mf_call_out(call, 1);
    mf_call_kernels(call)->attention(&x, &p);
    return MF_OK;
}

static int attention_backward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_attention_args p = bind(call);
    const int at = FIRST + (int)call->attr->i[SINCE]; /* the number of inputs of forward */
    if (!call->in[at + DY].data)
        return call->fail(call, MF_ENOGRAD, "expected a gradient of y, found one of lse alone");
    p.y = call->in[at + Y].data;
    p.lse = call->in[at + LSE].data;
    p.dy = mf_call_f32(call, at + DY);
    p.dlse = mf_call_f32(call, at + DLSE);
    p.dq = mf_call_out(call, Q);
    if (call->in[K].shape.rank < 0) {
        p.dk = p.dq ? behind(&p, p.dq, p.heads) : NULL;
        p.dv = p.dq ? behind(&p, p.dk, p.kv_heads) : NULL;
    } else {
        p.dk = mf_call_out(call, K);
        p.dv = mf_call_out(call, V);
    }
    mf_call_kernels(call)->attention_backward(&x, &p);
    return MF_OK;
}

const mf_opdef mf_op_attention = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_ATTENTION,
    .name = "attention",
    .formula = "y = softmax(scale q k^T) v",
    .infer = attention_infer,
    .forward = attention_forward,
    .backward = attention_backward,
    .backward_in = 1u << Q | 1u << K | 1u << V | 1u << MASK | 1u << KV_LEN | 1u << FIRST,
    .backward_out = 3,
    .diff_in = 1u << Q | 1u << K | 1u << V,
    .bf16_in = 1u << Q | 1u << K | 1u << V,
};
