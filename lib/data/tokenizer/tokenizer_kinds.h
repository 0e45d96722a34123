/* data/tokenizer/tokenizer_kinds.h: the operations of each kind of tokenizer. */
#ifndef MF_DATA_TOKENIZER_KINDS_H
#define MF_DATA_TOKENIZER_KINDS_H

#include "data/tokenizer/tokenizer.h"

extern const mf_tokenizer_ops mf_tokenizer_byte;
extern const mf_tokenizer_ops mf_tokenizer_char;
extern const mf_tokenizer_ops mf_tokenizer_wordpiece;
extern const mf_tokenizer_ops mf_tokenizer_bpe;
extern const mf_tokenizer_ops mf_tokenizer_bpe_bytes;
extern const mf_tokenizer_ops mf_tokenizer_pretrained;

/* Whether the text is a WordPiece vocabulary in BERT's format: one token per line, and one line
 * contains only [UNK]. */
bool mf_wordpiece_is_list(const char *text, size_t n);
int mf_wordpiece_read_list(const char *source, const char *text, size_t n, mf_tokenizer **ret);

#endif
