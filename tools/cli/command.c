/* cli/command.c: moefw_main, the command line. It prepares the process before a verb runs:
 * standard descriptors, ignored signals, and handlers that name the plugin in which a crash
 * happens. An error is printed once, at the end of moefw_main. */
#include "cli/command.h"
#include "api/run_internal.h"
#include "base/coverage.h"
#include "base/error.h"
#include "base/file/paths.h"
#include "base/hint.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "lab/check/check.h"
#include "lab/compare/compare_child.h"
#include "plugin/load/allow.h"
#include "plugin/load/child.h"
#include "plugin/crash.h"
#include "plugin/output.h"
#include "plugin/load/probe.h"
#include "report/report.h"
#include "report/terminal/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* If the caller closed a standard descriptor, the next opened file would get its number, and
 * messages would be written into a checkpoint. So closed descriptors are opened here. Standard
 * output is opened in a way that makes writing to it fail. */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        int got = -1;
        if (fd == STDOUT_FILENO) {
            mf_cli_no_stdout = true;
            got = open("/dev/full", O_WRONLY | O_CLOEXEC);
        }
        if (got < 0) got = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
        (void)got;
    }
}

/* If the reader of stdout has ended, SIGPIPE ends this program, as usual for command line
 * programs. Any other failure to write results is an error. */
static int close_stdout(int rc)
{
    struct stat st;
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed) return rc;
    int why = errno;
    if (why == 0 && fstat(STDOUT_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        why = EPIPE; /* an earlier write failed */
    if (why == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        MF_LAST(raise(SIGPIPE));
    }
    if (rc != MF_OK) return rc;
    return mf_fail(MF_EIO, "cannot write the results to standard output: %s",
                   mf_cli_no_stdout ? "it is closed"
                   : why != 0       ? strerror(why)
                                    : "a write failed");
}

/* A command that met a fault of the machine has not done its whole work, even if it could
 * continue. For example, a file that could not be examined was treated as missing, or an
 * optional part was skipped. If such a command refuses something, its status is that of
 * the fault. */
static int judge_faults(int rc)
{
    int code;
    const char *first = mf_fault_first(&code);
    if (!first) return rc;
    if (rc == MF_OK) return mf_fail(code, "%s; the results may be incomplete", first);
    return rc == MF_EPLUGIN || rc == MF_ECONFIG || rc == MF_EINPUT || rc == MF_ENOTFOUND ? code
                                                                                         : rc;
}

static const char *const hints[MF_HINTS] = {
    [MF_HINT_RESUME] = ", or --resume to continue the run in it",
    [MF_HINT_DATA] = "--data",
    [MF_HINT_OTHER_DATA] = " (--data FILE names another)",
    [MF_HINT_SOME_DATA] = ": --data FILE names some",
    [MF_HINT_UNSAFE] = ", or use --allow-unsafe-plugins",
    [MF_HINT_PATHS] =
        ("; name the file on the command line, too (--plugin FILE, --set KEY=FILE), use "
         "--allow-config-plugins, or trust it from now on: moefw plugin trust ")};

int moefw_main(int argc, char **argv)
{
    mf_hints_set(hints);
    open_standard();
    if (getauxval(AT_SECURE) != 0) {
        fputs("moefw: refuses to run with privileges that its caller lacks (setuid, setgid or "
              "file capabilities): it loads code from paths that the caller names\n",
              stderr);
        return 2;
    }
    /* these verbs are only called by this program, in its child processes */
    if (argc > 1 && strcmp(argv[1], MF_PROBE_VERB) == 0) return mf_probe_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], MF_CHECK_VERB) == 0) return mf_check_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], MF_COMPARE_CHILD) == 0) {
        int skip = 0;
        if (mf_compare_child_begin(argc, argv, &skip) != MF_OK) {
            fprintf(stderr, "moefw: %s\n", mf_shown(mf_error_message()));
            return mf_status_exit(mf_error_code());
        }
        argv[skip] = argv[0];
        argc -= skip;
        argv += skip;
    }
    mf_run_report = mf_report_write;
    mf_child_program(mf_paths_program());
    mf_crash_watch();
    mf_output_watch();
    mf_plugin_restrict_paths();
    signal(SIGPIPE, SIG_IGN); /* a closed terminal must not end a training run without saving */
    signal(SIGXFSZ, SIG_IGN); /* the size limit of a file is reported like a full disk */
    /* A fault may have happened already, for example if the program's folder could not
     * be read. */
    int rc = judge_faults(MF_OK);
    if (rc == MF_OK) rc = mf_cli_run(argc, argv);
    rc = close_stdout(rc);
    mf_output_close();
    rc = judge_faults(rc);
    if (rc != MF_OK && mf_error_message()[0] != '\0') {
        char message[4096]; /* file names may contain any bytes */
        fprintf(stderr, "moefw: %s\n",
                mf_safe_text(mf_error_message(), false, message, sizeof message));
    }
    mf_crash_ended();
    return mf_status_exit(rc);
}

void moefw_exit(int status)
{
    mf_crash_exit(status);
}
