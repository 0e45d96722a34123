/* run/checkpoint/checkpoint_files.c: the two tensor files of a checkpoint. Names and shapes
 * of a file are checked before any value is read.
 *
 * state.safetensors contains "moment1/PARAM" and "moment2/PARAM" (F32), "int/NAME" (I64,
 * scalar), "real/NAME" (F64, scalar, all bits of the double) and "blob/NAME" (U8). */
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor files are little-endian");

static const char moment1[] = "moment1/", moment2[] = "moment2/";
static const char int_prefix[] = "int/", real_prefix[] = "real/", blob_prefix[] = "blob/";

/* ---- writing ---- */

/* The data to be written: data[i] belongs to the i-th tensor of the writer. */
typedef struct parts {
    mf_st_writer *writer;
    const void **data;
    size_t n;
    const mf_ckpt_moments *moments; /* source of moments and values without data */
    int64_t (*from)[2];             /* [n] for tensors without data: `which`, and the
                                     * first element */
} parts;

/* Number of bytes of moments or values that are written at a time. */
static const size_t piece = (size_t)1 << 24;

static int open_parts(parts *p, size_t most)
{
    *p = (parts){.writer = mf_st_writer_new(),
                 .data = mf_alloc(most + 1, sizeof *p->data),
                 .from = mf_alloc(most + 1, sizeof *p->from)};
    return p->writer != NULL && p->data != NULL && p->from != NULL ? MF_OK : MF_ENOMEM;
}

static void close_parts(parts *p)
{
    mf_st_writer_free(p->writer);
    mf_free(p->data);
    mf_free(p->from);
}

static int add_part(parts *p, const char *prefix, const char *name, mf_st_dtype dtype, int rank,
                    const int64_t *shape, const void *data)
{
    char *full = mf_strf("%s%s", prefix, name);
    if (full == NULL) return MF_ENOMEM;
    int code = mf_st_writer_add(p->writer, full, dtype, rank, shape);
    mf_free(full);
    p->data[p->n++] = data;
    return code;
}

/* Writes moments or values that the store does not keep, in pieces. */
static int write_moments(parts *p, size_t i, const mf_st_tensor *t)
{
    const size_t bytes = (size_t)t->bytes;
    float *room = mf_alloc_raw(bytes < piece ? bytes : piece);
    int code = room != NULL ? MF_OK : MF_ENOMEM;
    for (size_t at = 0; at < bytes && code == MF_OK; at += piece) {
        const size_t n = bytes - at < piece ? bytes - at : piece;
        code = p->moments->read(p->moments->arg, (int)p->from[i][0],
                                p->from[i][1] + (int64_t)(at / sizeof *room),
                                (int64_t)(n / sizeof *room), room);
        if (code == MF_OK) code = mf_st_writer_put(p->writer, room, n);
    }
    mf_free(room);
    return code;
}

static int write_parts(parts *p, const char *path, const char *name)
{
    char *file = mf_path_join(path, name);
    if (file == NULL) return MF_ENOMEM;
    int code = mf_st_writer_begin(p->writer, file);
    const mf_st_tensor *t;
    size_t i;
    while (code == MF_OK && (t = mf_st_writer_due(p->writer, &i)) != NULL)
        code = p->data[i] != NULL || t->bytes == 0
                   ? mf_st_writer_put(p->writer, p->data[i], (size_t)t->bytes)
                   : write_moments(p, i, t);
    if (code == MF_OK) code = mf_st_writer_end(p->writer, true);
    mf_free(file);
    return code;
}

/* Returns the recorded error: values of a device could not be copied to the host. */
static int unreadable(void)
{
    return mf_error_code() != MF_OK ? mf_error_code() : MF_ENOMEM;
}

int mf_ckpt_write_model(const char *path, const mf_store *store, const mf_ckpt_moments *moments)
{
    parts p;
    int n = mf_store_count(store), code = open_parts(&p, (size_t)n);
    p.moments = moments;
    for (int i = 0; i < n && code == MF_OK; i++) {
        const mf_param *x = mf_store_at(store, i);
        if (x->stored) continue;
        p.from[p.n][0] = MF_CKPT_VALUES;
        p.from[p.n][1] = x->offset;
        const void *data = x->held ? NULL : mf_param_host(x);
        if (!x->held && !data) code = unreadable();
        if (code == MF_OK)
            code = add_part(&p, "", x->name, MF_ST_F32, x->shape.rank, x->shape.dim, data);
    }
    if (code == MF_OK) code = write_parts(&p, path, MF_CKPT_MODEL);
    close_parts(&p);
    return code;
}

static int add_moments(parts *p, const mf_store *store)
{
    static const char *const prefix[] = {moment1, moment2};
    const float *block[2] = {NULL, NULL};
    for (int which = 0; p->moments == NULL && which < 2; which++) {
        block[which] = mf_store_host(store, which == 0 ? MF_BLOCK_MOMENT1 : MF_BLOCK_MOMENT2);
        if (block[which] == NULL) return unreadable();
    }
    int code = MF_OK;
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *x = mf_store_at(store, i);
        for (int which = 0; which < 2 && code == MF_OK; which++) {
            const mf_shape *s = &x->moment[which];
            if (mf_param_moment_count(x, which) == 0) continue;
            p->from[p->n][0] = which;
            p->from[p->n][1] = x->moment_at[which];
            code = add_part(p, prefix[which], x->name, MF_ST_F32, s->rank, s->dim,
                            block[which] != NULL ? block[which] + x->moment_at[which] : NULL);
        }
    }
    return code;
}

static int add_item(parts *p, const mf_item *item)
{
    int64_t n = (int64_t)item->n;
    if (item->kind == MF_ITEM_INT)
        return add_part(p, int_prefix, item->name, MF_ST_I64, 0, NULL, &item->integer);
    if (item->kind == MF_ITEM_REAL)
        return add_part(p, real_prefix, item->name, MF_ST_F64, 0, NULL, &item->real);
    return add_part(p, blob_prefix, item->name, MF_ST_U8, 1, &n, item->blob);
}

int mf_ckpt_write_state(const char *path, const mf_store *store, const mf_ckpt_moments *moments,
                        const mf_state *state)
{
    parts p;
    size_t most = 2 * (size_t)mf_store_count(store) + (size_t)state->n;
    int code = open_parts(&p, most);
    p.moments = moments;
    if (code == MF_OK) code = add_moments(&p, store);
    for (int i = 0; i < state->n && code == MF_OK; i++)
        code = add_item(&p, &state->items[i]);
    if (code == MF_OK) code = write_parts(&p, path, MF_CKPT_STATE);
    close_parts(&p);
    return code;
}

/* ---- reading ---- */

static int open_file(const char *path, const char *name, mf_st_file **ret)
{
    *ret = NULL;
    char *file = mf_path_join(path, name);
    if (file == NULL) return MF_ENOMEM;
    int code = mf_st_open(file, ret);
    mf_free(file);
    return code;
}

static bool has_shape(const mf_st_tensor *t, const mf_shape *shape)
{
    if (t->dtype != MF_ST_F32 || t->rank != shape->rank) return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] != shape->dim[i]) return false;
    return true;
}

static bool same_shape(const mf_st_tensor *t, const mf_param *x)
{
    return has_shape(t, &x->shape);
}

/* Returns dimensions as text, for example "[2, 3]", for messages. */
static char *shape_text(int rank, const int64_t *dim)
{
    char *text = mf_strdup("[");
    for (int i = 0; i < rank && text != NULL; i++) {
        char *more = mf_strf("%s%s%lld", text, i > 0 ? ", " : "", (long long)dim[i]);
        mf_free(text);
        text = more;
    }
    char *all = text != NULL ? mf_strf("%s]", text) : NULL;
    mf_free(text);
    return all;
}

static int misfit(const char *path, const char *file, const mf_st_tensor *t, const mf_param *x)
{
    char *found = shape_text(t->rank, t->shape),
         *expected = shape_text(x->shape.rank, x->shape.dim);
    int code = mf_fail(
        MF_ECHECKPOINT,
        "%s/%s: %s is %s %s, the model that the configuration describes has F32 %s", path, file,
        t->name, t->dtype_name, found ? found : "?", expected ? expected : "?");
    mf_free(found);
    mf_free(expected);
    return code;
}

static const mf_st_tensor *find_part(const mf_st_file *f, const char *prefix, const char *name)
{
    char full[MF_ST_NAME_MAX + 1];
    const int n = snprintf(full, sizeof full, "%s%s", prefix, name);
    return n < (int)sizeof full ? mf_st_find(f, full) : NULL;
}

static int fit_part(const char *path, const char *file, const mf_st_file *f, const char *prefix,
                    const mf_param *x)
{
    const mf_st_tensor *t = find_part(f, prefix, x->name);
    if (t == NULL && (x->stored || x->given)) return MF_OK;
    if (t == NULL)
        return mf_fail(MF_ECHECKPOINT,
                       "%s/%s: no tensor %s%s, which the model that the "
                       "configuration describes has",
                       path, file, prefix, x->name);
    return same_shape(t, x) ? MF_OK : misfit(path, file, t, x);
}

/* Checks that the checkpoint has the moments that the optimizer keeps. */
static int fit_moment(const char *path, const mf_st_file *f, const mf_param *x, int which)
{
    const char *prefix = which == 0 ? moment1 : moment2;
    const mf_st_tensor *t = find_part(f, prefix, x->name);
    const bool kept = mf_param_moment_count(x, which) > 0;
    if (t == NULL && x->given) return MF_OK;
    if (kept == (t != NULL) && (!kept || has_shape(t, &x->moment[which]))) return MF_OK;
    char *expected = kept ? shape_text(x->moment[which].rank, x->moment[which].dim) : NULL;
    char *found = t != NULL ? shape_text(t->rank, t->shape) : NULL;
    const int code =
        mf_fail(MF_ECHECKPOINT,
                "%s/%s: %s%s: expected %s, as train.optimizer and the model need, found %s; "
                "the checkpoint is of another optimizer or model",
                path, MF_CKPT_STATE, prefix, x->name, expected ? expected : "none",
                found ? found : "none");
    mf_free(expected);
    mf_free(found);
    return code;
}

static bool excepted(const char *name, const char *but)
{
    return but != NULL && strstr(name, but) != NULL;
}

int mf_ckpt_fit_model(const char *path, const mf_store *store, const char *but)
{
    mf_st_file *f;
    int code = open_file(path, MF_CKPT_MODEL, &f);
    if (code != MF_OK) return code;
    for (int i = 0; i < mf_store_count(store) && code == MF_OK; i++)
        if (!excepted(mf_store_at(store, i)->name, but))
            code = fit_part(path, MF_CKPT_MODEL, f, "", mf_store_at(store, i));
    for (size_t i = 0; i < mf_st_count(f) && code == MF_OK; i++)
        if (mf_store_find(store, mf_st_at(f, i)->name) == NULL &&
            !excepted(mf_st_at(f, i)->name, but))
            code = mf_fail(MF_ECHECKPOINT,
                           "%s/%s: %s is no tensor of the model that the "
                           "configuration describes",
                           path, MF_CKPT_MODEL, mf_st_at(f, i)->name);
    mf_st_close(f);
    return code;
}

int mf_ckpt_fit_state(const char *path, const mf_store *store)
{
    mf_st_file *f;
    int code = open_file(path, MF_CKPT_STATE, &f);
    if (code != MF_OK) return code;
    for (int i = 0; i < mf_store_count(store) && code == MF_OK; i++) {
        const mf_param *x = mf_store_at(store, i);
        for (int which = 0; which < 2 && !x->buffer && code == MF_OK; which++)
            code = fit_moment(path, f, x, which);
    }
    mf_st_close(f);
    return code;
}

/* Writes n bytes of a parameter's part of a block, from byte `at` of the part on. */
static int store_part(const mf_param *x, mf_block block, size_t at, size_t n, const void *from)
{
    const int which = block == MF_BLOCK_MOMENT2;
    if (block != MF_BLOCK_MOMENT1 && block != MF_BLOCK_MOMENT2)
        return mf_store_write(x->store, block, from, mf_param_offset(x, block) + at, n);
    return mf_store_write_moments(x->store, which,
                                  x->moment_at[which] + (int64_t)(at / sizeof(float)),
                                  (int64_t)(n / sizeof(float)), from);
}

/* Reads the file's values of a parameter into a block of the store, in pieces. */
static int read_part(const mf_st_file *f, const char *prefix, const mf_param *x, mf_block block)
{
    const mf_st_tensor *t = find_part(f, prefix, x->name);
    const int64_t count = block == MF_BLOCK_MOMENT1   ? mf_param_moment_count(x, 0)
                          : block == MF_BLOCK_MOMENT2 ? mf_param_moment_count(x, 1)
                                                      : x->count;
    const size_t bytes = (size_t)count * sizeof(float);
    if (count == 0 || x->stored || (t == NULL && x->given)) return MF_OK;
    if (t == NULL)
        return mf_fail(MF_ECHECKPOINT, "%s: no tensor %s%s", mf_st_path(f), prefix, x->name);
    char *room = mf_alloc_raw(bytes < piece ? bytes : piece);
    int code = room != NULL ? MF_OK : MF_ENOMEM;
    for (size_t at = 0; at < bytes && code == MF_OK; at += piece) {
        const size_t n = bytes - at < piece ? bytes - at : piece;
        code = mf_st_read_part(f, t, room, n, at);
        if (code == MF_OK) code = store_part(x, block, at, n, room);
    }
    mf_free(room);
    return code;
}

static int read_value(const mf_st_file *f, const mf_param *x)
{
    return read_part(f, "", x, x->buffer ? MF_BLOCK_BUFFERS : MF_BLOCK_VALUES);
}

int mf_ckpt_read_model(const char *path, mf_store *store, const char *but)
{
    mf_st_file *f;
    int code = open_file(path, MF_CKPT_MODEL, &f);
    if (code != MF_OK) return code;
    for (int i = 0; i < mf_store_count(store) && code == MF_OK; i++) {
        mf_param *x = mf_store_at(store, i);
        const mf_st_tensor *t = mf_st_find(f, x->name);
        if (excepted(x->name, but) && (t == NULL || !same_shape(t, x))) continue;
        code = read_value(f, x);
    }
    mf_store_refresh_bf16(store);
    mf_store_trim(store);
    mf_st_close(f);
    return code;
}

/* Whether a buffer is meaningful only in its own run: state of a controller, or the heads'
 * learning-rate factors. */
static bool of_its_run(const mf_param *x)
{
    const char *end = strrchr(x->name, '.');
    return x->buffer && (strncmp(x->name, "controller.", 11) == 0 ||
                         (end != NULL && strcmp(end, ".lr_scale") == 0));
}

int mf_ckpt_read_common(const char *path, mf_store *store, int *ret_read, int *ret_missing)
{
    mf_st_file *f;
    int code = open_file(path, MF_CKPT_MODEL, &f);
    *ret_read = *ret_missing = 0;
    if (code != MF_OK) return code;
    /* all tensors are checked before the first tensor is read */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < mf_store_count(store) && code == MF_OK; i++) {
            mf_param *x = mf_store_at(store, i);
            const mf_st_tensor *t = of_its_run(x) ? NULL : mf_st_find(f, x->name);
            if (pass == 0) {
                *ret_missing += t == NULL && !x->buffer && !x->stored && !x->given;
                *ret_read += t != NULL || x->stored || x->given;
                if (t != NULL && !same_shape(t, x)) code = misfit(path, MF_CKPT_MODEL, t, x);
            } else if (t != NULL) {
                code = read_value(f, x);
            }
        }
    mf_store_refresh_bf16(store);
    mf_store_trim(store);
    mf_st_close(f);
    return code;
}

static const char *behind(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static int read_blob(const mf_st_file *f, const mf_st_tensor *t, const char *name, mf_state *s)
{
    void *data = mf_alloc_raw(t->bytes > 0 ? (size_t)t->bytes : 1);
    if (data == NULL) return MF_ENOMEM;
    int code = mf_st_read(f, t, data, (size_t)t->bytes);
    if (code == MF_OK) code = mf_state_set_blob(s, name, data, (size_t)t->bytes);
    mf_free(data);
    return code;
}

static int read_item(const mf_st_file *f, const mf_st_tensor *t, mf_state *s)
{
    const char *name;
    if ((name = behind(int_prefix, t->name)) != NULL && t->dtype == MF_ST_I64 &&
        t->count == 1) {
        int64_t value;
        int code = mf_st_read(f, t, &value, sizeof value);
        return code == MF_OK ? mf_state_set_int(s, name, value) : code;
    }
    if ((name = behind(real_prefix, t->name)) != NULL && t->dtype == MF_ST_F64 &&
        t->count == 1) {
        double value;
        int code = mf_st_read(f, t, &value, sizeof value);
        return code == MF_OK ? mf_state_set_real(s, name, value) : code;
    }
    if ((name = behind(blob_prefix, t->name)) != NULL && t->dtype == MF_ST_U8)
        return read_blob(f, t, name, s);
    if (behind(moment1, t->name) != NULL || behind(moment2, t->name) != NULL) return MF_OK;
    return mf_fail(MF_ECHECKPOINT, "%s: %s (%s): not a part of a state", mf_st_path(f), t->name,
                   t->dtype_name);
}

static int read_numbers(const mf_st_file *f, mf_state **ret)
{
    mf_state *s = mf_state_new();
    int code = s != NULL ? MF_OK : MF_ENOMEM;
    for (size_t i = 0; i < mf_st_count(f) && code == MF_OK; i++)
        code = read_item(f, mf_st_at(f, i), s);
    if (code == MF_OK)
        *ret = s;
    else
        mf_state_free(s);
    return code;
}

int mf_ckpt_read_numbers(const char *path, mf_state **ret)
{
    *ret = NULL;
    mf_st_file *f;
    int code = open_file(path, MF_CKPT_STATE, &f);
    if (code != MF_OK) return code;
    code = read_numbers(f, ret);
    mf_st_close(f);
    return code;
}

int mf_ckpt_read_state(const char *path, mf_store *store, mf_state **ret)
{
    *ret = NULL;
    mf_st_file *f;
    mf_state *s = NULL;
    int code = open_file(path, MF_CKPT_STATE, &f);
    if (code != MF_OK) return code;
    code = read_numbers(f, &s);
    for (int i = 0; i < mf_store_count(store) && code == MF_OK; i++) {
        const mf_param *x = mf_store_at(store, i);
        if (x->buffer) continue;
        code = read_part(f, moment1, x, MF_BLOCK_MOMENT1);
        if (code == MF_OK) code = read_part(f, moment2, x, MF_BLOCK_MOMENT2);
    }
    mf_st_close(f);
    if (code == MF_OK)
        *ret = s;
    else
        mf_state_free(s);
    return code;
}
