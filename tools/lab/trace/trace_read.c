/* Opens a trace file and checks the names, types and shapes of its tensors. After that, a
 * tensor can be read without further checks. */
#include "lab/trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "run/sample/trace.h"

int mf_trace_scratch(char **ret)
{
    const char *folder = getenv("TMPDIR");
    char *path = mf_strf("%s/moefw-trace-XXXXXX", folder && *folder ? folder : "/tmp");
    const int fd = path ? mkstemp(path) : -1;
    if (fd >= 0) {
        close(fd);
        *ret = path;
        return MF_OK;
    }
    const int rc =
        path ? mf_fail_errno(MF_EIO, "%s: cannot make a file for the trace", path) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

const char *mf_trace_text(const mf_trace *t, const char *key)
{
    const char *text = mf_st_meta(t->file, key);
    return text ? text : "";
}

int mf_trace_read(const mf_trace *t, const mf_st_tensor *tensor, void **ret)
{
    *ret = NULL;
    if (!tensor) return MF_OK;
    void *data = mf_alloc((size_t)tensor->bytes + 1, 1);
    if (!data)
        return mf_fail(MF_ENOMEM, "%s: no memory for tensor '%s' (%llu MiB)",
                       mf_st_path(t->file), tensor->name,
                       (unsigned long long)(tensor->bytes >> 20));
    int rc = mf_st_read(t->file, tensor, data, (size_t)tensor->bytes);
    if (rc != MF_OK) {
        mf_free(data);
        return rc;
    }
    *ret = data;
    return MF_OK;
}

static int whole(const mf_trace *t, const char *key, int64_t lo, int64_t hi, int64_t *ret)
{
    long long value;
    const char *text = mf_st_meta(t->file, key);
    if (!text || !mf_parse_i64(text, &value) || value < lo || value > hi)
        return mf_fail(
            MF_EINPUT, "%s: metadata \"%s\" is %s; expected a number from %lld to %lld",
            mf_st_path(t->file), key, text ? text : "absent", (long long)lo, (long long)hi);
    *ret = value;
    return MF_OK;
}

static int head(mf_trace *t)
{
    const char *path = mf_st_path(t->file), *format = mf_trace_text(t, "format");
    const char *version = mf_trace_text(t, "version");
    int64_t rows, seq;
    if (strcmp(format, MF_TRACE_FORMAT) != 0)
        return mf_fail(MF_EINPUT, "%s: no routing trace: expected metadata \"format\": \"%s\"",
                       path, MF_TRACE_FORMAT);
    if (strcmp(version, MF_TRACE_VERSION) != 0)
        return mf_fail(MF_EINPUT, "%s: a trace of version %s; this program reads version %s",
                       path, version, MF_TRACE_VERSION);
    int rc = whole(t, "step", 0, INT64_MAX, &t->step);
    if (rc == MF_OK) rc = whole(t, "seed", 0, INT64_MAX, &t->seed);
    if (rc == MF_OK) rc = whole(t, "batches", 1, INT32_MAX, &t->batches);
    if (rc == MF_OK) rc = whole(t, "rows", 1, INT32_MAX, &rows);
    if (rc == MF_OK) rc = whole(t, "seq", 1, INT32_MAX, &seq);
    if (rc != MF_OK) return rc;
    if (rows > INT32_MAX / seq || t->batches > INT32_MAX / (rows * seq))
        return mf_fail(MF_EINPUT, "%s: more tokens than a trace can hold", path);
    t->rows = (int32_t)rows;
    t->seq = (int32_t)seq;
    t->tokens = t->batches * rows * seq;
    t->by_row = strcmp(mf_trace_text(t, "targets"), "sequence") == 0;
    t->wide = strcmp(mf_trace_text(t, "reach"), "sequence") != 0;
    return MF_OK;
}

/* Finds a tensor of this type and shape. rows -1: any number. columns 0: a vector; -1:
 * any number. */
static int find(const mf_trace *t, const char *name, mf_st_dtype dtype, int64_t rows,
                int64_t columns, bool needed, const mf_st_tensor **ret)
{
    const mf_st_tensor *x = *ret = mf_st_find(t->file, name);
    const char *path = mf_st_path(t->file);
    if (!x) return needed ? mf_fail(MF_EINPUT, "%s: no tensor '%s'", path, name) : MF_OK;
    if (x->dtype != dtype)
        return mf_fail(MF_EINPUT, "%s: tensor '%s' is %s; expected %s", path, name,
                       x->dtype_name, mf_st_dtype_name(dtype));
    const int rank = columns == 0 ? 1 : 2;
    if (x->rank != rank || (rows >= 0 && x->shape[0] != rows) ||
        (rank == 2 && (x->shape[1] < 1 || (columns > 0 && x->shape[1] != columns))))
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s' has not the shape that %lld tokens in %lld batches "
                       "need",
                       path, name, (long long)t->tokens, (long long)t->batches);
    return MF_OK;
}

static int find_in(const mf_trace *t, const mf_trace_layer *l, const char *what,
                   mf_st_dtype dtype, int64_t rows, int64_t columns, bool needed,
                   const mf_st_tensor **ret)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.%s", (int)l->layer, what);
    return find(t, name, dtype, rows, columns, needed, ret);
}

static int find_layer(const mf_trace *t, mf_trace_layer *l)
{
    const int64_t T = t->tokens, E = l->experts;
    int rc = find_in(t, l, "token", MF_ST_I32, -1, 0, false, &l->token);
    const int64_t rows = l->token ? l->token->shape[0] : T, k = l->token ? 0 : -1;
    if (rc == MF_OK) rc = find_in(t, l, "chosen", MF_ST_I32, rows, k, true, &l->chosen);
    if (rc != MF_OK) return rc;
    if (!l->token && l->chosen->shape[1] > E)
        return mf_fail(MF_EINPUT, "%s: layer %d: %lld of %lld experts chosen",
                       mf_st_path(t->file), (int)l->layer, (long long)l->chosen->shape[1],
                       (long long)E);
    if (rows % t->batches != 0 || rows > INT32_MAX)
        return mf_fail(MF_EINPUT, "%s: layer %d: %lld rows in %lld batches",
                       mf_st_path(t->file), (int)l->layer, (long long)rows,
                       (long long)t->batches);
    l->top_k = l->token ? 0 : (int32_t)l->chosen->shape[1];
    l->rows = l->token ? rows : T * l->top_k;
    const bool gates = strcmp(mf_trace_text(t, "split"), "import") != 0;
    rc = find_in(t, l, "gate", MF_ST_F32, rows, l->top_k, gates, &l->gate);
    if (rc == MF_OK)
        rc = find_in(t, l, "admitted", MF_ST_I32, rows, l->top_k, false, &l->admitted);
    if (rc == MF_OK) rc = find_in(t, l, "logits", MF_ST_F32, T, E, false, &l->logits);
    if (rc == MF_OK) rc = find_in(t, l, "prob", MF_ST_F32, T, E, false, &l->prob);
    if (rc == MF_OK) rc = find_in(t, l, "score", MF_ST_F32, T, E, false, &l->score);
    if (rc == MF_OK) rc = find_in(t, l, "margin", MF_ST_F32, T, 0, false, &l->margin);
    return rc == MF_OK ? find_in(t, l, "x", MF_ST_F32, T, -1, false, &l->x) : rc;
}

int mf_trace_of_layer(const mf_trace *t, const char *key, int i, int64_t lo, int64_t hi,
                      int64_t *ret)
{
    char name[64], number[32];
    long long value;
    snprintf(name, sizeof name, "%s_by_layer", key);
    const char *text = mf_st_meta(t->file, name);
    if (!text) return whole(t, key, lo, hi, ret);
    for (int at = 0; at < i && text; at++)
        text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
    snprintf(number, sizeof number, "%.*s", text ? (int)strcspn(text, ",") : 0,
             text ? text : "");
    if (!mf_parse_i64(number, &value) || value < lo || value > hi)
        return mf_fail(MF_EINPUT,
                       "%s: metadata \"%s\": expected a number from %lld to %lld for each "
                       "layer, found '%s' for the layer at place %d",
                       mf_st_path(t->file), name, (long long)lo, (long long)hi, number, i);
    *ret = value;
    return MF_OK;
}

/* Reads the list of layers, like "0,2,5", and their numbers of experts. */
static int find_layers(mf_trace *t)
{
    int64_t experts;
    const char *path = mf_st_path(t->file);
    int rc = MF_OK;
    char *list = mf_arena_strdup(t->arena, mf_trace_text(t, "layers")), *one;
    size_t n = 1;
    if (!list) return MF_ENOMEM;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    t->layers = mf_arena_alloc(t->arena, n * sizeof *t->layers);
    if (!t->layers) return MF_ENOMEM;
    for (int64_t last = -1; rc == MF_OK && (one = strsep(&list, ","));) {
        long long layer;
        if (!mf_parse_i64(one, &layer) || layer <= last || layer > 65535)
            return mf_fail(MF_EINPUT,
                           "%s: metadata \"layers\": '%s'; expected rising numbers of "
                           "layers",
                           path, one);
        last = layer;
        rc = mf_trace_of_layer(t, "experts", t->n_layers, 1, 65536, &experts);
        if (rc != MF_OK) return rc;
        mf_trace_layer *l = &t->layers[t->n_layers++];
        *l = (mf_trace_layer){.layer = (int32_t)layer, .experts = (int32_t)experts};
        rc = find_layer(t, l);
    }
    return rc;
}

static int vector(const mf_trace *t, const char *name, int64_t n, bool needed, int32_t **ret)
{
    const mf_st_tensor *x;
    void *data;
    int rc = find(t, name, MF_ST_I32, n, 0, needed, &x);
    if (rc == MF_OK) rc = mf_trace_read(t, x, &data);
    if (rc == MF_OK) *ret = data;
    return rc;
}

/* Reads the tensors tasks.N.class and tasks.N.value that exist in the trace. */
static int read_tasks(mf_trace *t)
{
    const int64_t n = t->tokens / t->seq;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i <= MF_TASKS_MAX; i++) {
        const mf_st_tensor *x;
        void *data = NULL;
        char name[32];
        snprintf(name, sizeof name, "tasks.%d.class", i);
        rc = vector(t, name, n, false, &t->tasks[i].classes);
        snprintf(name, sizeof name, "tasks.%d.value", i);
        if (rc == MF_OK) rc = find(t, name, MF_ST_F32, n, 0, false, &x);
        if (rc == MF_OK) rc = mf_trace_read(t, x, &data);
        t->tasks[i].values = data;
    }
    return rc;
}

int mf_trace_open(const char *path, mf_trace **ret)
{
    mf_trace *t = mf_alloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->arena = mf_arena_new();
    int rc = t->arena ? mf_st_open(path, &t->file) : MF_ENOMEM;
    if (rc == MF_OK) rc = head(t);
    if (rc == MF_OK) rc = vector(t, "token", t->tokens, true, &t->token);
    if (rc == MF_OK)
        rc = vector(t, "target", t->by_row ? t->tokens / t->seq : t->tokens, true, &t->target);
    if (rc == MF_OK) rc = vector(t, "position", t->tokens, true, &t->position);
    if (rc == MF_OK) rc = vector(t, "sequence", t->tokens, true, &t->sequence);
    if (rc == MF_OK) rc = vector(t, "label", t->tokens, false, &t->label);
    if (rc == MF_OK && t->by_row) rc = read_tasks(t);
    if (rc == MF_OK) rc = find_layers(t);
    if (rc != MF_OK) {
        mf_trace_close(t);
        return rc;
    }
    *ret = t;
    return MF_OK;
}

void mf_trace_close(mf_trace *t)
{
    if (!t) return;
    mf_st_close(t->file);
    mf_free(t->token);
    mf_free(t->target);
    mf_free(t->position);
    mf_free(t->sequence);
    mf_free(t->label);
    for (int i = 0; i <= MF_TASKS_MAX; i++) {
        mf_free(t->tasks[i].classes);
        mf_free(t->tasks[i].values);
    }
    mf_arena_free(t->arena);
    mf_free(t);
}
