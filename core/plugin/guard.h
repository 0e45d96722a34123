/* plugin/guard.h: checks that a plugin leaves the state of the process unchanged.
 *
 * The state consists of floating-point control with rounding (an object built with -Ofast sets
 * flush-to-zero as soon as it is loaded), locale, working directory, umask and signal mask. The
 * state is saved before a plugin is mapped and before each init, and compared and
 * restored afterwards. */
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

/* Saves the state. It is kept until mf_guard_end or mf_guard_check. */
void mf_guard_save(mf_guard *g);
void mf_guard_end(mf_guard *g);
/* Restores the saved state. MF_EPLUGIN if the state had changed. when: text for the message,
 * for example "when it is loaded". */
int mf_guard_restore(const mf_guard *g, const char *when);
int mf_guard_check(mf_guard *g, const char *when); /* like mf_guard_restore, followed
                                                    * by mf_guard_end */

/* Checks and restores only the floating-point control (base/float_control.h). This is fast
 * enough for every call of a plugin. MF_EPLUGIN if the control had changed. */
int mf_guard_float_check(unsigned before, const char *when);

#endif
