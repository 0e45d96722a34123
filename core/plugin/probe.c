#include "plugin/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/ini.h"
#include "base/mem.h"
#include "plugin/instance.h"
#include "plugin/open.h"

extern char **environ;

/* The report is lines of text, each in one write:
 *   at FILE PHASE        begun: whatever ends the child now happened there
 *   bad FILE STATUS TEXT refused
 *   done */
enum { REPORT_MAX = 8192, PROBE_SECONDS = 10 };

static char program[4096];

void mf_probe_enable(const char *path)
{
    snprintf(program, sizeof program, "%s", path != NULL ? path : "");
}

static int seconds_allowed(void)
{
    const char *text = secure_getenv("MOEFW_PROBE_SECONDS");
    long long n;
    return text != NULL && mf_parse_i64(text, &n) && n >= 1 && n <= 3600 ? (int)n
                                                                         : PROBE_SECONDS;
}

const char *mf_death_text(int status, char *out, unsigned size)
{
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        snprintf(out, size, name != NULL ? "killed by SIG%s" : "killed by signal %.0s%d",
                 name != NULL ? name : "", WTERMSIG(status));
    } else {
        snprintf(out, size, "ended the process with status %d", WEXITSTATUS(status));
    }
    return out;
}

/* ---- the child ---- */

static int report_fd = -1;

MF_PRINTF(1, 2)
static void report(const char *fmt, ...)
{
    char line[REPORT_MAX / 2];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, args);
    va_end(args);
    if (n < 0) return;
    size_t length = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\n') line[i] = ' ';
    line[length++] = '\n';
    ssize_t got = write(report_fd, line, length);
    (void)got; /* nobody left to tell */
}

/* A place in a small model; what init says about it does not matter here, only that it returns. */
static void try_init(const mf_loaded *plugin)
{
    const mf_dims dims = {.size = sizeof dims,
                          .layer = 0,
                          .n_layers = 2,
                          .dim = 16,
                          .experts = 4,
                          .top_k = 2,
                          .heads = 2,
                          .kv_heads = 2,
                          .vocab = 64,
                          .seq = 16,
                          .causal = 1,
                          .moe_layers = 2,
                          .labels = 4,
                          .train_steps = 100};
    mf_store *store = mf_store_new();
    mf_plughost *host = store != NULL ? mf_plughost_new(store) : NULL;
    mf_ini *ini = mf_ini_new();
    mf_ctx *instance = NULL;
    if (host != NULL && ini != NULL)
        (void)mf_instance_new(host, plugin, "layers.0.probe", ini, "probe", NULL, "probe",
                              &dims, &instance);
    mf_instance_free(instance);
    mf_plughost_free(host);
    mf_store_free(store);
    mf_ini_free(ini);
}

static bool try_file(int i, const char *path)
{
    const mf_loaded *plugin;
    const mf_found found = {.path = path};
    char prefix[4200];
    report("at %d loading", i);
    int rc = mf_plugin_load_found(&found, NULL, 0, &plugin);
    if (rc != MF_OK) {
        const char *why = mf_error_message();
        int n = snprintf(prefix, sizeof prefix, "plugin '%s' refused: ", path);
        report("bad %d %d %s", i, rc, strncmp(why, prefix, (size_t)n) == 0 ? why + n : why);
        return false;
    }
    report("at %d init", i);
    try_init(plugin);
    return true;
}

int mf_probe_main(int argc, char **argv)
{
    long long fd;
    if (argc < 4 || !mf_parse_i64(argv[2], &fd) || fd < 0 || fd > 1 << 20)
        return mf_status_exit(
            mf_fail(MF_EUSAGE, "usage: %s %s DESCRIPTOR FILE...", argv[0], argv[1]));
    report_fd = (int)fd;
    (void)fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* results are the parent's business */
    const rlim_t seconds = (rlim_t)seconds_allowed() * (rlim_t)(argc - 3);
    const struct rlimit cpu = {seconds + 1, seconds + 2}, core = {0, 0};
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    mf_plugin_allow_unsafe(true); /* the parent has looked */
    for (int i = 3; i < argc; i++)
        if (!try_file(i - 3, argv[i])) return 0;
    report("done");
    return 0;
}

/* ---- the parent ---- */

/* Starts the child; its report comes in at *ret_fd. */
static int start(int n, const char *const *paths, pid_t *ret_pid, int *ret_fd)
{
    int ends[2];
    char number[16];
    const char **argv = mf_alloc((size_t)n + 4, sizeof *argv);
    if (argv == NULL) return MF_ENOMEM;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        mf_free(argv);
        return mf_fail_errno(MF_ERUN,
                             "cannot make a pipe to try the plugin in a child process");
    }
    argv[0] = program;
    argv[1] = MF_PROBE_VERB;
    argv[2] = number;
    for (int i = 0; i < n; i++)
        argv[3 + i] = paths[i];
    /* dup2 in the child takes off close-on-exec; the number is one that is free there. */
    int free_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    snprintf(number, sizeof number, "%d", free_fd);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], free_fd);
    errno = posix_spawn(ret_pid, program, &actions, NULL, (char *const *)(const void *)argv,
                        environ);
    int rc = errno == 0 ? MF_OK
                        : mf_fail_errno(MF_ERUN, "cannot start %s to try the plugin", program);
    posix_spawn_file_actions_destroy(&actions);
    close(free_fd);
    close(ends[1]);
    mf_free(argv);
    if (rc != MF_OK) close(ends[0]);
    *ret_fd = ends[0];
    return rc;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads the report to its end. false: time is up. */
static bool read_report(int fd, int seconds, char *text, size_t size)
{
    const double end = now() + seconds;
    size_t fill = 0;
    for (;;) {
        double left = end - now();
        struct pollfd p = {fd, POLLIN, 0};
        int ready = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        char chunk[512];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            text[fill] = '\0';
            return true;
        }
        /* More than fits can only be a plugin writing into our pipe: the rest is dropped. */
        size_t take = (size_t)n < size - 1 - fill ? (size_t)n : size - 1 - fill;
        memcpy(text + fill, chunk, take);
        fill += take;
    }
    text[fill] = '\0';
    return false;
}

/* Turns the report and the way the child ended into a status. */
static int verdict(char *report_text, bool in_time, int seconds, int status, int n,
                   int *ret_bad)
{
    int at = 0, code = 0, chars = 0;
    char phase[32] = "loading", death[64];
    for (char *line; (line = strsep(&report_text, "\n")) != NULL;) {
        if (strcmp(line, "done") == 0 && in_time && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0)
            return MF_OK;
        if (sscanf(line, "bad %d %d %n", &at, &code, &chars) == 2 && chars > 0 && at >= 0 &&
            at < n) {
            *ret_bad = at;
            return mf_fail(code, "%s", line + chars);
        }
        (void)sscanf(line, "at %d %31s", &at, phase);
    }
    *ret_bad = at >= 0 && at < n ? at : 0;
    const bool loading = strcmp(phase, "loading") == 0;
    const char *where = loading ? "while it was loaded (in a constructor)" : "in init";
    if (!in_time)
        return mf_fail(MF_EPLUGIN,
                       "does not return %s: expected an end within %d s, found it still "
                       "running; MOEFW_PROBE_SECONDS=N allows more",
                       loading ? "when it is loaded (from a constructor)" : "from init",
                       seconds);
    mf_death_text(status, death, sizeof death);
    return mf_fail(MF_EPLUGIN,
                   "%s %s: expected %s to return, found that it did not; try it alone with "
                   "`moefw plugin check FILE`",
                   death, where, loading ? "loading" : "init");
}

int mf_probe(int n, const char *const *paths, int *ret_bad)
{
    char text[REPORT_MAX];
    pid_t pid;
    int fd = -1, status = 0;
    *ret_bad = 0;
    if (program[0] == '\0' || n == 0) return MF_OK;
    int rc = start(n, paths, &pid, &fd);
    if (rc != MF_OK) return rc;
    const int seconds = seconds_allowed();
    bool in_time = read_report(fd, seconds * n, text, sizeof text);
    close(fd);
    if (!in_time) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return verdict(text, in_time, seconds * n, status, n, ret_bad);
}
