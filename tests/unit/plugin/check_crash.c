/* A fatal signal in a call of a plugin ends the program with status 4, and the message names
 * plugin, signal, function and layer. Outside such a call the process ends by the signal. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "check_main.h"
#include "plugin/crash.h"
#include "tests/lib/child.h"

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};

typedef struct end {
    int number;
    const mf_site *site;
} end;

/* Watches for crashes in a child process, and raises the signal at a call site, or outside of
 * any (NULL). */
static void get_signal(void *arg)
{
    const end *e = arg;
    mf_crash_watch();
    mf_crash_site(e->site);
    raise(e->number);
}

START_TEST(signals)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* with a sanitizer, its own report appears instead */
#endif
    static const mf_site site = {"mine", "/plugins/mine.so", "route", "layers.3.router"};
    char text[512], expected[128];
    end e = {fatal[_i].number, &site};
    int status = child_status(get_signal, &e, text, sizeof text);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 4, "%s: %d", text, status);
    snprintf(expected, sizeof expected,
             "moefw: plugin mine (/plugins/mine.so) killed by %s in route of layers.3.router: ",
             fatal[_i].name);
    ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
    e.site = NULL;
    status = child_status(get_signal, &e, text, sizeof text);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == fatal[_i].number, "%d", status);
    ck_assert_str_eq(text, "");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("crash");
    TCase *t = tcase_create("crash");
    tcase_add_loop_test(t, signals, 0, sizeof fatal / sizeof *fatal);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
