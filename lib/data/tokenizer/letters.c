/* data/tokenizer/letters.c: classes of code points in BERT's basic tokenizer, from Unicode
 * categories and from BERT's ranges of CJK ideographs. Kana and Hangul are not in these ranges,
 * so they are not words of their own. The range from 0x2b920 on is the range of the library
 * tokenizers; the Unicode block (CJK extension E) begins at 0x2b820. */
#include "data/tokenizer/letters.h"

#include <string.h>

bool mf_letter_is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

mf_letter_class mf_letter_classify(uint32_t c)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return MF_LETTER_SPACE;
    if (c < ' ' || c == 0x7f) return MF_LETTER_NONE;
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
                   ? MF_LETTER_WORD
                   : MF_LETTER_ALONE;
    const uint32_t category = mf_unicode_category(c);
    if ((category & MF_UC_OTHER) || c == 0xfffd) return MF_LETTER_NONE;
    if (mf_unicode_is_space(c)) return MF_LETTER_SPACE;
    return (category & MF_UC_PUNCTUATION) || mf_letter_is_ideograph(c) ? MF_LETTER_ALONE
                                                                       : MF_LETTER_WORD;
}

size_t mf_letter_fold(uint32_t c, mf_letter *out)
{
    uint32_t parts[MF_UNICODE_DECOMPOSED];
    size_t n = 0;
    const mf_letter_class whole = mf_letter_classify(c);
    if (whole < MF_LETTER_ALONE || c < 0x80) {
        out[0] = (mf_letter){c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c, whole};
        return 1;
    }
    const size_t n_parts = mf_unicode_decompose(c, parts);
    for (size_t i = 0; i < n_parts; i++) {
        if (mf_unicode_category(parts[i]) & MF_UC_MN) continue;
        const uint32_t lower = mf_unicode_lower(parts[i]);
        /* An ideograph is a word of its own even if its decomposition is outside of
         * the ranges. */
        out[n++] =
            (mf_letter){lower, mf_letter_is_ideograph(c) ? whole : mf_letter_classify(lower)};
    }
    return n;
}
