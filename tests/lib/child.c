/* lib/child.c: runs a call in a process of its own, and returns its status and its output to
 * stderr. Calls that crash write no core files. */
#include "tests/lib/child.h"

#include <check.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int child_status(void (*work)(void *arg), void *arg, char *text, size_t size)
{
    int ends[2] = {-1, -1}, status = 0;
    if (text) ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL); /* otherwise the child would also write buffered text of the parent */
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        if (text) {
            dup2(ends[1], STDERR_FILENO);
            close(ends[0]);
            close(ends[1]);
        }
        work(arg);
        _exit(0);
    }
    if (text) {
        size_t n = 0;
        ssize_t got;
        close(ends[1]);
        while (n < size - 1 && (got = read(ends[0], text + n, size - 1 - n)) > 0)
            n += (size_t)got;
        text[n] = '\0';
        close(ends[0]);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}
