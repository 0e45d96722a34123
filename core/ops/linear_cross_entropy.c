/* ops/linear_cross_entropy.c: head and loss in one, so that the matrix of logits never exists.
 *
 *   x [N,d], w [V,d] both f32 or both bf16, b [V] or absent, target [N] i32, weight [N] f32 or
 *   absent attr: i0 = 0           -> loss scalar, row loss [N]
 *         i0 = 1 + 2 + 4   -> loss, then those of dx [N,d], dw [V,d], db [V] that it names
 *   loss and row loss as in cross_entropy of x w^T + b; dx, dw, db are the gradients of the
 *   loss; dx has the type of x, all else is f32, logits too
 *
 * Rows go through in chunks: logits of a chunk, their loss, their gradient over them in place,
 * and its three products. The gradient of a mean of losses is linear in what comes from above,
 * so it is made in the forward pass, while the logits are there, and only scaled in the
 * backward pass (not even that where a 1 comes from above, as from the loss of a training
 * step): three products, where computing logits again would take four. Rows with target < 0 are
 * left out before the products.
 */
#include "ops/linear_cross_entropy.h"
#include "ops/product.h"

#include <string.h>

enum { X, W, BIAS, TARGET, WEIGHT, INPUTS };
enum { WANT_X = 1, WANT_W = 2, WANT_BIAS = 4 };

/* ---- chunks ---- */

/* Logits of a small vocabulary stay in second caches. Those of a large one do not: then what
 * counts is that w and dw go through memory, and w through copies, once a chunk. */
#define NEAR_VOCAB 2048
#define NEAR_BYTES ((int64_t)1 << 20) /* of logits, where that is enough rows */
#define NEAR_ROWS  512
#define FAR_BYTES  ((int64_t)160 << 20)
#define FAR_ROWS   1280

static int64_t chunk_rows(int64_t rows, int64_t vocab)
{
    const int64_t row = (int64_t)sizeof(float) * vocab;
    int64_t most = vocab <= NEAR_VOCAB          ? NEAR_BYTES / row / 64 * 64
                   : FAR_BYTES / row < FAR_ROWS ? FAR_BYTES / row
                                                : FAR_ROWS;
    if (most < NEAR_ROWS) most = NEAR_ROWS;
    const int64_t chunks = (rows + most - 1) / most; /* equal ones */
    return chunks > 1 ? (rows + 8 * chunks - 1) / (8 * chunks) * 8 : rows;
}

/* Scratch of a call, laid out in the one block that it gets. */
typedef struct scratch {
    int64_t chunk;
    float *logits;            /* [chunk,V] */
    void *x, *dx;             /* [chunk,d] rows that do not lie side by side */
    float *db;                /* [V] of one chunk */
    float *row, *lse, *share; /* [chunk] */
    int32_t *target;          /* [chunk] */
    int32_t *list;            /* [N] rows with a target */
    void *sum;                /* of sum3 */
} scratch;

static void *take(void *base, int64_t *at, int64_t bytes)
{
    void *block = base ? (char *)base + *at : NULL;
    *at += (bytes + 63) / 64 * 64;
    return block;
}

/* Returns the bytes needed; base may be NULL when only these are asked for. */
static size_t lay_out(scratch *s, void *base, int64_t rows, int64_t d, int64_t vocab,
                      int64_t want, mf_dtype type)
{
    int64_t at = 0;
    const int64_t f = sizeof(float), each = (int64_t)mf_dtype_size(type);
    s->chunk = chunk_rows(rows, vocab);
    s->logits = take(base, &at, s->chunk * vocab * f);
    s->x = take(base, &at, s->chunk * d * each);
    s->dx = take(base, &at, want & WANT_X ? s->chunk * d * each : 0);
    s->db = take(base, &at, want & WANT_BIAS ? vocab * f : 0);
    s->sum = take(base, &at, want & WANT_BIAS ? (int64_t)mf_sum3_work(1, s->chunk, vocab) : 0);
    s->row = take(base, &at, s->chunk * f);
    s->lse = take(base, &at, s->chunk * f);
    s->share = take(base, &at, s->chunk * f);
    s->target = take(base, &at, s->chunk * (int64_t)sizeof(int32_t));
    s->list = take(base, &at, rows * (int64_t)sizeof(int32_t));
    return (size_t)at;
}

/* ---- shapes ---- */

static int loss_infer(mf_infer *in)
{
    char text[MF_SHAPE_TEXT];
    scratch s;
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
        mf_infer_attr(in, 0, "wanted gradients", 0, WANT_X | WANT_W | WANT_BIAS))
        return MF_ESHAPE;
    const int64_t want = in->attr->i[0];
    if (want & WANT_BIAS && mf_infer_absent(in, BIAS))
        return in->fail(in, "expected b, whose gradient is wanted");
    const int products = 1 + !!(want & WANT_X) + !!(want & WANT_W);
    in->flops = 2.0 * products * (double)x.dim[0] * (double)x.dim[1] * (double)w.dim[0];
    in->work_bytes = lay_out(&s, NULL, x.dim[0], x.dim[1], w.dim[0], want, type);
    int n = 0;
    if (mf_infer_set(in, n++, MF_F32, mf_shape0())) return MF_ESHAPE;
    if (want == 0) return mf_infer_set(in, n, MF_F32, rows);
    if (want & WANT_X && mf_infer_set(in, n++, type, x)) return MF_ESHAPE;
    if (want & WANT_W && mf_infer_set(in, n++, MF_F32, w)) return MF_ESHAPE;
    return want & WANT_BIAS ? mf_infer_set(in, n, MF_F32, bias) : MF_OK;
}

/* ---- one call ---- */

typedef struct head {
    const mf_call *call;
    const mf_kernels *k;
    mf_kctx kx;
    int64_t rows, d, vocab;
    bool bf16;        /* what x, w and dx are */
    size_t row_bytes; /* of x and dx */
    const void *x, *w;
    const float *bias, *weight;
    const int32_t *target;
    void *dx; /* outputs; NULL: not wanted */
    float *row_loss, *dw, *db;
    scratch s;
    int64_t counted; /* rows with a target */
    double weights;  /* their sum */
    double total;    /* of weighted losses */
} head;

static void bind(head *h, const mf_call *call)
{
    const mf_shape x = call->in[X].shape;
    const int64_t want = call->attr->i[0];
    int n = 1;
    *h = (head){.call = call,
                .k = mf_call_kernels(call),
                .kx = mf_call_kctx(call),
                .rows = x.dim[0],
                .d = x.dim[1],
                .vocab = call->in[W].shape.dim[0],
                .bf16 = mf_call_is_bf16(call, X),
                .row_bytes = (size_t)x.dim[1] * mf_dtype_size(call->in[X].dtype),
                .x = call->in[X].data,
                .w = call->in[W].data,
                .bias = mf_call_f32(call, BIAS),
                .weight = mf_call_f32(call, WEIGHT),
                .target = mf_call_i32(call, TARGET)};
    if (want == 0) h->row_loss = mf_call_out(call, n);
    if (want & WANT_X) h->dx = call->out[n++].data;
    if (want & WANT_W) h->dw = mf_call_out(call, n++);
    if (want & WANT_BIAS) h->db = mf_call_out(call, n);
    lay_out(&h->s, call->work, h->rows, h->d, h->vocab, want, call->in[X].dtype);
}

static double weight_of(const head *h, int64_t row)
{
    return h->weight ? (double)h->weight[row] : 1.0;
}

/* Rows that count, in order. */
static int list_rows(head *h)
{
    for (int64_t i = 0; i < h->rows; i++) {
        if (h->target[i] < 0) continue;
        if (h->target[i] >= h->vocab)
            return h->call->fail(h->call, MF_EINPUT,
                                 "row %lld: expected a target below %lld, found %d",
                                 (long long)i, (long long)h->vocab, h->target[i]);
        h->s.list[h->counted++] = (int32_t)i;
        h->weights += weight_of(h, i);
    }
    return MF_OK;
}

static void clear(void *out, size_t bytes)
{
    if (out) memset(out, 0, bytes);
}

/* Losses of the chunk's rows; if `over` its logits become the gradient of the loss to them. */
static void make_losses(head *h, const int32_t *list, int64_t n, bool over)
{
    scratch *s = &h->s;
    float mean;
    for (int64_t i = 0; i < n; i++) {
        s->target[i] = h->target[list[i]];
        s->share[i] = h->weights != 0 ? (float)(weight_of(h, list[i]) / h->weights) : 0;
    }
    if (over)
        h->k->cross_entropy_over(&h->kx, n, h->vocab, s->logits, s->target, s->share, s->row);
    else
        h->k->cross_entropy(&h->kx, n, h->vocab, s->logits, s->target, NULL, &mean, s->row,
                            s->lse);
}

/* ---- its products, in the type of x and w ---- */

static void make_logits(head *h, const void *x, int64_t n)
{
    if (!h->bf16) {
        h->k->linear(&h->kx, n, h->vocab, h->d, x, h->w, h->bias, h->s.logits);
        return;
    }
    const mf_product p = {.m = n,
                          .n = h->vocab,
                          .k = h->d,
                          .trans_b = true,
                          .type_a = MF_CAST_BF16,
                          .type_b = MF_CAST_BF16,
                          .a = x,
                          .b = h->w,
                          .c = h->s.logits,
                          .lda = h->d,
                          .ldb = h->d,
                          .ldc = h->vocab,
                          .alpha = 1,
                          .bias = h->bias};
    h->k->product(&h->kx, &p);
}

static void add_dw(head *h, const void *x, int64_t n, float beta)
{
    if (!h->bf16) {
        h->k->matmul(&h->kx, true, false, h->vocab, h->d, n, 1, h->s.logits, h->vocab, x, h->d,
                     beta, h->dw, h->d);
        return;
    }
    const mf_product p = {.m = h->vocab,
                          .n = h->d,
                          .k = n,
                          .trans_a = true,
                          .type_b = MF_CAST_BF16,
                          .a = h->s.logits,
                          .b = x,
                          .c = h->dw,
                          .lda = h->vocab,
                          .ldb = h->d,
                          .ldc = h->d,
                          .alpha = 1,
                          .beta = beta};
    h->k->product(&h->kx, &p);
}

static void make_dx(head *h, int64_t n, void *dx)
{
    if (!h->bf16) {
        h->k->matmul(&h->kx, false, false, n, h->d, h->vocab, 1, h->s.logits, h->vocab, h->w,
                     h->d, 0, dx, h->d);
        return;
    }
    const mf_product p = {.m = n,
                          .n = h->d,
                          .k = h->vocab,
                          .type_b = MF_CAST_BF16,
                          .type_c = MF_CAST_BF16,
                          .a = h->s.logits,
                          .b = h->w,
                          .c = dx,
                          .lda = h->vocab,
                          .ldb = h->d,
                          .ldc = h->d,
                          .alpha = 1};
    h->k->product(&h->kx, &p);
}

static void add_weight_gradients(head *h, const void *x, int64_t n, bool first)
{
    scratch *s = &h->s;
    if (h->dw) add_dw(h, x, n, first ? 0.0f : 1.0f);
    if (!h->db) return;
    h->k->sum3(&h->kx, 1, n, h->vocab, 1, s->logits, first ? h->db : s->db, s->sum);
    for (int64_t j = 0; j < h->vocab && !first; j++)
        h->db[j] += s->db[j];
}

static void set_dx(head *h, const int32_t *list, int64_t n, bool together)
{
    char *dx = h->dx, *to = together ? dx + (size_t)list[0] * h->row_bytes : h->s.dx;
    make_dx(h, n, to);
    for (int64_t i = 0; i < n && !together; i++)
        memcpy(dx + (size_t)list[i] * h->row_bytes, to + (size_t)i * h->row_bytes,
               h->row_bytes);
}

static void run_chunk(head *h, const int32_t *list, int64_t n, bool first)
{
    scratch *s = &h->s;
    const bool together = list[n - 1] - list[0] == n - 1;
    const void *x = together ? (const char *)h->x + (size_t)list[0] * h->row_bytes : s->x;
    const bool over = h->dx || h->dw || h->db;
    if (!together && h->bf16)
        h->k->gather_rows_bf16(&h->kx, n, h->d, h->x, list, s->x);
    else if (!together)
        h->k->gather_rows(&h->kx, n, h->d, h->x, list, s->x);
    make_logits(h, x, n);
    make_losses(h, list, n, over);
    for (int64_t i = 0; i < n; i++) {
        h->total += weight_of(h, list[i]) * (double)s->row[i];
        if (h->row_loss) h->row_loss[list[i]] = s->row[i];
    }
    if (!over) return;
    add_weight_gradients(h, x, n, first);
    if (h->dx) set_dx(h, list, n, together);
}

static int loss_forward(const mf_call *call)
{
    head h;
    bind(&h, call);
    int err = list_rows(&h);
    if (err) return err;
    clear(h.row_loss, (size_t)h.rows * sizeof(float));
    if (h.counted < h.rows) clear(h.dx, (size_t)h.rows * h.row_bytes);
    if (h.counted == 0) {
        clear(h.dw, (size_t)(h.vocab * h.d) * sizeof(float));
        clear(h.db, (size_t)h.vocab * sizeof(float));
    }
    for (int64_t at = 0; at < h.counted; at += h.s.chunk) {
        const int64_t left = h.counted - at;
        run_chunk(&h, h.s.list + at, left < h.s.chunk ? left : h.s.chunk, at == 0);
    }
    *mf_call_out(call, 0) = h.weights != 0 ? (float)(h.total / h.weights) : 0;
    return MF_OK;
}

/* ---- gradient ---- */

static mf_tensor *add_node(mf_graph *g, mf_tensor *const *in, int64_t want, mf_tensor **out)
{
    return mf_graph_op_named(
        g, "linear_cross_entropy", INPUTS, in, &(mf_attr){.i = {want}},
        want ? 1 + !!(want & WANT_X) + !!(want & WANT_W) + !!(want & WANT_BIAS) : 2, out);
}

static bool is_one(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_CONST && mf_shape_count(t->shape) == 1 &&
           *(float *)t->data == 1;
}

static int loss_grad(mf_graph *g, const mf_gradient *at)
{
    int64_t want = at->attr->i[0], asked = 0;
    mf_tensor *again[MF_OP_MAX_OUT], *const *out = at->out, *above = at->dout[0];
    for (int i = 0; i < 3; i++)
        if (at->wants[i]) asked |= (int64_t)1 << i;
    if (want == 0 && at->dout[1])
        return mf_graph_fail(g, MF_ENOGRAD,
                             "no gradient can pass through the losses of the rows");
    if (!above) return MF_OK;
    if ((want & asked) != asked) { /* nobody knew when it was built */
        add_node(g, at->in, want = asked, again);
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
    mf_tensor *loss = add_node(g, in, want, out);
    if (ret_rows) *ret_rows = want ? NULL : out[1];
    return loss;
}

const mf_opdef mf_op_linear_cross_entropy = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_NARROW,
    .name = "linear_cross_entropy",
    .formula = "loss = mean of -ln softmax(x w^T + b)[target]",
    .infer = loss_infer,
    .forward = loss_forward,
    .grad = loss_grad,
    .diff_in = 1u << X | 1u << W | 1u << BIAS,
    .bf16_in = 1u << X | 1u << W,
};
