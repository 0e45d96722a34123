/* plugin/load/child.c: runs this program again as a child process. The child always ends: by
 * itself, at its limits, when its parent dies, or, if it is silent for too long, because its
 * parent kills it. */
#include "plugin/load/child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/ini.h"
#include "base/mem.h"
#include "base/signal_name.h"

/* Memory limit of a child: a runaway child must not exhaust the machine. */
#define MEMORY_MAX ((rlim_t)8 << 30)

extern char **environ;

static char program[4096];
static int report_fd = -1;

void mf_child_program(const char *path)
{
    snprintf(program, sizeof program, "%s", path ? path : "");
}

bool mf_child_possible(void)
{
    return program[0] != '\0';
}

/* ---- the child ---- */

int mf_child_begin(int argc, char **argv, int seconds)
{
    long long fd;
    if (argc < 4 || !mf_parse_i64(argv[2], &fd) || fd < 0 || fd > 1 << 20 ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
        return mf_fail(MF_EUSAGE, "usage: %s %s DESCRIPTOR ARGUMENT...", argv[0], argv[1]);
    report_fd = (int)fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* the child's output must not mix with the
                                         * parent's results */
    const struct rlimit cpu = {(rlim_t)seconds + 1, (rlim_t)seconds + 2}, core = {0, 0};
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* no limit with sanitizers, which map more address space than they use */
    struct rlimit memory;
    if (getrlimit(RLIMIT_DATA, &memory) == 0 && memory.rlim_max > MEMORY_MAX) {
        memory.rlim_cur = MEMORY_MAX;
        setrlimit(RLIMIT_DATA, &memory);
    }
#endif
    return MF_OK;
}

void mf_child_any_memory(void)
{
    struct rlimit memory;
    if (getrlimit(RLIMIT_DATA, &memory) != 0) return;
    memory.rlim_cur = memory.rlim_max;
    setrlimit(RLIMIT_DATA, &memory);
}

int mf_child_report(void)
{
    return report_fd;
}

void mf_child_say(const char *fmt, ...)
{
    char line[MF_CHILD_LINE];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0) return;
    size_t length = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\n') line[i] = ' ';
    line[length++] = '\n';
    ssize_t got = write(report_fd, line, length);
    (void)got; /* nobody would read an error message here */
}

/* ---- the parent ---- */

/* Starts the child. The parent reads the child's report from *ret_fd. */
static int start(const char *verb, int n, const char *const *arguments, pid_t *ret_pid,
                 int *ret_fd)
{
    int ends[2];
    char number[16];
    const char **argv = mf_alloc((size_t)n + 4, sizeof *argv);
    if (!argv) return MF_ENOMEM;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        mf_free(argv);
        return mf_fail_errno(MF_ERUN, "cannot make a pipe to a child process");
    }
    argv[0] = program;
    argv[1] = verb;
    argv[2] = number;
    for (int i = 0; i < n; i++)
        argv[3 + i] = arguments[i];
    /* dup2 in the child clears close-on-exec only if the two descriptors differ, so another
     * unused descriptor is the target. */
    int free_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    if (free_fd < 0) {
        int rc = mf_fail_errno(MF_ERUN, "cannot copy a descriptor for a child process");
        close(ends[0]);
        close(ends[1]);
        mf_free(argv);
        return rc;
    }
    snprintf(number, sizeof number, "%d", free_fd);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    /* Without memory the action is not added: the child would have another input, or
     * no pipe. */
    errno = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (errno == 0) errno = posix_spawn_file_actions_adddup2(&actions, ends[1], free_fd);
    if (errno == 0)
        errno = posix_spawn(ret_pid, program, &actions, NULL, (char *const *)(const void *)argv,
                            environ);
    int rc = errno == 0 ? MF_OK : mf_fail_errno(MF_ERUN, "cannot start %s as a child", program);
    posix_spawn_file_actions_destroy(&actions);
    close(free_fd);
    close(ends[1]);
    mf_free(argv);
    if (rc != MF_OK) close(ends[0]);
    *ret_fd = ends[0];
    return rc;
}

typedef struct reader {
    int fd;
    size_t fill;
    char text[MF_CHILD_LINE];
    void (*line)(void *arg, char *text);
    void *arg;
} reader;

/* Passes on complete lines. A line that fills the buffer without an end can only come from a
 * plugin that writes to the pipe, so it is dropped. */
static void hand_on(reader *r)
{
    char *end;
    while ((end = memchr(r->text, '\n', r->fill)) != NULL) {
        *end = '\0';
        r->line(r->arg, r->text);
        r->fill -= (size_t)(end + 1 - r->text);
        memmove(r->text, end + 1, r->fill);
    }
    if (r->fill == sizeof r->text) r->fill = 0;
}

/* Returns the seconds of computing time that the child has used; 0 if the system does not
 * report them. */
static double computed(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether a silent child is only slow, because a healthy child may be silent for long on a busy
 * machine. True if the child has computed since the last check, but for less than 0.9 of the
 * limit since its last line. */
static bool only_slow(pid_t pid, double *seen, double since, int seconds)
{
    const double before = *seen;
    *seen = computed(pid);
    return *seen > before + 0.1 && *seen - since < 0.9 * seconds;
}

/* Waits at most `seconds` for lines, and reads them. Returns 1 after a read or an interrupted
 * wait, 0 if no line came in time, and -1 at the end of the report. */
static int read_more(reader *r, double seconds)
{
    struct pollfd p = {r->fd, POLLIN, 0};
    const int ready = seconds > 0 ? poll(&p, 1, (int)(seconds * 1000) + 1) : 0;
    if (ready < 0 && errno == EINTR) return 1;
    if (ready <= 0) return 0;
    const ssize_t n = read(r->fd, r->text + r->fill, sizeof r->text - r->fill);
    if (n < 0 && errno == EINTR) return 1;
    if (n <= 0) return -1;
    r->fill += (size_t)n;
    hand_on(r);
    return 1;
}

/* Reads the report to its end. Returns false if the child was silent or ran for too long. */
static bool read_report(reader *r, pid_t pid, mf_child_limits limits)
{
    /* Maximum number of extensions of the limit for a child that computes slowly. */
    enum { PATIENCE = 10 };
    const int seconds = limits.silence;
    const double last = limits.whole > 0 ? mf_clock() + limits.whole : (double)INFINITY;
    double end = mf_clock() + seconds, since = computed(pid), seen = since;
    int extended = 0;
    for (;;) {
        const double now = mf_clock();
        const int got = read_more(r, (end < last ? end : last) - now);
        if (got < 0) return true;
        if (mf_clock() >= last) return false;
        if (got == 0) {
            if (extended++ == PATIENCE || !only_slow(pid, &seen, since, seconds)) return false;
            end = mf_clock() + seconds;
            continue;
        }
        end = mf_clock() + seconds;
        since = seen = computed(pid);
        extended = 0;
    }
}

/* Ends a child at a limit. Its handler of SIGTERM may still report what was running. */
static void stop(reader *r, pid_t pid)
{
    const double end = mf_clock() + 1;
    kill(pid, SIGTERM);
    while (mf_clock() < end && read_more(r, end - mf_clock()) > 0)
        continue;
    kill(pid, SIGKILL);
}

/* Waits for the child's end. A plugin may have closed the report without ending the child, so
 * this function has its own limit. Returns false if it killed the child. */
static bool wait_end(pid_t pid, int seconds, int *status)
{
    const double end = mf_clock() + seconds;
    const struct timespec pause = {0, 2000000};
    *status = 127 << 8; /* the status if waitpid fails */
    for (;;) {
        const pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) return true;
        if (mf_clock() >= end) break;
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    pid_t got;
    do
        got = waitpid(pid, status, 0);
    while (got < 0 && errno == EINTR);
    return false;
}

static void describe(mf_child_end *end)
{
    if (WIFSIGNALED(end->status)) {
        const char *name = mf_signal_name(WTERMSIG(end->status));
        if (name)
            snprintf(end->text, sizeof end->text, "killed by SIG%s", name);
        else
            snprintf(end->text, sizeof end->text, "killed by signal %d", WTERMSIG(end->status));
    } else {
        snprintf(end->text, sizeof end->text, "ended the process with status %d",
                 WEXITSTATUS(end->status));
    }
}

int mf_child_run(const char *verb, int n, const char *const *arguments, mf_child_limits limits,
                 void (*line)(void *arg, char *text), void *arg, mf_child_end *ret)
{
    reader r = {.fd = -1, .line = line, .arg = arg};
    pid_t pid;
    int rc = start(verb, n, arguments, &pid, &r.fd);
    if (rc != MF_OK) return rc;
    ret->in_time = read_report(&r, pid, limits);
    if (!ret->in_time) stop(&r, pid);
    close(r.fd);
    if (!wait_end(pid, limits.silence, &ret->status)) ret->in_time = false;
    describe(ret);
    return MF_OK;
}
