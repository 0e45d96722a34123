/* data/tokenizer/pretrained/versions.c: the properties of code points in the library tokenizers
 * (0.23). Its parts use tables of different Unicode versions: Unicode 16 and later for regular
 * expressions, words and lower case; 17 for the numbers of Digits; about Unicode 9 for marks,
 * punctuation and normal forms. Ids depend on these versions. This file therefore reproduces
 * them and does not depend on the version of utf8proc. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "data/tokenizer/letters.h"

#include "data/tokenizer/pretrained/versions_tables.h"

/* The value of a code point in a table; 0: not in the table. */
#define VALUE(table, c) value_of(table, sizeof(table) / sizeof *(table), c)

static int32_t value_of(const range *table, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c > table[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && c >= table[low].from ? table[low].value : 0;
}

uint32_t mf_pt_category(uint32_t c)
{
    const int32_t set = VALUE(late, c);
    return set ? (uint32_t)set : mf_unicode_category(c);
}

bool mf_pt_is_late_number(uint32_t c)
{
    return VALUE(late_number, c) != 0;
}

uint32_t mf_pt_lower(uint32_t c)
{
    const int32_t step = VALUE(late_lower, c);
    return step ? (uint32_t)((int32_t)c + step) : mf_unicode_lower(c);
}

bool mf_pt_is_word(uint32_t c)
{
    return (mf_pt_category(c) &
            (MF_UC_LETTER | MF_UC_MARK | MF_UC_DIGIT | MF_UC_NL | MF_UC_CONNECTOR)) != 0 ||
           c == 0x200c || c == 0x200d || VALUE(word_signs, c);
}

bool mf_pt_is_accent(uint32_t c)
{
    if (c == 0x1734 || c == 0x1171e) return true; /* in category Mc since Unicode 14 and 16 */
    return (mf_unicode_category(c) & MF_UC_MN) && !VALUE(no_accent, c);
}

bool mf_pt_is_mark(uint32_t c)
{
    if (c == 0x1cf2 || c == 0x1cf3) return true; /* letters since Unicode 12 */
    return (mf_unicode_category(c) & MF_UC_MARK) && !VALUE(no_mark, c);
}

bool mf_pt_has_form(uint32_t c)
{
    return !VALUE(late, c) && !VALUE(no_form, c);
}

bool mf_pt_is_control(uint32_t c)
{
    return mf_letter_classify(c) == MF_LETTER_NONE && !VALUE(no_control, c);
}

bool mf_pt_is_sign(uint32_t c)
{
    if (c == 0x166d || c == 0x111c9) return true; /* not punctuation since Unicode 12 and 11 */
    return (mf_unicode_category(c) & MF_UC_PUNCTUATION) && !VALUE(no_punctuation, c);
}
