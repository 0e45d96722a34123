/* lab/plan/meter_kernels.c: for each kernel what a call launches and moves, from its arguments
 * (kernels.def), as kernels/cuda launches it. Numbers that only the values tell are those of a
 * step without faults, padding and empty groups. */
#include "lab/plan/meter.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A kernel has the name of kernels.def. */
#define NAME(kernel) #kernel

static mf_meter *of(const mf_kctx *x)
{
    return x->stream;
}
static double size_of(int type)
{
    return (double)mf_cast_size(type);
}
static void moved(const mf_kctx *x, const char *name, int launches, double bytes)
{
    mf_meter_add(of(x), name, launches, bytes, 0, 0);
}
static double count_of(const int64_t dim[4])
{
    return (double)dim[0] * (double)dim[1] * (double)dim[2] * (double)dim[3];
}
/* Elements of an operand that repeats where its stride is 0. */
static double own_of(const int64_t dim[4], const int64_t stride[4])
{
    double n = 1;
    for (int i = 0; i < 4; i++)
        n *= stride[i] == 0 ? 1 : (double)dim[i];
    return n;
}

/* ---- gemms ---- */

#define TILE 128.0 /* rows, and columns, of a tile */

static double up(double n, double unit)
{
    const double tiles = (double)(int64_t)((n + unit - 1) / unit);
    return tiles * unit;
}

static double side_of(double n)
{
    return n < TILE ? up(n, 16) : TILE;
}

/* Tiles in whole waves over the multiprocessors; groups of rows are taken to be equal. cuBLASLt
 * is taken to have smaller tiles for fewer rows or columns, and to divide the inner dimension,
 * in parts of 256 and more, if there are fewer tiles than multiprocessors. */
static double gemm_seconds(const mf_meter *m, const mf_gemm *g, double groups, bool own,
                           bool bf16)
{
    const mf_meter_device *d = m->device;
    const double rows = g->by == MF_BY_ROWS ? (double)g->m / groups : (double)g->m;
    const double k = g->by == MF_BY_INNER ? (double)g->k / groups : (double)g->k;
    const double high = own ? TILE : side_of(rows);
    const double wide = own ? TILE : side_of((double)g->n);
    const double tiles = groups * up(rows, high) / high * up((double)g->n, wide) / wide;
    double parts = 1;
    while (!own && tiles * (parts + 1) <= d->processors && k >= 256 * (parts + 1))
        parts++;
    const double waves = up(tiles * parts, d->processors) / d->processors;
    const double peak = bf16 ? d->bf16 : d->f32;
    const double share =
        own ? (bf16 ? d->grouped_bf16 : d->grouped_f32) : (bf16 ? d->dense_bf16 : d->dense_f32);
    return waves * d->processors * high * wide * 2 * k / parts / (peak * share);
}

/* A dense gemm of bf16 is two launches if one long dimension along stored rows is no multiple
 * of eight (kernels/cuda/lt.c). */
static int dense_launches(const mf_gemm *g, bool bf16)
{
    enum { LONG = 2048, EIGHT = 8 };
    const int odd = (g->n >= LONG && g->n % EIGHT != 0) +
                    (g->a.trans && g->m >= LONG && g->m % EIGHT != 0) +
                    ((!g->a.trans || g->b.trans) && g->k >= LONG && g->k % EIGHT != 0);
    return bf16 && g->groups <= 1 && odd == 1 ? 2 : 1;
}

static void meter_gemm(const mf_kctx *x, const mf_gemm *g)
{
    const double groups = g->groups > 1 ? (double)g->groups : 1;
    const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    const bool own = g->by != MF_BY_BATCH || g->a.row || g->b.row;
    /* A gemm of two types is for the general kernel, which multiplies in f32. */
    const bool bf16 = g->as_bf16 || (g->a.type == MF_CAST_BF16 && g->b.type == MF_CAST_BF16);
    const double each = g->by == MF_BY_BATCH ? groups : 1;
    const double of_b = g->by == MF_BY_ROWS ? groups : each;
    const double of_c = g->by == MF_BY_INNER ? groups : each;
    const double bytes = each * m * k * size_of(g->a.type) + of_b * k * n * size_of(g->b.type) +
                         of_c * m * n * size_of(g->c.type) * (g->beta != 0 ? 2 : 1);
    const int launches = own ? (g->by == MF_BY_ROWS ? 2 : 1) : dense_launches(g, bf16);
    mf_meter_add(of(x), own ? "gemm of groups" : "gemm", launches, bytes, 2 * each * m * n * k,
                 gemm_seconds(of(x), g, groups, own, bf16));
}
static void meter_pack_weights(const mf_kctx *x, int type, int64_t parts, int64_t n, int64_t k,
                               void *w)
{
}
static void meter_stored_gemm(const mf_kctx *x, const mf_stored_gemm_args *args)
{
    moved(x, NAME(stored_gemm), 1, 0);
}
static void meter_stored_rows(const mf_kctx *x, const mf_stored_rows_args *args)
{
    moved(x, NAME(stored_rows), 1, 0);
}

/* ---- elementwise, sums ---- */

static void meter_map1(const mf_kctx *x, int fn, int type, int64_t n, float a, float b,
                       const void *in, void *out)
{
    moved(x, NAME(map1), 1, 2 * (double)n * size_of(type));
}
static void meter_map1_grad(const mf_kctx *x, int fn, int type, int64_t n, float a, float b,
                            const void *in, const void *out, const void *dout, void *din)
{
    moved(x, NAME(map1_grad), 1, 3 * (double)n * size_of(type));
}
static void meter_map2(const mf_kctx *x, int fn, int type, const int64_t dim[4],
                       const int64_t stride_a[4], const int64_t stride_b[4], const void *a,
                       const void *b, void *out)
{
    moved(x, NAME(map2), 1,
          (own_of(dim, stride_a) + own_of(dim, stride_b) + count_of(dim)) * size_of(type));
}
static void meter_cast(const mf_kctx *x, int64_t n, int from, int to, const void *in, void *out)
{
    moved(x, NAME(cast), 1, (double)n * (size_of(from) + size_of(to)));
}
static void meter_set(const mf_kctx *x, int64_t n, float value, float *out)
{
    moved(x, NAME(set), 1, 4 * (double)n);
}
static void meter_copy4(const mf_kctx *x, const int64_t dim[4], const int64_t stride_in[4],
                        const int64_t stride_out[4], const void *in, void *out)
{
    moved(x, NAME(copy4), 1, 4 * (own_of(dim, stride_in) + count_of(dim)));
}
static void meter_sum3(const mf_kctx *x, int64_t outer, int64_t n, int64_t inner, double scale,
                       const float *in, float *out, void *work)
{
    const double results = (double)outer * (double)inner;
    moved(x, NAME(sum3), mf_sum3_work(outer, n, inner) > 0 ? 2 : 1,
          4 * (results * (double)n + results) + 2 * (double)mf_sum3_work(outer, n, inner));
}
static void meter_row_map(const mf_kctx *x, int fn, int64_t rows, int64_t n, const float *in,
                          float *out)
{
    const bool one = fn == MF_ROW_MAX || fn == MF_ROW_LOGSUMEXP;
    moved(x, NAME(row_map), 1, 4 * (double)rows * (double)(one ? n + 1 : 2 * n));
}
static void meter_row_map_grad(const mf_kctx *x, int fn, int64_t rows, int64_t n,
                               const float *in, const float *out, const float *dout, float *din)
{
    const bool one = fn == MF_ROW_MAX || fn == MF_ROW_LOGSUMEXP;
    moved(x, NAME(row_map_grad), 1, 4 * (double)rows * (double)(one ? 2 * n + 2 : 3 * n));
}
static void meter_group_sum(const mf_kctx *x, int type, int64_t groups, int64_t rows, int64_t n,
                            const int32_t *offset, const void *a, float *y)
{
    moved(x, NAME(group_sum), 1,
          (double)n * ((double)rows * size_of(type) + 4 * (double)groups));
}

/* ---- indices ---- */

static void meter_check_index(const mf_kctx *x, int what, int64_t n, const int32_t *index,
                              int64_t lo, int64_t hi)
{
    moved(x, NAME(check_index), n > 0 ? 1 : 0, 4 * (double)n);
}
static void meter_check_offset(const mf_kctx *x, int64_t groups, const int32_t *offset,
                               int64_t rows)
{
    moved(x, NAME(check_offset), 1, 4 * (double)(groups + 1));
}
static void meter_gather_rows(const mf_kctx *x, int type, int64_t m, int64_t d, const void *in,
                              const int32_t *index, void *out)
{
    moved(x, NAME(gather_rows), 1, (double)m * (2 * (double)d * size_of(type) + 4));
}
/* As mf_cuda_index_lists: for each of few values all indices are read. */
static int list_launches(int64_t m, int64_t n)
{
    return m <= 0 ? 1 : n <= 1024 ? 5 : 7;
}
static double list_bytes(int64_t m, int64_t n)
{
    return 4 * (4 * (double)m + 3 * (double)n);
}
static void meter_index_lists(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index,
                              int32_t *offset, int32_t *list)
{
    moved(x, NAME(index_lists), list_launches(m, n), list_bytes(m, n));
}
static void meter_sum_rows(const mf_kctx *x, int type_in, int type_out, int64_t n, int64_t d,
                           int64_t k, const int32_t *offset, const int32_t *list,
                           const int32_t *place, const float *gate, const void *in, void *out)
{
    const double terms = (double)n * (double)k;
    moved(x, NAME(sum_rows), 1,
          (double)d * (terms * size_of(type_in) + (double)n * size_of(type_out)) +
              4 * terms * ((list != NULL) + (place != NULL) + (gate != NULL)));
}
static void meter_take(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                       const int32_t *index, float *out)
{
    moved(x, NAME(take), 1, 12 * (double)n * (double)k);
}
static void meter_put(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                      const int32_t *index, float *out)
{
    moved(x, NAME(put), 1, 4 * (double)n * (double)(2 * k + width));
}
static void meter_topk(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                       const float *mask, int32_t *out)
{
    moved(x, NAME(topk), 1, 4 * (double)n * (double)(width + k));
}
static void meter_one_hot(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index,
                          float *out)
{
    moved(x, NAME(one_hot), 1, 4 * (double)m * (double)(n + 1));
}
static void meter_bincount(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index,
                           const float *weight, float *out, void *work)
{
    moved(x, NAME(bincount),
          weight  ? list_launches(m, n) + 1
          : m > 0 ? 3
                  : 2,
          weight ? list_bytes(m, n) + 8 * (double)m : 4 * (double)(m + 3 * n));
}
static void meter_score_bins(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t bins,
                             double lo, double hi, const float *in, const float *mask,
                             const float *bias, float *out, void *work)
{
    moved(x, NAME(score_bins), tokens > 0 ? 4 : 3,
          4 * ((double)tokens * (double)experts + 3 * (double)experts * (double)bins));
}

/* ---- randomness ---- */

static void meter_random(const mf_kctx *x, int kind, uint64_t stream, int64_t n, float *out)
{
    moved(x, NAME(random), 1, 4 * (double)n);
}
static void meter_dropout(const mf_kctx *x, uint64_t stream, int64_t n, float p,
                          const float *in, float *out)
{
    moved(x, NAME(dropout), 1, 8 * (double)n);
}

/* ---- routing ---- */

static void meter_mask_rows(const mf_kctx *x, int64_t rows, int64_t k, const int32_t *expert,
                            const int32_t *token, const float *mask, int32_t *out)
{
    moved(x, NAME(mask_rows), 1, 12 * (double)rows);
}
static void meter_route_gates(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k,
                              const float *prob, const int32_t *chosen, const int32_t *admitted,
                              bool renormalize, double scale, float *gate)
{
    moved(x, NAME(route_gates), 1, 12 * (double)tokens * (double)k);
}
static void meter_route_gates_grad(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k,
                                   const float *prob, const int32_t *chosen,
                                   const int32_t *admitted, bool renormalize, double scale,
                                   const float *dgate, float *dprob)
{
    moved(x, NAME(route_gates_grad), 1, 4 * (double)tokens * (double)(3 * k + experts));
}
static void meter_routing_stats(const mf_kctx *x, int64_t tokens, int64_t rows, int64_t experts,
                                int64_t k, const float *prob, const int32_t *chosen,
                                const int32_t *admitted, const float *gate, const float *mask,
                                const int32_t *token, float *chosen_sum, float *admitted_sum,
                                float *importance, float *scalars, void *work)
{
    moved(x, NAME(routing_stats), 3, 4 * ((double)tokens * (double)experts + 3 * (double)rows));
}
static void meter_joint_count(const mf_kctx *x, int64_t rows, int64_t k, int64_t experts,
                              int64_t labels, const int32_t *expert, const int32_t *token,
                              const int32_t *label, float *out, void *work)
{
    moved(x, NAME(joint_count), 3, 8 * (double)rows + 12 * (double)experts * (double)labels);
}
static void meter_capacity_of(const mf_kctx *x, int64_t tokens, int64_t k, int64_t experts,
                              const float *factor, const float *mask, float *cap)
{
    moved(x, NAME(capacity_of), 1, 4 * (double)(tokens + experts));
}
static void meter_capacity(const mf_kctx *x, int64_t rows, int64_t experts,
                           const int32_t *chosen, const float *priority, const float *cap,
                           int32_t *admitted, void *work)
{
    moved(x, NAME(capacity), list_launches(rows, experts) + 2,
          list_bytes(rows, experts) + 12 * (double)rows);
}
static void meter_reassign(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k,
                           int64_t most, const int32_t *chosen, const int32_t *admitted,
                           const float *prob, const float *importance, const float *cap,
                           int32_t *out, float *moved_, void *work)
{
    moved(x, NAME(reassign), 1, 12 * (double)tokens * (double)k);
}
static void meter_group_rows(const mf_kctx *x, int64_t rows, int64_t k, int64_t experts,
                             const int32_t *offset, const int32_t *token_of_row, int32_t *order,
                             int32_t *token, int32_t *place, void *work)
{
    moved(x, NAME(group_rows), token_of_row ? 3 : 2, 16 * (double)rows);
}
static void meter_combine_grad(const mf_kctx *x, int type, int64_t rows, int64_t k, int64_t d,
                               const void *y, const float *gate, const int32_t *place,
                               const int32_t *token, const float *dout, void *dy, float *dgate)
{
    const double each = ((dgate != NULL) + (dy != NULL)) * size_of(type) + 4;
    moved(x, NAME(combine_grad), dy ? 2 : 1, (double)rows * ((double)d * each + 12));
}

/* ---- layers ---- */

static void meter_norm(const mf_kctx *x, const mf_norm_args *p)
{
    moved(x, NAME(norm), 1,
          (double)p->n * ((double)p->rows * (4 + size_of(p->type)) +
                          4 * ((p->w != NULL) + (p->b != NULL))));
}
/* dy and a are read for da, and again for the sums over columns. */
static void meter_norm_backward(const mf_kctx *x, const mf_norm_args *p)
{
    const bool sums = (p->dw || p->db) && p->kind != MF_NORM_FN_L2;
    const bool twice = sums && (const void *)p->da == p->dy;
    const double read = 4 + size_of(p->type);
    moved(x, NAME(norm_backward), 1 + (sums ? 2 - (p->offset != NULL) : 0) + twice,
          (double)p->rows * (double)p->n * (read * (1 + sums + twice) + (p->da ? 4 : 0)));
}
static void meter_rope(const mf_kctx *x, const mf_rope_args *p)
{
    const double all = (double)p->rows * (double)p->width;
    const double turned = (double)p->rows * (double)(p->n_heads * p->turned);
    moved(x, NAME(rope), p->y != p->a ? 2 : 1, 8 * ((p->y != p->a ? all : 0) + turned));
}
static double pairs_of(const mf_attention_args *p)
{
    const double heads = (double)(p->batch * p->heads), t = (double)p->t;
    return heads * t * (double)p->s - (p->causal ? heads * t * (t - 1) / 2 : 0);
}
static double attention_bytes(const mf_attention_args *p)
{
    return (p->bf16 ? 2 : 4) * (double)p->batch * (double)p->head_dim *
           (2 * (double)p->t * (double)p->heads + 2 * (double)p->s * (double)p->kv_heads);
}
/* The width of a head in the kernels of bf16; 0: those of f32 compute it. */
static int64_t flash_width(const mf_attention_args *p)
{
    if (!p->bf16 || p->head_dim % 8 != 0 || p->head_dim > 256) return 0;
    return p->head_dim <= 64 ? 64 : p->head_dim <= 128 ? 128 : 256;
}
static double attention_seconds(const mf_meter_device *d, const mf_attention_args *p,
                                double flops, double f32, double flash)
{
    const int64_t width = flash_width(p);
    if (width == 0) return flops / (d->f32 * f32);
    return flops * (double)width / (double)p->head_dim / (d->bf16 * flash);
}
static void meter_attention(const mf_kctx *x, const mf_attention_args *p)
{
    const mf_meter_device *d = of(x)->device;
    const double flops = 4 * pairs_of(p) * (double)p->head_dim;
    mf_meter_add(of(x), NAME(attention), 1, attention_bytes(p), flops,
                 attention_seconds(d, p, flops, d->attention, d->flash));
}
static void meter_attention_backward(const mf_kctx *x, const mf_attention_args *p)
{
    const mf_meter_device *d = of(x)->device;
    const double flops = 10 * pairs_of(p) * (double)p->head_dim;
    const int64_t width = flash_width(p);
    const int more = (width > 0) + (width > 128 && p->dk && p->dv);
    mf_meter_add(of(x), NAME(attention_backward), (p->dq != NULL) + (p->dk || p->dv) + more,
                 3 * attention_bytes(p), flops,
                 attention_seconds(d, p, flops, d->attention_backward, d->flash_backward));
}
static double grouped_flops(const mf_grouped_attention_args *p)
{
    const double keys = p->own ? (double)p->rows / (double)p->experts : (double)p->s;
    return 4 * (double)p->rows * keys * (double)(p->heads * p->head_dim);
}
static void meter_grouped_attention(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    const mf_meter_device *d = of(x)->device;
    mf_meter_add(of(x), NAME(grouped_attention), 3, 0, grouped_flops(p),
                 grouped_flops(p) / (d->f32 * d->attention));
}
static void meter_grouped_attention_backward(const mf_kctx *x,
                                             const mf_grouped_attention_args *p)
{
    const mf_meter_device *d = of(x)->device;
    mf_meter_add(of(x), NAME(grouped_attention_backward), 4, 0, 2.5 * grouped_flops(p),
                 2.5 * grouped_flops(p) / (d->f32 * d->attention_backward));
}
static void meter_cache_append(const mf_kctx *x, int64_t batch, int64_t s, int64_t t, int64_t n,
                               const int32_t *pos, const float *a, float *cache)
{
    moved(x, NAME(cache_append), 2, 8 * (double)batch * (double)t * (double)n);
}

/* ---- tokens, losses ---- */

static void meter_embedding(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                            const float *table, const int32_t *ids, float *y)
{
    moved(x, NAME(embedding), 1, (double)count * (8 * (double)n + 4));
}
/* With `add` only rows of tokens that occur are read and written, at most `count`. */
static void meter_embedding_grad(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                                 bool add, const int32_t *ids, const float *dy, float *dtable,
                                 void *work)
{
    const double rows = add && count < vocab ? (double)count : (double)vocab;
    const int sums = count <= 0 ? 0 : count <= 32 ? 1 : 2; /* 32: of a tile */
    moved(x, NAME(embedding_grad), list_launches(count, vocab) + !add + sums,
          list_bytes(count, vocab) + 4 * (double)n * ((double)count + (add ? 2 : 1) * rows));
}
static void meter_cross_entropy(const mf_kctx *x, int64_t rows, int64_t n, const float *logits,
                                const int32_t *target, const float *weight, float *loss,
                                float *row_loss, float *lse)
{
    moved(x, NAME(cross_entropy), 2, 4 * (double)rows * (double)(n + 3));
}
static void meter_cross_entropy_backward(const mf_kctx *x, int64_t rows, int64_t n,
                                         const float *logits, const int32_t *target,
                                         const float *weight, const float *loss,
                                         const float *row_loss, const float *lse,
                                         const float *dloss, const float *drow, float *dlogits,
                                         float *dweight)
{
    moved(x, NAME(cross_entropy_backward), 2, 4 * (double)rows * (double)(2 * n + 3));
}
static void meter_linear_cross_entropy(const mf_kctx *x, const mf_linear_cross_entropy_args *p)
{
    static const char *const name = "linear_cross_entropy";
    mf_meter *m = of(x);
    const int64_t chunk = mf_linear_cross_entropy_chunk(p->rows, p->vocab);
    const double d = (double)p->d, vocab = (double)p->vocab, size = size_of(p->type);
    const bool bf16 = p->type == MF_CAST_BF16, grad = p->dx || p->dw || p->dbias;
    const mf_gemm none = {.by = MF_BY_BATCH};
    mf_meter_add(m, name, 2, 0, 0, 0);
    for (int64_t from = 0; from < p->rows; from += chunk) {
        const int64_t n = p->rows - from < chunk ? p->rows - from : chunk;
        const double rows = (double)n, logits = 4 * rows * vocab, dlogits = size * rows * vocab;
        const double flops = 2 * rows * d * vocab;
        mf_gemm g = none;
        g.m = n, g.n = p->vocab, g.k = p->d, g.b.trans = true;
        mf_meter_add(m, name, dense_launches(&g, bf16), size * (rows + vocab) * d + logits,
                     flops, gemm_seconds(m, &g, 1, false, bf16));
        mf_meter_add(m, name, 1, logits, 0, 0);
        if (grad) mf_meter_add(m, name, 1, logits + dlogits, 0, 0);
        g.n = p->d, g.k = p->vocab, g.b.trans = false;
        if (p->dx)
            mf_meter_add(m, name, dense_launches(&g, bf16), dlogits + size * (rows + vocab) * d,
                         flops, gemm_seconds(m, &g, 1, false, bf16));
        g.m = p->vocab, g.k = n, g.a.trans = true;
        if (p->dw)
            mf_meter_add(m, name, dense_launches(&g, bf16),
                         dlogits + size * rows * d + 4 * vocab * d * (from ? 2 : 1), flops,
                         gemm_seconds(m, &g, 1, false, bf16));
        if (p->dbias) mf_meter_add(m, name, 3, logits, 0, 0);
    }
}
static void meter_swiglu(const mf_kctx *x, int type, int64_t rows, int64_t n, const void *a,
                         int64_t lda, const void *b, int64_t ldb, const float *gate, void *y)
{
    moved(x, NAME(swiglu), 1, (double)rows * (3 * (double)n * size_of(type) + (gate ? 4 : 0)));
}
static void meter_swiglu_backward(const mf_kctx *x, int type, int64_t rows, int64_t n,
                                  const void *a, int64_t lda, const void *b, int64_t ldb,
                                  const float *gate, const void *dy, void *da, void *db,
                                  float *dgate, void *y)
{
    const int arrays = 3 + (da != NULL) + (db != NULL) + (y != NULL);
    moved(x, NAME(swiglu_backward), 1,
          (double)rows *
              (arrays * (double)n * size_of(type) + (gate ? 4 : 0) + (dgate ? 4 : 0)));
}

/* ---- optimizers ---- */

static void meter_adamw(const mf_kctx *x, int64_t count, const mf_update_args *args,
                        float *value, mf_bf16 *copy, const float *grad, float *m, float *v)
{
    moved(x, NAME(adamw), 1, (28 + (copy ? 2 : 0)) * (double)count);
}
static void meter_lion(const mf_kctx *x, int64_t count, const mf_update_args *args,
                       float *value, mf_bf16 *copy, const float *grad, float *m)
{
    moved(x, NAME(lion), 1, (20 + (copy ? 2 : 0)) * (double)count);
}
static void meter_momentum(const mf_kctx *x, int64_t count, const mf_update_args *args,
                           const float *grad, float *m, float *u)
{
    moved(x, NAME(momentum), 1, 16 * (double)count);
}
static void meter_descend(const mf_kctx *x, int64_t count, const mf_update_args *args,
                          double scale, const float *u, float *value, mf_bf16 *copy)
{
    moved(x, NAME(descend), 1, (12 + (copy ? 2 : 0)) * (double)count);
}
static void meter_adafactor(const mf_kctx *x, int64_t groups, int64_t rows, int64_t columns,
                            const mf_update_args *args, const float *value, const float *grad,
                            float *v, float *u, void *work)
{
    const double all = (double)groups * (double)(rows > 0 ? rows : 1) * (double)columns;
    moved(x, NAME(adafactor), 6, 24 * all);
}
static void meter_sumsq(const mf_kctx *x, int64_t count, const float *a, bool add, double *sum,
                        void *work)
{
    moved(x, NAME(sumsq), 2, 4 * (double)count);
}
static void meter_scale_inplace(const mf_kctx *x, int64_t count, float factor, float *a)
{
    moved(x, NAME(scale_inplace), 1, 8 * (double)count);
}

static bool can_pack(int type, int64_t n, int64_t k)
{
    return false;
}

const mf_kernels mf_meter_kernels = {
    .name = "meter",
    .can_pack = can_pack,
#define MF_KERNEL(fn, args) .fn = meter_##fn,
#include "kernels/kernels.def"
#undef MF_KERNEL
};
