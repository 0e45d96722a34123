/* index.c: checks indices, and moves rows and elements by index. An index below 0 stands for no
 * element. After a check has recorded an index out of range, kernels that use indices
 * do nothing. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_check_index(const mf_kctx *x, int what, int64_t n, const int32_t *index, int64_t lo,
                        int64_t hi)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] < lo || index[i] >= hi) {
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_RANGE,
                                       .what = what,
                                       .index = i,
                                       .value = index[i],
                                       .lo = lo,
                                       .hi = hi});
            return;
        }
}

void mf_ref_check_offset(const mf_kctx *x, int64_t groups, const int32_t *offset, int64_t rows)
{
    for (int64_t e = 0; e <= groups; e++)
        if (offset[e] < (e == 0 ? 0 : offset[e - 1]) || offset[e] > rows) {
            mf_kctx_fail(
                x, (mf_fault){
                       .kind = MF_FAULT_OFFSET, .index = e, .value = offset[e], .hi = rows});
            return;
        }
}

void mf_ref_gather_rows(const mf_kctx *x, int type, int64_t m, int64_t d, const void *in,
                        const int32_t *index, void *out)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < m; i++)
        for (int64_t c = 0; c < d; c++)
            ref_store(type, out, i * d + c,
                      index[i] < 0 ? 0 : ref_load(type, in, index[i] * d + c));
}

void mf_ref_index_lists(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index,
                        int32_t *offset, int32_t *list)
{
    if (mf_kctx_failed(x)) return;
    memset(offset, 0, (size_t)(n + 1) * sizeof(*offset));
    for (int64_t i = 0; i < m; i++)
        if (index[i] >= 0) offset[index[i] + 1]++;
    for (int64_t v = 0; v < n; v++)
        offset[v + 1] += offset[v];
    for (int64_t p = offset[n]; p < m; p++)
        list[p] = -1;
    for (int64_t i = 0; i < m; i++)
        if (index[i] >= 0) list[offset[index[i]]++] = (int32_t)i;
    /* offset[v] has moved to the end of list v, which is where list v + 1 begins */
    for (int64_t v = n; v > 0; v--)
        offset[v] = offset[v - 1];
    offset[0] = 0;
}

void mf_ref_sum_rows(const mf_kctx *x, int type_in, int type_out, int64_t n, int64_t d,
                     int64_t k, const int32_t *offset, const int32_t *list,
                     const int32_t *place, const float *gate, const void *in, void *out)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t t = 0; t < n; t++) {
        int64_t from = offset ? offset[t] : t * k, to = offset ? offset[t + 1] : (t + 1) * k;
        for (int64_t c = 0; c < d; c++) {
            double sum = 0;
            for (int64_t q = from; q < to; q++) {
                int64_t r = list ? list[q] : q, p = place ? place[r] : r;
                if (p >= 0)
                    sum += (gate ? (double)gate[r] : 1) * ref_load(type_in, in, p * d + c);
            }
            ref_store(type_out, out, t * d + c, (float)sum);
        }
    }
}

void mf_ref_take(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                 const int32_t *index, float *out)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            int32_t at = index[i * k + j];
            out[i * k + j] = at < 0 ? 0 : in[i * width + at];
        }
}

void mf_ref_put(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                const int32_t *index, float *out)
{
    if (mf_kctx_failed(x)) return;
    memset(out, 0, (size_t)(n * width) * sizeof(*out));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            int32_t at = index[i * k + j];
            if (at >= 0) out[i * width + at] += in[i * k + j];
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

void mf_ref_topk(const mf_kctx *x, int64_t n, int64_t width, int64_t k, const float *in,
                 const float *mask, int32_t *out)
{
    (void)x;
    for (int64_t i = 0; i < n; i++, in += width, out += k)
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1; /* the first element after the previous result */
            for (int64_t c = 0; c < width; c++)
                if ((j == 0 || before(in, out[j - 1], c)) && (best < 0 || before(in, c, best)))
                    best = c;
            out[j] = (int32_t)best;
        }
    out -= n * k;
    for (int64_t i = 0; mask && i < n * k; i++)
        if (mask[i / k] == 0) out[i] = -1;
}

void mf_ref_one_hot(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index, float *out)
{
    (void)x;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * n + j] = index[i] == j;
}

void mf_ref_bincount(const mf_kctx *x, int64_t m, int64_t n, const int32_t *index,
                     const float *weight, float *out, void *work)
{
    if (mf_kctx_failed(x)) return;
    double *sum = work;
    (void)x;
    for (int64_t v = 0; v < n; v++)
        sum[v] = 0;
    for (int64_t i = 0; i < m; i++)
        if (index[i] >= 0) sum[index[i]] += weight ? (double)weight[i] : 1;
    for (int64_t v = 0; v < n; v++)
        out[v] = (float)sum[v];
}

void mf_ref_score_bins(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t bins,
                       double lo, double hi, const float *in, const float *mask,
                       const float *bias, float *out, void *work)
{
    if (mf_kctx_failed(x)) return;
    const mf_bin_range r = mf_bin_range_of(experts, bins, lo, hi, bias);
    (void)work;
    for (int64_t i = 0; i < experts * bins; i++)
        out[i] = 0;
    for (int64_t i = 0; i < tokens * experts; i++)
        if (!mask || mask[i / experts] != 0)
            out[i % experts * bins + mf_bin_of(in[i], r, bins)]++;
}
