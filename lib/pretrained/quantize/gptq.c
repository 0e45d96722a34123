/* pretrained/quantize/gptq.c: rounds matrices to few bits by GPTQ. round.c rounds each value.
 *
 * Rows of a matrix do not depend on each other, so threads share them. Results do not depend on
 * the number of threads. A scale is first rounded to f16, and values are rounded with
 * this scale. */
#include "pretrained/quantize/gptq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "pretrained/weights/types.h"

enum { ROWS = 16, BLOCK = 128, WORD = 32 };

/* ---- the matrix ---- */

mf_gptq *mf_gptq_plan(int bits, int64_t out, int64_t in, int64_t group)
{
    mf_gptq *w = mf_alloc(1, sizeof *w);
    if (!w) return NULL;
    *w = (mf_gptq){
        .bits = bits, .out = out, .in = in, .group = group, .groups = (in + group - 1) / group};
    return w;
}

int mf_gptq_make(mf_gptq *w)
{
    const int64_t zeros = w->groups * (w->out * w->bits / WORD);
    mf_gptq_forget(w);
    mf_free(w->scales);
    w->words = mf_alloc((size_t)(w->in * w->bits / WORD * w->out), sizeof *w->words);
    w->zeros = mf_alloc((size_t)zeros, sizeof *w->zeros);
    w->scales = mf_alloc((size_t)(w->groups * w->out), sizeof *w->scales);
    w->group_of = mf_alloc((size_t)w->in, sizeof *w->group_of);
    if (!w->words || !w->zeros || !w->scales || !w->group_of) return MF_ENOMEM;
    for (int64_t i = 0; i < zeros; i++) /* version 1 stores each zero minus one */
        w->zeros[i] = w->bits == 4 ? 0x77777777 : 0x7f7f7f7f;
    return MF_OK;
}

mf_gptq *mf_gptq_new(int bits, int64_t out, int64_t in, int64_t group)
{
    mf_gptq *w = mf_gptq_plan(bits, out, in, group);
    if (w && mf_gptq_make(w) == MF_OK) return w;
    mf_gptq_free(w);
    return NULL;
}

void mf_gptq_forget(mf_gptq *w)
{
    mf_free(w->words);
    mf_free(w->zeros);
    mf_free(w->group_of);
    w->words = w->zeros = NULL;
    w->group_of = NULL;
}

void mf_gptq_free(mf_gptq *w)
{
    if (!w) return;
    mf_gptq_forget(w);
    mf_free(w->scales);
    mf_free(w);
}

/* ---- scales ---- */

static int most(const mf_gptq *w)
{
    return (1 << w->bits) - 1;
}

/* Stores the scale of a group whose largest |value| is `largest`, and returns it. */
static float set_scale(mf_gptq *w, int64_t g, int64_t o, float largest)
{
    const float lo = 0x1p-14f, hi = 65504; /* bounds of normal f16 numbers */
    float scale = 2 * largest / (float)most(w);
    scale = scale < lo ? lo : scale > hi ? hi : scale;
    mf_types_from_f32(MF_ST_F16, &scale, 1, &w->scales[g * w->out + o]);
    mf_types_to_f32(MF_ST_F16, &w->scales[g * w->out + o], 1, &scale);
    return scale;
}

/* Stores the value of input i as few bits, and returns the value that these bits represent. No
 * other thread may write the words of this output. */
static float set_value(mf_gptq *w, int64_t o, int64_t i, float value, float scale)
{
    const float middle = (float)(1 << (w->bits - 1)), last = (float)most(w);
    const int64_t at = i * w->bits;
    float q = nearbyintf(value / scale) + middle;
    q = q < 0 ? 0 : q > last ? last : q;
    w->words[at / WORD * w->out + o] |= (uint32_t)q << at % WORD;
    return scale * (q - middle);
}

/* ---- the inverse of H ---- */

/* Computes a [n,n] = L L^T, in place in the lower half. Returns false if a is not
 * positive definite. */
static bool cholesky(int64_t n, double *a)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double s = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                s -= a[i * n + k] * a[j * n + k];
            if (i == j && !(s > 0 && s < INFINITY)) return false;
            a[i * n + j] = i == j ? sqrt(s) : s / a[j * n + j];
        }
    return true;
}

typedef struct column {
    int32_t input;
    double size;
} column;

static int larger_first(const void *a, const void *b)
{
    const column *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->input < y->input ? -1 : 1;
}

static int choose_order(int64_t n, const double *h, bool act_order, int32_t *order)
{
    column *c = mf_alloc((size_t)n, sizeof *c);
    if (!c) return MF_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        c[i] = (column){(int32_t)i, h[i * n + i]};
    if (act_order) qsort(c, (size_t)n, sizeof *c, larger_first);
    for (int64_t i = 0; i < n; i++)
        order[i] = c[i].input;
    mf_free(c);
    return MF_OK;
}

/* Inverts H. In reversed order, H = L L^T. Therefore the inverse is U^T U, where U is the
 * inverse of L with its rows and columns reversed. */
static int invert(int64_t n, const double *h, double add, const int32_t *order, float *upper)
{
    double *a = mf_alloc((size_t)(n * n), sizeof *a), *row = mf_alloc((size_t)n, sizeof *row);
    double *inverse = mf_alloc((size_t)(n * n), sizeof *inverse);
    int rc = a && row && inverse ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const int64_t p = order[n - 1 - i], q = order[n - 1 - j];
            a[i * n + j] = p > q ? h[p * n + q] : h[q * n + p];
            if (i == j) a[i * n + i] = (a[i * n + i] > 0 ? a[i * n + i] : 1) + add;
        }
    if (rc == MF_OK && !cholesky(n, a)) rc = MF_ENONFINITE;
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        double *to = inverse + i * n;
        for (int64_t k = 0; k < i; k++)
            for (int64_t j = 0; j <= k; j++)
                to[j] -= a[i * n + k] * inverse[k * n + j];
        to[i] = 1;
        for (int64_t j = 0; j <= i; j++)
            to[j] /= a[i * n + i];
    }
    for (int64_t i = 0; rc == MF_OK && i < n; i++)
        for (int64_t j = 0; j < n; j++)
            upper[i * n + j] = j < i ? 0 : (float)inverse[(n - 1 - i) * n + n - 1 - j];
    mf_free(a);
    mf_free(row);
    mf_free(inverse);
    return rc;
}

int mf_gptq_inputs_of(int64_t in, double *h, double damp, bool act_order, mf_gptq_inputs *ret)
{
    double mean = 0;
    *ret = (mf_gptq_inputs){.in = in,
                            .order = mf_alloc((size_t)in, sizeof *ret->order),
                            .upper = mf_alloc((size_t)(in * in), sizeof *ret->upper)};
    for (int64_t i = 0; i < in; i++)
        mean += h[i * in + i] / (double)in;
    int rc = ret->order && ret->upper ? choose_order(in, h, act_order, ret->order) : MF_ENOMEM;
    if (rc == MF_OK) rc = invert(in, h, damp * mean, ret->order, ret->upper);
    if (rc != MF_OK) mf_gptq_inputs_free(ret);
    return rc;
}

void mf_gptq_inputs_free(mf_gptq_inputs *x)
{
    mf_free(x->order);
    mf_free(x->upper);
    *x = (mf_gptq_inputs){0};
}

/* ---- GPTQ ---- */

typedef struct rounding {
    mf_gptq *w;
    float *values;
    const mf_gptq_inputs *x;
    float *room; /* [tiles, ROWS, in + BLOCK] */
} rounding;

/* Rounds the inputs i .. end - 1 of one row, and compensates the errors within these inputs.
 * error [BLOCK]: error of each input, divided by the diagonal of U. */
static void gptq_block(const rounding *r, int64_t o, int64_t i, int64_t end, float *row,
                       float *scale, float *error)
{
    mf_gptq *w = r->w;
    const int64_t n = w->in;
    for (int64_t p = i; p < end; p++) {
        const float *u = r->x->upper + p * n;
        if (p % w->group == 0) {
            float largest = 0;
            for (int64_t j = p; j < n && j < p + w->group; j++)
                largest = fmaxf(largest, fabsf(row[j]));
            *scale = set_scale(w, p / w->group, o, largest);
        }
        const float now = set_value(w, o, r->x->order[p], row[p], *scale),
                    off = (row[p] - now) / u[p];
        for (int64_t j = p + 1; j < end; j++)
            row[j] -= off * u[j];
        row[p] = now;
        error[p - i] = off;
    }
}

static void gptq_rows(void *arg, int64_t t)
{
    const rounding *r = arg;
    const int64_t n = r->w->in, o0 = t * ROWS,
                  rows = o0 + ROWS < r->w->out ? ROWS : r->w->out - o0;
    float *room = r->room + t * ROWS * (n + BLOCK), *errors = room + ROWS * n,
          scale[ROWS] = {0};
    for (int64_t o = 0; o < rows; o++)
        for (int64_t p = 0; p < n; p++)
            room[o * n + p] = r->values[(o0 + o) * n + r->x->order[p]];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t end = i + BLOCK < n ? i + BLOCK : n;
        for (int64_t o = 0; o < rows; o++)
            gptq_block(r, o0 + o, i, end, room + o * n, &scale[o], errors + o * BLOCK);
        for (int64_t p = i; p < end; p++) {
            const float *u = r->x->upper + p * n;
            for (int64_t o = 0; o < rows; o++) {
                const float off = errors[o * BLOCK + p - i];
                float *row = room + o * n;
                for (int64_t j = end; j < n; j++)
                    row[j] -= off * u[j];
            }
        }
    }
    for (int64_t o = 0; o < rows; o++)
        for (int64_t p = 0; p < n; p++)
            r->values[(o0 + o) * n + r->x->order[p]] = room[o * n + p];
}

int mf_gptq_compensate(mf_gptq *w, const mf_gptq_inputs *x, float *values)
{
    const int64_t tiles = (w->out + ROWS - 1) / ROWS;
    float *room = mf_alloc((size_t)(tiles * ROWS * (w->in + BLOCK)), sizeof *room);
    if (!room) return MF_ENOMEM;
    memset(w->words, 0, (size_t)(w->in * w->bits / WORD * w->out) * sizeof *w->words);
    for (int64_t p = 0; p < w->in; p++)
        w->group_of[x->order[p]] = (int32_t)(p / w->group);
    rounding r = {.w = w, .values = values, .x = x, .room = room};
    mf_parallel(tiles, gptq_rows, &r);
    mf_free(room);
    return MF_OK;
}
