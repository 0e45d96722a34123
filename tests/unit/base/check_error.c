/* error: the recorded message, status codes, and the nearest name. Scripts depend on exit
 * codes, so the numbers are written out here. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <wchar.h>

START_TEST(fail_records)
{
    ck_assert_int_eq(mf_fail(MF_ECONFIG, "%s:%d: bad", "f.ini", 7), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(), "f.ini:7: bad");
    ck_assert_int_eq(mf_error_code(), MF_ECONFIG);
    ck_assert_int_eq(mf_fail_context(MF_EINPUT, "while %s", "reading"), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(), "while reading: f.ini:7: bad");
    ck_assert_int_eq(mf_error_code(), MF_EINPUT);
    mf_error_clear();
    ck_assert_str_eq(mf_error_message(), "");
    ck_assert_int_eq(mf_error_code(), MF_OK);
}
END_TEST

START_TEST(a_file_is_named_once)
{
    mf_fail(MF_ECONFIG, "[rank] tflops: expected a number");
    ck_assert_int_eq(mf_fail_in(MF_ECONFIG, "f.ini"), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(), "f.ini: [rank] tflops: expected a number");
    ck_assert_int_eq(mf_fail_in(MF_EINPUT, "f.ini"), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(), "f.ini: [rank] tflops: expected a number");
}
END_TEST

START_TEST(arguments_may_be_the_old_message)
{
    mf_fail(MF_EIO, "old");
    mf_fail(MF_EIO, "new, was: %s", mf_error_message());
    ck_assert_str_eq(mf_error_message(), "new, was: old");
    mf_fail_context(MF_EIO, "[%s]", mf_error_message());
    ck_assert_str_eq(mf_error_message(), "[new, was: old]: new, was: old");
}
END_TEST

START_TEST(errno_text)
{
    errno = ENOENT;
    ck_assert_int_eq(mf_fail_errno(MF_EIO, "%s: cannot open", "x"), MF_EIO);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(mf_error_message(), "x: cannot open: No such file or directory");
    errno = ENOMEM;
    ck_assert_int_eq(mf_fail_errno(MF_EIO, "x"), MF_ENOMEM);
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
}
END_TEST

/* A long message is cut between characters, and the cut is marked. The two-byte letters begin
 * at even or at odd offsets. */
START_TEST(long_messages_are_cut)
{
    char text[4096];
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'a', sizeof text);
        for (size_t i = shift; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xC3\xA4", 2);
        text[sizeof text - 1] = '\0';
        mf_fail(MF_EIO, "%s", text);
        size_t n = strlen(mf_error_message());
        ck_assert_uint_lt(n, 2048);
        ck_assert_uint_gt(n, 2040);
        ck_assert_str_eq(mf_error_message() + n - 3, "...");
        ck_assert_int_eq((unsigned char)mf_error_message()[n - 4], 0xA4);
        /* mf_fail_context neither overflows nor loses the words that it adds. */
        mf_fail_context(MF_EIO, "where");
        ck_assert_int_eq(strncmp(mf_error_message(), "where: ", 7), 0);
        ck_assert_uint_lt(strlen(mf_error_message()), 2048);
    }
}
END_TEST

/* printf fails for a wide character that the C locale cannot represent. */
START_TEST(what_cannot_be_formatted)
{
    static const wchar_t euro[] = {0x20AC, 0};
    mf_writer w;
    ck_assert_int_eq(mf_fail(MF_EIO, "%ls", euro), MF_EIO);
    ck_assert_str_eq(mf_error_message(), "(message could not be formatted)");
    mf_fail(MF_EIO, "old");
    mf_fail_context(MF_EIO, "%ls", euro);
    ck_assert_str_eq(mf_error_message(), ": old");
    errno = ENOENT;
    mf_fail_errno(MF_EIO, "%ls", euro);
    ck_assert_str_eq(mf_error_message(), ": No such file or directory");
    mf_arena *arena = mf_arena_new();
    ck_assert_ptr_null(mf_strf("%ls", euro));
    ck_assert_int_eq(mf_error_code(), MF_EINVAL);
    mf_error_clear();
    ck_assert_ptr_null(mf_arena_strf(arena, "%ls", euro));
    ck_assert_int_eq(mf_error_code(), MF_EINVAL);
    mf_arena_free(arena);
    ck_assert_int_eq(mf_writer_open(&w, "/dev/null", false), MF_OK);
    mf_writer_printf(&w, "%ls", euro);
    ck_assert_int_eq(mf_writer_close(&w, false), MF_EINVAL);
}
END_TEST

static void *other_thread(void *arg)
{
    *(int *)arg = *mf_error_message() == '\0' && mf_error_code() == MF_OK;
    mf_fail(MF_EPEER, "theirs");
    return NULL;
}

START_TEST(each_thread_has_its_own)
{
    pthread_t thread;
    int clean = 0;
    mf_fail(MF_EIO, "ours");
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &clean), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(clean, 1);
    ck_assert_str_eq(mf_error_message(), "ours");
}
END_TEST

/* Scripts depend on these numbers, so they are written out here. */
START_TEST(exit_codes)
{
    static const struct {
        int code, exit;
        const char *name;
    } table[] = {{MF_OK, 0, "MF_OK"},           {MF_ERUN, 1, "MF_ERUN"},
                 {MF_ENOMEM, 1, "MF_ENOMEM"},   {MF_EIO, 1, "MF_EIO"},
                 {MF_EUSAGE, 2, "MF_EUSAGE"},   {MF_ECONFIG, 2, "MF_ECONFIG"},
                 {MF_EINPUT, 3, "MF_EINPUT"},   {MF_ECHECKPOINT, 3, "MF_ECHECKPOINT"},
                 {MF_EPLUGIN, 4, "MF_EPLUGIN"}, {MF_ENONFINITE, 5, "MF_ENONFINITE"},
                 {MF_EDEP, 6, "MF_EDEP"},       {MF_EPEER, 7, "MF_EPEER"},
                 {MF_ELIMIT, 75, "MF_ELIMIT"},  {MF_ESIGNAL, 130, "MF_ESIGNAL"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_int_eq(mf_status_exit(table[i].code), table[i].exit);
        ck_assert_str_eq(mf_status_name(table[i].code), table[i].name);
        ck_assert_uint_gt(strlen(mf_status_text(table[i].code)), 0);
    }
    ck_assert_int_eq(mf_status_exit(-999), 1);
    ck_assert_str_eq(mf_status_name(-999), "MF_UNKNOWN");
    ck_assert_str_eq(mf_status_text(-999), "unknown status");
}
END_TEST

START_TEST(nearest_name)
{
    static const char *const names[] = {"layers", "heads", "kv_heads", "dim",
                                        "lr",     "top_k", NULL};
    static const char *const none[] = {NULL};
    static const struct {
        const char *word, *want;
    } table[] = {{"layer", "layers"},
                 {"LAYERS", "layers"},
                 {"lyaers", "layers"},
                 {"haeds", "heads"},
                 {"kvheads", "kv_heads"},
                 {"dmi", "dim"},
                 {"rl", "lr"},
                 {"topk", "top_k"},
                 {"heads", "heads"},
                 {"capacity", NULL},
                 {"", NULL},
                 {"q", NULL},
                 {"xy", NULL},
                 {"kv_haeds_", "kv_heads"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *found = mf_nearest(table[i].word, names);
        if (table[i].want)
            ck_assert_str_eq(found ? found : "(none)", table[i].want);
        else
            ck_assert_msg(!found, "%s gave %s", table[i].word, found);
    }
    ck_assert_ptr_null(mf_nearest("layers", none));
    ck_assert_ptr_null(mf_nearest("layers", NULL));
    char word[300];
    memset(word, 'a', sizeof word);
    word[sizeof word - 1] = '\0';
    const char *const same[] = {word, NULL};
    ck_assert_ptr_null(mf_nearest(word, same)); /* the word is too long for a name */
    word[20] = '\0';
    ck_assert_ptr_eq(mf_nearest("aaaaaaaaaaaaaaaaabbb", same), word);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("error");
    TCase *c = tcase_create("error");
    tcase_add_test(c, fail_records);
    tcase_add_test(c, a_file_is_named_once);
    tcase_add_test(c, arguments_may_be_the_old_message);
    tcase_add_test(c, errno_text);
    tcase_add_test(c, long_messages_are_cut);
    tcase_add_test(c, what_cannot_be_formatted);
    tcase_add_test(c, each_thread_has_its_own);
    tcase_add_test(c, exit_codes);
    tcase_add_test(c, nearest_name);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
