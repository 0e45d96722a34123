/* ops/grouped_attention.c: attention of rows grouped by expert, each expert over its own keys
 * and values (TAGAT, section 4.3): only the rows that were sent to an expert ask.
 *
 *   q [R, heads hd], rows of expert e at offset[e] .. offset[e+1]-1, token [R] i32, B S tokens
 *   y[p] = softmax(scale q[p] k^T) v, head by head, over what row p sees:
 *     own = 0   kv [B S, E 2 heads hd]: keys, then values, of expert e at column e 2 heads hd.
 *               A row sees the tokens of its sequence, token[p] / S, that mask [B S] (f32 or
 *               absent) does not hide; causal: those up to its own
 *     own = 1   kv [R, 2 heads hd]: a row sees all rows of its expert, whatever their sequence
 *   attr: i0 B, i1 heads, i2 causal, i3 own, f0 scale
 *   -> y [R, heads hd], lse [R, heads] = ln sum e^score; both 0 past offset[E]
 *
 * The rows of an expert must stand in the order of their tokens, as ops/dispatch.c leaves them:
 * the rows of one sequence are then one block of queries for the kernel of attention.
 */
#include "ops/call.h"
#include "ops/grouped_attention.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { Y = MF_ATTEND_INPUTS, LSE, DY, DLSE }; /* what backward gets behind them */

/* The parts of one call. */
typedef struct grouped {
    const mf_kernels *kernels;
    mf_kctx serial;
    mf_attention_args args; /* of the whole; what differs from block to block is set there */
    int64_t rows, experts, sequences, width; /* width: heads head_dim */
    bool own, backward;
    const int32_t *offset;
    const int32_t *begin; /* [E B + 1]: first row of block e B + b */
} grouped;

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
        return in->fail(in, own ? "expected kv [%lld,%lld], found %s"
                                : "expected kv [%lld S,%lld], found %s",
                        (long long)(own ? q.dim[0] : batch), (long long)columns,
                        mf_shape_text(kv, text));
    if (own && !mf_infer_absent(in, MF_ATTEND_MASK))
        return in->fail(in, "expected no mask: rows see rows, and padding has none");
    if (!own && mf_infer_maybe(in, MF_ATTEND_MASK, "mask", MF_F32, mf_shape1(kv.dim[0])))
        return MF_ESHAPE;
    const double keys = (double)kv.dim[0] / (double)(own ? experts : batch);
    in->flops = 4 * (double)q.dim[0] * keys * (double)q.dim[1];
    in->backward_flops = 2.5 * in->flops;
    in->work_bytes = in->backward_work_bytes =
        (size_t)(q.dim[0] + experts * (own ? 1 : batch) + 1) * sizeof(int32_t);
    if (mf_infer_set(in, 0, MF_F32, q)) return MF_ESHAPE;
    return mf_infer_set(in, 1, MF_F32, mf_shape2(q.dim[0], heads));
}

/* ---- blocks ---- */

/* Where each block begins, and how far each row reaches in its sequence. */
static int find_blocks(const mf_call *call, grouped *w)
{
    int32_t *begin = call->work, *reach = begin + w->experts * w->sequences + 1;
    const int32_t *token = mf_call_i32(call, MF_ATTEND_TOKEN);
    const int64_t S = w->args.s, B = w->sequences;
    int64_t block = 0;
    int err = mf_call_check_offset(call, MF_ATTEND_OFFSET, w->rows);
    if (err) return err;
    for (int64_t e = 0; e < w->experts; e++)
        for (int64_t p = w->offset[e]; p < w->offset[e + 1]; p++) {
            if (token[p] < 0 || token[p] >= B * S ||
                (p > w->offset[e] && token[p] < token[p - 1]))
                return call->fail(call, MF_EPLUGIN,
                                  "row %lld of expert %lld: expected tokens in rising order in "
                                  "0 .. %lld, found %d",
                                  (long long)(p - w->offset[e]), (long long)e,
                                  (long long)(B * S - 1), token[p]);
            for (const int64_t here = e * B + token[p] / S; block <= here; block++)
                begin[block] = (int32_t)p;
            reach[p] = (int32_t)(token[p] % S);
        }
    for (; block <= w->experts * B; block++)
        begin[block] = w->offset[w->experts];
    w->begin = begin;
    if (call->attr->i[MF_ATTEND_CAUSAL]) w->args.reach = reach;
    return MF_OK;
}

static void one_after_the_other(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg)
{
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}

static int open_call(const mf_call *call, grouped *w)
{
    const mf_shape q = call->in[MF_ATTEND_Q].shape, kv = call->in[MF_ATTEND_KV].shape;
    const mf_attr *a = call->attr;
    *w = (grouped){.kernels = mf_call_kernels(call),
                   .serial = mf_call_kctx(call),
                   .rows = q.dim[0],
                   .experts = call->in[MF_ATTEND_OFFSET].shape.dim[0] - 1,
                   .width = q.dim[1],
                   .own = a->i[MF_ATTEND_OWN] != 0,
                   .offset = mf_call_i32(call, MF_ATTEND_OFFSET)};
    w->serial.parallel = one_after_the_other;
    w->serial.threads = 1;
    w->sequences = w->own ? 1 : a->i[MF_ATTEND_BATCH];
    w->args = (mf_attention_args){.batch = 1,
                                  .s = kv.dim[0] / w->sequences,
                                  .heads = a->i[MF_ATTEND_HEADS],
                                  .kv_heads = a->i[MF_ATTEND_HEADS],
                                  .head_dim = q.dim[1] / a->i[MF_ATTEND_HEADS],
                                  .ldq = q.dim[1],
                                  .ldk = kv.dim[1],
                                  .ldv = kv.dim[1],
                                  .scale = (float)a->f[MF_ATTEND_SCALE],
                                  .q = mf_call_f32(call, MF_ATTEND_Q),
                                  .k = mf_call_f32(call, MF_ATTEND_KV),
                                  .mask = mf_call_f32(call, MF_ATTEND_MASK)};
    if (!w->own) return find_blocks(call, w);
    w->begin = w->offset;
    return mf_call_check_offset(call, MF_ATTEND_OFFSET, w->rows);
}

/* The whole's arguments, moved to one block. */
static mf_attention_args block_of(const grouped *w, int64_t e, int64_t b)
{
    mf_attention_args p = w->args;
    const int64_t from = w->begin[e * w->sequences + b];
    const int64_t key = w->own ? from * p.ldk : b * p.s * p.ldk + e * 2 * w->width;
    p.t = w->begin[e * w->sequences + b + 1] - from;
    if (w->own) p.s = p.t;
    p.q += from * p.ldq;
    p.k += key;
    p.v = p.k + w->width;
    p.y += from * w->width;
    p.lse += from * p.heads;
    if (p.mask) p.mask += b * p.s;
    if (p.reach) p.reach += from;
    if (!w->backward) return p;
    p.dy += from * w->width;
    if (p.dq) p.dq += from * p.ldq;
    if (p.dk) {
        p.dk += key;
        p.dv = p.dk + w->width;
    }
    return p;
}

static void work_block(const grouped *w, const mf_kctx *x, int64_t e, int64_t b)
{
    const mf_attention_args p = block_of(w, e, b);
    if (w->backward)
        w->kernels->attention_backward(x, &p); /* without queries: zeros */
    else if (p.t > 0)
        w->kernels->attention(x, &p);
}

static void tile(void *arg, int64_t i)
{
    const grouped *w = arg;
    work_block(w, &w->serial, i % w->experts, i / w->experts);
}

/* Many small blocks: one a tile. One a group: the tiles are the kernel's own. */
static void work_all(const mf_call *call, grouped *w)
{
    const mf_kctx x = mf_call_kctx(call);
    if (!w->own) {
        x.parallel(w->experts * w->sequences, tile, w);
        return;
    }
    for (int64_t e = 0; e < w->experts; e++)
        work_block(w, &x, e, 0);
}

/* Rows past the last group, which no block holds. */
static void clear_rest(const mf_call *call, const grouped *w, float *a, int64_t width)
{
    const mf_kctx x = mf_call_kctx(call);
    const int64_t used = w->offset[w->experts];
    if (a && used < w->rows)
        w->kernels->set(&x, (w->rows - used) * width, 0, a + used * width);
}

static int grouped_forward(const mf_call *call)
{
    grouped w;
    int err = open_call(call, &w);
    if (err) return err;
    w.args.y = mf_call_out(call, 0);
    w.args.lse = mf_call_out(call, 1);
    clear_rest(call, &w, w.args.y, w.width);
    clear_rest(call, &w, w.args.lse, w.args.heads);
    work_all(call, &w);
    return MF_OK;
}

static int grouped_backward(const mf_call *call)
{
    grouped w;
    if (call->in[DLSE].data || !call->in[DY].data)
        return call->fail(call, MF_ENOGRAD, "no gradient can pass through the second output");
    int err = open_call(call, &w);
    if (err) return err;
    w.backward = true;
    w.args.y = call->in[Y].data;
    w.args.lse = call->in[LSE].data;
    w.args.dy = mf_call_f32(call, DY);
    w.args.dq = mf_call_out(call, MF_ATTEND_Q);
    w.args.dk = mf_call_out(call, MF_ATTEND_KV);
    clear_rest(call, &w, w.args.dq, w.width);
    if (w.own) clear_rest(call, &w, w.args.dk, 2 * w.width);
    work_all(call, &w);
    return MF_OK;
}

const mf_opdef mf_op_grouped_attention = {
    .size = sizeof(mf_opdef),
    .name = "grouped_attention",
    .formula = "y = softmax(scale q k_e^T) v_e for the rows of expert e",
    .infer = grouped_infer,
    .forward = grouped_forward,
    .backward = grouped_backward,
    .backward_in = 1u << MF_ATTEND_Q | 1u << MF_ATTEND_KV | 1u << MF_ATTEND_OFFSET |
                   1u << MF_ATTEND_TOKEN | 1u << MF_ATTEND_MASK,
    .backward_out = 3,
    .diff_in = 1u << MF_ATTEND_Q | 1u << MF_ATTEND_KV,
};
