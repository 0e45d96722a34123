/* cli/restart.c: restarts the program once if the OpenMP runtime was loaded with settings that
 * cost time, or with stacks that are too small. The runtime reads its settings from the
 * environment only when it is loaded. A program that uses the library must set them itself. */
#include "cli/restart.h"
#include "base/coverage.h"
#include "base/error.h"
#include "base/file/paths.h"

#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Number of pauses: some tens of microseconds in all, about the cost of waking a thread. */
#define SPINS "3000"

/* Stack of a thread: a gemm puts up to 3 MB of packed operands and sums there. */
#define STACK ((size_t)4 << 20)

/* Parses OMP_STACKSIZE: a number and B, K, M or G; without a letter, K. SIZE_MAX if it is
 * not valid. */
static size_t stack_size(const char *text)
{
    char *end;
    const double number = strtod(text, &end), kib = 1024;
    while (isspace((unsigned char)*end))
        end++;
    const int unit = toupper((unsigned char)*end);
    const double bytes = unit == 'B'                ? number
                         : unit == 'M'              ? number * kib * kib
                         : unit == 'G'              ? number * kib * kib * kib
                         : unit == 'K' || unit == 0 ? number * kib
                                                    : -1;
    return end == text || bytes < 0 || bytes > 1e18 ? SIZE_MAX : (size_t)bytes;
}

/* Stack of a new thread for which nothing is set: by glibc the limit, or 2 MiB if that is
 * infinite; by musl 128 KiB. */
static size_t usual_stack(void)
{
    pthread_attr_t usual;
    size_t size = 0;
    if (pthread_attr_init(&usual) != 0) return SIZE_MAX;
    if (pthread_attr_getstacksize(&usual, &size) != 0) size = SIZE_MAX;
    pthread_attr_destroy(&usual);
    return size;
}

/* Enlarges stacks by variables and a limit that only a new start of the program can apply.
 * *ret_restart: set to true if a new start is needed. MF_EDEP if the system forbids it. */
static int enlarge_stacks(bool *ret_restart)
{
    static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"};
    struct rlimit limit;
    bool named = false;
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        named = named || text;
        if (text && stack_size(text) < STACK && setenv(names[i], "4M", 1) == 0)
            *ret_restart = true;
    }
    if (!named && usual_stack() < STACK && setenv(names[0], "4M", 1) == 0) *ret_restart = true;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= STACK)
        return MF_OK;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < STACK)
        return mf_fail(MF_EDEP,
                       "the stack is limited to %llu KiB, expected at least %zu (ulimit -Hs)",
                       (unsigned long long)limit.rlim_max / 1024, STACK / 1024);
    limit.rlim_cur = STACK;
    if (setrlimit(RLIMIT_STACK, &limit) == 0) *ret_restart = true;
    return MF_OK;
}

int mf_cli_restart(char **argv)
{
    bool restart = false;
    int rc = enlarge_stacks(&restart);
    if (rc != MF_OK) return rc;
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL &&
        setenv("GOMP_SPINCOUNT", SPINS, 0) == 0)
        restart = true;
    if (restart && argv) MF_LAST(execv(mf_paths_program(), argv));
    return MF_OK;
}
