/* cli/main.c: the program's entry: what must hold before anything runs, and the one place where
 * an error is printed. */
#include "base/error.h"
#include "base/place.h"
#include "cli/cli.h"
#include "lab/check.h"
#include "lab/compare_child.h"
#include "plugin/child.h"
#include "plugin/crash.h"
#include "plugin/probe.h"
#include "report/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* Standard descriptors that the caller closed would be given to the next files opened, and our
 * messages would go into a checkpoint. */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            int got = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
            (void)got;
        }
}

/* A reader that went away ends us the way it ends other programs; another failure to write the
 * results is an error of its own. */
static int close_stdout(int rc)
{
    struct stat st;
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed) return rc;
    int why = errno;
    if (why == 0 && fstat(STDOUT_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        why = EPIPE; /* it failed earlier */
    if (why == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (rc != MF_OK) return rc;
    return mf_fail(MF_EIO, "cannot write the results to standard output: %s",
                   why != 0 ? strerror(why) : "a write failed");
}

int main(int argc, char **argv)
{
    open_standard();
    if (getauxval(AT_SECURE) != 0) {
        fputs("moefw: refuses to run with privileges that its caller lacks (setuid, setgid or "
              "file capabilities): it loads code from paths that the caller names\n",
              stderr);
        return 2;
    }
    /* What only this program itself asks for: parts of its work that a plugin may bring
     * down. */
    if (argc > 1 && strcmp(argv[1], MF_PROBE_VERB) == 0) return mf_probe_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], MF_CHECK_VERB) == 0) return mf_check_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], MF_COMPARE_CHILD) == 0) {
        if (mf_compare_child_begin(argc, argv) != MF_OK) {
            fprintf(stderr, "moefw: %s\n", mf_error_message());
            return mf_status_exit(mf_error_code());
        }
        argv[2] = argv[0];
        argc -= 2;
        argv += 2;
    }
    mf_child_program(mf_place_program());
    mf_crash_watch();
    signal(SIGPIPE, SIG_IGN); /* a closed terminal must not end a training run unsaved */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told as a full disk is */
    int rc = mf_cli_run(argc, argv);
    rc = close_stdout(rc);
    if (rc != MF_OK && mf_error_message()[0] != '\0') {
        char message[4096]; /* names of files may hold anything */
        fprintf(stderr, "moefw: %s\n",
                mf_terminal_safe(mf_error_message(), true, message, sizeof message));
    }
    return mf_status_exit(rc);
}
