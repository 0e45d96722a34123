/* plugin/guard.h: checks that a plugin leaves the state of the process unchanged.
 *
 * The state is floating-point control with rounding (an object built with -Ofast sets
 * flush-to-zero as soon as it is loaded), locale, working directory, umask and signal mask. It
 * is saved before a plugin is mapped and before each init, and compared and restored
 * after them. */
#ifndef MF_PLUGIN_GUARD_H
#define MF_PLUGIN_GUARD_H

#include <signal.h>
#include <sys/types.h>

typedef struct mf_guard {
    unsigned float_control;
    int folder; /* descriptor of the working directory; -1 if it cannot be opened */
    dev_t device;
    ino_t inode;
    mode_t umask;
    sigset_t signals;
    char locale[128];
} mf_guard;

/* The state is kept until mf_guard_end or mf_guard_check. */
void mf_guard_save(mf_guard *g);
void mf_guard_end(mf_guard *g);
/* Restores the saved state. MF_EPLUGIN if the state had changed; when: for the message, "when
 * it is loaded". */
int mf_guard_restore(const mf_guard *g, const char *when);
int mf_guard_check(mf_guard *g, const char *when); /* the same, and the end */

/* Checks only the floating-point control (base/float_control.h), which is cheap enough for
 * every call of a plugin. Restores it. MF_EPLUGIN if it had changed. */
int mf_guard_float_check(unsigned before, const char *when);

#endif
