/* Runs in separate processes: the child is this program, started by spawn (after a plain fork,
 * the first parallel region hangs). Each run has its own process group, so that an interrupt at
 * the terminal reaches it only once, through its parent. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/file/own.h"
#include "base/text/number.h"
#include "base/file/paths.h"
#include "lab/compare/compare_child.h"
#include "lab/compare/compare_parts.h"
#include "plugin/load/allow.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/rundir.h"

extern char **environ;

/* ---- the claim ---- */

/* Makes sure that the file has no other name, by copying it if necessary. Files of a comparison
 * have other names if somebody copied it by hard links. */
static int own(const char *path)
{
    bool copied;
    return mf_file_own(AT_FDCWD, path, &copied) == 0
               ? MF_OK
               : mf_fail_errno(MF_EIO, "%s: has other names, and cannot be copied", path);
}

int mf_compare_claim(const mf_compare_run *run, int *ret_fd)
{
    *ret_fd = -1;
    int rc = own(run->claim);
    if (rc != MF_OK) return rc;
    int fd = mf_raw_open(run->claim, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return mf_fail_errno(MF_EIO, "%s: cannot open", run->claim);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        *ret_fd = fd;
        return MF_OK;
    }
    const bool taken = errno == EAGAIN || errno == EACCES;
    rc = taken ? MF_OK : mf_fail_errno(MF_EIO, "%s: cannot lock", run->claim);
    mf_raw_close(fd);
    return rc;
}

void mf_compare_unclaim(int fd)
{
    if (fd >= 0) mf_raw_close(fd);
}

/* ---- starting ---- */

/* Examines the directory of a run. *ret_again: whether there is a checkpoint to resume. A
 * directory without a checkpoint is removed. */
static int judge_dir(const mf_compare_run *run, bool *ret_again)
{
    int64_t *steps = NULL;
    int n = 0;
    *ret_again = false;
    if (!mf_exists(run->dir)) return MF_OK;
    if (mf_rundir_is(run->dir)) {
        mf_rundir *dir = NULL;
        /* fails if another process writes to the directory */
        int rc = mf_rundir_open(run->dir, &dir);
        if (rc != MF_OK) return rc;
        if (mf_is_dir(dir->ckpt)) rc = mf_ckpt_list(dir->ckpt, &steps, &n);
        mf_rundir_close(dir);
        mf_free(steps);
        if (rc != MF_OK) return rc;
    }
    *ret_again = n > 0;
    return n > 0 ? MF_OK : mf_remove_tree(run->dir);
}

/* Sets up standard input, output and descriptors of a run. All actions must be added: if one is
 * missing for lack of memory, the run would write to the terminal. Returns an errno. */
static int add_actions(posix_spawn_file_actions_t *a, const char *log, int claim)
{
    int why = posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (why == 0)
        why = posix_spawn_file_actions_addopen(
            a, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (why == 0) why = posix_spawn_file_actions_adddup2(a, STDOUT_FILENO, STDERR_FILENO);
    /* a copy to the same number clears close-on-exec only in the child */
    if (why == 0 && claim >= 0) why = posix_spawn_file_actions_adddup2(a, claim, claim);
    return why;
}

int mf_compare_spawn(const char *const *argv, const char *log, int claim, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGHUP);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    errno = add_actions(&actions, log, claim);
    if (errno == 0)
        errno = posix_spawnp(ret_pid, argv[0], &actions, &attributes,
                             (char *const *)(const void *)argv, environ);
    int rc = errno == 0 ? MF_OK : mf_fail_errno(MF_ERUN, "cannot start %s for a run", argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

const char **mf_compare_command(mf_arena *arena, const char *what, int threads, int *ret_n)
{
    enum { FIXED = 8 };
    int n = 0, files = 0;
    while (mf_plugin_allowed_file(files))
        files++;
    const char **argv =
        mf_arena_alloc(arena, ((size_t)files + FIXED + MF_COMPARE_WORDS) * sizeof *argv);
    if (!argv) return NULL;
    argv[n++] = mf_paths_program();
    argv[n++] = MF_COMPARE_CHILD;
    argv[n++] = mf_arena_strf(arena, "%ld", (long)getpid());
    for (int i = 0; i < files; i++)
        argv[n++] = mf_plugin_allowed_file(i);
    argv[n++] = "train";
    argv[n++] = what;
    argv[n++] = "--quiet";
    argv[n++] = "--threads";
    argv[n++] = mf_arena_strf(arena, "%d", threads);
    *ret_n = n;
    return argv;
}

static const char **command(const mf_compare *c, const char *what, const mf_compare_run *run,
                            bool again, mf_arena *arena)
{
    const mf_compare_spec *s = c->spec;
    const int each = s->threads / s->jobs;
    int n = 0;
    const char **argv = mf_compare_command(arena, what, each > 0 ? each : 1, &n);
    if (!argv) return NULL;
    if (s->unsafe_plugins) argv[n++] = "--allow-unsafe-plugins";
    if (mf_plugin_paths_allowed()) argv[n++] = "--allow-config-plugins";
    if (again) {
        argv[n++] = "--resume";
    } else {
        argv[n++] = "--seed";
        argv[n++] = mf_arena_strf(arena, "%lld", (long long)run->seed);
        argv[n++] = "--out";
        argv[n++] = run->dir;
    }
    argv[n] = NULL;
    for (int i = 0; i < n; i++)
        if (!argv[i]) return NULL;
    return argv;
}

int mf_compare_start(const mf_compare *c, const mf_compare_router *r, const mf_compare_run *run,
                     int claim, pid_t *ret_pid, bool *ret_again)
{
    int rc = judge_dir(run, ret_again);
    if (rc != MF_OK) return rc;
    char *pilot = mf_path_join(r->dir, "pilot.ini");
    mf_arena *arena = mf_arena_new();
    const char *what = *ret_again ? run->dir : run->pilot ? pilot : r->config;
    const char **argv = pilot && arena ? command(c, what, run, *ret_again, arena) : NULL;
    rc = argv ? own(run->log) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_compare_spawn(argv, run->log, claim, ret_pid);
    mf_arena_free(arena);
    mf_free(pilot);
    return rc;
}

int mf_compare_child_begin(int argc, char **argv, int *ret_skip)
{
    long long parent;
    int i = 3;
    if (argc < 4 || !mf_parse_i64(argv[2], &parent))
        return mf_fail(MF_EUSAGE, "usage: %s %s PROCESS [/FILE...] VERB...", argv[0], argv[1]);
    /* If the comparison is killed, its runs save and end. The next process can then
     * continue them. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != (pid_t)parent) return mf_fail(MF_ERUN, "the comparison has ended");
    for (; i < argc && argv[i][0] == '/'; i++)
        mf_plugin_allow_file(argv[i]);
    *ret_skip = i - 1;
    return MF_OK;
}

/* ---- ending ---- */

char *mf_compare_last_words(const mf_compare_run *run, int status)
{
    static const char mark[] = "moefw: ";
    char *text = NULL, *last = NULL;
    size_t size;
    if (mf_read_file(run->log, 0, &text, &size) != MF_OK) mf_error_clear();
    for (char *at = text; at && (at = strstr(at, mark)); at++)
        if (at == text || at[-1] == '\n') last = at + sizeof mark - 1;
    if (last) last[strcspn(last, "\n")] = '\0';
    char *words = NULL;
    if (WIFSIGNALED(status))
        words = mf_strf("killed by signal %d; see %s", WTERMSIG(status), run->log);
    else if (last)
        words = mf_strdup(last);
    else
        words = mf_strf("ended with status %d; see %s", WEXITSTATUS(status), run->log);
    mf_free(text);
    return words;
}
