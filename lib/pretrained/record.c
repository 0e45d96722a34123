/* pretrained/record.c: writes the folder pretrained/ of an imported run.
 *
 * Only regular files with the endings below are copied; weights are not. Names of files and
 * tensors are written unchanged. */
#include "pretrained/record.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/checksums.h"
#include "pretrained/import.h"

/* Whether a file is a small file, which is copied. whole: the folder has a single file of
 * weights, so an index belongs to other files. */
static bool is_small(const char *name, bool whole)
{
    if (whole && strcmp(name, MF_FOLDER_INDEX) == 0) return false;
    static const char *const ends[] = {".json", ".txt", ".jinja", ".model", ".md"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && name[0] != '.' && strcmp(name + n - m, ends[i]) == 0) return true;
    }
    return false;
}

/* Copies the small files, and writes the checksums of all files that belong to the model. */
static int copy_files(const mf_folder *f, const char *to)
{
    char **names = NULL;
    int n = 0, rc = mf_list_dir(f->path, &names, &n);
    const char **ours = rc == MF_OK ? mf_alloc((size_t)n + 1, sizeof *ours) : NULL;
    int64_t n_ours = 0;
    const bool whole = f->n_shards == 1 && strcmp(f->shard_names[0], MF_FOLDER_MODEL) == 0;
    if (rc == MF_OK && !ours) rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        bool shard = false;
        for (int32_t s = 0; s < f->n_shards && !shard; s++)
            shard = strcmp(names[i], f->shard_names[s]) == 0;
        char *path = mf_path_join(f->path, names[i]), *copy = mf_path_join(to, names[i]);
        const bool small = !shard && is_small(names[i], whole) && path && !mf_is_dir(path);
        if (!path || !copy) rc = MF_ENOMEM;
        if (rc == MF_OK && small) rc = mf_record_copy_file(path, copy);
        if (shard || small) ours[n_ours++] = names[i];
        mf_free(path);
        mf_free(copy);
    }
    char *list = mf_path_join(to, MF_CHECKSUMS), *own = mf_path_join(f->path, MF_CHECKSUMS);
    if (rc == MF_OK && (!list || !own)) rc = MF_ENOMEM;
    if (rc == MF_OK) /* the folder's own checksums, if it has any, were verified before */
        rc = mf_checksums_write(f->path, ours, n_ours, mf_exists(own) ? own : NULL, list);
    mf_free(list);
    mf_free(own);
    mf_free(ours);
    mf_list_free(names, n);
    return rc;
}

static void put_tensor(mf_jw *w, const mf_st_tensor *t, const mf_place *p)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", t->name);
    mf_jw_kv_string(w, "dtype", t->dtype_name);
    mf_jw_key(w, "shape");
    mf_jw_array(w);
    for (int d = 0; d < t->rank; d++)
        mf_jw_int(w, t->shape[d]);
    mf_jw_end(w);
    if (p->param) mf_jw_kv_string(w, "parameter", p->param->name);
    if (p->other) mf_jw_kv_string(w, "second", p->other->name);
    if ((!p->param && p->form == MF_FORM_PLAIN) || p->tied)
        mf_jw_kv_string(w, "skipped", p->rule->more);
    mf_jw_end(w);
}

static void put_shards(mf_jw *w, const mf_folder *f, const mf_st_tensor *const *tensors,
                       const mf_ledger *ledger)
{
    const char *key, *value;
    mf_jw_key(w, "shards");
    mf_jw_array(w);
    for (int32_t s = 0; s < f->n_shards; s++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "file", f->shard_names[s]);
        mf_jw_key(w, "metadata");
        mf_jw_object(w);
        for (size_t i = 0; mf_st_meta_at(f->shards[s], i, &key, &value); i++)
            mf_jw_kv_string(w, key, value);
        mf_jw_end(w);
        mf_jw_key(w, "tensors");
        mf_jw_array(w);
        for (int64_t i = 0; i < f->n; i++)
            if (f->tensors[i].shard == s) put_tensor(w, tensors[i], &ledger->places[i]);
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static int write_ledger(const char *to, const mf_family *family, const mf_folder *f,
                        const mf_st_tensor *const *tensors, const mf_ledger *ledger)
{
    mf_jw *w = mf_jw_new();
    char *path = mf_path_join(to, MF_PRETRAINED_LEDGER);
    if (!w || !path) {
        mf_jw_free(w);
        mf_free(path);
        return MF_ENOMEM;
    }
    mf_jw_object(w);
    mf_jw_kv_string(w, "format", "moefw-pretrained");
    mf_jw_kv_int(w, "version", 1);
    mf_jw_kv_string(w, "family", family->name);
    mf_jw_kv_string(w, "folder", f->path);
    put_shards(w, f, tensors, ledger);
    mf_jw_end(w);
    size_t n = 0;
    const char *text = mf_jw_text(w, &n);
    const int rc = text ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    mf_free(path);
    return rc;
}

/* ---- skipped tensors ---- */

static int put_skipped(mf_st_writer *w, const mf_folder *f, const mf_st_tensor *t,
                       const char *name)
{
    enum { PIECE = 1 << 20 };
    const mf_folder_tensor *found = NULL;
    char *room = mf_alloc_raw(PIECE);
    int rc = room ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; i < f->n && !found; i++)
        if (strcmp(f->tensors[i].tensor->name, name) == 0) found = &f->tensors[i];
    if (rc == MF_OK && !found)
        rc = mf_fail(MF_EINPUT, "%s: expected a tensor '%s'", f->path, name);
    for (uint64_t at = 0; rc == MF_OK && at < t->bytes; at += PIECE) {
        const uint64_t n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        rc = mf_st_read_part(f->shards[found->shard], found->tensor, room, (size_t)n, at);
        if (rc == MF_OK) rc = mf_st_writer_put(w, room, (size_t)n);
    }
    mf_free(room);
    return rc;
}

/* Lists which tensors must be copied. No parameter holds their bytes, and they are not part of
 * a weight that stays in the folder's files. The result [n] is freed by the caller; NULL: not
 * enough memory. */
static bool *list_copied(const mf_ledger *l)
{
    bool *copied = mf_alloc((size_t)l->n + 1, sizeof *copied);
    for (int64_t i = 0; copied && i < l->n; i++)
        copied[i] = !l->places[i].param || l->places[i].form != MF_FORM_PLAIN;
    for (int64_t i = 0; copied && i < l->n; i++) {
        const mf_place *p = &l->places[i];
        if (!p->param || p->form == MF_FORM_PLAIN || !p->param->stored) continue;
        for (int j = 0; j < mf_form_parts(p->form); j++)
            if (p->parts[j] >= 0) copied[p->parts[j]] = false;
    }
    return copied;
}

static int write_skipped(const char *to, const mf_folder *f, const mf_st_tensor *const *tensors,
                         const mf_ledger *ledger)
{
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(to, MF_PRETRAINED_SKIPPED);
    bool *copied = list_copied(ledger);
    const mf_st_tensor *t;
    int64_t n = 0;
    int rc = w && path && copied ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < f->n; i++) {
        if (!copied[i]) continue;
        t = tensors[i];
        rc = mf_st_writer_add(w, t->name, t->dtype, t->rank, t->shape);
        n++;
    }
    if (rc == MF_OK && n > 0) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && n > 0 && (t = mf_st_writer_due(w, NULL)))
        rc = put_skipped(w, f, t, t->name);
    if (rc == MF_OK && n > 0) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(path);
    mf_free(copied);
    return rc;
}

int mf_record_write(const char *run, const mf_family *family, const mf_folder *folder,
                    const mf_st_tensor *const *tensors, const mf_ledger *ledger)
{
    char *to = mf_path_join(run, MF_PRETRAINED_FOLDER);
    int rc = to ? mf_mkdirs(to) : MF_ENOMEM;
    if (rc == MF_OK) rc = copy_files(folder, to);
    if (rc == MF_OK) rc = mf_modules_copy(folder->path, to);
    if (rc == MF_OK) rc = write_ledger(to, family, folder, tensors, ledger);
    if (rc == MF_OK) rc = write_skipped(to, folder, tensors, ledger);
    mf_free(to);
    return rc;
}
