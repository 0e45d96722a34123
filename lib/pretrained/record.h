/* pretrained/record.h: the folder pretrained/ of a run, which describes the source of its
 * imported weights. */
#ifndef MF_PRETRAINED_RECORD_H
#define MF_PRETRAINED_RECORD_H

#include "pretrained/folder.h"
#include "pretrained/match.h"

/* Writes RUN/pretrained: ledger.json, copies of the small files of the folder, checksums
 * of its files, and the tensors that the ledger skips. MF_EIO, MF_ENOMEM, and errors of reading
 * the folder. */
int mf_record_write(const char *run, const mf_family *family, const mf_folder *folder,
                    const mf_st_tensor *const *tensors, const mf_ledger *ledger);

typedef struct mf_record_shard {
    const char *file;
    const mf_json *metadata; /* a JSON object whose values are texts */
} mf_record_shard;

/* A small file of the record that exists only in memory. */
typedef struct mf_record_file {
    const char *name, *text;
    size_t n; /* size in bytes */
} mf_record_file;
enum { MF_RECORD_FILES = 16 };

/* The record of a run. */
typedef struct mf_record {
    const char *folder; /* path of the folder pretrained/; NULL: the run was not imported, and
                         * its small files are `files` (published/published.h) */
    int n_files;
    mf_record_file files[MF_RECORD_FILES];
    /* rows of queries and keys are written in another order (MF_RULE_APART) */
    bool reordered;
    const mf_family *family;
    mf_keys keys;
    int32_t n_shards;
    mf_record_shard *shards; /* [n_shards] */
    int64_t n;
    const mf_st_tensor **tensors; /* [n] sorted by name */
    int32_t *shard_of;            /* [n] index of the shard of each tensor */
    mf_ledger ledger;             /* set by mf_record_match; else empty */
    mf_json *doc, *config;
    mf_arena *arena;
} mf_record;

/* Reads the record of a run, or of the run that its train.from names, and so on. *ret is NULL
 * if none of these runs that still exist was imported. MF_EINPUT, MF_ENOMEM. The caller
 * frees *ret. */
int mf_record_open(const char *run, mf_record **ret);
/* The same as mf_record_open, but MF_EINPUT if one of these runs, which may have had a record,
 * no longer exists. */
int mf_record_find(const char *run, mf_record **ret);
/* The same as mf_record_find, but MF_EINPUT if none of these runs was imported. */
int mf_record_need(const char *run, mf_record **ret);
/* Copies only what says how texts are generated, generation_config.json, or what config.json
 * says of it, to RUN/pretrained of the run `to`, which has another model. Else as
 * mf_record_copy. */
int mf_record_copy_generation(const char *run, const char *to);
/* Returns the folder pretrained/ that mf_record_open would read, or one that only has a
 * generation_config.json; *ret is NULL if there is none. The caller frees it. */
int mf_record_folder(const char *run, char **ret);
/* Fills record->ledger with places in a store. MF_EINPUT, with the tensor named, if the family
 * can no longer express the model. run: name of the run, for messages. */
int mf_record_match(mf_record *record, const char *run, const mf_store *store);
/* Copies the record that mf_record_open would find for `run` to the folder pretrained/ of the
 * run `to`, which has no such folder. Does nothing if none of these runs was imported.
 * MF_EIO, MF_ENOMEM. */
int mf_record_copy(const char *run, const char *to);
/* Copies a file of any size. MF_EIO, MF_ENOMEM. */
int mf_record_copy_file(const char *from, const char *to);
/* Copies the folders that modules.json of the folder `from` names, of sentence-transformers,
 * into the folder `to`, unless they are there. Does nothing without that file, or if it has
 * another form. MF_EIO, MF_ENOMEM. */
int mf_modules_copy(const char *from, const char *to);
/* record may be NULL. */
void mf_record_free(mf_record *record);

#endif
