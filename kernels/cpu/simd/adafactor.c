/* adafactor.c: the step of Adafactor for matrices and vectors, in passes over the gradient.
 *
 * Each group is cut into at most MF_ADAFACTOR_TILES tiles of rows (for vectors: of elements),
 * by shape alone. A tile writes its sums to the work memory, and the next pass adds them in the
 * order of the tiles. So the bits do not depend on the number of threads. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#include <string.h>

typedef struct factored {
    int64_t groups, rows, columns; /* a vector is one row */
    int64_t tiles, per;            /* number of tiles of a group, and rows or elements of
                                    * a tile */
    bool vector;
    const float *value, *grad;
    float *v, *u;
    double *work;
    double scale, fresh, relative;
} factored;

/* Returns the work memory of a group. It contains for each tile sums of squares of columns, of
 * values and of the step, and then the mean of the rows' means. */
static double *group_work(const factored *p, int64_t e)
{
    return p->work + e * (MF_ADAFACTOR_TILES * (p->columns + 2) + 2);
}

static double *tile_work(const factored *p, int64_t e, int64_t t)
{
    return group_work(p, e) + t * (p->columns + 2);
}

static double *mean_of(const factored *p, int64_t e)
{
    return group_work(p, e) + MF_ADAFACTOR_TILES * (p->columns + 2);
}

static float *state_of(const factored *p, int64_t e)
{
    return p->v + e * mf_adafactor_state(p->vector ? 0 : p->rows, p->columns);
}

static int64_t end_of(const factored *p, int64_t t)
{
    const int64_t all = p->vector ? p->columns : p->rows, to = (t + 1) * p->per;
    return to < all ? to : all;
}

static double sum_squares(const float *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * a[i];
    return sum;
}

/* Adds the squares of a row to the sums of the columns, and returns the sum of the squares. */
static double row_squares(const float *g, double scale, int64_t n, double *column)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        const double square = scale * g[j] * (scale * g[j]);
        column[j] += square;
        sum += square;
    }
    return sum;
}

/* First pass: computes the new means of the rows, and the sums of the tile. */
static void rows_pass(void *arg, int64_t tile)
{
    const factored *p = arg;
    const int64_t e = tile / p->tiles, t = tile % p->tiles, n = p->columns;
    const int64_t from = t * p->per, to = end_of(p, t), at = e * p->rows * n;
    double *w = tile_work(p, e, t);
    float *r = state_of(p, e);
    if (p->vector) {
        w[n] = sum_squares(p->value + at + from, to - from);
        for (int64_t j = from; j < to; j++) {
            const double g = p->scale * p->grad[at + j];
            r[j] = (float)(r[j] + p->fresh * (g * g - r[j]));
        }
        return;
    }
    memset(w, 0, (size_t)n * sizeof *w);
    w[n] = sum_squares(p->value + at + from * n, (to - from) * n);
    for (int64_t i = from; i < to; i++) {
        const double sum = row_squares(p->grad + at + i * n, p->scale, n, w);
        r[i] = (float)(r[i] + p->fresh * (sum / (double)n - r[i]));
    }
}

/* Second pass, for matrices: computes the new means of the columns, and the mean of the
 * rows' means. */
static void columns_pass(void *arg, int64_t e)
{
    const factored *p = arg;
    float *r = state_of(p, e), *c = r + p->rows;
    double mean = 0;
    for (int64_t i = 0; i < p->rows; i++)
        mean += r[i];
    mean /= (double)p->rows;
    *mean_of(p, e) = mean > MF_ADAFACTOR_EPS1 ? mean : MF_ADAFACTOR_EPS1;
    for (int64_t j = 0; j < p->columns; j++) {
        double sum = 0;
        for (int64_t t = 0; t < p->tiles; t++)
            sum += tile_work(p, e, t)[j];
        c[j] = (float)(c[j] + p->fresh * (sum / (double)p->rows - c[j]));
    }
}

/* Writes u = scale g / sqrt(max(factor h, eps1^2)) for a row [n]; returns the sum of squares
 * of u. */
static double step_row(const factored *p, const float *g, const float *h, float factor,
                       int64_t n, float *u)
{
    const vf least = v_set((float)(MF_ADAFACTOR_EPS1 * MF_ADAFACTOR_EPS1));
    double sum = 0;
    for (int64_t j = 0; j < n; j += VL) {
        const int64_t m = n - j < VL ? n - j : VL;
        const vf all = v_max(v_load_to(h + j, m) * factor, least);
        v_store_to(u + j, v_load_to(g + j, m) * (float)p->scale / v_sqrt(all), m);
    }
    for (int64_t j = 0; j < n; j++)
        sum += (double)u[j] * u[j];
    return sum;
}

/* Third pass: computes the steps before they are scaled, and the sums of their squares. */
static void step_pass(void *arg, int64_t tile)
{
    const factored *p = arg;
    const int64_t e = tile / p->tiles, t = tile % p->tiles, n = p->columns;
    const int64_t from = t * p->per, to = end_of(p, t), at = e * p->rows * n;
    const float *r = state_of(p, e);
    double *w = tile_work(p, e, t);
    w[n + 1] = 0;
    if (p->vector)
        w[n + 1] = step_row(p, p->grad + at + from, r + from, 1, to - from, p->u + at + from);
    for (int64_t i = from; !p->vector && i < to; i++)
        w[n + 1] += step_row(p, p->grad + at + i * n, r + p->rows,
                             (float)((double)r[i] / *mean_of(p, e)), n, p->u + at + i * n);
}

/* Last pass: scales the steps. */
static void scale_pass(void *arg, int64_t tile)
{
    const factored *p = arg;
    const int64_t e = tile / p->tiles, t = tile % p->tiles, n = p->columns;
    const int64_t width = p->vector ? 1 : n, at = e * p->rows * n;
    const double count = (double)(p->rows * n);
    double size = 0, length = 0;
    for (int64_t i = 0; i < p->tiles; i++) {
        size += tile_work(p, e, i)[n];
        length += tile_work(p, e, i)[n + 1];
    }
    const double rms = sqrt(length / count) / MF_ADAFACTOR_CLIP, least = MF_ADAFACTOR_EPS2;
    const double long_as = sqrt(size / count) > least ? sqrt(size / count) : least;
    const float factor = (float)(long_as * p->relative / (rms > 1 ? rms : 1));
    for (int64_t i = at + t * p->per * width; i < at + end_of(p, t) * width; i++)
        p->u[i] *= factor;
}

void MF_SIMD(adafactor)(const mf_kctx *x, const mf_adafactor_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    const mf_adafactor_factors step = mf_adafactor_resolve(&a->update);
    const bool vector = a->rows == 0;
    const int64_t all = vector ? a->columns : a->rows;
    factored p = {.groups = a->groups,
                  .rows = vector ? 1 : a->rows,
                  .columns = a->columns,
                  .per = (all + MF_ADAFACTOR_TILES - 1) / MF_ADAFACTOR_TILES,
                  .vector = vector,
                  .value = a->value,
                  .grad = a->grad,
                  .v = a->v,
                  .u = a->u,
                  .work = a->work,
                  .scale = f.scale,
                  .fresh = step.fresh,
                  .relative = step.relative};
    if (f.scale == 0 || all == 0) return;
    p.tiles = (all + p.per - 1) / p.per;
    x->parallel(a->groups * p.tiles, rows_pass, &p);
    if (!vector) x->parallel(a->groups, columns_pass, &p);
    x->parallel(a->groups * p.tiles, step_pass, &p);
    x->parallel(a->groups * p.tiles, scale_pass, &p);
}
