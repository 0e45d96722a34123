/* Reads the recorded inputs of one layer's router, or hidden states that eval --save has
 * written. Padding is removed unless it is requested, so every row is a real token. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "lab/trace/trace.h"

static int metadata(const mf_trace *t, const char *key, int32_t lo, int32_t *ret)
{
    long long value;
    if (!mf_parse_i64(mf_trace_text(t, key), &value) || value < lo || value > INT32_MAX)
        return mf_fail(MF_EINPUT,
                       "%s: metadata \"%s\" is '%s'; expected a number of at least %d",
                       mf_st_path(t->file), key, mf_trace_text(t, key), (int)lo);
    *ret = (int32_t)value;
    return MF_OK;
}

static int pick(const mf_trace *t, long long wanted, const mf_trace_layer **ret)
{
    char have[256] = "";
    size_t at = 0;
    for (int i = 0; i < t->n_layers; i++) {
        const mf_trace_layer *l = &t->layers[i];
        if (l->x && (wanted < 0 || wanted == l->layer)) {
            *ret = l;
            return MF_OK;
        }
        if (l->x && at < sizeof have - 16)
            at += (size_t)snprintf(have + at, sizeof have - at, "%s%d", at ? ", " : "",
                                   (int)l->layer);
    }
    if (!*have)
        return mf_fail(MF_EINPUT,
                       "%s: recorded without activations; expected one made by trace "
                       "record --activations",
                       mf_st_path(t->file));
    return mf_fail(MF_EINPUT, "%s: no activations of layer %lld; it has those of %s",
                   mf_st_path(t->file), wanted, have);
}

/* Reads the inputs and moves the rows of real tokens to the front. */
static int take(const mf_trace *t, const mf_trace_layer *l, mf_activations *a)
{
    void *x;
    int rc = mf_trace_read(t, l->x, &x);
    if (rc != MF_OK) return rc;
    a->x = x;
    a->layer = l->layer;
    a->experts = l->experts;
    a->dim = (int32_t)l->x->shape[1];
    a->ids = mf_alloc((size_t)t->tokens + 1, sizeof *a->ids);
    if (t->label) a->labels = mf_alloc((size_t)t->tokens + 1, sizeof *a->labels);
    if (!a->ids || (t->label && !a->labels)) return MF_ENOMEM;
    for (int64_t i = 0; i < t->tokens; i++) {
        if (t->token[i] < 0) continue;
        memmove(a->x + a->rows * a->dim, a->x + i * a->dim, (size_t)a->dim * sizeof *a->x);
        a->ids[a->rows] = t->token[i];
        if (a->labels) a->labels[a->rows] = t->label[i] < a->n_labels ? t->label[i] : -1;
        a->rows++;
    }
    for (int64_t i = 0; i < a->rows * a->dim; i++)
        if (!isfinite(a->x[i]))
            return mf_fail(MF_EINPUT, "%s: layer %d, activation %lld is %g",
                           mf_st_path(t->file), (int)l->layer, (long long)i, (double)a->x[i]);
    return a->rows > 0 ? MF_OK : mf_fail(MF_EINPUT, "%s: no tokens", mf_st_path(t->file));
}

/* ---- tensors of other files ---- */

/* Reads a tensor of I64 with n elements; *ret is NULL if the file has no such tensor. The
 * caller frees *ret. */
static int read_words(const mf_st_file *f, const char *name, uint64_t n, int64_t **ret)
{
    const mf_st_tensor *t = mf_st_find(f, name);
    *ret = NULL;
    if (!t) return MF_OK;
    if (t->dtype != MF_ST_I64 || t->count != n)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected I64 with %llu elements",
                       mf_st_path(f), name, (unsigned long long)n);
    *ret = mf_alloc(n + 1, sizeof **ret);
    return *ret ? mf_st_read(f, t, *ret, (size_t)t->bytes) : MF_ENOMEM;
}

/* Moves the rows that are not padding to the front. ids and mask may be NULL. */
static int keep_rows(const char *path, const int64_t *ids, const int64_t *mask, int64_t n,
                     mf_activations *a)
{
    for (int64_t i = 0; i < n; i++) {
        if (mask && mask[i] == 0) continue;
        memmove(a->x + a->rows * a->dim, a->x + i * a->dim, (size_t)a->dim * sizeof *a->x);
        if (ids && (ids[i] < 0 || ids[i] > INT32_MAX))
            return mf_fail(MF_EINPUT, "%s: input_ids: expected ids, found %lld", path,
                           (long long)ids[i]);
        if (ids) a->ids[a->rows] = (int32_t)ids[i];
        a->rows++;
    }
    for (int64_t i = 0; i < a->rows * a->dim; i++)
        if (!isfinite(a->x[i]))
            return mf_fail(MF_EINPUT, "%s: activation %lld is %g", path, (long long)i,
                           (double)a->x[i]);
    return a->rows > 0 ? MF_OK : mf_fail(MF_EINPUT, "%s: no tokens", path);
}

static int read_tensor(const char *path, const char *name, bool padding, mf_activations *a)
{
    mf_st_file *f = NULL;
    int64_t *ids = NULL, *mask = NULL;
    int rc = mf_st_open(path, &f);
    if (rc != MF_OK) return rc;
    const mf_st_tensor *t = mf_st_find(f, name);
    if (!t) {
        rc = mf_fail(MF_EUSAGE,
                     "%s: after a colon, expected the number of a layer, or a tensor of that "
                     "file, found '%s'",
                     path, name);
    } else if (t->dtype != MF_ST_F32 || t->rank < 2 || t->count == 0 ||
               t->shape[t->rank - 1] > 65536) {
        rc = mf_fail(MF_EINPUT, "%s: expected an F32 tensor '%s' of activations, [...,width]",
                     path, name);
    } else {
        a->dim = (int32_t)t->shape[t->rank - 1];
        const uint64_t n = t->count / (uint64_t)a->dim;
        a->x = mf_alloc(t->count, sizeof *a->x);
        if (!a->x) rc = MF_ENOMEM;
        if (rc == MF_OK) rc = mf_st_read(f, t, a->x, (size_t)t->bytes);
        if (rc == MF_OK) rc = read_words(f, "input_ids", n, &ids);
        if (rc == MF_OK && !padding) rc = read_words(f, "attention_mask", n, &mask);
        if (rc == MF_OK && ids && !(a->ids = mf_alloc(n + 1, sizeof *a->ids))) rc = MF_ENOMEM;
        if (rc == MF_OK) rc = keep_rows(path, ids, mask, (int64_t)n, a);
    }
    mf_free(ids);
    mf_free(mask);
    mf_st_close(f);
    return rc;
}

/* ---- any file ---- */

int mf_activations_read(const char *text, bool padding, mf_activations *ret)
{
    char *path = mf_strdup(text), *colon = path ? strrchr(path, ':') : NULL;
    long long layer = -1;
    mf_trace *t = NULL;
    const mf_trace_layer *l = NULL;
    mf_activations a = {0};
    if (!path) return MF_ENOMEM;
    /* only if the whole text names no file: a file name may contain a colon */
    if (colon && !mf_exists(text)) {
        *colon = 0;
        const bool number = mf_parse_i64(colon + 1, &layer) && layer >= 0;
        if (!number && mf_exists(path)) {
            const int rc = read_tensor(path, colon + 1, padding, &a);
            mf_free(path);
            if (rc == MF_OK)
                *ret = a;
            else
                mf_activations_free(&a);
            return rc;
        }
        if (!number) {
            int rc = mf_fail(MF_EUSAGE,
                             "%s: no such file; after a colon, expected the number of a "
                             "layer, or a tensor of that file, found '%s'",
                             text, colon + 1);
            mf_free(path);
            return rc;
        }
    }
    int rc = mf_trace_open(path, &t);
    mf_free(path);
    if (rc == MF_OK) rc = pick(t, layer, &l);
    if (rc == MF_OK) rc = metadata(t, "top_k", 1, &a.top_k);
    if (rc == MF_OK) rc = metadata(t, "labels", 0, &a.n_labels);
    if (rc == MF_OK) rc = take(t, l, &a);
    mf_trace_close(t);
    if (rc != MF_OK) {
        mf_activations_free(&a);
        return rc;
    }
    *ret = a;
    return MF_OK;
}

void mf_activations_free(mf_activations *a)
{
    mf_free(a->x);
    mf_free(a->ids);
    mf_free(a->labels);
    *a = (mf_activations){0};
}
