/* linear_cross_entropy.c: head and loss in one kernel, which stores the logits of only a few
 * rows at a time.
 *
 * Rows are processed in chunks whose size depends only on shapes. One gemm computes the logits
 * of a chunk, and the gradients of their losses overwrite them. If the gradients of x and w are
 * requested, one gemm computes the gradient of x, and another gemm adds to the gradient of w.
 * Rows with target < 0 are skipped before the gemms. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* Work memory, in the one block that the caller provides. */
typedef struct scratch {
    int64_t chunk;
    float *logits;            /* [chunk,V] */
    void *x, *dx;             /* [chunk,d] for rows that are not neighbours: copy
                               * and gradient */
    float *db;                /* [V] bias gradient of one chunk */
    float *row, *lse, *share; /* [chunk] loss of a row, lse of the row, weight / sum
                               * of weights */
    int32_t *target;          /* [chunk] */
    int32_t *list;            /* [N] rows with a target */
    void *sum;                /* work memory of sum3 */
} scratch;

typedef struct head {
    const mf_kctx *x;
    const mf_linear_cross_entropy_args *p;
    int64_t row_bytes; /* bytes of a row of x, and of a row of dx */
    scratch s;
    int64_t counted; /* number of rows with a target */
    double weights;  /* sum of the weights of these rows */
    double total;    /* sum of their weighted losses */
} head;

static void *take(char **at, int64_t bytes)
{
    void *block = *at;
    *at += mf_align64(bytes);
    return block;
}

static void lay_out(head *h)
{
    const mf_linear_cross_entropy_args *p = h->p;
    scratch *s = &h->s;
    char *at = p->work;
    s->chunk = mf_linear_cross_entropy_chunk(p->rows, p->vocab, p->most_logits);
    s->logits = take(&at, s->chunk * p->vocab * 4);
    s->x = take(&at, s->chunk * h->row_bytes);
    s->row = take(&at, s->chunk * 4);
    s->lse = take(&at, s->chunk * 4);
    s->share = take(&at, s->chunk * 4);
    s->target = take(&at, s->chunk * 4);
    s->list = take(&at, p->rows * 4);
    if (p->dx) s->dx = take(&at, s->chunk * h->row_bytes);
    if (!p->dbias) return;
    s->db = take(&at, p->vocab * 4);
    s->sum = take(&at, (int64_t)mf_sum3_work(1, s->chunk, p->vocab));
}

static double weight_of(const mf_linear_cross_entropy_args *p, int64_t row)
{
    return p->weight ? (double)p->weight[row] : 1.0;
}

/* Lists the rows with a target, in order. */
static void list_rows(head *h)
{
    const mf_linear_cross_entropy_args *p = h->p;
    for (int64_t i = 0; i < p->rows; i++) {
        if (p->target[i] < 0) continue;
        h->s.list[h->counted++] = (int32_t)i;
        h->weights += weight_of(p, i);
    }
}

static void clear(void *out, int64_t bytes)
{
    if (out && bytes > 0) memset(out, 0, (size_t)bytes);
}

/* Computes the losses of the chunk's rows. If `over`, the gradients of the logits overwrite
 * the logits. */
static void make_losses(head *h, const int32_t *list, int64_t n, bool over)
{
    const mf_linear_cross_entropy_args *p = h->p;
    scratch *s = &h->s;
    float mean;
    for (int64_t i = 0; i < n; i++) {
        s->target[i] = p->target[list[i]];
        s->share[i] = h->weights != 0 ? (float)(weight_of(p, list[i]) / h->weights) : 0;
    }
    if (over)
        MF_SIMD(cross_entropy_over)(h->x, n, p->vocab, s->logits, s->target, s->share, s->row);
    else
        MF_SIMD(cross_entropy)
    (h->x, &(mf_cross_entropy_args){.rows = n,
                                    .n = p->vocab,
                                    .logits = s->logits,
                                    .target = s->target,
                                    .loss = &mean,
                                    .row_loss = s->row,
                                    .lse = s->lse});
}

/* ---- gemms ---- */

typedef struct rounding {
    const float *from;
    float *to;
    int64_t n;
} rounding;

/* Rounds a row to bf16. The result may replace the row itself, of which it fills half. */
static void round_row(void *arg, int64_t r)
{
    const rounding *p = arg;
    const float *from = p->from + r * p->n;
    uint16_t *to = (uint16_t *)(p->to + r * p->n);
    int64_t i = 0;
    for (; i + VL <= p->n; i += VL)
        v_store_bf16(to + i, v_load(from + i));
    if (i < p->n) v_store_bf16_n(to + i, v_load_n(from + i, p->n - i), p->n - i);
}

/* Computes y = x W^T + bias, or y = x W, for n rows of `of` numbers, if the weight is a stored
 * weight. With as_bf16, rows are first written as bf16 to `room`, which may be x. */
static void multiply_stored(const head *h, bool back, int64_t n, const float *x, int64_t of,
                            float *room, const float *bias, float *y, int64_t ldy)
{
    rounding rows = {x, room, of};
    if (h->p->as_bf16) h->x->parallel(n, round_row, &rows);
    const mf_stored_gemm_args g = {.w = h->p->stored,
                                   .back = back,
                                   .bf16 = h->p->as_bf16,
                                   .rows = n,
                                   .x = h->p->as_bf16 ? room : x,
                                   .ldx = h->p->as_bf16 ? 2 * of : of,
                                   .alpha = 1,
                                   .bias = bias,
                                   .y = y,
                                   .ldy = ldy};
    MF_SIMD(stored_gemm)(h->x, &g);
}

static void make_logits(const head *h, const void *x, int64_t n)
{
    const mf_linear_cross_entropy_args *p = h->p;
    const mf_gemm g = {.m = n,
                       .n = p->vocab,
                       .k = p->d,
                       .a = {.data = x, .type = p->type, .ld = p->d},
                       .b = {.data = p->w, .type = p->type, .trans = true, .ld = p->d},
                       .c = {.data = h->s.logits, .ld = p->vocab},
                       .alpha = 1,
                       .bias = p->bias};
    if (p->stored)
        multiply_stored(h, false, n, x, p->d, h->s.x, p->bias, h->s.logits, p->vocab);
    else
        MF_SIMD(gemm)(h->x, &g);
}

static void add_dw(const head *h, const void *x, int64_t n, float beta)
{
    const mf_linear_cross_entropy_args *p = h->p;
    const mf_gemm g = {.m = p->vocab,
                       .n = p->d,
                       .k = n,
                       .a = {.data = h->s.logits, .trans = true, .ld = p->vocab},
                       .b = {.data = x, .type = p->type, .ld = p->d},
                       .c = {.data = p->dw, .ld = p->d},
                       .alpha = 1,
                       .beta = beta};
    MF_SIMD(gemm)(h->x, &g);
}

static void make_dx(const head *h, int64_t n, void *dx)
{
    const mf_linear_cross_entropy_args *p = h->p;
    const mf_gemm g = {.m = n,
                       .n = p->d,
                       .k = p->vocab,
                       .a = {.data = h->s.logits, .ld = p->vocab},
                       .b = {.data = p->w, .type = p->type, .ld = p->d},
                       .c = {.data = dx, .type = p->type, .ld = p->d},
                       .alpha = 1};
    if (p->stored)
        multiply_stored(h, true, n, h->s.logits, p->vocab, h->s.logits, NULL, dx, p->d);
    else
        MF_SIMD(gemm)(h->x, &g);
}

static void add_weight_gradients(const head *h, const void *x, int64_t n, bool first)
{
    const mf_linear_cross_entropy_args *p = h->p;
    const scratch *s = &h->s;
    if (p->dw) add_dw(h, x, n, first ? 0.0f : 1.0f);
    if (!p->dbias) return;
    MF_SIMD(sum3)
    (h->x, &(mf_sum3_args){.outer = 1,
                           .n = n,
                           .inner = p->vocab,
                           .scale = 1,
                           .in = s->logits,
                           .out = first ? p->dbias : s->db,
                           .work = s->sum});
    if (!first) v_add_to(p->vocab, s->db, p->dbias);
}

static void set_dx(const head *h, const int32_t *list, int64_t n, bool together)
{
    const size_t bytes = (size_t)h->row_bytes;
    char *dx = h->p->dx, *to = together ? dx + (size_t)list[0] * bytes : h->s.dx;
    make_dx(h, n, to);
    for (int64_t i = 0; i < n && !together; i++)
        memcpy(dx + (size_t)list[i] * bytes, to + (size_t)i * bytes, bytes);
}

static void run_chunk(head *h, const int32_t *list, int64_t n, bool first)
{
    const mf_linear_cross_entropy_args *p = h->p;
    scratch *s = &h->s;
    const bool together = list[n - 1] - list[0] == n - 1, over = p->dx || p->dw || p->dbias;
    const void *x = together ? (const char *)p->x + list[0] * h->row_bytes : s->x;
    if (!together) MF_SIMD(gather_rows)
    (h->x,
     &(mf_gather_rows_args){
         .type = (int)p->type, .m = n, .d = p->d, .in = p->x, .index = list, .out = s->x});
    make_logits(h, x, n);
    make_losses(h, list, n, over);
    for (int64_t i = 0; i < n; i++) {
        h->total += weight_of(p, list[i]) * (double)s->row[i];
        if (p->row_loss) p->row_loss[list[i]] = s->row[i];
    }
    if (!over) return;
    add_weight_gradients(h, x, n, first);
    if (p->dx) set_dx(h, list, n, together);
}

void MF_SIMD(linear_cross_entropy)(const mf_kctx *x, const mf_linear_cross_entropy_args *p)
{
    head h = {.x = x, .p = p, .row_bytes = p->d * mf_cast_size((int)p->type)};
    if (mf_kctx_failed(x)) return;
    lay_out(&h);
    list_rows(&h);
    clear(p->row_loss, p->rows * 4);
    if (h.counted < p->rows) clear(p->dx, p->rows * h.row_bytes);
    if (h.counted == 0) {
        clear(p->dw, p->vocab * p->d * 4);
        clear(p->dbias, p->vocab * 4);
    }
    for (int64_t at = 0; at < h.counted; at += h.s.chunk) {
        const int64_t left = h.counted - at;
        run_chunk(&h, h.s.list + at, left < h.s.chunk ? left : h.s.chunk, at == 0);
    }
    p->loss[0] = h.weights != 0 ? (float)(h.total / h.weights) : 0;
}
