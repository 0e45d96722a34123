/* index.c: checks indices, and moves rows and elements by index. An index below 0 means no
 * element. After a check has recorded an index out of range, kernels that use indices
 * do nothing. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_check_index(const mf_kctx *x, const mf_check_index_args *a)
{
    for (int64_t i = 0; i < a->n; i++)
        if (a->index[i] < a->lo || a->index[i] >= a->hi) {
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_RANGE,
                                       .what = a->what,
                                       .index = i,
                                       .value = a->index[i],
                                       .lo = a->lo,
                                       .hi = a->hi});
            return;
        }
}

void mf_ref_check_offset(const mf_kctx *x, const mf_check_offset_args *a)
{
    for (int64_t e = 0; e <= a->groups; e++)
        if (a->offset[e] < (e == 0 ? 0 : a->offset[e - 1]) || a->offset[e] > a->rows) {
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_OFFSET,
                                       .index = e,
                                       .value = a->offset[e],
                                       .hi = a->rows});
            return;
        }
}

void mf_ref_gather_rows(const mf_kctx *x, const mf_gather_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < a->m; i++)
        for (int64_t c = 0; c < a->d; c++)
            ref_store(a->type, a->out, i * a->d + c,
                      a->index[i] < 0 ? 0 : ref_load(a->type, a->in, a->index[i] * a->d + c));
}

void mf_ref_index_lists(const mf_kctx *x, const mf_index_lists_args *a)
{
    if (mf_kctx_failed(x)) return;
    memset(a->offset, 0, (size_t)(a->n + 1) * sizeof(*a->offset));
    for (int64_t i = 0; i < a->m; i++)
        if (a->index[i] >= 0) a->offset[a->index[i] + 1]++;
    for (int64_t v = 0; v < a->n; v++)
        a->offset[v + 1] += a->offset[v];
    for (int64_t p = a->offset[a->n]; p < a->m; p++)
        a->list[p] = -1;
    for (int64_t i = 0; i < a->m; i++)
        if (a->index[i] >= 0) a->list[a->offset[a->index[i]]++] = (int32_t)i;
    /* offset[v] has moved to the end of list v, which is where list v + 1 begins */
    for (int64_t v = a->n; v > 0; v--)
        a->offset[v] = a->offset[v - 1];
    a->offset[0] = 0;
}

void mf_ref_sum_rows(const mf_kctx *x, const mf_sum_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t t = 0; t < a->n; t++) {
        int64_t from = a->offset ? a->offset[t] : t * a->k,
                to = a->offset ? a->offset[t + 1] : (t + 1) * a->k;
        for (int64_t c = 0; c < a->d; c++) {
            double sum = 0;
            for (int64_t q = from; q < to; q++) {
                int64_t r = a->list ? a->list[q] : q, p = a->place ? a->place[r] : r;
                if (p >= 0)
                    sum += (a->gate ? (double)a->gate[r] : 1) *
                           ref_load(a->type_in, a->in, p * a->d + c);
            }
            if (a->add) sum += a->add[t * a->d + c];
            ref_store(a->type_out, a->out, t * a->d + c, (float)sum);
        }
    }
}

void mf_ref_take(const mf_kctx *x, const mf_take_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < a->k; j++) {
            int32_t at = a->index[i * a->k + j];
            a->out[i * a->k + j] = at < 0 ? 0 : a->in[i * a->width + at];
        }
}

void mf_ref_put(const mf_kctx *x, const mf_put_args *a)
{
    if (mf_kctx_failed(x)) return;
    memset(a->out, 0, (size_t)(a->n * a->width) * sizeof(*a->out));
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < a->k; j++) {
            int32_t at = a->index[i * a->k + j];
            if (at >= 0) a->out[i * a->width + at] += a->in[i * a->k + j];
        }
}

/* Whether element a of a row comes before element b: by falling value, NaN last, then
 * by index. */
static bool before(const float *row, int64_t a, int64_t b)
{
    if (isnan(row[a]) != isnan(row[b])) return isnan(row[b]);
    if (row[a] != row[b] && !isnan(row[a])) return row[a] > row[b];
    return a < b;
}

void mf_ref_topk(const mf_kctx *x, const mf_topk_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->n; i++) {
        const float *in = a->in + i * a->width;
        int32_t *out = a->out + i * a->k;
        for (int64_t j = 0; j < a->k; j++) {
            int64_t best = -1; /* the first element after the previous result */
            for (int64_t c = 0; c < a->width; c++)
                if ((j == 0 || before(in, out[j - 1], c)) && (best < 0 || before(in, c, best)))
                    best = c;
            out[j] = (int32_t)best;
        }
    }
    for (int64_t i = 0; a->mask && i < a->n * a->k; i++)
        if (a->mask[i / a->k] == 0) a->out[i] = -1;
}

void mf_ref_one_hot(const mf_kctx *x, const mf_one_hot_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->m; i++)
        for (int64_t j = 0; j < a->n; j++)
            a->out[i * a->n + j] = a->index[i] == j;
}

void mf_ref_bincount(const mf_kctx *x, const mf_bincount_args *a)
{
    if (mf_kctx_failed(x)) return;
    double *sum = a->work;
    (void)x;
    for (int64_t v = 0; v < a->n; v++)
        sum[v] = 0;
    for (int64_t i = 0; i < a->m; i++)
        if (a->index[i] >= 0) sum[a->index[i]] += a->weight ? (double)a->weight[i] : 1;
    for (int64_t v = 0; v < a->n; v++)
        a->out[v] = (float)sum[v];
}

void mf_ref_score_bins(const mf_kctx *x, const mf_score_bins_args *a)
{
    const int64_t E = a->experts;
    if (mf_kctx_failed(x)) return;
    const mf_bin_range r = mf_bin_range_of(E, a->bins, a->lo, a->hi, a->bias);
    for (int64_t i = 0; i < E * a->bins; i++)
        a->out[i] = 0;
    for (int64_t i = 0; i < a->tokens * E; i++)
        if (!a->mask || a->mask[i / E] != 0)
            a->out[i % E * a->bins + mf_bin_of(a->in[i], r, a->bins)]++;
}
