/* run/folder/stored_list.c: stored.json, the text of a list of stored weights. A list may come
 * from a third party, so every number is checked before it determines an access to memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "io/json.h"
#include "run/folder/stored_parts.h"

static const char *const pointers[MF_STORED_POINTERS] = {"data", "scales", "zeros", "group_of"};

/* ---- writing ---- */

static void put_pointer(mf_jw *w, const mf_stored_files *f, const char *key, const void *at)
{
    for (int i = 0; i < f->n_files; i++) {
        const mf_map *m = &f->files[i].map;
        const uintptr_t from = (uintptr_t)m->data, to = (uintptr_t)at;
        if (!m->data || to < from || to - from >= m->size) continue;
        mf_jw_key(w, key);
        mf_jw_array(w);
        mf_jw_int(w, i);
        mf_jw_int(w, (int64_t)(to - from));
        mf_jw_end(w);
        return;
    }
}

static void put_part(mf_jw *w, const mf_stored_files *f, const mf_stored_part *p)
{
    const void *at[MF_STORED_POINTERS];
    mf_stored_pointers(p, at);
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", mf_stored_type_names[p->type]);
    mf_jw_kv_int(w, "rows", p->rows);
    if (p->type <= MF_STORED_F16) mf_jw_kv_int(w, "ld", p->ld);
    if (p->pairs) mf_jw_kv_bool(w, "pairs", true);
    if (p->transposed) mf_jw_kv_bool(w, "transposed", true);
    if (p->groups) mf_jw_kv_int(w, "groups", p->groups);
    if (p->group_size) mf_jw_kv_int(w, "group_size", p->group_size);
    if (p->scale_rows) mf_jw_kv_int(w, "scale_rows", p->scale_rows);
    if (p->scale_type) mf_jw_kv_int(w, "scale_type", p->scale_type);
    if (p->whole_zeros) mf_jw_kv_bool(w, "whole_zeros", true);
    for (int i = 0; i < MF_STORED_POINTERS; i++)
        if (at[i]) put_pointer(w, f, pointers[i], at[i]);
    mf_jw_end(w);
}

static void put_weight(mf_jw *w, const mf_stored_files *f, const mf_stored_weight *x)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", x->name);
    mf_jw_kv_int(w, "groups", x->w->groups);
    mf_jw_kv_int(w, "out", x->w->out);
    mf_jw_kv_int(w, "in", x->w->in);
    mf_jw_key(w, "parts");
    mf_jw_array(w);
    for (int64_t i = 0; i < x->w->groups * x->w->parts; i++)
        put_part(w, f, &x->w->part[i]);
    mf_jw_end(w);
    mf_jw_end(w);
}

/* Returns the directory that contains the run of a list, without links and without a final
 * slash. The caller frees it with free. NULL: unknown. */
static char *beside(const char *list)
{
    char *dir = mf_parent_of(list), *full = dir ? realpath(dir, NULL) : NULL;
    char *slash = full ? strrchr(full, '/') : NULL;
    if (dir && !full) mf_fault_errno(dir);
    mf_free(dir);
    if (slash) *slash = '\0';
    return full;
}

/* Returns the path of a file relative to this directory; NULL: the file is elsewhere. Files
 * beside a run may be moved with it. */
static const char *near(const char *dir, const char *file)
{
    const size_t n = dir ? strlen(dir) : 0;
    return n > 0 && strncmp(file, dir, n) == 0 && file[n] == '/' ? file + n + 1 : NULL;
}

int mf_stored_files_write(const mf_stored_files *f, const mf_store *store, const char *path)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    const unsigned long faults = mf_faults();
    char *dir = beside(path);
    int rc = MF_OK;
    /* Without dir, the relative paths of files beside the run would be missing. This is an
     * error if dir could not be found because of a fault of the system. */
    if (!dir && mf_faults() != faults) {
        const char *why = mf_fault_last(&rc);
        mf_jw_free(w);
        return mf_fail(rc, "%s: cannot write: %s", path, why);
    }
    mf_jw_object(w);
    mf_jw_kv_string(w, "format", "moefw-stored");
    mf_jw_kv_int(w, "version", 1);
    mf_jw_key(w, "files");
    mf_jw_array(w);
    for (int i = 0; i < f->n_files; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "path", f->files[i].path);
        const char *rest = near(dir, f->files[i].path);
        if (rest) mf_jw_kv_string(w, "beside", rest);
        mf_jw_kv_int(w, "bytes", (int64_t)f->files[i].map.size);
        mf_jw_kv_int(w, "changed", f->files[i].map.changed);
        mf_jw_kv_string(w, "xxh128", f->files[i].hash);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_key(w, "weights");
    mf_jw_array(w);
    for (int i = 0; i < f->n_weights; i++) {
        const mf_param *p = mf_store_find(store, f->weights[i].name);
        if (p && p->stored) put_weight(w, f, &f->weights[i]);
    }
    mf_jw_end(w);
    mf_jw_end(w);
    free(dir);
    size_t n = 0;
    const char *text = mf_jw_text(w, &n);
    rc = text ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

/* ---- reading ---- */

static int wrong(const char *path, const char *what)
{
    return mf_fail(MF_EINPUT, "%s: %s", path, what);
}

static int judge_hash(const mf_stored_file *file)
{
    char now[33];
    mf_hash_bytes(file->map.data ? file->map.data : "", file->map.size, now);
    if (strcmp(now, file->hash) == 0) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s, which holds weights of this run, has changed: expected XXH3-128 %s, "
                   "found %s; import its folder again",
                   file->path, file->hash, now);
}

/* Checks that a file is the file that was recorded. */
static int judge_file(mf_stored_file *file, int64_t bytes, int64_t changed)
{
    if ((int64_t)file->map.size != bytes)
        return mf_fail(MF_EINPUT,
                       "%s, which holds weights of this run, has changed: expected %lld bytes, "
                       "found %zu; import its folder again",
                       file->path, (long long)bytes, file->map.size);
    return file->map.changed == changed ? MF_OK : judge_hash(file);
}

/* Maps the file beside the run, or else at its path when the list was written. */
static int map_file(const char *dir, const char *rest, const char *path, mf_stored_files *f)
{
    char *at = dir && rest ? mf_path_join(dir, rest) : NULL;
    if (dir && rest && !at) return MF_ENOMEM;
    const bool moved = at && strcmp(at, path) != 0;
    int rc = at ? mf_stored_files_map(f, at) : MF_ENOTFOUND;
    if (rc == MF_ENOTFOUND && (!at || moved)) rc = mf_stored_files_map(f, path);
    if (rc == MF_ENOTFOUND)
        rc = mf_fail(MF_EINPUT,
                     "%s%s%s, which holds weights of this run, is missing; put it back, or "
                     "import its folder again",
                     moved ? at : "", moved ? " or " : "", path);
    mf_free(at);
    return rc;
}

static int read_file(const char *list, const char *dir, const mf_json *v, mf_stored_files *f)
{
    const char *path = mf_json_string(mf_json_get(v, "path"), NULL),
               *rest = mf_json_string(mf_json_get(v, "beside"), NULL),
               *hash = mf_json_string(mf_json_get(v, "xxh128"), NULL);
    int64_t bytes, changed;
    if (!path || path[0] != '/' || (rest && !mf_path_goes_down(rest)) || !hash ||
        strlen(hash) != 32 || !mf_json_int(mf_json_get(v, "bytes"), &bytes) ||
        !mf_json_int(mf_json_get(v, "changed"), &changed))
        return wrong(list, "expected files with path, bytes, changed and xxh128");
    const int rc = map_file(dir, rest, path, f);
    if (rc != MF_OK) return rc;
    mf_stored_file *file = &f->files[f->n_files - 1];
    memcpy(file->hash, hash, sizeof file->hash);
    return judge_file(file, bytes, changed);
}

/* Reads [file, offset]; NULL if the value is missing, or not within the file. */
static const void *read_pointer(const mf_stored_files *f, const mf_json *v, const char *key)
{
    const mf_json *at = mf_json_get(v, key);
    int64_t file, offset;
    if (!mf_json_int(mf_json_at(at, 0), &file) || !mf_json_int(mf_json_at(at, 1), &offset) ||
        file < 0 || file >= f->n_files || offset < 0)
        return NULL;
    return mf_stored_files_at(f, (int)file, (uint64_t)offset, 1, 1);
}

static bool read_part(const mf_stored_files *f, const mf_json *v, mf_stored_part *p)
{
    const char *type = mf_json_string(mf_json_get(v, "type"), NULL);
    int t = 0;
    while (t < MF_STORED_TYPES && (!type || strcmp(type, mf_stored_type_names[t]) != 0))
        t++;
    *p = (mf_stored_part){.type = (mf_stored_type)t,
                          .rows = mf_json_int_or_0(v, "rows"),
                          .ld = mf_json_int_or_0(v, "ld"),
                          .groups = mf_json_int_or_0(v, "groups"),
                          .group_size = mf_json_int_or_0(v, "group_size"),
                          .scale_rows = mf_json_int_or_0(v, "scale_rows"),
                          .data = read_pointer(f, v, pointers[0]),
                          .scales = read_pointer(f, v, pointers[1]),
                          .zeros = read_pointer(f, v, pointers[2]),
                          .group_of = read_pointer(f, v, pointers[3])};
    const int64_t scale_type = mf_json_int_or_0(v, "scale_type");
    mf_json_bool(mf_json_get(v, "pairs"), &p->pairs);
    mf_json_bool(mf_json_get(v, "whole_zeros"), &p->whole_zeros);
    mf_json_bool(mf_json_get(v, "transposed"), &p->transposed);
    p->scale_type = (mf_scale_type)scale_type;
    return t < MF_STORED_TYPES && scale_type >= 0 && scale_type <= MF_SCALE_F32;
}

static int read_weight(const char *list, const mf_json *v, mf_stored_files *f)
{
    const char *name = mf_json_string(mf_json_get(v, "name"), NULL);
    const mf_json *parts = mf_json_get(v, "parts");
    const size_t n = mf_json_typeof(parts) == MF_JSON_ARRAY ? mf_json_size(parts) : 0;
    mf_stored w = {.groups = mf_json_int_or_0(v, "groups"),
                   .out = mf_json_int_or_0(v, "out"),
                   .in = mf_json_int_or_0(v, "in")};
    if (!name || w.groups < 1 || n < 1 || n % (size_t)w.groups != 0)
        return wrong(list, "expected weights with name, groups, out, in and parts");
    mf_stored_part *part = mf_alloc(n, sizeof *part);
    if (!part) return MF_ENOMEM;
    w.parts = (int64_t)n / w.groups;
    w.part = part;
    bool good = true;
    for (size_t i = 0; good && i < n; i++) {
        good = read_part(f, mf_json_at(parts, i), &part[i]);
        const mf_stored_part *before = i % (size_t)w.parts == 0 ? NULL : &part[i - 1];
        /* the sum overflows, so there are too many rows: mf_stored_judge refuses
         * negative numbers */
        if (before && __builtin_add_overflow(before->first, before->rows, &part[i].first))
            part[i].first = -1;
    }
    int rc = good ? mf_stored_files_put(f, name, &w) : wrong(list, "a part has no known type");
    mf_free(part);
    return rc == MF_EINPUT ? mf_fail_context(rc, "%s", list) : rc;
}

static int read_list(const char *path, const mf_json *doc, mf_stored_files *f)
{
    const char *format = mf_json_string(mf_json_get(doc, "format"), NULL);
    const mf_json *files = mf_json_get(doc, "files"), *weights = mf_json_get(doc, "weights");
    if (!format || strcmp(format, "moefw-stored") != 0 ||
        mf_json_int_or_0(doc, "version") != 1 || mf_json_typeof(files) != MF_JSON_ARRAY ||
        mf_json_typeof(weights) != MF_JSON_ARRAY)
        return wrong(path, "expected a list of stored weights of version 1");
    int rc = MF_OK;
    char *dir = beside(path);
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(files); i++)
        rc = read_file(path, dir, mf_json_at(files, i), f);
    free(dir);
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(weights); i++)
        rc = read_weight(path, mf_json_at(weights, i), f);
    return rc;
}

int mf_stored_files_read(const char *path, mf_stored_files **ret)
{
    char *text = NULL;
    size_t n;
    mf_json *doc = NULL;
    mf_stored_files *f = mf_stored_files_new();
    int rc = f ? mf_read_file(path, MF_JSON_SIZE_MAX, &text, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_json_parse(path, text, n, &doc);
    mf_free(text);
    if (rc == MF_OK) rc = read_list(path, doc, f);
    mf_json_free(doc);
    if (rc == MF_OK)
        *ret = f;
    else
        mf_stored_files_free(f);
    return rc;
}

int mf_stored_files_verify(const char *path, uint64_t *ret_bytes)
{
    mf_stored_files *f = NULL;
    *ret_bytes = 0;
    if (!mf_exists(path)) return MF_OK;
    int rc = mf_stored_files_read(path, &f);
    for (int i = 0; rc == MF_OK && i < f->n_files; i++) {
        mf_map_ordered(&f->files[i].map);
        rc = judge_hash(&f->files[i]);
        *ret_bytes += f->files[i].map.size;
    }
    mf_stored_files_free(f);
    return rc;
}
