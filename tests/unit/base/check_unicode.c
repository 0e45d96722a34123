/* unicode: categories, blanks, lower case and normal forms. Expected values are examples of the
 * Unicode Standard (Annex 15), and words of languages that decompose in different ways. */
#include "check_main.h"

#include "io/unicode.h"

#include <string.h>

START_TEST(categories)
{
    static const struct {
        uint32_t c, set;
    } table[] = {
        {'a', MF_UC_LL},        {'Z', MF_UC_LU},
        {'7', MF_UC_DIGIT},     {'_', MF_UC_CONNECTOR},
        {'+', MF_UC_SYMBOL},    {'!', MF_UC_PUNCTUATION},
        {0x1c5, MF_UC_LT},      {0x2b0, MF_UC_LM},
        {0x5d0, MF_UC_LO},      {0x301, MF_UC_MN},
        {0x903, MF_UC_MARK},    {0xbd, MF_UC_NUMBER},
        {0x2167, MF_UC_NUMBER}, {0x1f642, MF_UC_SYMBOL},
        {0x200b, MF_UC_OTHER},  {0xe000, MF_UC_OTHER},
        {7, MF_UC_OTHER},       {0x4e00, MF_UC_LETTER},
        {0x660, MF_UC_DIGIT},   {0x3001, MF_UC_PUNCTUATION},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        ck_assert_msg(mf_unicode_category(table[i].c) & table[i].set, "U+%04X",
                      (unsigned)table[i].c);
    ck_assert_uint_eq(mf_unicode_category(0x378) & (MF_UC_OTHER | MF_UC_LETTER), 0);
    ck_assert(mf_unicode_is_space(0x3000) && mf_unicode_is_space(0x85));
    ck_assert(!mf_unicode_is_space(0x200b) && !mf_unicode_is_space(0x1c));
    ck_assert_uint_eq(mf_unicode_lower(0x410), 0x430);
    ck_assert_uint_eq(mf_unicode_lower(0x4e00), 0x4e00);
}
END_TEST

/* Normalizes a text part by part. */
static const char *form_of(mf_unicode_form form, const char *text)
{
    static char out[4 * MF_UNICODE_ROOM];
    size_t n = strlen(text), at = mf_unicode_plain(form, text, n), written = at;
    memcpy(out, text, at);
    while (at < n) {
        const size_t part = mf_unicode_part(text + at, n - at);
        written += mf_unicode_normalize(form, text + at, part, out + written);
        at += part;
    }
    out[written] = 0;
    return out;
}

START_TEST(forms)
{
    static const struct {
        mf_unicode_form form;
        const char *text, *expected;
    } table[] = {
        {MF_UNICODE_NFC, "nai\xCC\x88ve", "na\xC3\xAFve"},
        {MF_UNICODE_NFD, "na\xC3\xAFve", "nai\xCC\x88ve"},
        {MF_UNICODE_NFC, "\xE2\x84\xAB", "\xC3\x85"},               /* Angstrom sign */
        {MF_UNICODE_NFC, "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87"}, /* marks are sorted */
        {MF_UNICODE_NFC, "\xE1\xBA\x9B\xCC\xA3", "\xE1\xBA\x9B\xCC\xA3"},
        {MF_UNICODE_NFD, "\xE1\xBA\x9B\xCC\xA3", "\xC5\xBF\xCC\xA3\xCC\x87"},
        {MF_UNICODE_NFKC, "\xE1\xBA\x9B\xCC\xA3", "\xE1\xB9\xA9"},
        {MF_UNICODE_NFKD, "\xEF\xAC\x81", "fi"}, /* a ligature */
        {MF_UNICODE_NFC, "\xEF\xAC\x81", "\xEF\xAC\x81"},
        /* a composition that the standard excludes */
        {MF_UNICODE_NFC, "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},
        /* Hangul syllables from two and from three jamo */
        {MF_UNICODE_NFC, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"},
        {MF_UNICODE_NFC, "\xED\x95\x98\xE1\x86\xAB", "\xED\x95\x9C"},
        {MF_UNICODE_NFD, "\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
        {MF_UNICODE_NFKC, "\xEF\xBD\xB6\xEF\xBE\x9E", "\xE3\x82\xAC"}, /* half-width ga */
        {MF_UNICODE_NFC, "", ""},
        {MF_UNICODE_NFC, "plain \xC3\xA9", "plain \xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        ck_assert_str_eq(form_of(table[i].form, table[i].text), table[i].expected);
    /* U+FDFA has the longest form: 18 characters. */
    ck_assert_uint_eq(strlen(form_of(MF_UNICODE_NFKD, "\xEF\xB7\xBA")), 33);
}
END_TEST

/* A plain prefix stays plain, whatever follows it. A part ends before the next
 * base character. */
START_TEST(parts)
{
    ck_assert_uint_eq(mf_unicode_plain(MF_UNICODE_NFC, "ab\xC3\xA9", 4), 4);
    ck_assert_uint_eq(mf_unicode_plain(MF_UNICODE_NFC, "ab\xC3\xA9\xCC\x81", 6), 2);
    ck_assert_uint_eq(mf_unicode_plain(MF_UNICODE_NFD, "ab\xC3\xA9", 4), 1);
    ck_assert_uint_eq(mf_unicode_plain(MF_UNICODE_NFC, "\xCC\x81", 2), 0);
    ck_assert_uint_eq(mf_unicode_part("e\xCC\x81\xCC\x82x", 6), 5);
    ck_assert_uint_eq(mf_unicode_part("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB\xED\x95\x9C", 12),
                      9);
    static char marks[4 * MF_UNICODE_PART]; /* long runs of marks are cut, so no
                                             * buffer overflows */
    for (size_t i = 0; i < sizeof marks; i += 2)
        memcpy(marks + i, i % 4 ? "\xCC\xA3" : "\xCC\x81", 2);
    ck_assert_uint_eq(mf_unicode_part(marks, sizeof marks), MF_UNICODE_PART);
    for (size_t i = 0; i + 3 <= MF_UNICODE_PART; i += 3)
        memcpy(marks + i, "\xEF\xB7\xBA", 3);
    char out[MF_UNICODE_ROOM];
    const size_t n = MF_UNICODE_PART / 3 * 3;
    ck_assert_uint_eq(mf_unicode_normalize(MF_UNICODE_NFKD, marks, n, out), n * 11);
}
END_TEST

START_TEST(what_is_no_text_stays)
{
    char out[MF_UNICODE_ROOM];
    uint32_t pair[MF_UNICODE_DECOMPOSED] = {0};
    for (int form = MF_UNICODE_NFC; form <= MF_UNICODE_NFKD; form++) {
        ck_assert_uint_eq(mf_unicode_normalize((mf_unicode_form)form, "e\xCC\x81\xFF", 4, out),
                          4);
        ck_assert_mem_eq(out, "e\xCC\x81\xFF", 4);
    }
    ck_assert_uint_eq(mf_unicode_decompose(0x110000, pair), 1);
    ck_assert_uint_eq(pair[0], 0x110000);
    ck_assert_uint_eq(mf_unicode_decompose(0xe9, pair), 2);
    ck_assert(pair[0] == 'e' && pair[1] == 0x301);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("unicode");
    TCase *c = tcase_create("unicode");
    tcase_add_test(c, categories);
    tcase_add_test(c, forms);
    tcase_add_test(c, parts);
    tcase_add_test(c, what_is_no_text_stays);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
