/* pretrained/gguf/gguf_tokens.h: the tokenizer of a run as keys of a GGUF file. */
#ifndef MF_PRETRAINED_GGUF_TOKENS_H
#define MF_PRETRAINED_GGUF_TOKENS_H

#include "pretrained/gguf/gguf_arch.h"

/* Writes tokens, types, merges or scores, special tokens and the chat template. A run without a
 * tokenizer, and any run if `none`, gets the keys of a file without one. MF_EINPUT: the
 * tokenizer has a part that GGUF cannot express; MF_ENOMEM. */
int mf_gguf_tokens(const mf_export_run *x, const mf_gguf_arch *a, bool none, mf_gguf *w);

#endif
