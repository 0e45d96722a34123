/* pretrained/gguf/gguf_in.h: imports of GGUF files. A file is unpacked into a model
 * folder, whose tensors keep their names of GGUF: the tables that exports of GGUF use give
 * their places. */
#ifndef MF_PRETRAINED_GGUF_IN_H
#define MF_PRETRAINED_GGUF_IN_H

#include "io/json.h"
#include "pretrained/family.h"
#include "pretrained/gguf/gguf_read.h"

/* Whether a path names a GGUF file: it ends with .gguf, and is no folder. */
bool mf_gguf_is_file(const char *path);
/* Writes config.json, model.safetensors and, if `tokenizer` is set and the file has one,
 * the tokenizer into the folder, which must exist. Weights of few bits become F32.
 * *ret_rules: the places of the tensors. MF_EINPUT: the file is damaged, or says what no
 * family here can read; MF_EIO; MF_ENOMEM. */
int mf_gguf_unpack(const char *path, const char *folder, bool tokenizer,
                   const mf_family_rule **ret_rules);

/* ---- parts ---- */

/* Writes the text of the config.json that says the same as the keys of the file. *ret_tied:
 * the head is the embedding. The caller frees *ret. */
int mf_gguf_config(const mf_gguf_in *f, char **ret, const mf_family_rule **ret_rules,
                   bool *ret_tied);
/* Makes the texts of tokenizer.json and tokenizer_config.json; both are NULL if the file
 * has no tokenizer. The caller frees them. MF_EINPUT: the tokenizer is of a kind that
 * cannot be read. */
int mf_gguf_tokenizer(const mf_gguf_in *f, char **ret, char **ret_config);

#endif
