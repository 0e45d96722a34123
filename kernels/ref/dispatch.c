/* dispatch.c: capacity, reassignment, assignments grouped by expert, and the gradient of
 * combining them. All use simple searches in the order of kernels.def. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_capacity_of(const mf_kctx *x, const mf_capacity_of_args *a)
{
    double real = 0;
    (void)x;
    for (int64_t t = 0; t < a->tokens; t++)
        real += !a->mask || a->mask[t] != 0;
    /* The factor is the f32 nearest to a decimal number. If the quotient is a whole number in
     * decimals, the small term prevents that it is rounded down. */
    double most = (double)a->factor[0] * real * (double)a->k / (double)a->experts;
    most = floor(most * (1 + 0x1p-23));
    for (int64_t e = 0; e < a->experts; e++)
        a->cap[e] = most > 1 ? (float)most : 1;
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

void mf_ref_capacity(const mf_kctx *x, const mf_capacity_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t rank = 0; /* number of assignments of the same expert that come before */
        for (int64_t i = 0; i < a->rows; i++)
            rank += a->chosen[i] == a->chosen[r] && before(a->priority, (int32_t)i, (int32_t)r);
        bool fits = a->chosen[r] >= 0 && (float)(rank + 1) <= a->cap[a->chosen[r]];
        a->admitted[r] = fits ? a->chosen[r] : -1;
    }
}

/* Returns the assignment over capacity that comes after `last` (-1: the first) in the order of
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

void mf_ref_reassign(const mf_kctx *x, const mf_reassign_args *a)
{
    if (mf_kctx_failed(x)) return;
    int64_t rows = a->tokens * a->k, count = 0;
    int32_t *load = a->work, r = -1;
    (void)x;
    memset(load, 0, (size_t)a->experts * sizeof(*load));
    for (int64_t i = 0; i < rows; i++) {
        a->out[i] = a->admitted[i];
        if (a->out[i] >= 0) load[a->out[i]]++;
    }
    while ((a->most == 0 || count < a->most) &&
           (r = next_row(rows, a->chosen, a->admitted, a->importance, r)) >= 0) {
        int64_t t = r / a->k;
        int32_t best = -1;
        double best_score = 0;
        for (int32_t e = 0; e < a->experts; e++) {
            double score = (double)a->prob[t * a->experts + e] / (1 + load[e]);
            bool open = (float)(load[e] + 1) <= a->cap[e] &&
                        !has(a->chosen + t * a->k, a->k, e) && !has(a->out + t * a->k, a->k, e);
            if (open && !isnan(score) && (best < 0 || score > best_score)) {
                best = e;
                best_score = score;
            }
        }
        if (best < 0) continue;
        a->out[r] = best;
        load[best]++;
        count++;
    }
    a->moved[0] = (float)count;
}

/* Sorts by insertion, which keeps the order of the assignments of one token. */
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

void mf_ref_group_rows(const mf_kctx *x, const mf_group_rows_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t e = 0; a->token_of_row && e < a->experts; e++)
        sort_by_token(a->offset[e + 1] - a->offset[e], a->token_of_row,
                      a->order + a->offset[e]);
    for (int64_t r = 0; r < a->rows; r++)
        a->place[r] = -1;
    for (int64_t p = 0; p < a->rows; p++) {
        int32_t r = a->order[p];
        if (r >= 0) a->place[r] = (int32_t)p;
        a->token[p] = r < 0 ? -1 : a->token_of_row ? a->token_of_row[r] : (int32_t)(r / a->k);
    }
}

void mf_ref_combine_grad(const mf_kctx *x, const mf_combine_grad_args *a)
{
    int64_t placed = 0;
    if (mf_kctx_failed(x)) return;
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t t = a->token ? a->token[r] : r / a->k, p = a->place[r];
        double dot = 0;
        for (int64_t c = 0; p >= 0 && c < a->d; c++) {
            float from = t >= 0 ? a->dout[t * a->d + c] : 0;
            if (a->dgate && t >= 0) dot += (double)ref_load(a->type, a->y, p * a->d + c) * from;
            if (a->dy)
                ref_store(a->type, a->dy, p * a->d + c,
                          t >= 0 ? (a->gate ? a->gate[r] : 1) * from : 0);
        }
        if (a->dgate) a->dgate[r] = (float)dot;
        placed += p >= 0;
    }
    for (int64_t i = placed * a->d; a->dy && i < a->rows * a->d; i++)
        ref_store(a->type, a->dy, i, 0);
}
