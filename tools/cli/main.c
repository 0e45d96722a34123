/* cli/main.c: the program. _exit is defined here and exported (cli/moefw.list). Only an
 * executable can replace the _exit of libc for plugins, too. */
#include "cli/command.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/coverage.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VISIBLE __attribute__((visibility("default")))
static volatile sig_atomic_t result; /* the status that main returned, once it has returned */

/* A destructor that calls _exit(0) must not turn a failure into a success. */
VISIBLE void _exit(int status)
{
    MF_LAST(moefw_exit(status != 0 ? status : result));
}

VISIBLE void _Exit(int status)
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
