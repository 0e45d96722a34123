/* cli: how the command line uses kinds of tables that the present verbs do not have (words of
 * help, lines of the manual), and the same signal twice. The verbs of this program exist only
 * for this test. */
#include "check_main.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "base/error.h"
#include "tests/lib/child.h"

static const char *const splits[] = {"val", "test", NULL};

static const mf_cli_option options[] = {
    {.name = "whole",
     .kind = MF_CLI_ENUM,
     .arg = "S",
     .help = "val or test",
     .choices = splits},
    {.name = "later",
     .kind = MF_CLI_ENUM,
     .arg = "S",
     .help = "evaluate val, or retest test",
     .choices = splits},
    {.name = "parts",
     .kind = MF_CLI_ENUM,
     .arg = "S",
     .help = "the split of an evaluation or a test",
     .choices = splits},
    {.name = "slash", .kind = MF_CLI_FLAG, .help = "a break is \\n"},
    {.name = "dot", .kind = MF_CLI_FLAG, .help = ".ini is added"},
    MF_CLI_END};

static const mf_cli_form forms[] = {{NULL, NULL, 0, 0, NULL}, MF_CLI_FORM_END};

static const mf_verb probe = {
    .name = "probe", .brief = "a verb of this test", .forms = forms, .options = options};

const mf_verb *const mf_verbs[] = {&probe, NULL};

static char text[1 << 16];

/* Returns the output of the call. */
static const char *printed(void (*call)(void))
{
    FILE *to = tmpfile();
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    ck_assert(to && before >= 0 && dup2(fileno(to), STDOUT_FILENO) >= 0);
    call();
    fflush(stdout);
    ck_assert(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    return text;
}

static void help(void)
{
    mf_cli_help(&probe, NULL);
}

START_TEST(choices_are_listed_unless_the_help_has_them_as_words)
{
    printed(help);
    ck_assert_ptr_nonnull(strstr(text, "    --whole=S           val or test\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "    --later=S           evaluate val, or retest test\n"));
    ck_assert_ptr_nonnull(strstr(text,
                                 "    --parts=S           the split of an evaluation or a "
                                 "test: val, test\n"));
}
END_TEST

START_TEST(the_manual_has_what_the_help_has)
{
    printed(mf_cli_manual);
    ck_assert_ptr_nonnull(strstr(text, ".It Fl Fl slash\na break is \\en\n"));
    ck_assert_ptr_nonnull(strstr(text, ".It Fl Fl dot\n\\&.ini is added\n"));
    ck_assert_ptr_nonnull(strstr(text, ".Pq Cm val | test\n"));
}
END_TEST

START_TEST(a_table_has_at_most_128_columns)
{
    mf_table t;
    ck_assert_int_eq(mf_table_start(&t, 128), MF_OK);
    mf_table_clear(&t);
    ck_assert_int_eq(mf_table_start(&t, 129), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "at most 128 columns, not 129"));
    mf_table_clear(&t);
}
END_TEST

/* Raises two signals, one after another. */
static void get_two(void *arg)
{
    const int *number = arg;
    mf_signals_catch(NULL, false);
    raise(number[0]);
    if (mf_signals_stop() != number[0]) _exit(1);
    raise(number[1]);
    if (mf_signals_stop() != number[1]) _exit(2);
}

/* The signal that ends a child which receives `first`, then `second`; 0: the child ends
 * by itself. */
static int ended_by(int first, int second)
{
    const int status = child_status(get_two, (int[]){first, second}, NULL, 0);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%d", WEXITSTATUS(status));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(the_same_signal_twice_ends_the_process)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    for (int i = 0; i < 4; i++) {
        signal(stops[i], SIG_DFL); /* because the caller of the test may ignore the signal */
        ck_assert_int_eq(ended_by(stops[i], stops[i]), stops[i]);
    }
    ck_assert_int_eq(ended_by(SIGINT, SIGTERM), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("cli");
    TCase *c = tcase_create("cli");
    tcase_add_test(c, choices_are_listed_unless_the_help_has_them_as_words);
    tcase_add_test(c, the_manual_has_what_the_help_has);
    tcase_add_test(c, a_table_has_at_most_128_columns);
    tcase_add_test(c, the_same_signal_twice_ends_the_process);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
