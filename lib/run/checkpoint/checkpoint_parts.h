/* run/checkpoint/checkpoint_parts.h: declarations for the files of this folder only.
 *
 *    state.c                mf_state: numbers and blobs by name
 *    checkpoint_files.c     writes and reads the two tensor files
 *    checkpoint_manifest.c  MANIFEST.json, which has the checksums of the other files
 *    checkpoint_save.c      the order of writing; removes old checkpoints
 *    checkpoint_load.c      verifies, loads, resumes
 *
 * The argument `path` of these functions is the folder of one checkpoint. */
#ifndef MF_RUN_CHECKPOINT_PARTS_H
#define MF_RUN_CHECKPOINT_PARTS_H

#include "run/checkpoint/checkpoint.h"

#define MF_CKPT_MODEL    "model.safetensors"
#define MF_CKPT_STATE    "state.safetensors"
#define MF_CKPT_MANIFEST "MANIFEST.json"

enum { MF_CKPT_FILES = 2, MF_CKPT_VERSION = 1, MF_HASH_TEXT = 33 };
extern const char *const mf_ckpt_files[MF_CKPT_FILES]; /* all files except the manifest */

typedef enum mf_item_kind { MF_ITEM_INT, MF_ITEM_REAL, MF_ITEM_BLOB } mf_item_kind;

typedef struct mf_item {
    char *name;
    mf_item_kind kind;
    int64_t integer;
    double real;
    void *blob;
    size_t n;
} mf_item;

struct mf_state {
    mf_item *items; /* sorted by name */
    int n, cap;
};

typedef struct mf_ckpt_file {
    uint64_t bytes;
    char hash[MF_HASH_TEXT];
} mf_ckpt_file;

/* The content of a manifest file. The document owns its strings. */
typedef struct mf_manifest {
    int64_t step;
    mf_provenance provenance;
    mf_provenance_plugin *plugins;
    mf_ckpt_file file[MF_CKPT_FILES];
    struct mf_json *document;
} mf_manifest;

int mf_manifest_write(const char *path, int64_t step, const mf_provenance *identity);
int mf_manifest_read(const char *path, mf_manifest *ret);
void mf_manifest_free(mf_manifest *m);

int mf_ckpt_write_model(const char *path, const mf_store *store,
                        const mf_ckpt_moments *moments);
int mf_ckpt_write_state(const char *path, const mf_store *store, const mf_ckpt_moments *moments,
                        const mf_state *state);
/* These functions check names and shapes against the store, without reading values.
 * MF_ECHECKPOINT if they differ. but: parameters whose names contain this text may differ;
 * NULL: all parameters must fit. */
int mf_ckpt_fit_model(const char *path, const mf_store *store, const char *but);
int mf_ckpt_fit_state(const char *path, const mf_store *store);
/* Reads all parameters and buffers. A parameter whose name contains `but` is read only if
 * it fits. */
int mf_ckpt_read_model(const char *path, mf_store *store, const char *but);
/* Reads the parameters and buffers that both store and file contain, and counts them.
 * *ret_missing: number of parameters that the file lacks. MF_ECHECKPOINT if a parameter has
 * another shape in the file; then nothing is read. */
int mf_ckpt_read_common(const char *path, mf_store *store, int *ret_read, int *ret_missing);
/* Reads the state without moments. */
int mf_ckpt_read_numbers(const char *path, mf_state **ret);
/* Reads the state, and the moments into the store. */
int mf_ckpt_read_state(const char *path, mf_store *store, mf_state **ret);

/* Converts "step-12" to 12. Returns false for any other name. */
bool mf_ckpt_step_of(const char *name, int64_t *ret);
/* Whether this is the name of a file or folder that only an interrupted save leaves. */
bool mf_ckpt_is_leftover(const char *name);
/* Whether this is the name of a complete checkpoint that a new checkpoint was to replace. */
bool mf_ckpt_is_replaced(const char *name, int64_t *ret_step);

#endif
