/* run/checkpoint/weights.c: computes the distribution of weights in two passes: first mean and
 * standard deviation, then the histogram. Also writes and reads weights.json. */
#include "run/checkpoint/weights.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define MOST  ((int64_t)1 << 20) /* about this many values are read from a larger parameter */
#define PIECE ((int64_t)1 << 14)

/* ---- measurement ---- */

typedef struct sums {
    double n, sum, square, least, most;
} sums;

typedef void look(void *arg, mf_module module, int64_t n, const float *values);

static void first_pass(void *arg, mf_module module, int64_t n, const float *values)
{
    sums *s = (sums *)arg + module;
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)values[i];
        if (!isfinite(v)) continue;
        if (s->n == 0 || v < s->least) s->least = v;
        if (s->n == 0 || v > s->most) s->most = v;
        s->n++;
        s->sum += v;
        s->square += v * v;
    }
}

static void second_pass(void *arg, mf_module module, int64_t n, const float *values)
{
    mf_weights_group *g = (mf_weights_group *)arg + module;
    for (int64_t i = 0; i < n; i++) {
        const double at = ((double)values[i] - g->lo) / (g->hi - g->lo) * MF_WEIGHTS_BINS;
        /* the value is outside of the range, or NaN */
        if (!(at >= 0 && at <= MF_WEIGHTS_BINS)) continue;
        g->share[at < MF_WEIGHTS_BINS ? (int)at : MF_WEIGHTS_BINS - 1] += 1;
    }
}

/* Calls fn with all values of each parameter, or with evenly spaced pieces of a large
 * parameter. room: memory for PIECE floats. */
static int pass(const mf_inventory *v, float *room, look *fn, void *arg)
{
    for (int i = 0; i < mf_inventory_count(v); i++) {
        const mf_inventory_item *item = mf_inventory_at(v, i);
        const int64_t all = item->elements, pieces = (all < MOST ? all : MOST) / PIECE + 1;
        for (int64_t k = 0; k < pieces; k++) {
            const int64_t from = all <= MOST ? k * PIECE : k * (all - PIECE) / (pieces - 1);
            const int64_t n = all - from < PIECE ? all - from : PIECE;
            if (n <= 0) continue;
            int rc = mf_inventory_read(v, i, from, n, room);
            if (rc != MF_OK) return rc;
            fn(arg, item->module, n, room);
        }
    }
    return MF_OK;
}

/* Sets the range to mean -+ 4 standard deviations, which contains nearly all values. If the
 * range were extended to a single distant value, all others would be in a few bins. */
static void set_range(const sums *s, mf_weights_group *g)
{
    if (s->n == 0) {
        *g = (mf_weights_group){0};
        return;
    }
    g->mean = s->sum / s->n;
    const double var = s->square / s->n - g->mean * g->mean;
    g->sd = var > 0 ? sqrt(var) : 0;
    g->least = s->least;
    g->most = s->most;
    g->lo = fmax(g->mean - 4 * g->sd, g->least);
    g->hi = fmin(g->mean + 4 * g->sd, g->most);
    /* a range of at most this width, as of equal values, is replaced by one of 2,000 times
     * this width */
    const double thin = 1e-6 * fmax(fabs(g->mean), 1e-3);
    if (!(g->hi - g->lo > thin)) {
        g->lo = g->mean - 1e3 * thin;
        g->hi = g->mean + 1e3 * thin;
    }
}

int mf_weights_of(const mf_inventory *v, mf_weights *ret)
{
    sums s[MF_MODEL_MODULES] = {{0}};
    *ret = (mf_weights){.step = mf_inventory_step(v)};
    float *room = mf_alloc(PIECE, sizeof *room);
    int rc = room != NULL ? pass(v, room, first_pass, s) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < mf_inventory_count(v); i++)
        ret->group[mf_inventory_at(v, i)->module].elements += mf_inventory_at(v, i)->elements;
    for (int p = 0; p < MF_MODEL_MODULES; p++)
        set_range(&s[p], &ret->group[p]);
    if (rc == MF_OK) rc = pass(v, room, second_pass, ret->group);
    for (int p = 0; p < MF_MODEL_MODULES; p++)
        for (int b = 0; s[p].n > 0 && b < MF_WEIGHTS_BINS; b++)
            ret->group[p].share[b] /= s[p].n;
    mf_free(room);
    return rc;
}

/* ---- the file ---- */

static const char *const numbers[] = {"mean", "sd", "least", "most", "lo", "hi"};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void fields(mf_weights_group *g, double *out[NUMBERS])
{
    double *const all[] = {&g->mean, &g->sd, &g->least, &g->most, &g->lo, &g->hi};
    memcpy(out, all, sizeof all);
}

static void put_group(mf_jw *w, const char *name, mf_weights_group g)
{
    double *value[NUMBERS];
    fields(&g, value);
    mf_jw_object(w);
    mf_jw_kv_string(w, "group", name);
    mf_jw_kv_int(w, "elements", g.elements);
    for (int i = 0; i < NUMBERS; i++)
        mf_jw_kv_real(w, numbers[i], *value[i]);
    mf_jw_key(w, "share");
    mf_jw_array(w);
    for (int b = 0; b < MF_WEIGHTS_BINS; b++)
        mf_jw_float(w, (float)g.share[b]);
    mf_jw_end(w);
    mf_jw_end(w);
}

int mf_weights_write(const char *path, const mf_weights *weights)
{
    size_t n;
    mf_jw *w = mf_jw_new();
    if (w == NULL) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", weights->step);
    mf_jw_key(w, "groups");
    mf_jw_array(w);
    for (int p = 0; p < MF_MODEL_MODULES; p++)
        if (weights->group[p].elements > 0)
            put_group(w, mf_module_name((mf_module)p), weights->group[p]);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    int rc = text != NULL ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

static bool read_group(const mf_json *v, mf_weights_group *g)
{
    double *value[NUMBERS];
    const mf_json *share = mf_json_get(v, "share");
    fields(g, value);
    if (!mf_json_int(mf_json_get(v, "elements"), &g->elements) || g->elements < 1) return false;
    for (int i = 0; i < NUMBERS; i++)
        if (!mf_json_real(mf_json_get(v, numbers[i]), value[i])) return false;
    if (mf_json_typeof(share) != MF_JSON_ARRAY || mf_json_size(share) != MF_WEIGHTS_BINS)
        return false;
    for (size_t b = 0; b < MF_WEIGHTS_BINS; b++)
        if (!mf_json_real(mf_json_at(share, b), &g->share[b])) return false;
    return g->lo < g->hi;
}

static void read_groups(const mf_json *groups, mf_weights *ret)
{
    const size_t n = mf_json_typeof(groups) == MF_JSON_ARRAY ? mf_json_size(groups) : 0;
    for (size_t i = 0; i < n; i++) {
        const mf_json *v = mf_json_at(groups, i);
        const char *name = mf_json_string(mf_json_get(v, "group"), NULL);
        mf_weights_group g = {0};
        if (name == NULL || !read_group(v, &g)) continue;
        for (int p = 0; p < MF_MODEL_MODULES; p++)
            if (strcmp(name, mf_module_name((mf_module)p)) == 0) ret->group[p] = g;
    }
}

int mf_weights_read(const char *path, mf_weights *ret)
{
    char *text;
    size_t size;
    mf_json *v = NULL;
    *ret = (mf_weights){0};
    int rc = mf_read_file(path, (size_t)1 << 20, &text, &size);
    if (rc != MF_OK) return rc;
    rc = mf_json_parse(path, text, size, &v);
    mf_free(text);
    if (rc != MF_OK) return rc;
    mf_json_int(mf_json_get(v, "step"), &ret->step);
    read_groups(mf_json_get(v, "groups"), ret);
    mf_json_free(v);
    return MF_OK;
}
