/* plugin/guard.c: saves, compares and restores the state of the process that a plugin must not
 * change. After a check the saved state is in force again. */
#include "plugin/guard.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io_raw.h"
#include "base/float_control.h"

static void locale_name(char out[128])
{
    const char *name = setlocale(LC_ALL, NULL);
    snprintf(out, 128, "%s", name ? name : "?");
}

/* Reads the umask from /proc (Linux 4.7). umask() would also set it, and another thread could
 * create a file at that moment. */
static mode_t mask_now(void)
{
    char text[2048];
    const int fd = mf_raw_open("/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd >= 0 ? mf_raw_read(fd, text, sizeof text - 1, 0) : -1;
    if (fd >= 0) mf_raw_close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *found = strstr(text, "\nUmask:");
    if (found) return (mode_t)strtoul(found + 7, NULL, 8);
    mode_t mask = umask(077);
    umask(mask);
    return mask;
}

void mf_guard_save(mf_guard *g)
{
    struct stat st = {0};
    g->float_control = mf_float_control();
    g->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stat(".", &st) != 0) st.st_ino = 0;
    g->device = st.st_dev;
    g->inode = st.st_ino;
    g->umask = mask_now();
    pthread_sigmask(SIG_SETMASK, NULL, &g->signals);
    locale_name(g->locale);
}

static int check_folder(const mf_guard *g, const char *when)
{
    struct stat st = {0};
    if (g->inode == 0) return MF_OK;
    if (stat(".", &st) != 0)
        mf_fault_errno("."); /* the machine may have failed here, not the plugin */
    else if (st.st_dev == g->device && st.st_ino == g->inode)
        return MF_OK;
    if (g->folder < 0 || fchdir(g->folder) != 0)
        return mf_fail(MF_EPLUGIN,
                       "changes the working directory of the program %s, and the old one "
                       "is out of reach",
                       when);
    return mf_fail(MF_EPLUGIN, "changes the working directory of the program %s", when);
}

static int check_signals(const mf_guard *g, const char *when)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < NSIG; s++) {
        if (sigismember(&now, s) != sigismember(&g->signals, s)) {
            pthread_sigmask(SIG_SETMASK, &g->signals, NULL);
            return mf_fail(MF_EPLUGIN, "%s signal %d of the program %s",
                           sigismember(&now, s) == 1 ? "blocks" : "unblocks", s, when);
        }
    }
    return MF_OK;
}

int mf_guard_float_check(unsigned before, const char *when)
{
    const unsigned now = mf_float_control();
    if (now == before) return MF_OK;
    mf_float_control_set(before);
    return mf_fail(
        MF_EPLUGIN,
        "%s for the whole process %s: expected floating-point control 0x%x, found 0x%x; "
        "build it without -Ofast, -ffast-math and -funsafe-math-optimizations",
        mf_float_control_text(before, now), when, before, now);
}

void mf_guard_end(mf_guard *g)
{
    if (g->folder >= 0) close(g->folder);
    g->folder = -1;
}

int mf_guard_check(mf_guard *g, const char *when)
{
    const int rc = mf_guard_restore(g, when);
    mf_guard_end(g);
    return rc;
}

int mf_guard_restore(const mf_guard *g, const char *when)
{
    int rc = MF_OK;
    char locale[128];
    locale_name(locale);
    mode_t mask = mask_now();
    if (check_folder(g, when) != MF_OK || check_signals(g, when) != MF_OK) rc = MF_EPLUGIN;
    if (mask != g->umask) {
        umask(g->umask);
        rc = mf_fail(MF_EPLUGIN,
                     "changes the umask of the program %s: expected %03o, found %03o", when,
                     (unsigned)g->umask, (unsigned)mask);
    }
    if (strcmp(locale, g->locale) != 0) {
        setlocale(LC_ALL, g->locale);
        rc = mf_fail(MF_EPLUGIN,
                     "changes the locale of the program %s: expected '%s', found '%s'", when,
                     g->locale, locale);
    }
    if (mf_guard_float_check(g->float_control, when) != MF_OK) rc = MF_EPLUGIN;
    return rc;
}
