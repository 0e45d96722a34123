/* base/text/utf8.c: checks UTF-8 by the table in section 4 of RFC 3629. Overlong forms and
 * surrogates are not valid. */
#include "base/text/utf8.h"

size_t mf_utf8_length(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned low = 0x80, high = 0xBF; /* range of the second byte */
    size_t length;
    if (n == 0) return 0;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n < length) return 0;
    if (s[0] == 0xE0) low = 0xA0;  /* smaller values have a shorter form */
    if (s[0] == 0xED) high = 0x9F; /* surrogates */
    if (s[0] == 0xF0) low = 0x90;
    if (s[0] == 0xF4) high = 0x8F; /* past U+10FFFF */
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xBF) return 0;
    return length;
}

size_t mf_utf8_check(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t length = mf_utf8_length(text + i, n - i);
        if (length == 0) break;
        i += length;
    }
    return i;
}
