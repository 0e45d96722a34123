/* pretrained/import.h: makes runs from model folders, and model folders from runs.
 *
 * An imported run is an ordinary run with one checkpoint of step 0. Its folder pretrained/
 * keeps the data that our parameters cannot hold: ledger.json (the family, and all tensors with
 * names, types, shapes and shards), copies of the model folder's small files, checksums.xxh128
 * with the checksums of the model's files, and skipped.safetensors with the tensors of which no
 * parameter holds a copy. */
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
    const char *family; /* name of the family (family.h) */
    const char *dtype;  /* type of most values, for example "BF16" */
    int64_t params, params_active;
    int64_t stored;        /* number of parameters that stay in the files of the folder */
    int64_t used, skipped; /* numbers of tensors */
    bool tokenizer;        /* whether the run has a tokenizer */
} mf_import_report;

typedef struct mf_import_options {
    /* Read all weights to f32, so that the run does not need the folder. */
    bool copy;
    /* "experts=4,top_k=2": make a model with experts from the dense model (upcycle.h). Such a
     * run keeps no record, so it is exported in another form. This implies copy. NULL: none. */
    const char *upcycle;
    /* The run gets no tokenizer, and accepts only files of ids. Without this option, a
     * tokenizer that cannot be read is an error. */
    bool no_tokenizer;
    bool verified; /* the checksums in the folder are known to be those of its files */
} mf_import_options;

/* Imports a folder. Weights stay in its files, which the run lists (stored_files.h), so the
 * files must stay at their paths. run: the run directory, which must be new or empty; NULL:
 * runs/NAME-N is created. If the folder contains checksums.xxh128, its files must agree with
 * it. If the folder was imported to `run` before, its files must agree with the checksums of
 * that run. If an error occurs, no new run remains. MF_EINPUT with file and tensor named; the
 * errors of mf_rundir_create. options NULL: none. The caller frees ret->run. */
int mf_import(const char *folder, const mf_import_options *options, const char *run,
              mf_import_report *ret);

/* Imports an adapter folder of PEFT onto a run that was imported, or trained from an imported
 * run. Makes the run `run` (NULL: runs/NAME-N) with the weights of that run, adapters of the
 * plugin lora, and train.freeze = *, so that training changes only the adapters. Errors as in
 * mf_import; MF_EINPUT if the run has adapters already. */
int mf_import_adapter(const char *folder, const char *onto, const char *run,
                      mf_import_report *ret);
/* Whether the folder is an adapter folder. */
bool mf_import_is_adapter(const char *folder);

/* Writes the router of a run's family, with its options, as text for mf_swap, if a block has
 * another router plugin; else *ret is NULL. The caller frees it. MF_EINPUT if the run was
 * not imported. */
int mf_export_router(const char *run, char **ret);

typedef enum mf_export_adapters {
    MF_EXPORT_MERGED, /* changes of the plugin lora are added to the weights */
    MF_EXPORT_WITHOUT /* the weights are written without the changes */
} mf_export_adapters;

typedef struct mf_export_options {
    mf_export_adapters adapters;
    mf_st_dtype dtype; /* type of all tensors that parameters hold; MF_ST_UNKNOWN: their types
                        * in the imported files, or F32 if the run was not imported */
    /* the family in whose form the run is written (published/published.h); NULL: the form of
     * the imported folder, or else the first form that can express the model */
    const char *as;
    bool no_tokenizer; /* the tokenizer is not written */
} mf_export_options;

/* Writes the weights of a run in the form of the folder from which it was imported: the same
 * names, types, shards and small files, and their checksums. Weights that were not changed are
 * equal bit for bit. A run that was not imported, or that the family of its folder can no
 * longer express, is written in a published form, as one file of weights with config.json,
 * generation_config.json, tokenizer and README.md. The folder must be new. It is written under
 * a temporary name and renamed at the end. *ret_tensors: number of its tensors. MF_EINPUT if no
 * form can express the model; MF_EUSAGE if the folder exists or options->as is no such form;
 * MF_EIO. */
int mf_export_hf(const char *run, const char *folder, const mf_export_options *options,
                 int64_t *ret_tensors);

/* Writes the weights of a run, with its tokenizer, as a GGUF file of version 3. path: a new
 * file NAME.gguf; else a folder, created if it is missing, in which MF_EXPORT_GGUF is written.
 * Weights keep their stored types; norms, biases, routers and gates of shared experts are F32.
 * A dtype other than MF_ST_UNKNOWN is the type of all other weights, except weights of four
 * bits that were not changed. The caller frees *ret_path, the path of the file. A run that was
 * not imported is written as by mf_export_hf. MF_EINPUT if GGUF cannot express the model;
 * MF_EUSAGE if the file exists; MF_EIO. */
int mf_export_gguf(const char *run, const char *path, const mf_export_options *options,
                   char **ret_path);
#define MF_EXPORT_GGUF "model.gguf"

/* Writes the adapters of the plugin lora as an adapter folder of PEFT, in the form of version
 * MF_PEFT_VERSION. The folder must be new. *ret_tensors: number of its tensors. MF_EINPUT if
 * the run has no such adapters, or was not imported; MF_EUSAGE if the folder exists; MF_EIO. */
int mf_export_peft(const char *run, const char *folder, int64_t *ret_tensors);
#define MF_PEFT_VERSION "0.21.2"

#endif
