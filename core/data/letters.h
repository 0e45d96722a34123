/* data/letters.h: Unicode code points as BERT's basic tokenizer sees them (Devlin et al. 2019,
 * the uncased models), from tables, without a Unicode library.
 *
 * Exact for punctuation, controls and spaces up to U+FFFF and for CJK ideographs. Lower case
 * and stripping of accents: ASCII and U+00C0..U+052F (Latin, Greek, Cyrillic), U+1E00..U+1EFF.
 * Other letters stay as they are, so that Hangul, kana and Indic scripts, which BERT
 * decomposes, give other words than there.
 */
#ifndef MF_DATA_LETTERS_H
#define MF_DATA_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mf_letter_class {
    MF_LETTER_NONE,  /* goes: controls */
    MF_LETTER_SPACE, /* parts words */
    MF_LETTER_ALONE, /* a word of its own: punctuation, and all other printable ASCII but
                      * letters and digits; CJK ideographs */
    MF_LETTER_WORD
} mf_letter_class;

/* The code point at text, n > 0 bytes left. Its bytes, 0 when it is not valid UTF-8. */
size_t mf_letter_read(const char *text, size_t n, uint32_t *ret);
/* A valid code point as UTF-8, 1 to 4 bytes; how many. */
size_t mf_letter_write(uint32_t c, char *out);
mf_letter_class mf_letter_classify(uint32_t c);
/* Lower case without accents; 0: a mark, of which nothing is left. */
uint32_t mf_letter_fold(uint32_t c);

#endif
