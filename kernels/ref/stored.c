/* stored.c: gemms and rows of weights in the form in which files store them, element by
 * element. Each sum is in double, in the order of the inner index. A weight of a gemm is
 * decoded once for a block of rows, because decoding took most of the time of the tests that
 * compare with it. */
#include "kernels/ref/ref.h"

static double element(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    const int64_t at = p->transposed ? i * p->ld + o : o * p->ld + i;
    switch (p->type) {
    case MF_STORED_F32:
        return (double)((const float *)p->data)[at];
    case MF_STORED_BF16:
        return (double)mf_bf16_to_f32(((const mf_bf16 *)p->data)[at]);
    case MF_STORED_F16:
        return (double)mf_f16_to_f32(((const mf_f16 *)p->data)[at]);
    default:
        return mf_ref_stored_packed(p, in, o, i);
    }
}

/* Returns the part of group e that contains output j, and the row of this output in
 * the part. */
static const mf_stored_part *part_of(const mf_stored *w, int64_t e, int64_t j, int64_t *ret_row)
{
    for (int64_t q = 0; q < w->parts; q++) {
        const mf_stored_part *p = &w->part[e * w->parts + q];
        const int64_t at = j - p->first, half = p->rows / 2;
        if (at < 0 || at >= p->rows) continue;
        *ret_row = !p->pairs ? at : at < half ? 2 * at : 2 * (at - half) + 1;
        return p;
    }
    return NULL;
}

double mf_ref_stored_weight(const mf_stored *w, int64_t e, int64_t j, int64_t i)
{
    int64_t row = 0;
    const mf_stored_part *p = part_of(w, e, j, &row);
    return p ? element(p, w->in, row, i) : 0;
}

/* Returns the group of row r; -1: none. */
static int64_t group_of(const mf_stored_gemm_args *g, int64_t r)
{
    for (int64_t e = 0; g->offset && e < g->w->groups; e++)
        if (r >= g->offset[e] && r < g->offset[e + 1]) return e;
    return g->offset ? -1 : 0;
}

/* Returns element i of row `from` of x; a row with a negative index is all zeros. */
static double at(const mf_stored_gemm_args *g, int64_t from, int64_t i)
{
    if (from < 0) return 0;
    return (double)ref_load(g->bf16 ? MF_CAST_BF16 : MF_CAST_F32, g->x, from * g->ldx + i);
}

/* size of a block; its weights are decoded once for its rows */
enum { ROWS = 64, INNER = 256 };

/* Computes output j of `rows` rows from row r on, which all belong to group e. */
static void output(const mf_stored_gemm_args *g, int64_t e, int64_t r, int64_t rows, int64_t j)
{
    const mf_stored *w = g->w;
    const int64_t k = e < 0 ? 0 : g->back ? w->out : w->in;
    double weight[INNER], sum[ROWS] = {0};
    for (int64_t start = 0; start < k; start += INNER) {
        const int64_t count = k - start < INNER ? k - start : INNER;
        for (int64_t q = 0; q < count; q++)
            weight[q] = g->back ? mf_ref_stored_weight(w, e, start + q, j)
                                : mf_ref_stored_weight(w, e, j, start + q);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t from = g->row ? g->row[r + i] : r + i;
            for (int64_t q = 0; q < count; q++)
                sum[i] += at(g, from, start + q) * weight[q];
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        sum[i] *= (double)g->alpha;
        if (g->bias && e >= 0) sum[i] += (double)g->bias[e * w->out + j];
        g->y[(r + i) * g->ldy + j] = (float)sum[i];
    }
}

void mf_ref_stored_gemm(const mf_kctx *x, const mf_stored_gemm_args *g)
{
    const int64_t n = g->back ? g->w->in : g->w->out;
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0, count; r < g->rows; r += count) {
        const int64_t e = group_of(g, r);
        for (count = 1; count < ROWS && r + count < g->rows; count++)
            if (group_of(g, r + count) != e) break;
        for (int64_t j = 0; j < n; j++)
            output(g, e, r, count, j);
    }
}

void mf_ref_stored_rows(const mf_kctx *x, const mf_stored_rows_args *a)
{
    const mf_stored *w = a->w;
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < a->count; r++) {
        const int64_t id = a->ids ? a->ids[r] : r;
        for (int64_t i = 0; i < w->in; i++)
            a->y[r * w->in + i] = (float)mf_ref_stored_weight(w, id / w->out, id % w->out, i);
    }
}
