/* base/text/utf8.h: distinguishes valid UTF-8 from other bytes (RFC 3629). */
#ifndef MF_BASE_UTF8_H
#define MF_BASE_UTF8_H

#include <stddef.h>

/* Length of the valid character at text (1..4 bytes), 0 if there is none: overlong forms,
 * surrogates, values past U+10FFFF and characters cut off by the end are not valid. n: bytes
 * from text to the end. */
size_t mf_utf8_length(const char *text, size_t n);

/* Offset of the first invalid byte, n if there is none. */
size_t mf_utf8_check(const char *text, size_t n);

#endif
