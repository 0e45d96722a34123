/* data/tokenizer/letters.h: classes of characters in BERT's basic tokenizer (Devlin et al.
 * 2019). Control characters are removed, and blanks separate words. Each punctuation character
 * and each CJK ideograph is a word of its own. Uncased models also remove case and the marks of
 * the canonical decomposition. */
#ifndef MF_DATA_LETTERS_H
#define MF_DATA_LETTERS_H

#include "io/unicode.h"

typedef enum mf_letter_class {
    MF_LETTER_NONE,  /* removed: control characters */
    MF_LETTER_SPACE, /* separates words */
    /* a word of its own: punctuation, all other printable ASCII except letters and digits,
     * CJK ideographs */
    MF_LETTER_ALONE,
    MF_LETTER_WORD
} mf_letter_class;

typedef struct mf_letter {
    uint32_t c;
    mf_letter_class class;
} mf_letter;

mf_letter_class mf_letter_classify(uint32_t c);
bool mf_letter_is_ideograph(uint32_t c); /* Whether the code point is in one of the ranges of
                                          * CJK ideographs. */
/* Computes the letters that a code point becomes: the letters of its decomposition, without
 * marks and in lower case. There may be none. out has MF_UNICODE_DECOMPOSED elements. Returns
 * the number of letters. */
size_t mf_letter_fold(uint32_t c, mf_letter *out);

#endif
