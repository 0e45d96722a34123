/* train/checkpoint_parts.h: what the files of the checkpoint share; nobody else includes it.
 *   state.c              mf_state: numbers and blobs by name
 *   checkpoint_files.c   the two tensor files, to and from disk
 *   checkpoint_manifest.c  MANIFEST.json, which vouches for all
 *   checkpoint_save.c    the order of writing; pruning
 *   checkpoint_load.c    judging, taking over, resuming
 */
#ifndef MF_TRAIN_CHECKPOINT_PARTS_H
#define MF_TRAIN_CHECKPOINT_PARTS_H

#include "train/checkpoint.h"

#define MF_CKPT_MODEL    "model.safetensors"
#define MF_CKPT_STATE    "state.safetensors"
#define MF_CKPT_MANIFEST "MANIFEST.json"

enum { MF_CKPT_FILES = 2, MF_CKPT_VERSION = 1, MF_HASH_TEXT = 33 };
extern const char *const mf_ckpt_files[MF_CKPT_FILES]; /* all but the manifest */

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
    mf_item *items; /* in order of name */
    int n, cap;
};

typedef struct mf_ckpt_file {
    uint64_t bytes;
    char hash[MF_HASH_TEXT];
} mf_ckpt_file;

/* A manifest that was read: strings live in the document. */
typedef struct mf_manifest {
    int64_t step;
    mf_identity identity;
    mf_identity_plugin *plugins;
    mf_ckpt_file file[MF_CKPT_FILES];
    struct mf_json *document;
} mf_manifest;

/* In the folder `path` of one checkpoint. */
int mf_manifest_write(const char *path, int64_t step, const mf_identity *identity);
int mf_manifest_read(const char *path, mf_manifest *ret);
void mf_manifest_free(mf_manifest *m);

int mf_ckpt_write_model(const char *path, const mf_store *store);
int mf_ckpt_write_state(const char *path, const mf_store *store, const mf_state *state);
/* Do names and shapes fit the store? Nothing is read into it. but: names that hold this text
 * need not fit; NULL: all must. */
int mf_ckpt_fit_model(const char *path, const mf_store *store, const char *but);
int mf_ckpt_fit_state(const char *path, const mf_store *store);
/* Of names that hold `but`, those are read that fit. */
int mf_ckpt_read_model(const char *path, mf_store *store, const char *but);
/* What both have; MF_ECHECKPOINT for one name with two shapes. */
int mf_ckpt_read_common(const char *path, mf_store *store, int *ret_read, int *ret_missing);
int mf_ckpt_read_numbers(const char *path, mf_state **ret); /* of the state, without moments */
int mf_ckpt_read_state(const char *path, mf_store *store, mf_state **ret);

/* "step-12" to 12; false for any other name. */
bool mf_ckpt_step_of(const char *name, int64_t *ret);
bool mf_ckpt_is_leftover(const char *name); /* of a save that did not end */
/* A whole checkpoint that made room for a new one of the same step. */
bool mf_ckpt_is_replaced(const char *name, int64_t *ret_step);

#endif
