/* pretrained/folder.h: a model folder in the form of Hugging Face, opened for reading.
 *
 * A folder contains config.json and safetensors files: model.safetensors, or without it the
 * shards that model.safetensors.index.json names. Opening reads headers only. It checks that
 * every shard exists, that index and shards name the same tensors, and that no name occurs
 * twice. A file of the folder is never changed.
 *
 * Limits: config.json 1 MiB, the index 64 MiB, and those of data/safetensors. A shard's name
 * must be a file name. A path with '/' is refused, and so are pickle files. */
#ifndef MF_PRETRAINED_FOLDER_H
#define MF_PRETRAINED_FOLDER_H

#include "base/mem.h"
#include "io/json.h"
#include "data/safetensors/safetensors.h"

#define MF_FOLDER_CONFIG "config.json"
#define MF_FOLDER_MODEL  "model.safetensors"
#define MF_FOLDER_INDEX  "model.safetensors.index.json"

typedef struct mf_folder_tensor {
    const mf_st_tensor *tensor;
    int32_t shard; /* index of its file in mf_folder.shards */
} mf_folder_tensor;

typedef struct mf_folder {
    const char *path;
    const char *config_path;
    mf_json *config; /* always a JSON object */
    int32_t n_shards;
    mf_st_file **shards;      /* [n_shards] */
    const char **shard_names; /* [n_shards] file names without the folder */
    int64_t n;
    mf_folder_tensor *tensors; /* [n] tensors of all shards, sorted by name */
    mf_arena *arena;
} mf_folder;

/* Opens a folder. MF_EINPUT, with the file, and the tensor if there is one, named; MF_EIO;
 * MF_ENOMEM. The caller closes it. */
int mf_folder_open(const char *path, mf_folder **ret);
/* folder may be NULL. */
void mf_folder_close(mf_folder *folder);
/* Reads a file of up to `most` bytes. MF_EINPUT: there is none, or it is no JSON. */
int mf_folder_json(const char *path, size_t most, mf_json **ret);
/* Reads an index. *ret_names are the names of its shards in the order of their first
 * occurrence, *ret_map is the object that maps tensors to shards. Both are valid as long as
 * arena and *ret_doc, which the caller frees even after a failure. MF_EINPUT, MF_ENOMEM. */
int mf_folder_read_index(const char *path, const char *text, size_t size, mf_arena *arena,
                         mf_json **ret_doc, const mf_json **ret_map, const char ***ret_names,
                         int32_t *ret_n);

/* Whether a text ends with `end` and has something before it. */
bool mf_ends_with(const char *text, const char *end);

#endif
