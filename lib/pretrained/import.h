/* pretrained/import.h: makes a run of a model folder, and model folders of runs.
 *
 * An imported run is a run as any other, with one checkpoint of step 0. Its folder pretrained/
 * keeps what our parameters cannot hold: ledger.json (the family, and all tensors with names,
 * types, shapes and shards), copies of the folder's small files, checksums.xxh128 with the
 * checksums of all its files, and skipped.safetensors with the tensors that no parameter holds
 * a copy of. */
#ifndef MF_PRETRAINED_IMPORT_H
#define MF_PRETRAINED_IMPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "data/safetensors/safetensors.h"

#define MF_PRETRAINED_FOLDER  "pretrained"
#define MF_PRETRAINED_LEDGER  "ledger.json"
#define MF_PRETRAINED_SKIPPED "skipped.safetensors"

typedef struct mf_import_report {
    char *run;          /* path of the run directory */
    const char *family; /* of family.h */
    const char *dtype;  /* that of most values: "BF16" */
    int64_t params, params_active;
    int64_t stored;        /* parameters that stay in the files of the folder */
    int64_t used, skipped; /* numbers of tensors */
    bool tokenizer;        /* the run has one */
} mf_import_report;

typedef struct mf_import_options {
    /* All weights are read to f32, so that the run does not need the folder. */
    bool copy;
    /* "experts=4,top_k=2": a model of experts is made of the dense one (upcycle.h). Such a run
     * keeps no record, so it is not exported. It implies copy. NULL: not. */
    const char *upcycle;
    /* The run gets no tokenizer, and takes files of ids only. Without this one that cannot be
     * read is an error. */
    bool no_tokenizer;
} mf_import_options;

/* Imports a folder. Weights stay in its files, of which the run keeps a list (stored_files.h),
 * so the files must stay where they are. run: the run directory, which must be new or empty;
 * NULL: runs/NAME-N is made. A folder with checksums.xxh128 must agree with it, and one that
 * was imported to `run` before with the checksums of that run. If an error occurs, no new run
 * remains. MF_EINPUT with file and tensor named; the errors of mf_rundir_create. options: NULL
 * for none. The caller frees ret->run. */
int mf_import(const char *folder, const mf_import_options *options, const char *run,
              mf_import_report *ret);

/* Imports an adapter folder of PEFT onto a run that was imported, or trained from an imported
 * one: makes the run `run` (NULL: runs/NAME-N) with its weights, adapters of the plugin lora,
 * and train.freeze = *, so that training changes only the adapters. Errors as of mf_import;
 * MF_EINPUT if the run has adapters already. */
int mf_import_adapter(const char *folder, const char *onto, const char *run,
                      mf_import_report *ret);
/* Whether a folder is one of an adapter. */
bool mf_import_is_adapter(const char *folder);

/* The router of a run's family, with its options, as text for mf_swap, if some block has a
 * router of another plugin; else *ret is NULL. The caller frees it. MF_EINPUT if the run was
 * not imported. */
int mf_export_router(const char *run, char **ret);

typedef enum mf_export_adapters {
    MF_EXPORT_MERGED, /* changes of the plugin lora are added to the weights */
    MF_EXPORT_WITHOUT /* the weights are written without them */
} mf_export_adapters;

typedef struct mf_export_options {
    mf_export_adapters adapters;
    mf_st_dtype dtype; /* of all tensors that parameters hold; MF_ST_UNKNOWN: as they came */
} mf_export_options;

/* Writes the weights of a run in the form of the folder that it came from: the same names,
 * types, shards and small files, and their checksums. Weights that were not changed are equal
 * bit for bit. The folder must be new; it is written beside its name and renamed at the end.
 * *ret_tensors: how many it holds. MF_EINPUT if the run was not imported, or if the family
 * cannot express its model; MF_EUSAGE if the folder exists; MF_EIO. */
int mf_export_hf(const char *run, const char *folder, const mf_export_options *options,
                 int64_t *ret_tensors);

/* Writes the weights of a run, with its tokenizer, as a GGUF file of version 3. path: a new
 * file NAME.gguf; else a folder, made if it is missing, which gets MF_EXPORT_GGUF. Weights keep
 * their stored types; norms, biases, routers and gates of shared experts are F32. A dtype other
 * than MF_ST_UNKNOWN is that of all other weights, except those of four bits that were not
 * changed. The caller frees *ret_path, the file. MF_EINPUT if the run was not imported, or if
 * GGUF cannot express its model; MF_EUSAGE if the file exists; MF_EIO. */
int mf_export_gguf(const char *run, const char *path, const mf_export_options *options,
                   char **ret_path);
#define MF_EXPORT_GGUF "model.gguf"

/* Writes the adapters of the plugin lora as an adapter folder of PEFT, in the form of version
 * MF_PEFT_VERSION. The folder must be new. *ret_tensors: how many it holds. MF_EINPUT if the
 * run has none, or was not imported; MF_EUSAGE if the folder exists; MF_EIO. */
int mf_export_peft(const char *run, const char *folder, int64_t *ret_tensors);
#define MF_PEFT_VERSION "0.21.2"

#endif
