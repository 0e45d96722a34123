/* decode.h: texts of tokens. */
#ifndef MF_TESTS_DECODE_H
#define MF_TESTS_DECODE_H

#include "data/tokenizer/tokenizer.h"

/* The bytes that a decoder gives for ids; the caller frees them with free(). */
char *decoded(const mf_tokenizer *t, const mf_ids *ids, size_t *ret_n);

#endif
