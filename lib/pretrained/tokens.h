/* pretrained/tokens.h: computes the results of a model for given tokens, and writes them to
 * files for comparisons with other programs.
 *
 * The input is a safetensors file with input_ids [B,T] (I64), B sequences of T positions, and
 * optionally attention_mask [B,T] (I64; 1: a token, 0: padding), token_type_ids [B,T] (I64;
 * models with segments) and labels. labels are [B,T] (I64; the token itself, which the position
 * before it predicts; -100: not counted), or for classifiers [B] (I64; the class). Other
 * tensors of the file are ignored. */
#ifndef MF_PRETRAINED_TOKENS_H
#define MF_PRETRAINED_TOKENS_H

#include "run/session.h"

typedef struct mf_tokens {
    int32_t rows, width;
    mf_batch *batch; /* `rows` sequences; targets follow from the labels; without labels they
                      * are -1 */
    bool masked;     /* the file has attention_mask */
    bool labelled;   /* the file has labels */
} mf_tokens;

/* Reads a file for the model of a session. MF_EINPUT, with the tensor named, if a tensor has
 * another type or shape, an id outside of the vocabulary, or more positions than the model. */
int mf_tokens_read(const char *path, const mf_session *s, mf_tokens *ret);
/* Reads the texts of a file, one per line and up to a tab, for the model of a session. The
 * template of its tokenizer is applied. Texts are padded or cut to `length` positions; 0: to
 * the longest text, but not more than the model has. At most `count` texts; 0: all. MF_EUSAGE
 * if the run has no tokenizer, or if the model has fewer positions than length; MF_EINPUT
 * without a text. */
int mf_tokens_read_lines(const char *path, const mf_session *s, int64_t count, int64_t length,
                         mf_tokens *ret);
void mf_tokens_free(mf_tokens *t);

/* Runs the model and writes a new file: input_ids and attention_mask I64 [B,T], logits f32
 * [B,T,V] (classifiers: [B,classes]), hidden.first and hidden.last f32 [B,T,d], and for each
 * MoE layer, with L the number of its block, moe.L.logits f32 [B T,E], moe.L.expert i32 [B T,k]
 * in ascending order, and the gates moe.L.gate f32 [B T,k]. For routers that assign a varying
 * number of tokens to an expert, expert and gate are not written. *ret_loss: mean loss of the
 * labels; NaN if there are no labels. */
int mf_tokens_save(mf_session *s, const mf_tokens *t, const char *path, double *ret_loss);
/* Writes the gradients of the mean loss of the labels to a new file, without those of
 * regularizers. The gradients have the names of our parameters. If the run started from an
 * imported run and still has its model, they are also written under the names of the
 * imported tensors. The session must have gradients. run: the run directory. MF_EINPUT
 * without labels. */
int mf_tokens_gradients(mf_session *s, const char *run, const mf_tokens *t, const char *path,
                        double *ret_loss);

#endif
