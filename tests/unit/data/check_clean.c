/* clean: contractions are written out. Characters other than letters, digits, . and %
 * are removed. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/clean.h"
#include "tests/lib/fault.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *clean, *lines;
} table[] = {
    {"", "", ""},
    {" \t\n", "", ""},
    {"don't", "do not", "do not"},
    {"We've won, he's SURE!", "We have won he is SURE", "We have won he is SURE"},
    {"Can't. can't. CAN'T", "Can not. can not. Can not", "Can not. can not. Can not"},
    {"it\xE2\x80\x99s I\xE2\x80\x99m they\xE2\x80\x99re you'd we'll",
     "it is I am they are you would we will", "it is I am they are you would we will"},
    {"the dogs' 'tail'", "the dogs tail", "the dogs tail"},
    {"3.5% (about) -- na\xC3\xAFve", "3.5% about na ve", "3.5% about na ve"},
    {"wait... what", "wait. what", "wait. what"},
    {"one\n\n,\n two \n", "one two", "one\ntwo\n"},
};

START_TEST(texts)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *out;
        size_t n;
        ck_assert_int_eq(mf_clean_text(table[i].text, strlen(table[i].text), &out, &n), MF_OK);
        ck_assert_str_eq(out, table[i].clean);
        ck_assert_uint_eq(n, strlen(out));
        mf_free(out);
        ck_assert_int_eq(mf_clean_lines(table[i].text, strlen(table[i].text), &out, &n), MF_OK);
        ck_assert_str_eq(out, table[i].lines);
        ck_assert_uint_eq(n, strlen(out));
        mf_free(out);
    }
}
END_TEST

/* Very long words. A word of 64 characters or more is not a contraction, and all its letters
 * are kept. */
START_TEST(long_words)
{
    for (int n = 55; n < 200; n++) {
        char text[256], want[256], *out;
        size_t size;
        snprintf(text, sizeof text, "%0*dcan't", n, 0);
        snprintf(want, sizeof want, n + 5 < 64 ? "%0*dca not" : "%0*dcant", n, 0);
        for (int i = 0; i < n; i++)
            text[i] = want[i] = (char)('a' + i % 26);
        ck_assert_int_eq(mf_clean_text(text, strlen(text), &out, &size), MF_OK);
        ck_assert_str_eq(out, want);
        mf_free(out);
    }
}
END_TEST

START_TEST(memory_fails)
{
    char *out;
    size_t n;
    fault_alloc(1, FAULT_FROM);
    ck_assert_int_eq(mf_clean_text("a", 1, &out, &n), MF_ENOMEM);
    ck_assert_int_eq(mf_clean_lines("a", 1, &out, &n), MF_ENOMEM);
    fault_off();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("clean");
    TCase *t = tcase_create("clean");
    tcase_add_test(t, texts);
    tcase_add_test(t, long_words);
    tcase_add_test(t, memory_fails);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
