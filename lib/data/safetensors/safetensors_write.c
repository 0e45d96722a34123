/* data/safetensors/safetensors_write.c: writes the header, then the data in the header's order.
 * The order depends on the declarations alone, so equal tensors give equal files. */
#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "io/json.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/safetensors/safetensors.h"
#include "data/safetensors/safetensors_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct declared {
    mf_st_tensor tensor;
    size_t index; /* index in the order in which tensors were added */
} declared;

typedef struct text_pair {
    const char *key, *value;
} text_pair;

struct mf_st_writer {
    mf_arena *arena;
    declared **tensors; /* in the order in which tensors were added; after begin, in the order
                         * of the file */
    text_pair *meta;
    size_t n, room, n_meta, room_meta;
    bool begun;
    size_t due;    /* the tensor whose bytes must come next */
    uint64_t done; /* number of bytes of the due tensor that are written */
    mf_writer out;
};

mf_st_writer *mf_st_writer_new(void)
{
    mf_st_writer *w = mf_alloc(1, sizeof *w);
    if (!w) return NULL;
    w->arena = mf_arena_new();
    if (!w->arena) {
        mf_free(w);
        return NULL;
    }
    return w;
}

void mf_st_writer_free(mf_st_writer *w)
{
    if (!w) return;
    if (w->begun) mf_writer_close(&w->out, false);
    mf_free(w->tensors);
    mf_free(w->meta);
    mf_arena_free(w->arena);
    mf_free(w);
}

static int too_late(const mf_st_writer *w, const char *name)
{
    if (!w->begun) return MF_OK;
    return mf_fail(MF_EINVAL, "safetensors writer: '%s' is added after the file was begun",
                   name);
}

/* Makes space for one more element in an array with n elements and the capacity *room. Returns
 * NULL if there is not enough memory; the array is then unchanged. */
static void *grown(void *array, size_t n, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 64;
    void *larger;
    if (n < *room) return array;
    larger = mf_realloc(array, n * size, more * size);
    if (larger) *room = more;
    return larger;
}

int mf_st_writer_add(mf_st_writer *w, const char *name, mf_st_dtype dtype, int rank,
                     const int64_t *shape)
{
    declared *d;
    declared **tensors;
    int rc = too_late(w, name);
    if (rc == MF_OK) rc = mf_st_check_name("safetensors writer", name);
    if (rc != MF_OK) return rc;
    if (strcmp(name, MF_ST_META) == 0 || mf_utf8_check(name, strlen(name)) != strlen(name))
        return mf_fail(MF_EINVAL, "safetensors writer: '%s' cannot be the name of a tensor",
                       name);
    if (mf_st_dtype_size(dtype) == 0)
        return mf_fail(MF_EINVAL, "safetensors writer: tensor '%s': no dtype", name);
    if (w->n == MF_ST_TENSORS_MAX)
        return mf_fail(MF_EINVAL, "safetensors writer: more than %d tensors",
                       MF_ST_TENSORS_MAX);
    tensors = grown(w->tensors, w->n, &w->room, sizeof *tensors);
    if (!tensors) return MF_ENOMEM;
    w->tensors = tensors;
    d = mf_arena_alloc(w->arena, sizeof *d);
    if (!d) return MF_ENOMEM;
    d->index = w->n;
    d->tensor.name = mf_arena_strdup(w->arena, name);
    if (!d->tensor.name) return MF_ENOMEM;
    d->tensor.dtype = dtype;
    d->tensor.dtype_name = mf_st_dtype_name(dtype);
    d->tensor.rank = rank;
    for (int i = 0; i < rank && i < MF_ST_RANK_MAX; i++)
        d->tensor.shape[i] = shape[i];
    rc = mf_st_measure("safetensors writer", &d->tensor);
    if (rc != MF_OK) return rc;
    w->tensors[w->n++] = d;
    return MF_OK;
}

int mf_st_writer_meta(mf_st_writer *w, const char *key, const char *value)
{
    text_pair *meta;
    int rc = too_late(w, key);
    if (rc != MF_OK) return rc;
    /* The JSON writer would replace invalid bytes without an error, so they are
     * refused here. */
    if (mf_utf8_check(key, strlen(key)) != strlen(key) ||
        mf_utf8_check(value, strlen(value)) != strlen(value))
        return mf_fail(MF_EINVAL, "safetensors writer: metadata is not UTF-8");
    meta = grown(w->meta, w->n_meta, &w->room_meta, sizeof *meta);
    if (!meta) return MF_ENOMEM;
    w->meta = meta;
    meta[w->n_meta].key = mf_arena_strdup(w->arena, key);
    meta[w->n_meta].value = mf_arena_strdup(w->arena, value);
    if (!meta[w->n_meta].key || !meta[w->n_meta].value) return MF_ENOMEM;
    w->n_meta++;
    return MF_OK;
}

/* Compares as the reference implementation does, so that both write the same bytes. */
static int by_place(const void *a, const void *b)
{
    const mf_st_tensor *s = &(*(declared *const *)a)->tensor;
    const mf_st_tensor *t = &(*(declared *const *)b)->tensor;
    if (s->dtype != t->dtype) return s->dtype > t->dtype ? -1 : 1;
    return strcmp(s->name, t->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const text_pair *)a)->key, ((const text_pair *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(declared *const *)a)->tensor.name, (*(declared *const *)b)->tensor.name);
}

static int check_unique(mf_st_writer *w)
{
    if (w->n > 1) qsort(w->tensors, w->n, sizeof *w->tensors, by_name);
    for (size_t i = 1; i < w->n; i++)
        if (by_name(&w->tensors[i - 1], &w->tensors[i]) == 0)
            return mf_fail(MF_EINVAL, "safetensors writer: tensor '%s' is added twice",
                           w->tensors[i]->tensor.name);
    if (w->n_meta > 1) qsort(w->meta, w->n_meta, sizeof *w->meta, by_key);
    for (size_t i = 1; i < w->n_meta; i++)
        if (by_key(&w->meta[i - 1], &w->meta[i]) == 0)
            return mf_fail(MF_EINVAL, "safetensors writer: metadata '%s' is given twice",
                           w->meta[i].key);
    return MF_OK;
}

static int lay_out(mf_st_writer *w)
{
    uint64_t end = 0;
    if (w->n > 1) qsort(w->tensors, w->n, sizeof *w->tensors, by_place);
    for (size_t i = 0; i < w->n; i++) {
        mf_st_tensor *t = &w->tensors[i]->tensor;
        t->offset = end;
        if (__builtin_add_overflow(end, t->bytes, &end) || end > INT64_MAX)
            return mf_fail(MF_EINVAL, "safetensors writer: more bytes than can be counted");
    }
    return MF_OK;
}

static void write_entry(mf_jw *jw, const mf_st_tensor *t)
{
    mf_jw_key(jw, t->name);
    mf_jw_object(jw);
    mf_jw_kv_string(jw, "dtype", t->dtype_name);
    mf_jw_key(jw, "shape");
    mf_jw_array(jw);
    for (int i = 0; i < t->rank; i++)
        mf_jw_int(jw, t->shape[i]);
    mf_jw_end(jw);
    mf_jw_key(jw, "data_offsets");
    mf_jw_array(jw);
    mf_jw_int(jw, (int64_t)t->offset);
    mf_jw_int(jw, (int64_t)(t->offset + t->bytes));
    mf_jw_end(jw);
    mf_jw_end(jw);
}

static void write_json(const mf_st_writer *w, mf_jw *jw)
{
    mf_jw_object(jw);
    if (w->n_meta > 0) {
        mf_jw_key(jw, MF_ST_META);
        mf_jw_object(jw);
        for (size_t i = 0; i < w->n_meta; i++)
            mf_jw_kv_string(jw, w->meta[i].key, w->meta[i].value);
        mf_jw_end(jw);
    }
    for (size_t i = 0; i < w->n; i++)
        write_entry(jw, &w->tensors[i]->tensor);
    mf_jw_end(jw);
}

static int write_header(mf_st_writer *w, const char *path, const char *json, size_t n)
{
    static const char blanks[] = "        ";
    unsigned char raw[8];
    size_t padded = (n + 7) & ~(size_t)7;
    int rc;
    if (padded > MF_ST_HEADER_MAX)
        return mf_fail(MF_EINVAL, "%s: header of %zu bytes: expected at most %d", path, padded,
                       MF_ST_HEADER_MAX);
    for (int i = 0; i < 8; i++)
        raw[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    rc = mf_writer_open(&w->out, path, true);
    if (rc != MF_OK) return rc;
    w->begun = true;
    mf_writer_put(&w->out, raw, sizeof raw);
    mf_writer_put(&w->out, json, n);
    mf_writer_put(&w->out, blanks, padded - n);
    return w->out.error;
}

/* Skips tensors that are completely written, and therefore also tensors without elements. */
static void advance(mf_st_writer *w)
{
    while (w->due < w->n && w->tensors[w->due]->tensor.bytes == w->done) {
        w->due++;
        w->done = 0;
    }
}

int mf_st_writer_begin(mf_st_writer *w, const char *path)
{
    const char *json;
    size_t n;
    mf_jw *jw;
    int rc = too_late(w, path);
    if (rc == MF_OK) rc = check_unique(w);
    if (rc == MF_OK) rc = lay_out(w);
    if (rc != MF_OK) return rc;
    jw = mf_jw_new();
    if (!jw) return MF_ENOMEM;
    write_json(w, jw);
    json = mf_jw_text(jw, &n);
    rc = json ? write_header(w, path, json, n) : mf_error_code();
    mf_jw_free(jw);
    advance(w);
    return rc;
}

const mf_st_tensor *mf_st_writer_due(const mf_st_writer *w, size_t *ret_index)
{
    if (!w->begun || w->due == w->n) return NULL;
    if (ret_index) *ret_index = w->tensors[w->due]->index;
    return &w->tensors[w->due]->tensor;
}

int mf_st_writer_put(mf_st_writer *w, const void *data, size_t n)
{
    const mf_st_tensor *t = mf_st_writer_due(w, NULL);
    if (n == 0) return MF_OK;
    if (!t || n > t->bytes - w->done)
        return mf_fail(MF_EINVAL, "safetensors writer: %zu bytes too many for '%s'", n,
                       t ? t->name : "any tensor");
    mf_writer_put(&w->out, data, n);
    w->done += n;
    advance(w);
    if (w->out.error == MF_OK) return MF_OK;
    return mf_writer_flush(&w->out); /* the first error is returned again */
}

int mf_st_writer_end(mf_st_writer *w, bool sync)
{
    const mf_st_tensor *t = mf_st_writer_due(w, NULL);
    if (!w->begun) return mf_fail(MF_EINVAL, "safetensors writer: ended before it was begun");
    if (t)
        return mf_fail(MF_EINVAL, "safetensors writer: bytes of '%s' are still due", t->name);
    w->begun = false;
    return mf_writer_close(&w->out, sync);
}
