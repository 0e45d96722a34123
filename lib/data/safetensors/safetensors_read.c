/* data/safetensors/safetensors_read.c: opens, checks and reads a file. The caller gets a file
 * only after its whole header has passed the checks. */
#include "base/error.h"
#include "base/file/io.h"
#include "io/lfs.h"
#include "io/json.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "data/safetensors/safetensors_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

typedef struct text_pair {
    const char *key, *value;
} text_pair;

struct mf_st_file {
    mf_arena *arena; /* owns all memory of this object */
    const char *path;
    int fd;
    uint64_t data_start, data_bytes;
    mf_st_tensor *tensors; /* in the order of the header */
    const mf_st_tensor **by_name;
    size_t n;
    text_pair *meta;
    size_t n_meta;
};

static int bad(const mf_st_file *f, const mf_st_tensor *t, const char *what)
{
    return mf_fail(MF_EINPUT, "%s: tensor '%s': %s", f->path, t->name, what);
}

static int read_shape(const mf_st_file *f, mf_st_tensor *t, const mf_json *shape)
{
    size_t rank = mf_json_size(shape);
    if (mf_json_typeof(shape) != MF_JSON_ARRAY) return bad(f, t, "expected an array as shape");
    if (rank > MF_ST_RANK_MAX)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': rank %zu: expected at most %d", f->path,
                       t->name, rank, MF_ST_RANK_MAX);
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++)
        if (!mf_json_int(mf_json_at(shape, i), &t->shape[i]))
            return bad(f, t, "expected whole numbers as shape");
    return mf_st_measure(f->path, t);
}

static int read_extent(const mf_st_file *f, mf_st_tensor *t, const mf_json *offsets)
{
    int64_t begin, end;
    size_t size = mf_st_dtype_size(t->dtype);
    if (mf_json_size(offsets) != 2 || !mf_json_int(mf_json_at(offsets, 0), &begin) ||
        !mf_json_int(mf_json_at(offsets, 1), &end))
        return bad(f, t, "expected two whole numbers as data_offsets");
    if (begin < 0 || end < begin || (uint64_t)end > f->data_bytes)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': data_offsets [%lld,%lld]: expected an extent within "
                       "the %llu bytes of data",
                       f->path, t->name, (long long)begin, (long long)end,
                       (unsigned long long)f->data_bytes);
    if (size == 0) {
        /* the size of an unknown dtype is not known, so there is nothing to compare */
        t->bytes = (uint64_t)(end - begin);
    } else if (t->bytes != (uint64_t)(end - begin)) {
        return mf_fail(
            MF_EINPUT,
            "%s: tensor '%s': data_offsets span %lld bytes: its shape and %s need %llu",
            f->path, t->name, (long long)(end - begin), t->dtype_name,
            (unsigned long long)t->bytes);
    }
    t->offset = (uint64_t)begin;
    return MF_OK;
}

static int read_tensor(mf_st_file *f, mf_st_tensor *t, const char *name, const mf_json *entry)
{
    const char *dtype, *key;
    const mf_json *value;
    int rc = mf_st_check_name(f->path, name);
    if (rc != MF_OK) return rc;
    t->name = mf_arena_strdup(f->arena, name);
    if (!t->name) return MF_ENOMEM;
    if (mf_json_typeof(entry) != MF_JSON_OBJECT) return bad(f, t, "expected an object");
    for (size_t i = 0; mf_json_member(entry, i, &key, &value); i++)
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            return bad(f, t, "expected dtype, shape and data_offsets only");
    dtype = mf_json_string(mf_json_get(entry, "dtype"), NULL);
    if (!dtype || !*dtype || strlen(dtype) > 16) return bad(f, t, "expected a dtype");
    t->dtype = mf_st_dtype_of(dtype);
    t->dtype_name = mf_st_dtype_name(t->dtype);
    if (t->dtype == MF_ST_UNKNOWN) t->dtype_name = mf_arena_strdup(f->arena, dtype);
    if (!t->dtype_name) return MF_ENOMEM;
    rc = read_shape(f, t, mf_json_get(entry, "shape"));
    return rc == MF_OK ? read_extent(f, t, mf_json_get(entry, "data_offsets")) : rc;
}

static int read_meta(mf_st_file *f, const mf_json *meta)
{
    const char *key, *text;
    const mf_json *value;
    if (mf_json_typeof(meta) == MF_JSON_NULL) return MF_OK;
    if (mf_json_typeof(meta) != MF_JSON_OBJECT)
        return mf_fail(MF_EINPUT, "%s: " MF_ST_META ": expected an object", f->path);
    f->meta = mf_arena_alloc(f->arena, mf_json_size(meta) * sizeof *f->meta);
    if (!f->meta) return MF_ENOMEM;
    for (; mf_json_member(meta, f->n_meta, &key, &value); f->n_meta++) {
        text_pair *pair = &f->meta[f->n_meta];
        text = mf_json_string(value, NULL);
        if (!text)
            return mf_fail(MF_EINPUT, "%s: " MF_ST_META " '%.64s': expected text", f->path,
                           key);
        pair->key = mf_arena_strdup(f->arena, key);
        pair->value = mf_arena_strdup(f->arena, text);
        if (!pair->key || !pair->value) return MF_ENOMEM;
    }
    return MF_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const mf_st_tensor *const *)a)->name,
                  (*(const mf_st_tensor *const *)b)->name);
}

/* A tensor without elements comes before the tensor that begins at the same offset. */
static int by_offset(const void *a, const void *b)
{
    const mf_st_tensor *s = *(const mf_st_tensor *const *)a,
                       *t = *(const mf_st_tensor *const *)b;
    if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
    return s->bytes < t->bytes ? -1 : s->bytes > t->bytes;
}

/* Checks that every byte of the data belongs to exactly one tensor. The function sorts
 * f->by_name by offset; the caller sorts it by name afterwards. */
static int check_cover(const mf_st_file *f)
{
    uint64_t end = 0;
    qsort(f->by_name, f->n, sizeof *f->by_name, by_offset);
    for (size_t i = 0; i < f->n; i++) {
        const mf_st_tensor *t = f->by_name[i];
        if (t->offset != end)
            return mf_fail(MF_EINPUT,
                           "%s: tensor '%s': data begin at byte %llu: expected %llu%s", f->path,
                           t->name, (unsigned long long)t->offset, (unsigned long long)end,
                           t->offset < end ? ", it overlaps another" : ", there is a hole");
        end += t->bytes;
    }
    if (end != f->data_bytes)
        return mf_fail(MF_EINPUT, "%s: %llu bytes at the end belong to no tensor", f->path,
                       (unsigned long long)(f->data_bytes - end));
    return MF_OK;
}

static int read_entries(mf_st_file *f, const mf_json *header)
{
    size_t members = mf_json_size(header);
    const char *name;
    const mf_json *entry;
    int rc;
    const size_t tensors = members - (mf_json_get(header, MF_ST_META) != NULL);
    if (tensors > MF_ST_TENSORS_MAX)
        return mf_fail(MF_EINPUT, "%s: %zu tensors: expected at most %d", f->path, tensors,
                       MF_ST_TENSORS_MAX);
    f->tensors = mf_arena_alloc(f->arena, members * sizeof *f->tensors);
    f->by_name = mf_arena_alloc(f->arena, members * sizeof *f->by_name);
    if (!f->tensors || !f->by_name) return MF_ENOMEM;
    for (size_t i = 0; mf_json_member(header, i, &name, &entry); i++) {
        if (strcmp(name, MF_ST_META) == 0) {
            rc = read_meta(f, entry);
        } else {
            f->by_name[f->n] = &f->tensors[f->n];
            rc = read_tensor(f, &f->tensors[f->n++], name, entry);
        }
        if (rc != MF_OK) return rc;
    }
    rc = check_cover(f);
    if (rc == MF_OK) qsort(f->by_name, f->n, sizeof *f->by_name, by_name);
    return rc;
}

/* The format requires "{" first and only blanks as padding. The check refuses files that are
 * valid in two formats at once. */
static int check_frame(const mf_st_file *f, const char *header, size_t n)
{
    while (n > 0 && header[n - 1] == ' ')
        n--;
    if (n < 2 || header[0] != '{' || header[n - 1] != '}')
        return mf_fail(MF_EINPUT,
                       "%s: expected a header from '{' to '}': is this a safetensors file?",
                       f->path);
    return MF_OK;
}

/* In a clone without Git LFS, small text files replace the tensor files. */
static int judge_pointer(const mf_st_file *f, uint64_t size)
{
    char text[64];
    const size_t n = size < sizeof text ? (size_t)size : sizeof text;
    const int rc = mf_file_read_at(f->fd, f->path, text, n, 0);
    return rc == MF_OK ? mf_lfs_judge_binary(f->path, text, n) : rc;
}

static int read_header(mf_st_file *f, uint64_t size)
{
    unsigned char raw[LENGTH_BYTES];
    uint64_t length = 0;
    char *header;
    mf_json *json = NULL;
    int rc;
    if (size < LENGTH_BYTES)
        return mf_fail(MF_EINPUT, "%s: file of %llu bytes: expected the length of a header",
                       f->path, (unsigned long long)size);
    rc = mf_file_read_at(f->fd, f->path, raw, sizeof raw, 0);
    if (rc != MF_OK) return rc;
    for (int i = LENGTH_BYTES; i-- > 0;)
        length = length << 8 | raw[i];
    if (length > size - LENGTH_BYTES && (rc = judge_pointer(f, size)) != MF_OK) return rc;
    if (length > size - LENGTH_BYTES)
        return mf_fail(MF_EINPUT, "%s: header of %llu bytes: only %llu follow", f->path,
                       (unsigned long long)length, (unsigned long long)(size - LENGTH_BYTES));
    if (length > MF_ST_HEADER_MAX)
        return mf_fail(MF_EINPUT, "%s: header of %llu bytes: expected at most %d", f->path,
                       (unsigned long long)length, MF_ST_HEADER_MAX);
    f->data_start = LENGTH_BYTES + length;
    f->data_bytes = size - f->data_start;
    header = mf_alloc_raw((size_t)length);
    if (!header) return MF_ENOMEM;
    rc = mf_file_read_at(f->fd, f->path, header, (size_t)length, LENGTH_BYTES);
    if (rc == MF_OK) rc = check_frame(f, header, (size_t)length);
    if (rc == MF_OK) rc = mf_json_parse(f->path, header, (size_t)length, &json);
    mf_free(header);
    if (rc != MF_OK) return rc;
    rc = read_entries(f, json);
    mf_json_free(json);
    return rc;
}

int mf_st_open(const char *path, mf_st_file **ret)
{
    mf_arena *arena;
    mf_st_file *f = NULL;
    uint64_t size;
    int fd;
    int rc = mf_file_open(path, &fd, &size);
    if (rc != MF_OK) return rc;
    arena = mf_arena_new();
    if (arena) f = mf_arena_alloc(arena, sizeof *f);
    if (f) f->path = mf_arena_strdup(arena, path);
    if (!f || !f->path) {
        rc = MF_ENOMEM;
    } else {
        f->arena = arena;
        f->fd = fd;
        rc = read_header(f, size);
    }
    if (rc != MF_OK) {
        mf_file_close(fd);
        mf_arena_free(arena);
        return rc;
    }
    *ret = f;
    return MF_OK;
}

void mf_st_close(mf_st_file *file)
{
    if (!file) return;
    mf_file_close(file->fd);
    mf_arena_free(file->arena);
}

uint64_t mf_st_data_start(const mf_st_file *file)
{
    return file->data_start;
}

const char *mf_st_path(const mf_st_file *file)
{
    return file->path;
}

size_t mf_st_count(const mf_st_file *file)
{
    return file->n;
}

const mf_st_tensor *mf_st_at(const mf_st_file *file, size_t i)
{
    return i < file->n ? &file->tensors[i] : NULL;
}

const mf_st_tensor *mf_st_find(const mf_st_file *file, const char *name)
{
    size_t low = 0, high = file->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, file->by_name[middle]->name);
        if (order == 0) return file->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

size_t mf_st_meta_count(const mf_st_file *file)
{
    return file->n_meta;
}

bool mf_st_meta_at(const mf_st_file *file, size_t i, const char **ret_key,
                   const char **ret_value)
{
    if (i >= file->n_meta) return false;
    *ret_key = file->meta[i].key;
    *ret_value = file->meta[i].value;
    return true;
}

const char *mf_st_meta(const mf_st_file *file, const char *key)
{
    for (size_t i = 0; i < file->n_meta; i++)
        if (strcmp(file->meta[i].key, key) == 0) return file->meta[i].value;
    return NULL;
}

int mf_st_read_part(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n,
                    uint64_t from)
{
    int rc;
    if (tensor->dtype == MF_ST_UNKNOWN)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': unknown dtype '%s'", file->path,
                       tensor->name, tensor->dtype_name);
    if (from > tensor->bytes || n > tensor->bytes - from)
        return mf_fail(MF_EINVAL, "%s: tensor '%s': %zu bytes at %llu asked for: it has %llu",
                       file->path, tensor->name, n, (unsigned long long)from,
                       (unsigned long long)tensor->bytes);
    rc =
        mf_file_read_at(file->fd, file->path, out, n, file->data_start + tensor->offset + from);
    return rc == MF_OK ? MF_OK : mf_fail_context(rc, "tensor '%s'", tensor->name);
}

int mf_st_read(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n)
{
    if (tensor->dtype != MF_ST_UNKNOWN && n != tensor->bytes)
        return mf_fail(MF_EINVAL, "%s: tensor '%s': %zu bytes asked for: it has %llu",
                       file->path, tensor->name, n, (unsigned long long)tensor->bytes);
    return mf_st_read_part(file, tensor, out, n, 0);
}
