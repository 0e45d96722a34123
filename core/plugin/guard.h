/* plugin/guard.h: what a plugin must leave as it was: the state that all of the process shares.
 *
 * Floating-point control (an object built with -Ofast sets flush-to-zero for every other one as
 * soon as it is loaded), rounding, locale, working directory, umask, signal mask. Saved before
 * plugin code runs for the first time, compared and put back after it.
 */
#ifndef MF_PLUGIN_GUARD_H
#define MF_PLUGIN_GUARD_H

#include <signal.h>
#include <sys/types.h>

typedef struct mf_guard {
    unsigned float_control;
    int rounding, folder; /* folder: descriptor, -1 if it cannot be opened */
    dev_t device;
    ino_t inode;
    mode_t umask;
    sigset_t signals;
    char locale[128];
} mf_guard;

void mf_guard_save(mf_guard *g);
/* Puts everything back. MF_EPLUGIN if something had changed; when: "when it is loaded". */
int mf_guard_check(mf_guard *g, const char *when);

/* Floating-point control alone, which costs nothing: for every call. */
unsigned mf_guard_float(void);
/* Puts it back. MF_EPLUGIN if it had changed. */
int mf_guard_float_check(unsigned before, const char *when);

#endif
