/* log: levels, prefixes, the hook, long lines. Each test captures what it writes to stderr. */
#include "check_main.h"

#include "base/log.h"
#include "base/text/utf8.h"
#include "tests/lib/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int hooks;

static void count_hook(void)
{
    hooks++;
}

/* Returns the output of fn to stderr. The caller frees it with free(). */
static char *captured(void (*fn)(void))
{
    const char *path = scratch_path("stderr");
    int keep = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    dup2(fd, 2);
    close(fd);
    fn();
    fflush(stderr);
    dup2(keep, 2);
    close(keep);
    return scratch_read(path, NULL);
}

static void all_levels(void)
{
    mf_log(MF_LOG_ERROR, "e %d", 1);
    mf_log(MF_LOG_WARN, "w");
    mf_log(MF_LOG_INFO, "i");
    mf_log(MF_LOG_DEBUG, "d");
}

START_TEST(levels)
{
    static const char *const want[] = {"moefw: error: e 1\n",
                                       "moefw: error: e 1\nmoefw: warning: w\n",
                                       "moefw: error: e 1\nmoefw: warning: w\ni\n",
                                       "moefw: error: e 1\nmoefw: warning: w\ni\ndebug: d\n"};
    ck_assert_int_eq(mf_log_get_level(), MF_LOG_INFO);
    mf_log_set_hook(count_hook);
    for (int level = MF_LOG_ERROR; level <= MF_LOG_DEBUG; level++) {
        hooks = 0;
        mf_log_set_level((mf_log_level)level);
        ck_assert_int_eq((int)mf_log_get_level(), level);
        char *got = captured(all_levels);
        ck_assert_str_eq(got, want[level]);
        ck_assert_int_eq(hooks, level + 1); /* called only before lines that are shown */
        free(got);
    }
    mf_log_set_hook(NULL);
    mf_log_set_level(MF_LOG_INFO);
}
END_TEST

static void long_line(void)
{
    char text[9000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    mf_log(MF_LOG_INFO, "%s", text);
    mf_log(MF_LOG_INFO, "next");
}

START_TEST(long_lines_are_marked)
{
    char *got = captured(long_line);
    const char *end = strchr(got, '\n');
    ck_assert_ptr_nonnull(end);
    ck_assert_int_gt(end - got, 4000);
    ck_assert_int_eq(strncmp(end - 3, "...\nnext\n", 9), 0);
    free(got);
}
END_TEST

static void long_line_of_two_bytes(void)
{
    char text[9000];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = i % 2 == 0 ? '\xC3' : '\xA9';
    text[sizeof text - 1] = '\0';
    mf_log(MF_LOG_INFO, "%s", text);
    mf_log(MF_LOG_INFO, "x%s", text);
}

/* The second line is shifted by one byte. So in one of the two lines a cut at a fixed byte
 * would fall inside a character. */
START_TEST(a_cut_never_splits_a_character)
{
    char *got = captured(long_line_of_two_bytes);
    const size_t n = strlen(got);
    ck_assert_uint_gt(n, 8000);
    ck_assert_uint_eq(mf_utf8_check(got, n), n);
    ck_assert_int_eq(strncmp(strchr(got, '\n') - 3, "...\nx", 5), 0);
    ck_assert_str_eq(got + n - 4, "...\n");
    free(got);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("log");
    TCase *c = tcase_create("log");
    tcase_add_test(c, levels);
    tcase_add_test(c, long_lines_are_marked);
    tcase_add_test(c, a_cut_never_splits_a_character);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
