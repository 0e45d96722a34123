/* decode.h: decodes tokens to text. */
#ifndef MF_TESTS_DECODE_H
#define MF_TESTS_DECODE_H

#include "data/tokenizer/tokenizer.h"

/* The bytes to which a decoder decodes ids; the caller frees them with free(). */
char *decoded(const mf_tokenizer *t, const mf_ids *ids, size_t *ret_n);

#endif
