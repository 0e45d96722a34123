/* data/tokenizer/letters.h: characters as BERT's basic tokenizer treats them (Devlin et al.
 * 2019): controls disappear, blanks separate words, punctuation and CJK ideographs are words of
 * their own. Uncased models also remove case and the marks of the canonical decomposition. */
#ifndef MF_DATA_LETTERS_H
#define MF_DATA_LETTERS_H

#include "io/unicode.h"

typedef enum mf_letter_class {
    MF_LETTER_NONE,  /* removed: controls */
    MF_LETTER_SPACE, /* separates words */
    /* a word of its own: punctuation, all other printable ASCII but letters and digits,
     * CJK ideographs */
    MF_LETTER_ALONE,
    MF_LETTER_WORD
} mf_letter_class;

typedef struct mf_letter {
    uint32_t c;
    mf_letter_class class;
} mf_letter;

mf_letter_class mf_letter_classify(uint32_t c);
bool mf_letter_is_ideograph(uint32_t c); /* of the ranges of CJK ideographs */
/* The letters that a code point becomes, which may be none: those of its decomposition, without
 * marks and in lower case. out: room for MF_UNICODE_DECOMPOSED. Returns their number. */
size_t mf_letter_fold(uint32_t c, mf_letter *out);

#endif
