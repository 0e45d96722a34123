/* pretrained/record_read.c: finds and reads the record of an imported run.
 *
 * A ledger is checked like any input. Names, types and shapes are bounded before they are used,
 * and matching compares them with the model. */
#include "pretrained/record.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "generate/generation.h"
#include "io/writer.h"
#include "pretrained/folder.h"
#include "pretrained/import.h"
#include "run/folder/rundir.h"
#include "run/run_config.h"

enum { ANCESTORS_MAX = 64, SHARDS_MAX = 4096, CONFIG_MAX = 1 << 20, PIECE = 1 << 20 };
#define ELEMENTS_MAX ((int64_t)1 << 48)

/* ---- the run that was imported ---- */

static bool has_record(mf_arena *arena, const char *run, const char *or_file,
                       const char **ret_folder)
{
    char *folder = mf_arena_strf(arena, "%s/" MF_PRETRAINED_FOLDER, run);
    char *ledger = folder ? mf_arena_strf(arena, "%s/" MF_PRETRAINED_LEDGER, folder) : NULL;
    char *other = folder && or_file ? mf_arena_strf(arena, "%s/%s", folder, or_file) : NULL;
    *ret_folder = folder;
    return (ledger && mf_exists(ledger)) || (other && mf_exists(other));
}

/* Looks for the record of one run. *ret_folder: the record of this run, or NULL. If NULL,
 * *ret_from is the run from which this run started, or NULL. run may be RUN/best. or_file: a
 * folder without a ledger, but with this file, counts too; NULL: it does not. */
static int look(mf_arena *arena, const char *run, const char *or_file, const char **ret_folder,
                const char **ret_from)
{
    mf_rundir *dir = NULL;
    mf_config *c = NULL;
    *ret_from = NULL;
    int rc = mf_rundir_read(run, &dir);
    const bool found = rc == MF_OK && has_record(arena, dir->path, or_file, ret_folder);
    if (rc == MF_OK && !*ret_folder) rc = MF_ENOMEM;
    if (!found) *ret_folder = NULL;
    if (rc == MF_OK && !found) rc = mf_config_load(dir->config, 0, NULL, &c);
    if (rc == MF_OK && !found && c->train.from[0] != '\0')
        if (!(*ret_from = mf_arena_strdup(arena, c->train.from))) rc = MF_ENOMEM;
    mf_config_free(c);
    mf_rundir_close(dir);
    return rc;
}

/* Finds the record of a run. or_file: as for look. *ret: the folder pretrained/ of the run or
 * of a run from which it started; NULL: none. *ret_gone: a run from which it started and that
 * no longer exists; else NULL. */
static int find_record(mf_arena *arena, const char *run, const char *or_file, const char **ret,
                       const char **ret_gone)
{
    int rc = MF_OK;
    *ret = *ret_gone = NULL;
    for (int i = 0; rc == MF_OK && run && !*ret && i < ANCESTORS_MAX; i++) {
        if (i > 0 && !mf_rundir_readable(run)) {
            *ret_gone = run;
            break;
        }
        rc = look(arena, run, or_file, ret, &run);
    }
    return rc;
}

int mf_record_copy_file(const char *from, const char *to)
{
    uint64_t size = 0;
    mf_writer w = {.fd = -1};
    char *room = mf_alloc_raw(PIECE);
    int fd = -1, rc = room ? mf_file_open(from, &fd, &size) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_writer_open(&w, to, true);
    for (uint64_t at = 0; rc == MF_OK && at < size; at += PIECE) {
        const size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        rc = mf_file_read_at(fd, from, room, n, at);
        if (rc == MF_OK) mf_writer_put(&w, room, n);
    }
    if (w.path) {
        const int closed = mf_writer_close(&w, rc == MF_OK);
        if (rc == MF_OK) rc = closed;
    }
    if (fd >= 0) mf_file_close(fd);
    mf_free(room);
    return rc;
}

static int copy_record(mf_arena *arena, const char *from, const char *to)
{
    char **names = NULL;
    int n = 0;
    int rc = mf_mkdirs(to);
    if (rc == MF_OK) rc = mf_list_dir(from, &names, &n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const char *old = mf_arena_strf(arena, "%s/%s", from, names[i]),
                   *new = mf_arena_strf(arena, "%s/%s", to, names[i]);
        if (!old || !new)
            rc = MF_ENOMEM;
        else if (!mf_is_dir(old))
            rc = mf_record_copy_file(old, new);
    }
    mf_list_free(names, n);
    if (rc == MF_OK) rc = mf_modules_copy(from, to);
    return rc;
}

int mf_record_copy(const char *run, const char *to)
{
    mf_arena *arena = mf_arena_new();
    const char *folder = NULL, *gone;
    int rc = arena ? find_record(arena, run, NULL, &folder, &gone) : MF_ENOMEM;
    if (rc == MF_OK && folder) {
        const char *new = mf_arena_strf(arena, "%s/" MF_PRETRAINED_FOLDER, to);
        rc = new ? copy_record(arena, folder, new) : MF_ENOMEM;
    }
    mf_arena_free(arena);
    return rc;
}

/* Writes a value of config.json: a number, a truth value, null, or a list of these. */
static void put_value(mf_jw *w, const mf_json *v)
{
    int64_t whole;
    double real;
    bool truth;
    if (mf_json_typeof(v) == MF_JSON_ARRAY) {
        mf_jw_array(w);
        for (size_t i = 0; i < mf_json_size(v); i++)
            put_value(w, mf_json_at(v, i));
        mf_jw_end(w);
    } else if (mf_json_bool(v, &truth)) {
        mf_jw_bool(w, truth);
    } else if (mf_json_int(v, &whole)) {
        mf_jw_int(w, whole);
    } else if (mf_json_real(v, &real)) {
        mf_jw_real(w, real);
    } else {
        mf_jw_null(w);
    }
}

/* Writes generation_config.json from config.json: another model may not have the file, since
 * it describes this one. */
static int write_generation(const char *config, const char *to)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id",   "pad_token_id",
                                       "do_sample",    "temperature",    "top_p",
                                       "top_k",        "max_new_tokens", "repetition_penalty"};
    mf_json *json = NULL;
    mf_jw *w = mf_jw_new();
    size_t n = 0;
    int rc = w ? mf_folder_json(config, CONFIG_MAX, &json) : MF_ENOMEM;
    if (rc == MF_OK) {
        mf_jw_object(w);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            const mf_json *v = mf_json_get(json, keys[i]);
            if (v) mf_jw_key(w, keys[i]);
            if (v) put_value(w, v);
        }
        mf_jw_end(w);
        const char *text = mf_jw_text(w, &n);
        rc = text ? mf_write_file_atomic(to, text, n) : MF_ENOMEM;
    }
    mf_json_free(json);
    mf_jw_free(w);
    return rc;
}

int mf_record_copy_generation(const char *run, const char *to)
{
    mf_arena *arena = mf_arena_new();
    const char *folder = NULL, *gone;
    int rc = arena ? find_record(arena, run, MF_GENERATION_FILE, &folder, &gone) : MF_ENOMEM;
    if (rc == MF_OK && folder) {
        const char *old = mf_arena_strf(arena, "%s/" MF_GENERATION_FILE, folder),
                   *config = mf_arena_strf(arena, "%s/config.json", folder),
                   *own = mf_arena_strf(arena, "%s/" MF_PRETRAINED_FOLDER, to),
                   *new = own ? mf_arena_strf(arena, "%s/" MF_GENERATION_FILE, own) : NULL;
        rc = old && config && own && new ? mf_mkdirs(own) : MF_ENOMEM;
        if (rc == MF_OK)
            rc = mf_exists(old) ? mf_record_copy_file(old, new) : write_generation(config, new);
    }
    mf_arena_free(arena);
    return rc;
}

int mf_record_folder(const char *run, char **ret)
{
    mf_arena *arena = mf_arena_new();
    const char *folder = NULL, *gone;
    int rc = arena ? find_record(arena, run, MF_GENERATION_FILE, &folder, &gone) : MF_ENOMEM;
    *ret = NULL;
    if (rc == MF_OK && folder && !(*ret = mf_strdup(folder))) rc = MF_ENOMEM;
    mf_arena_free(arena);
    return rc;
}

/* ---- the ledger ---- */

static int bad(const mf_record *r, const char *what)
{
    return mf_fail(MF_EINPUT, "%s/" MF_PRETRAINED_LEDGER ": expected %s", r->folder, what);
}

static int read_tensor(const mf_record *r, const mf_json *v, mf_st_tensor **ret)
{
    const mf_json *shape = mf_json_get(v, "shape");
    const char *name = mf_json_string(mf_json_get(v, "name"), NULL),
               *dtype = mf_json_string(mf_json_get(v, "dtype"), NULL);
    mf_st_tensor *t = mf_arena_alloc(r->arena, sizeof *t);
    if (!t) return MF_ENOMEM;
    if (!name || strlen(name) >= MF_ST_NAME_MAX || !dtype ||
        mf_json_typeof(shape) != MF_JSON_ARRAY || mf_json_size(shape) > MF_ST_RANK_MAX)
        return bad(r, "tensors with name, dtype and shape");
    *t = (mf_st_tensor){.name = name,
                        .dtype_name = dtype,
                        .dtype = mf_st_dtype_of(dtype),
                        .rank = (int)mf_json_size(shape),
                        .count = 1};
    for (int d = 0; d < t->rank; d++) {
        int64_t n;
        if (!mf_json_int(mf_json_at(shape, (size_t)d), &n) || n < 0 || n > ELEMENTS_MAX ||
            (n > 0 && t->count > (uint64_t)(ELEMENTS_MAX / n)))
            return bad(r, "shapes of whole numbers");
        t->shape[d] = n;
        t->count *= (uint64_t)n;
    }
    t->bytes = t->count * mf_st_dtype_size(t->dtype);
    *ret = t;
    return MF_OK;
}

typedef struct entry {
    const mf_st_tensor *tensor;
    int32_t shard;
} entry;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor->name, ((const entry *)b)->tensor->name);
}

/* Reads the tensors of all shards into r->tensors, sorted by name. */
static int read_tensors(mf_record *r, const mf_json *shards)
{
    size_t n = 0;
    int rc = MF_OK;
    for (int32_t s = 0; s < r->n_shards; s++)
        n += mf_json_size(mf_json_get(mf_json_at(shards, (size_t)s), "tensors"));
    if (n > MF_ST_TENSORS_MAX) return bad(r, "fewer tensors");
    entry *all = mf_arena_alloc(r->arena, (n + 1) * sizeof *all);
    r->tensors = mf_arena_alloc(r->arena, (n + 1) * sizeof *r->tensors);
    r->shard_of = mf_arena_alloc(r->arena, (n + 1) * sizeof *r->shard_of);
    if (!all || !r->tensors || !r->shard_of) return MF_ENOMEM;
    for (int32_t s = 0; rc == MF_OK && s < r->n_shards; s++) {
        const mf_json *list = mf_json_get(mf_json_at(shards, (size_t)s), "tensors");
        for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
            mf_st_tensor *t = NULL;
            rc = read_tensor(r, mf_json_at(list, i), &t);
            all[r->n].shard = s;
            if (rc == MF_OK) all[r->n++].tensor = t;
        }
    }
    if (rc != MF_OK) return rc;
    qsort(all, (size_t)r->n, sizeof *all, by_name);
    for (int64_t i = 0; i < r->n; i++) {
        r->tensors[i] = all[i].tensor;
        r->shard_of[i] = all[i].shard;
    }
    return MF_OK;
}

static int read_shards(mf_record *r)
{
    const mf_json *shards = mf_json_get(r->doc, "shards");
    const size_t n = mf_json_typeof(shards) == MF_JSON_ARRAY ? mf_json_size(shards) : 0;
    if (n < 1 || n > SHARDS_MAX) return bad(r, "an array \"shards\"");
    r->n_shards = (int32_t)n;
    r->shards = mf_arena_alloc(r->arena, n * sizeof *r->shards);
    if (!r->shards) return MF_ENOMEM;
    for (int32_t s = 0; s < r->n_shards; s++) {
        const mf_json *v = mf_json_at(shards, (size_t)s);
        const char *file = mf_json_string(mf_json_get(v, "file"), NULL);
        r->shards[s] = (mf_record_shard){file, mf_json_get(v, "metadata")};
        if (!file || strchr(file, '/') || strstr(file, "..") || file[0] == '.' ||
            file[0] == '\0')
            return bad(r, "shards with names of files");
    }
    return read_tensors(r, shards);
}

static int read_family(mf_record *r)
{
    char *path = mf_arena_strf(r->arena, "%s/" MF_FOLDER_CONFIG, r->folder);
    int rc = path ? mf_folder_json(path, CONFIG_MAX, &r->config) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_family_of(path, r->config, &r->family);
    return rc == MF_OK ? mf_keys_read(r->family, path, r->config, r->arena, &r->keys) : rc;
}

static int open_record(const char *run, mf_record **ret, const char **ret_gone)
{
    mf_arena *arena = mf_arena_new();
    mf_record *r = arena ? mf_arena_alloc(arena, sizeof *r) : NULL;
    *ret = NULL;
    if (!r) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    r->arena = arena;
    int rc = find_record(arena, run, NULL, &r->folder, ret_gone);
    if (rc == MF_OK && !r->folder && *ret_gone)
        rc = mf_fail(MF_EINPUT,
                     "%s: the run that it began with, %s, is no longer there, and with it the "
                     "record of the folder that was imported",
                     run, *ret_gone);
    if (rc != MF_OK || !r->folder) {
        mf_arena_free(arena);
        return rc;
    }
    char *path = mf_arena_strf(arena, "%s/" MF_PRETRAINED_LEDGER, r->folder);
    rc = path ? mf_folder_json(path, MF_JSON_SIZE_MAX, &r->doc) : MF_ENOMEM;
    if (rc == MF_OK) rc = read_family(r);
    if (rc == MF_OK) rc = read_shards(r);
    if (rc != MF_OK) {
        mf_record_free(r);
        return rc;
    }
    *ret = r;
    return MF_OK;
}

int mf_record_open(const char *run, mf_record **ret)
{
    const char *gone = NULL;
    const int rc = open_record(run, ret, &gone);
    if (!gone) return rc;
    mf_error_clear();
    return MF_OK;
}

int mf_record_find(const char *run, mf_record **ret)
{
    const char *gone = NULL;
    return open_record(run, ret, &gone);
}

int mf_record_need(const char *run, mf_record **ret)
{
    const int rc = mf_record_find(run, ret);
    if (rc != MF_OK || *ret) return rc;
    return mf_fail(MF_EINPUT,
                   "%s: no model folder belongs to this run or to one that it began with; "
                   "expected a run of moefw import FOLDER, or one trained from it ('moefw "
                   "export hf %s -o FOLDER' writes a folder)",
                   run, run);
}

int mf_record_match(mf_record *r, const char *run, const mf_store *store)
{
    return mf_match_tensors(r->family, &r->keys, store, run, r->tensors, r->n, &r->ledger);
}

void mf_record_free(mf_record *r)
{
    if (!r) return;
    mf_free(r->ledger.places);
    mf_json_free(r->doc);
    mf_json_free(r->config);
    mf_arena_free(r->arena);
}
