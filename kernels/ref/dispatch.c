/* dispatch.c: capacity, reassignment, assignments grouped by expert, and the gradient of
 * combining them, in the order of kernels.def, by simple search. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_capacity_of(const mf_kctx *x, int64_t tokens, int64_t k, int64_t experts,
                        const float *factor, const float *mask, float *cap)
{
    double real = 0;
    (void)x;
    for (int64_t t = 0; t < tokens; t++)
        real += !mask || mask[t] != 0;
    /* The factor is the f32 next to a decimal number. The small term keeps a quotient that is a
     * whole number in decimals from being rounded down. */
    double most = (double)factor[0] * real * (double)k / (double)experts;
    most = floor(most * (1 + 0x1p-23));
    for (int64_t e = 0; e < experts; e++)
        cap[e] = most > 1 ? (float)most : 1;
}

/* Whether assignment a comes before b: by falling priority, NaN last, then by index. */
static bool before(const float *priority, int32_t a, int32_t b)
{
    if (priority) {
        float pa = priority[a], pb = priority[b];
        if (isnan(pa) != isnan(pb)) return isnan(pb);
        if (pa != pb && !isnan(pa)) return pa > pb;
    }
    return a < b;
}

void mf_ref_capacity(const mf_kctx *x, int64_t rows, int64_t experts, const int32_t *chosen,
                     const float *priority, const float *cap, int32_t *admitted, void *work)
{
    if (mf_kctx_failed(x)) return;
    (void)work;
    for (int64_t r = 0; r < rows; r++) {
        int64_t rank = 0; /* number of assignments of the same expert that come before */
        for (int64_t i = 0; i < rows; i++)
            rank += chosen[i] == chosen[r] && before(priority, (int32_t)i, (int32_t)r);
        bool fits = chosen[r] >= 0 && (float)(rank + 1) <= cap[chosen[r]];
        admitted[r] = fits ? chosen[r] : -1;
    }
    (void)experts;
}

/* The assignment over capacity that comes after `last` (-1: the first) in the order of
 * reassignment; -1 if there is none. */
static int32_t next_row(int64_t rows, const int32_t *chosen, const int32_t *admitted,
                        const float *importance, int32_t last)
{
    int32_t best = -1;
    for (int32_t r = 0; r < rows; r++) {
        if (chosen[r] < 0 || admitted[r] >= 0) continue;
        bool after = last < 0 || chosen[r] > chosen[last] ||
                     (chosen[r] == chosen[last] && before(importance, last, r));
        bool first = best < 0 || chosen[r] < chosen[best] ||
                     (chosen[r] == chosen[best] && before(importance, r, best));
        if (r != last && after && first) best = r;
    }
    return best;
}

static bool has(const int32_t *expert, int64_t k, int32_t e)
{
    for (int64_t j = 0; j < k; j++)
        if (expert[j] == e) return true;
    return false;
}

void mf_ref_reassign(const mf_kctx *x, int64_t tokens, int64_t experts, int64_t k, int64_t most,
                     const int32_t *chosen, const int32_t *admitted, const float *prob,
                     const float *importance, const float *cap, int32_t *out, float *moved,
                     void *work)
{
    if (mf_kctx_failed(x)) return;
    int64_t rows = tokens * k, count = 0;
    int32_t *load = work, r = -1;
    (void)x;
    memset(load, 0, (size_t)experts * sizeof(*load));
    for (int64_t i = 0; i < rows; i++) {
        out[i] = admitted[i];
        if (out[i] >= 0) load[out[i]]++;
    }
    while ((most == 0 || count < most) &&
           (r = next_row(rows, chosen, admitted, importance, r)) >= 0) {
        int64_t t = r / k;
        int32_t best = -1;
        double best_score = 0;
        for (int32_t e = 0; e < experts; e++) {
            double score = (double)prob[t * experts + e] / (1 + load[e]);
            bool open = (float)(load[e] + 1) <= cap[e] && !has(chosen + t * k, k, e) &&
                        !has(out + t * k, k, e);
            if (open && !isnan(score) && (best < 0 || score > best_score)) {
                best = e;
                best_score = score;
            }
        }
        if (best < 0) continue;
        out[r] = best;
        load[best]++;
        count++;
    }
    moved[0] = (float)count;
}

/* This insertion sort keeps the order of the assignments of one token. */
static void sort_by_token(int64_t n, const int32_t *token, int32_t *list)
{
    for (int64_t i = 1; i < n; i++) {
        const int32_t r = list[i];
        int64_t at = i;
        for (; at > 0 && token[list[at - 1]] > token[r]; at--)
            list[at] = list[at - 1];
        list[at] = r;
    }
}

void mf_ref_group_rows(const mf_kctx *x, int64_t rows, int64_t k, int64_t experts,
                       const int32_t *offset, const int32_t *token_of_row, int32_t *order,
                       int32_t *token, int32_t *place, void *work)
{
    (void)work;
    if (mf_kctx_failed(x)) return;
    for (int64_t e = 0; token_of_row && e < experts; e++)
        sort_by_token(offset[e + 1] - offset[e], token_of_row, order + offset[e]);
    for (int64_t r = 0; r < rows; r++)
        place[r] = -1;
    for (int64_t p = 0; p < rows; p++) {
        int32_t r = order[p];
        if (r >= 0) place[r] = (int32_t)p;
        token[p] = r < 0 ? -1 : token_of_row ? token_of_row[r] : (int32_t)(r / k);
    }
}

void mf_ref_combine_grad(const mf_kctx *x, int type, int64_t rows, int64_t k, int64_t d,
                         const void *y, const float *gate, const int32_t *place,
                         const int32_t *token, const float *dout, void *dy, float *dgate)
{
    int64_t placed = 0;
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = token ? token[r] : r / k, p = place[r];
        double dot = 0;
        for (int64_t c = 0; p >= 0 && c < d; c++) {
            float from = t >= 0 ? dout[t * d + c] : 0;
            if (dgate && t >= 0) dot += (double)ref_load(type, y, p * d + c) * from;
            if (dy) ref_store(type, dy, p * d + c, t >= 0 ? (gate ? gate[r] : 1) * from : 0);
        }
        if (dgate) dgate[r] = (float)dot;
        placed += p >= 0;
    }
    for (int64_t i = placed * d; dy && i < rows * d; i++)
        ref_store(type, dy, i, 0);
}
