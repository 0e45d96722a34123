/* base/signal_name.c: names of signals. They come from glibc or, with another C library, from a
 * table of the signals that end programs. */
#include "base/signal_name.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

const char *mf_signal_name(int number)
{
#ifdef __GLIBC__
    return sigabbrev_np(number);
#else
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGBUS, "BUS"},   {SIGCHLD, "CHLD"},
                 {SIGFPE, "FPE"},   {SIGHUP, "HUP"},   {SIGILL, "ILL"},   {SIGINT, "INT"},
                 {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"}, {SIGQUIT, "QUIT"}, {SIGSEGV, "SEGV"},
                 {SIGSYS, "SYS"},   {SIGTERM, "TERM"}, {SIGTRAP, "TRAP"}, {SIGUSR1, "USR1"},
                 {SIGUSR2, "USR2"}, {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number) return names[i].name;
    return NULL;
#endif
}
