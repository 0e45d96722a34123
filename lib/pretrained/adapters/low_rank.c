/* adapters/low_rank.c: cuts and joins low-rank changes by rows of the weight.
 *
 * Changes with different A are joined by block matrices. The matrices A are stacked; the
 * matrices B are placed beside each other, with zeros elsewhere. The sum B A, and therefore the
 * function, does not change. */
#include "pretrained/adapters/low_rank.h"

#include <math.h>
#include <string.h>
#include "base/error.h"

int64_t mf_rows_at(const mf_rows *r, int64_t i)
{
    return r->pairs > 0 ? i % 2 * r->pairs + i / 2 : r->from + i;
}

int64_t mf_rows_find(const mf_rows *r, int64_t row)
{
    if (r->pairs > 0) return row < r->pairs ? 2 * row : 2 * (row - r->pairs) + 1;
    return row >= r->from && row < r->from + r->n ? row - r->from : -1;
}

double mf_low_rank_scale(const mf_low_rank *c)
{
    return c->alpha / (c->rslora ? sqrt((double)c->rank) : (double)c->rank);
}

static bool covers(const mf_low_rank *c, const mf_rows *rows)
{
    for (int64_t i = 0; i < rows->n; i++)
        if (mf_rows_find(&c->rows, mf_rows_at(rows, i)) >= 0) return true;
    return false;
}

/* Whether one A can be used for all changes that cover these rows. All changes must have the
 * same A, and no row may be changed twice. */
static bool alike(const mf_low_rank *const *c, int n, const mf_rows *rows)
{
    const size_t bytes = (size_t)(c[0]->experts * c[0]->rank * c[0]->inputs) * sizeof *c[0]->a;
    for (int k = 1; k < n; k++)
        if (c[k]->rank != c[0]->rank || c[k]->alpha != c[0]->alpha ||
            c[k]->rslora != c[0]->rslora || memcmp(c[k]->a, c[0]->a, bytes) != 0)
            return false;
    for (int64_t i = 0; n > 1 && i < rows->n; i++) {
        int found = 0;
        for (int k = 0; k < n; k++)
            found += mf_rows_find(&c[k]->rows, mf_rows_at(rows, i)) >= 0;
        if (found > 1) return false;
    }
    return true;
}

/* Copies rows of one change's B, multiplied by a factor, to columns from `column` on of b. */
static void put_rows(const mf_low_rank *from, const mf_low_rank *to, float *b, int64_t column,
                     double factor)
{
    for (int64_t e = 0; e < to->experts; e++)
        for (int64_t i = 0; i < to->rows.n; i++) {
            const int64_t row = mf_rows_find(&from->rows, mf_rows_at(&to->rows, i));
            float *out = b + (e * to->rows.n + i) * to->rank + column;
            const float *in = from->b + (e * from->rows.n + row) * from->rank;
            for (int64_t r = 0; row >= 0 && r < from->rank; r++)
                out[r] = factor == 1 ? in[r] : (float)(factor * (double)in[r]);
        }
}

/* Joins changes [n], each of which covers some of ret->rows. */
static int join(const mf_low_rank *const *c, int n, mf_arena *arena, mf_low_rank *ret)
{
    const bool same = alike(c, n, &ret->rows);
    double scale = mf_low_rank_scale(c[0]);
    /* The changes are divided by this scale, so it must not be 0. */
    if (!same && scale == 0) scale = 1;
    ret->experts = c[0]->experts;
    ret->inputs = c[0]->inputs;
    ret->rank = 0;
    for (int k = 0; k < (same ? 1 : n); k++)
        ret->rank += c[k]->rank;
    ret->rslora = same && c[0]->rslora;
    ret->alpha = same ? c[0]->alpha : scale * (double)ret->rank;
    const int64_t E = ret->experts, in = ret->inputs;
    float *a = mf_arena_alloc(arena, (size_t)(E * ret->rank * in) * sizeof *a),
          *b = mf_arena_alloc(arena, (size_t)(E * ret->rows.n * ret->rank) * sizeof *b);
    if (!a || !b) return MF_ENOMEM;
    for (int64_t k = 0, at = 0; k < n; k++) {
        for (int64_t e = 0; e < E; e++)
            memcpy(a + (e * ret->rank + at) * in, c[k]->a + e * c[k]->rank * in,
                   (size_t)(c[k]->rank * in) * sizeof *a);
        put_rows(c[k], ret, b, at, same ? 1 : mf_low_rank_scale(c[k]) / scale);
        if (!same) at += c[k]->rank;
    }
    ret->a = a;
    ret->b = b;
    return MF_OK;
}

int mf_low_rank_fit(const mf_low_rank *const *changes, int n, const mf_rows *rows,
                    mf_arena *arena, mf_low_rank *ret, bool *ret_any)
{
    const mf_low_rank **used = mf_alloc((size_t)n + 1, sizeof *used);
    int n_used = 0, rc = used ? MF_OK : MF_ENOMEM;
    for (int i = 0; used && i < n; i++)
        if (covers(changes[i], rows)) used[n_used++] = changes[i];
    *ret_any = n_used > 0;
    if (rc == MF_OK && n_used > 0) {
        *ret = (mf_low_rank){.rows = *rows};
        rc = join(used, n_used, arena, ret);
    }
    mf_free(used);
    return rc;
}

void mf_low_rank_add(const mf_low_rank *c, double sign, int64_t weight_rows, float *weight)
{
    const double scale = sign * mf_low_rank_scale(c);
    for (int64_t e = 0; e < c->experts; e++)
        for (int64_t i = 0; i < c->rows.n; i++) {
            float *w = weight + (e * weight_rows + mf_rows_at(&c->rows, i)) * c->inputs;
            const float *b = c->b + (e * c->rows.n + i) * c->rank;
            for (int64_t k = 0; k < c->inputs; k++) {
                double sum = 0;
                for (int64_t r = 0; r < c->rank; r++)
                    sum += (double)b[r] * (double)c->a[(e * c->rank + r) * c->inputs + k];
                w[k] = (float)((double)w[k] + scale * sum);
            }
        }
}
