/* data/tokenizer_kinds.h: the kinds of tokenizers, one a file. */
#ifndef MF_DATA_TOKENIZER_KINDS_H
#define MF_DATA_TOKENIZER_KINDS_H

#include "data/tokenizer.h"

extern const mf_tokenizer_ops mf_tokenizer_byte;
extern const mf_tokenizer_ops mf_tokenizer_char;

#endif
