/* A fatal signal in a call of a plugin ends the program with status 4 and names plugin, signal,
 * function and layer; elsewhere the process ends by the signal. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_main.h"
#include "plugin/crash.h"

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};

/* Sends itself the signal, at a site or at none (NULL), in a child that watches. Returns its
 * status; text: what it has written to stderr. */
static int ended_by(int number, const mf_site *site, char *text, size_t size)
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], STDERR_FILENO);
        mf_crash_watch();
        mf_crash_site(site);
        raise(number);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n < size - 1 && (got = read(ends[0], text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

START_TEST(signals)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* the sanitizer's own report comes instead */
#endif
    static const mf_site site = {"mine", "/plugins/mine.so", "route", "layers.3.router"};
    char text[512], expected[128];
    int status = ended_by(fatal[_i].number, &site, text, sizeof text);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 4, "%s: %d", text, status);
    snprintf(expected, sizeof expected,
             "moefw: plugin mine (/plugins/mine.so) killed by %s in route of layers.3.router: ",
             fatal[_i].name);
    ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
    status = ended_by(fatal[_i].number, NULL, text, sizeof text);
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
