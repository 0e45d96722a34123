/* cli/main.c: the program. All other code is in the library, where only moefw_main and its
 * verbs handle signals, print results, or restart the program. _exit is defined here, because
 * only an executable can replace that of libc, also for plugins. */
#include <moefw/command.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/coverage.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static volatile sig_atomic_t result; /* the status of a main that has returned */

/* A destructor that calls _exit(0) does not make a success of a failure. */
MOEFW_API void _exit(int status)
{
    MF_LAST(moefw_exit(status != 0 ? status : result));
}

MOEFW_API void _Exit(int status)
{
    _exit(status);
}
#define KEEP(status) (result = (status))
#else
#define KEEP(status) (status)
#endif

int main(int argc, char **argv)
{
    return KEEP(moefw_main(argc, argv));
}
