/* data/tokenizer/pretrained/convert.h: the vocabulary files of other programs, which are read
 * as the tokenizer.json that has the same ids. A run keeps this tokenizer.json. */
#ifndef MF_DATA_PRETRAINED_CONVERT_H
#define MF_DATA_PRETRAINED_CONVERT_H

#include "data/tokenizer/pretrained/pretrained.h"

/* Each makes the text of a tokenizer.json, which the caller frees with mf_free. where: the
 * file, for messages. config: tokenizer_config.json of the folder, may be NULL. MF_EINPUT for a
 * damaged file and for one that asks for more than a tokenizer.json can say; MF_ENOMEM. */
int mf_pt_convert_spm(const char *where, const char *text, size_t n, const mf_json *config,
                      char **ret, size_t *ret_n); /* tokenizer.model of sentencepiece */
int mf_pt_convert_tiktoken(const char *where, const char *text, size_t n, const mf_json *config,
                           char **ret, size_t *ret_n);
int mf_pt_convert_tekken(const char *where, const char *text, size_t n, const mf_json *config,
                         char **ret, size_t *ret_n); /* tekken.json of mistral-common */

/* Reads the first of these files that a folder has; *ret is NULL if it has none. Errors as
 * above, and MF_EIO. */
int mf_pt_convert_folder(const char *folder, const mf_json *config, char **ret, size_t *ret_n);

/* ---- parts of a tokenizer.json that several converters write ---- */

/* Writes version, truncation and padding into a new object. */
void mf_pt_put_head(mf_jw *w);
/* Writes an item of "added_tokens". */
void mf_pt_put_added(mf_jw *w, int32_t id, const char *name, bool special);
/* Writes the template that puts a token before a text, and one behind it. NULL: no token. */
void mf_pt_put_template(mf_jw *w, const char *before, int32_t before_id, const char *behind,
                        int32_t behind_id);
/* Writes "pre_tokenizer" and "decoder" of byte-level BPE whose words n expressions find, one
 * after the other. */
void mf_pt_put_byte_level(mf_jw *w, int n, const char *const *patterns);
/* Takes the text out of the writer, and frees the writer. */
int mf_pt_put_end(mf_jw *w, char **ret, size_t *ret_n);

/* Tokens of bytes in the order of their ranks. */
typedef struct mf_pt_ranks {
    mf_strings bytes;
} mf_pt_ranks;
/* Adds the token of the next rank, in base64. */
int mf_pt_add_rank(const char *where, const char *text, size_t n, mf_pt_ranks *r);
/* Writes "model": a token of rank r has the id r + first. Special tokens have the ids below
 * `first`; `specials` has their names, each with its NUL. Each way to make a token of two
 * others is a merge, in the order of ranks. */
int mf_pt_put_ranked_model(const char *where, const mf_pt_ranks *r, const mf_strings *specials,
                           int32_t first, mf_jw *w);

#endif
