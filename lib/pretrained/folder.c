/* pretrained/folder.c: opens a model folder and checks that its files agree.
 *
 * Names in the index come from a third party. A name is used as a path only after it was
 * checked to be the name of a safetensors file. */
#include "pretrained/folder.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"

enum { CONFIG_MAX = 1 << 20, SHARDS_MAX = 4096, NAME_MAX_BYTES = 255 };

bool mf_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* ---- what is not read ---- */

static bool is_pickle(const char *name)
{
    static const char *const ends[] = {".bin", ".pt", ".pth", ".pkl", ".ckpt"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (mf_ends_with(name, ends[i])) return true;
    return false;
}

static int refuse_pickle(const char *path, const char *name)
{
    return mf_fail(MF_EINPUT,
                   "%s: %s is a pickle file, which can run code when it is read; expected "
                   "safetensors: with transformers, "
                   "AutoModelForCausalLM.from_pretrained('%s').save_pretrained('NEW') writes "
                   "them",
                   path, name, path);
}

/* Writes the message about a folder without safetensors files. */
static int no_weights(const char *path)
{
    char **names;
    int n, rc = mf_list_dir(path, &names, &n);
    if (rc != MF_OK) return rc;
    for (int i = 0; rc == MF_OK && i < n; i++)
        if (is_pickle(names[i])) rc = refuse_pickle(path, names[i]);
    mf_list_free(names, n);
    if (rc != MF_OK) return rc;
    return mf_fail(MF_EINPUT, "%s: expected " MF_FOLDER_MODEL " or " MF_FOLDER_INDEX, path);
}

/* ---- config.json ---- */

int mf_folder_json(const char *path, size_t most, mf_json **ret)
{
    char *text = NULL;
    size_t n = 0;
    int rc = mf_read_file(path, most, &text, &n);
    if (rc == MF_ENOTFOUND) rc = mf_fail(MF_EINPUT, "%s: there is no such file", path);
    if (rc == MF_OK) rc = mf_json_parse(path, text, n, ret);
    mf_free(text);
    return rc;
}

/* ---- the index ---- */

static int judge_shard_name(const char *path, const char *tensor, const char *name)
{
    if (!name || strlen(name) > NAME_MAX_BYTES)
        return mf_fail(MF_EINPUT, "%s: tensor '%.200s': expected the name of a file", path,
                       tensor);
    if (strchr(name, '/') || strstr(name, "..") || name[0] == '.')
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%.200s': shard '%s': expected the name of a file in the "
                       "folder, without '/' and '..'",
                       path, tensor, name);
    if (is_pickle(name)) return refuse_pickle(path, name);
    if (!mf_ends_with(name, ".safetensors"))
        return mf_fail(MF_EINPUT, "%s: tensor '%.200s': shard '%s': expected NAME.safetensors",
                       path, tensor, name);
    return MF_OK;
}

static int add_shard(const char *path, mf_arena *arena, const char **names, int32_t *n,
                     const char *name)
{
    /* Neighbours in an index are usually in the same shard, so the last shard is
     * tried first. */
    for (int32_t i = *n; i-- > 0;)
        if (strcmp(names[i], name) == 0) return MF_OK;
    if (*n == SHARDS_MAX)
        return mf_fail(MF_EINPUT, "%s: expected at most %d shards", path, SHARDS_MAX);
    names[*n] = mf_arena_strdup(arena, name);
    return names[(*n)++] ? MF_OK : MF_ENOMEM;
}

int mf_folder_read_index(const char *path, const char *text, size_t size, mf_arena *arena,
                         mf_json **ret_doc, const mf_json **ret_map, const char ***ret_names,
                         int32_t *ret_n)
{
    const char *key;
    const mf_json *value;
    *ret_doc = NULL;
    *ret_n = 0;
    int rc = mf_json_parse(path, text, size, ret_doc);
    if (rc != MF_OK) return rc;
    const mf_json *map = *ret_map = mf_json_get(*ret_doc, "weight_map");
    if (mf_json_typeof(map) != MF_JSON_OBJECT || mf_json_size(map) == 0)
        return mf_fail(MF_EINPUT, "%s: expected an object \"weight_map\" with tensors", path);
    if (mf_json_size(map) > MF_ST_TENSORS_MAX)
        return mf_fail(MF_EINPUT, "%s: expected at most %d tensors, found %zu", path,
                       (int)MF_ST_TENSORS_MAX, mf_json_size(map));
    *ret_names = mf_arena_alloc(arena, SHARDS_MAX * sizeof **ret_names);
    if (!*ret_names) return MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && mf_json_member(map, i, &key, &value); i++) {
        const char *name = mf_json_string(value, NULL);
        rc = judge_shard_name(path, key, name);
        if (rc == MF_OK) rc = add_shard(path, arena, *ret_names, ret_n, name);
    }
    return rc;
}

/* ---- shards ---- */

static int open_shard(mf_folder *f, const char *name, const char *named_by)
{
    char *path = mf_path_join(f->path, name);
    int rc = path ? mf_st_open(path, &f->shards[f->n_shards]) : MF_ENOMEM;
    if (rc == MF_OK) f->shard_names[f->n_shards++] = name;
    if (rc == MF_ENOTFOUND)
        rc = mf_fail(MF_EINPUT, "%s: there is no such file, but %s names it", path, named_by);
    mf_free(path);
    return rc;
}

static int room_for_shards(mf_folder *f, int32_t n)
{
    f->shards = mf_arena_alloc(f->arena, (size_t)n * sizeof *f->shards);
    f->shard_names = mf_arena_alloc(f->arena, (size_t)n * sizeof *f->shard_names);
    return f->shards && f->shard_names ? MF_OK : MF_ENOMEM;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const mf_folder_tensor *)a)->tensor->name,
                  ((const mf_folder_tensor *)b)->tensor->name);
}

/* Lists the tensors of all shards. */
static int list_tensors(mf_folder *f)
{
    size_t n = 0;
    for (int32_t s = 0; s < f->n_shards; s++)
        n += mf_st_count(f->shards[s]);
    f->tensors = mf_arena_alloc(f->arena, (n + 1) * sizeof *f->tensors);
    if (!f->tensors) return MF_ENOMEM;
    for (int32_t s = 0; s < f->n_shards; s++)
        for (size_t i = 0; i < mf_st_count(f->shards[s]); i++)
            f->tensors[f->n++] = (mf_folder_tensor){mf_st_at(f->shards[s], i), s};
    qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_name);
    for (int64_t i = 1; i < f->n; i++)
        if (strcmp(f->tensors[i - 1].tensor->name, f->tensors[i].tensor->name) == 0)
            return mf_fail(MF_EINPUT, "%s: tensor '%s' is in %s and in %s", f->path,
                           f->tensors[i].tensor->name, f->shard_names[f->tensors[i - 1].shard],
                           f->shard_names[f->tensors[i].shard]);
    return MF_OK;
}

/* Checks that index and shards contain the same tensors, each in the same shard. */
static int compare_index(const mf_folder *f, const char *path, const mf_json *map)
{
    const char *key;
    const mf_json *value;
    for (int64_t i = 0; i < f->n; i++) {
        const char *name = f->tensors[i].tensor->name,
                   *file = f->shard_names[f->tensors[i].shard];
        const char *said = mf_json_string(mf_json_get(map, name), NULL);
        if (!said || strcmp(said, file) != 0)
            return mf_fail(MF_EINPUT, "%s: tensor '%s' is in %s, but the index %s%s", path,
                           name, file, said ? "says " : "does not name it", said ? said : "");
    }
    if ((int64_t)mf_json_size(map) == f->n) return MF_OK;
    for (size_t i = 0; mf_json_member(map, i, &key, &value); i++) {
        bool found = false;
        const char *file = mf_json_string(value, NULL);
        for (int32_t s = 0; s < f->n_shards && !found; s++)
            found = strcmp(f->shard_names[s], file) == 0 && mf_st_find(f->shards[s], key);
        if (!found)
            return mf_fail(MF_EINPUT, "%s: tensor '%.200s' is not in %s", path, key, file);
    }
    return MF_OK;
}

static int open_index(mf_folder *f, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    mf_json *doc = NULL;
    const mf_json *map = NULL;
    const char **names = NULL;
    int32_t n = 0;
    int rc = mf_read_file(path, MF_JSON_SIZE_MAX, &text, &size);
    if (rc == MF_OK)
        rc = mf_folder_read_index(path, text, size, f->arena, &doc, &map, &names, &n);
    mf_free(text);
    if (rc == MF_OK) rc = room_for_shards(f, n);
    for (int32_t i = 0; rc == MF_OK && i < n; i++)
        rc = open_shard(f, names[i], MF_FOLDER_INDEX);
    if (rc == MF_OK) rc = list_tensors(f);
    if (rc == MF_OK) rc = compare_index(f, path, map);
    mf_json_free(doc);
    return rc;
}

static int open_weights(mf_folder *f)
{
    char *index = mf_path_join(f->path, MF_FOLDER_INDEX),
         *model = mf_path_join(f->path, MF_FOLDER_MODEL);
    int rc = index && model ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(model)) {
        /* Such an index is left over from another form of the model. transformers also reads
         * the single file. */
        if (mf_exists(index))
            mf_log(MF_LOG_WARN,
                   "%s: " MF_FOLDER_MODEL " is read, as transformers does; " MF_FOLDER_INDEX
                   " and what it names beside it are not",
                   f->path);
        rc = room_for_shards(f, 1);
        if (rc == MF_OK) rc = open_shard(f, MF_FOLDER_MODEL, "the folder");
        if (rc == MF_OK) rc = list_tensors(f);
    } else if (rc == MF_OK && mf_exists(index)) {
        rc = open_index(f, index);
    } else if (rc == MF_OK) {
        rc = no_weights(f->path);
    }
    mf_free(index);
    mf_free(model);
    return rc;
}

static int judge_path(const char *path)
{
    if (!mf_exists(path)) return mf_fail(MF_EINPUT, "%s: there is no such folder", path);
    if (mf_is_dir(path)) return MF_OK;
    if (is_pickle(path)) return refuse_pickle(path, "it");
    return mf_fail(MF_EINPUT,
                   "%s: expected a model folder with " MF_FOLDER_CONFIG ", found a file", path);
}

int mf_folder_open(const char *path, mf_folder **ret)
{
    int rc = judge_path(path);
    if (rc != MF_OK) return rc;
    mf_arena *arena = mf_arena_new();
    mf_folder *f = arena ? mf_arena_alloc(arena, sizeof *f) : NULL;
    if (!f) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    f->arena = arena;
    f->path = mf_arena_strdup(arena, path);
    f->config_path = mf_arena_strf(arena, "%s/" MF_FOLDER_CONFIG, path);
    rc = f->path && f->config_path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_folder_json(f->config_path, CONFIG_MAX, &f->config);
    if (rc == MF_OK && mf_json_typeof(f->config) != MF_JSON_OBJECT)
        rc = mf_fail(MF_EINPUT, "%s: expected an object", f->config_path);
    if (rc == MF_OK) rc = open_weights(f);
    if (rc != MF_OK) {
        mf_folder_close(f);
        return rc;
    }
    *ret = f;
    return MF_OK;
}

void mf_folder_close(mf_folder *f)
{
    if (!f) return;
    for (int32_t i = 0; i < f->n_shards; i++)
        mf_st_close(f->shards[i]);
    mf_json_free(f->config);
    mf_arena_free(f->arena);
}
