/* data/tokenizer/letters.h: Unicode code points as BERT's basic tokenizer treats them (Devlin
 * et al. 2019, the uncased models), from tables, without a Unicode library.
 *
 * Punctuation, controls and spaces are exact up to U+FFFF, and so are CJK ideographs. Lower
 * case and removal of accents cover ASCII and U+00C0..U+052F (Latin, Greek, Cyrillic),
 * U+1E00..U+1EFF. Other letters stay as they are. Hangul, kana and Indic scripts, which BERT
 * decomposes, therefore give other tokens than in BERT. */
#ifndef MF_DATA_LETTERS_H
#define MF_DATA_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mf_letter_class {
    MF_LETTER_NONE,  /* removed: controls */
    MF_LETTER_SPACE, /* separates words */
    /* a word of its own: punctuation, all other printable ASCII but letters and digits,
     * CJK ideographs */
    MF_LETTER_ALONE,
    MF_LETTER_WORD
} mf_letter_class;

/* Reads the code point at text, n > 0 bytes left. Returns its length in bytes, 0 if it is not
 * valid UTF-8. */
size_t mf_letter_read(const char *text, size_t n, uint32_t *ret);
/* Writes a valid code point as UTF-8 and returns its length, 1 to 4 bytes. */
size_t mf_letter_write(uint32_t c, char *out);
mf_letter_class mf_letter_classify(uint32_t c);
/* Lower case without accents; 0 for a mark, which disappears. */
uint32_t mf_letter_fold(uint32_t c);

#endif
