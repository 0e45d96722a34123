/* io/unicode.c: categories and normal forms from the tables of utf8proc. A text is normalized
 * part by part in buffers on the stack. Therefore nothing is allocated, and the time to sort
 * long runs of marks is bounded. */
#include "io/unicode.h"

#include "base/text/utf8.h"

#include <string.h>
#include <utf8proc.h>

_Static_assert(MF_UC_LU == 1u << UTF8PROC_CATEGORY_LU &&
                   MF_UC_LO == 1u << UTF8PROC_CATEGORY_LO &&
                   MF_UC_MN == 1u << UTF8PROC_CATEGORY_MN &&
                   MF_UC_DIGIT == 1u << UTF8PROC_CATEGORY_ND &&
                   MF_UC_CONNECTOR == 1u << UTF8PROC_CATEGORY_PC,
               "sets of categories are bits of utf8proc's numbers");

uint32_t mf_unicode_category(uint32_t c)
{
    return UINT32_C(1) << utf8proc_category((utf8proc_int32_t)c);
}

bool mf_unicode_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

uint32_t mf_unicode_lower(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

uint32_t mf_unicode_upper(uint32_t c)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

size_t mf_unicode_read(const char *text, size_t n, uint32_t *ret)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const size_t length = mf_utf8_length(text, n);
    *ret = (unsigned char)text[0] & first[length];
    for (size_t i = 1; i < length; i++)
        *ret = *ret << 6 | ((unsigned char)text[i] & 0x3fu);
    return length;
}

size_t mf_unicode_write(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char head[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(head[n] | c);
    return n;
}

size_t mf_unicode_decompose(uint32_t c, uint32_t out[MF_UNICODE_DECOMPOSED])
{
    utf8proc_int32_t parts[MF_UNICODE_DECOMPOSED];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)c, parts, MF_UNICODE_DECOMPOSED, UTF8PROC_DECOMPOSE, &boundary);
    if (n < 1 || n > MF_UNICODE_DECOMPOSED) {
        out[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)parts[i];
    return (size_t)n;
}

size_t mf_unicode_grapheme(const char *text, size_t n)
{
    uint32_t before, c;
    utf8proc_int32_t state = 0;
    size_t at = mf_unicode_read(text, n, &before);
    for (size_t length; at < n; at += length, before = c) {
        length = mf_unicode_read(text + at, n - at, &c);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c,
                                             &state))
            break;
    }
    return at;
}

/* ---- normal forms ---- */

size_t mf_unicode_plain(mf_unicode_form form, const char *text, size_t n)
{
    /* Below U+0300 no character composes with a character before it, and every text is in NFC.
     * Below U+0080 all forms are the same. The first byte of U+0300 is 0xcc. */
    const unsigned char end = form == MF_UNICODE_NFC ? 0xcc : 0x80;
    size_t at = 0;
    while (at < n && (unsigned char)text[at] < end)
        at++;
    if (at == n || at == 0) return at;
    do /* the last character may compose with the next one */
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* Whether the code point may compose, or change places, with a code point before it. */
static bool leans_back(uint32_t c)
{
    if (c < 0x300) return false;
    if (c >= 0x1160 && c <= 0x11ff) return true; /* jamo: vowels and final consonants */
    if (c >= 0xff9e && c <= 0xffdc) return true; /* half-width jamo and kana marks */
    return (mf_unicode_category(c) & MF_UC_MARK) != 0;
}

size_t mf_unicode_part(const char *text, size_t n)
{
    uint32_t c;
    size_t at = mf_unicode_read(text, n, &c);
    while (at < n) {
        const size_t length = mf_unicode_read(text + at, n - at, &c);
        if (!leans_back(c) || at + length > MF_UNICODE_PART) break;
        at += length;
    }
    return at;
}

size_t mf_unicode_normalize(mf_unicode_form form, const char *text, size_t n, char *out)
{
    static const utf8proc_option_t options[] = {
        [MF_UNICODE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [MF_UNICODE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [MF_UNICODE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [MF_UNICODE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    /* The longest normal form of a code point of 3 bytes has 18 code points of 3 bytes each. */
    enum { WORK = 6 * MF_UNICODE_PART + 18 };
    utf8proc_int32_t work[WORK];
    size_t written = 0;
    utf8proc_ssize_t count = utf8proc_decompose((const utf8proc_uint8_t *)text,
                                                (utf8proc_ssize_t)n, work, WORK, options[form]);
    if (count >= 0 && count <= WORK)
        count = utf8proc_normalize_utf32(work, count, options[form]);
    if (count < 0 || count > WORK) {
        memcpy(out, text, n);
        return n;
    }
    for (utf8proc_ssize_t i = 0; i < count; i++)
        written += mf_unicode_write((uint32_t)work[i], out + written);
    return written;
}
