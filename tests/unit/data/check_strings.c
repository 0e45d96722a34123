/* strings: a set of distinct strings, which may include the empty string. */
#include "check_main.h"

#include "base/error.h"
#include "data/strings.h"

#include <stdio.h>
#include <string.h>

static int32_t add(mf_strings *s, const char *text, size_t n, bool expected_new)
{
    int32_t id;
    bool added;
    ck_assert_int_eq(mf_strings_add(s, text, n, &id, &added), MF_OK);
    ck_assert_int_eq(added, expected_new);
    return id;
}

START_TEST(an_empty_string_first)
{
    mf_strings s = {0};
    size_t n = 7;
    ck_assert_int_eq(mf_strings_find(&s, "", 0), -1);
    ck_assert_int_eq(add(&s, "", 0, true), 0);
    ck_assert_ptr_nonnull(mf_strings_get(&s, 0, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(add(&s, "", 0, false), 0);
    ck_assert_int_eq(add(&s, "a", 1, true), 1);
    ck_assert_int_eq(mf_strings_find(&s, "", 0), 0);
    mf_strings_free(&s);
}
END_TEST

/* More strings than the initial capacity, some with zero bytes. */
START_TEST(ids_follow_the_order)
{
    enum { MANY = 5000 };
    mf_strings s = {0};
    char text[16];
    size_t n;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            const int length = snprintf(text, sizeof text, "%d", i);
            text[length / 2] = '\0';
            memcpy(text + length, &i, sizeof i);
            ck_assert_int_eq(add(&s, text, (size_t)length + sizeof i, round == 0), i);
            const char *have = mf_strings_get(&s, i, &n);
            ck_assert_uint_eq(n, (size_t)length + sizeof i);
            ck_assert_mem_eq(have, text, n);
        }
    ck_assert_int_eq(s.n, MANY);
    ck_assert_int_eq(mf_strings_find(&s, "none", 4), -1);
    mf_strings_free(&s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("strings");
    TCase *t = tcase_create("strings");
    tcase_add_test(t, an_empty_string_first);
    tcase_add_test(t, ids_follow_the_order);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
