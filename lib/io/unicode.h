/* io/unicode.h: categories, lower case and normal forms of code points (Unicode Standard Annex
 * 15). Only unicode.c uses utf8proc, whose tables decide the version of Unicode. No function
 * allocates memory or keeps state, so every thread may call these functions. */
#ifndef MF_IO_UNICODE_H
#define MF_IO_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of general categories. A code point has exactly one category. */
#define MF_UC_LU          (UINT32_C(1) << 1)
#define MF_UC_LL          (UINT32_C(1) << 2)
#define MF_UC_LT          (UINT32_C(1) << 3)
#define MF_UC_LM          (UINT32_C(1) << 4)
#define MF_UC_LO          (UINT32_C(1) << 5)
#define MF_UC_MN          (UINT32_C(1) << 6)
#define MF_UC_LETTER      UINT32_C(0x3e)     /* L: Lu Ll Lt Lm Lo */
#define MF_UC_MARK        UINT32_C(0x1c0)    /* M: Mn Mc Me */
#define MF_UC_DIGIT       (UINT32_C(1) << 9) /* Nd */
#define MF_UC_NL          (UINT32_C(1) << 10)
#define MF_UC_NUMBER      UINT32_C(0xe00)     /* N: Nd Nl No */
#define MF_UC_CONNECTOR   (UINT32_C(1) << 12) /* Pc */
#define MF_UC_PUNCTUATION UINT32_C(0x7f000)   /* P: Pc Pd Ps Pe Pi Pf Po */
#define MF_UC_SYMBOL      UINT32_C(0x780000)  /* S: Sm Sc Sk So */
/* Cc Cf Cs Co, but not Cn (unassigned code points) */
#define MF_UC_OTHER UINT32_C(0x3c000000)

/* Returns the category of the code point as a set with one element. */
uint32_t mf_unicode_category(uint32_t c);
/* Whether the code point has the property White_Space. */
bool mf_unicode_is_space(uint32_t c);
/* Returns the simple lower case, which is always one code point. */
uint32_t mf_unicode_lower(uint32_t c);
uint32_t mf_unicode_upper(uint32_t c); /* likewise */

/* Reads the code point at text, where n > 0 bytes remain. Returns its length in bytes; 0 if the
 * bytes are not valid UTF-8. */
size_t mf_unicode_read(const char *text, size_t n, uint32_t *ret);
/* Writes a valid code point as UTF-8 and returns its length, 1 to 4 bytes. */
size_t mf_unicode_write(uint32_t c, char *out);

/* Returns the length in bytes of the first grapheme of a valid UTF-8 text of n > 0 bytes
 * (extended grapheme cluster, Unicode Standard Annex 29). */
size_t mf_unicode_grapheme(const char *text, size_t n);

typedef enum mf_unicode_form {
    MF_UNICODE_NFC,
    MF_UNICODE_NFD,
    MF_UNICODE_NFKC,
    MF_UNICODE_NFKD
} mf_unicode_form;

enum { MF_UNICODE_DECOMPOSED = 4 }; /* code points of the longest canonical decomposition */
/* Writes the canonical decomposition of one code point; a code point without one is copied.
 * Returns its length, 1 to MF_UNICODE_DECOMPOSED code points. */
size_t mf_unicode_decompose(uint32_t c, uint32_t out[MF_UNICODE_DECOMPOSED]);

enum {
    MF_UNICODE_PART = 1024, /* greatest length of a part in bytes */
    /* size in bytes of the buffer for the normal form of a part; a code point of 3 bytes may
     * become 33 */
    MF_UNICODE_ROOM = 12 * MF_UNICODE_PART
};
/* Returns the length in bytes of a prefix of a valid UTF-8 text. The prefix is certainly in
 * this form, whatever text follows it. The length may be 0. */
size_t mf_unicode_plain(mf_unicode_form form, const char *text, size_t n);
/* Returns the length in bytes, at most MF_UNICODE_PART, of the first part of a valid UTF-8 text
 * of n > 0 bytes. This part, a character with the marks and jamo after it, normalizes
 * independently of the text that follows. A longer part is cut, so its result may not be in
 * normal form. */
size_t mf_unicode_part(const char *text, size_t n);
/* Writes the normal form of n <= MF_UNICODE_PART bytes of UTF-8 to out [MF_UNICODE_ROOM]. If
 * the bytes are not valid UTF-8, all n are copied unchanged. Returns the length of the result
 * in bytes. */
size_t mf_unicode_normalize(mf_unicode_form form, const char *text, size_t n, char *out);

#endif
