/* models.h: small model folders of one block, for tests of imports, and runs. All weights are
 * drawn. Each function replaces what is at its path. */
#ifndef MF_TESTS_MODELS_H
#define MF_TESTS_MODELS_H

#include <stdint.h>
#include "data/safetensors/safetensors.h"

/* A tensor of a file. The last entry of a list has no name. */
typedef struct models_tensor {
    const char *name;
    mf_st_dtype dtype;
    int rank;
    int64_t shape[4];
} models_tensor;

/* Writes a file with these tensors. It may contain more tensors than a model needs. Values of
 * F32 are drawn by name and are in -0.5 .. 0.5; bytes are from 0 to 127. */
void models_file(const char *path, const models_tensor *list);

/* Llama: 16 ids, 2 heads, width 16; the MLP has the hidden width `hidden`. keys: further
 * members of config.json, beginning with a comma; more: further tensors, or NULL. */
void models_llama(const char *folder, int hidden, const char *keys, const models_tensor *more);
/* gpt-oss: 4 experts whose weights are MXFP4, width 32. */
void models_gpt_oss(const char *folder);
/* DeepSeek-V2: 4 experts, width 16; queries, keys and values of latent attention. */
void models_deepseek(const char *folder);
/* A BERT that classifies into two classes: width 16. */
void models_bert(const char *folder);

/* Writes a run to `path` that looks as if it had been trained from `run`. Its settings are
 * those of `run` with the n changes in `set`; its weights are drawn. */
void models_run_from(const char *run, int n, const char *const *set, const char *path);

#endif
