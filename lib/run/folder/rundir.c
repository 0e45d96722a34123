/* run/folder/rundir.c: creates, opens and locks run directories. Only the process that holds
 * the lock writes to a run. */
#include "run/folder/rundir.h"

#include "base/error.h"
#include "base/file/below.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "run/folder/stored_files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME ".lock"

static const char runs_folder[] = "runs"; /* parent folder of runs unless a path is given */
enum { HOST_MAX = 256, OWNER_MAX = HOST_MAX + 64, RUNS_MAX = 1000000, MESSAGE_MAX = 1024 };

/* ---- the lock ---- */

/* Reads the text that the holder of the lock wrote: "process 4711 on host". The file may still
 * be empty if the lock was just taken. */
static void read_owner(int fd, char owner[OWNER_MAX])
{
    ssize_t n = mf_raw_read(fd, owner, OWNER_MAX - 1, 0);
    owner[n > 0 ? n : 0] = 0;
    owner[strcspn(owner, "\n")] = 0;
    for (char *c = owner; *c; c++)
        if (!isprint((unsigned char)*c)) *c = '?';
    if (*owner == 0) snprintf(owner, OWNER_MAX, "another process");
}

static int write_owner(int fd, const char *path)
{
    char host[HOST_MAX] = "", owner[OWNER_MAX];
    gethostname(host, sizeof host - 1);
    int n = snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    if (mf_raw_ftruncate(fd, 0) != 0 || mf_raw_write(fd, owner, (size_t)n) != 0)
        return mf_fail_errno(MF_EIO, "%s: cannot write", path);
    return MF_OK;
}

/* Whether the path still names the open file, or cannot be examined. A file with several names
 * (hard links) that is opened for writing is replaced by a copy. */
static bool names_file(const char *path, int fd)
{
    struct stat here, locked;
    return stat(path, &here) != 0 || fstat(fd, &locked) != 0 ||
           (here.st_ino == locked.st_ino && here.st_dev == locked.st_dev);
}

/* Tries once to take the lock; *ret_again: the locked file has lost its name in
 * the meantime. */
static int try_lock(mf_rundir *dir, const char *path, bool *ret_again)
{
    int code = MF_OK;
    int fd = mf_raw_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    *ret_again = false;
    if (fd < 0) return mf_fail_errno(MF_EIO, "%s: cannot open", path);
    /* The lock belongs to the open file, not to the process. Therefore a second open file of
     * the same process cannot take it, and closing the second file does not release it. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        *ret_again = !names_file(path, fd);
        if (!*ret_again) dir->lock = fd;
        if (!*ret_again) code = write_owner(fd, path);
    } else if (errno == EAGAIN || errno == EACCES) {
        char owner[OWNER_MAX];
        read_owner(fd, owner);
        code = mf_fail(MF_ERUN, "%s: %s is writing to this run", dir->path, owner);
    } else {
        code = mf_fail_errno(MF_EIO,
                             "%s: cannot lock: expected a file system with locks, because only "
                             "one process may write to a run",
                             path);
    }
    if (dir->lock != fd) mf_raw_close(fd);
    return code;
}

static int take_lock(mf_rundir *dir)
{
    enum { TRIES = 100 };
    char *path = mf_path_join(dir->path, LOCK_NAME);
    bool again = true;
    int code = path ? MF_OK : MF_ENOMEM;
    for (int i = 0; code == MF_OK && again; i++)
        code = i < TRIES ? try_lock(dir, path, &again)
                         : mf_fail(MF_ERUN, "%s: another process replaces this file", path);
    mf_free(path);
    return code;
}

bool mf_rundir_busy(const char *path)
{
    char *file = mf_path_join(path, LOCK_NAME);
    const int fd = file ? mf_raw_open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0) : -1;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool busy = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (fd >= 0) mf_raw_close(fd);
    mf_free(file);
    return busy;
}

/* ---- the directory ---- */

static int new_rundir(const char *path, mf_rundir **ret)
{
    *ret = NULL;
    mf_rundir *dir = mf_alloc(1, sizeof *dir);
    if (dir == NULL) return MF_ENOMEM;
    dir->lock = -1;
    dir->step = -1;
    dir->path = mf_strdup(path);
    dir->config = mf_path_join(path, "config.ini");
    dir->manifest = mf_path_join(path, "manifest.json");
    dir->metrics = mf_path_join(path, "metrics.jsonl");
    dir->memory = mf_path_join(path, "memory.jsonl");
    dir->tokenizer = mf_path_join(path, "tokenizer.json");
    dir->report = mf_path_join(path, "report.html");
    dir->sample = mf_path_join(path, "routing_sample.json");
    dir->samples = mf_path_join(path, "samples");
    dir->weights = mf_path_join(path, "weights.json");
    dir->stored = mf_path_join(path, MF_STORED_FILES);
    dir->ckpt = mf_path_join(path, "ckpt");
    dir->trace = mf_path_join(path, "trace");
    dir->best = mf_path_join(path, "best");
    dir->lock_file = mf_path_join(path, LOCK_NAME);
    if (!dir->path || !dir->config || !dir->manifest || !dir->metrics || !dir->memory ||
        !dir->tokenizer || !dir->report || !dir->sample || !dir->samples || !dir->weights ||
        !dir->stored || !dir->ckpt || !dir->trace || !dir->best || !dir->lock_file) {
        mf_rundir_close(dir);
        return MF_ENOMEM;
    }
    *ret = dir;
    return MF_OK;
}

void mf_rundir_close(mf_rundir *dir)
{
    if (dir == NULL) return;
    if (dir->lock >= 0) mf_raw_close(dir->lock);
    mf_below_drop(dir->below);
    mf_free(dir->path);
    mf_free(dir->config);
    mf_free(dir->manifest);
    mf_free(dir->metrics);
    mf_free(dir->memory);
    mf_free(dir->tokenizer);
    mf_free(dir->report);
    mf_free(dir->sample);
    mf_free(dir->samples);
    mf_free(dir->weights);
    mf_free(dir->stored);
    mf_free(dir->ckpt);
    mf_free(dir->trace);
    mf_free(dir->best);
    mf_free(dir->lock_file);
    mf_free(dir);
}

/* The lock is held until the directory is removed, so no other process can have begun
 * to write. */
void mf_rundir_discard(mf_rundir *dir)
{
    if (dir && dir->lock >= 0 && mf_rundir_is_left(dir->path)) {
        mf_io()->unlink(dir->lock_file);
        if (dir->made) mf_io()->rmdir(dir->path);
    }
    mf_rundir_close(dir);
}

/* Refuses symbolic links. A run from another person may contain links to files of the user who
 * resumes it. */
int mf_rundir_refuse_links(const char *path, const char *name)
{
    static const char *const written[] = {"config.ini",
                                          "manifest.json",
                                          "metrics.jsonl",
                                          "memory.jsonl",
                                          "tokenizer.json",
                                          "report.html",
                                          "routing_sample.json",
                                          "samples",
                                          "weights.json",
                                          MF_STORED_FILES,
                                          "ckpt",
                                          "trace",
                                          "best",
                                          "tensorboard",
                                          MF_RUN_ENDED,
                                          MF_RUN_MLFLOW,
                                          LOCK_NAME,
                                          NULL};
    const char *const one[] = {name, NULL};
    return mf_below_judge(path, name ? one : written);
}

/* Whether a part ".." of the path follows the name of a folder. */
static bool turns_back(const char *path)
{
    bool named = false;
    for (size_t n; *path; path += n + (path[n] == '/')) {
        n = strcspn(path, "/");
        if (n == 2 && strncmp(path, "..", 2) == 0) {
            if (named) return true;
        } else if (n > 0 && !(n == 1 && *path == '.')) {
            named = true;
        }
    }
    return false;
}

char *mf_rundir_settle(const char *path)
{
    if (!turns_back(path)) return mf_strdup(path);
    char real[PATH_MAX];
    if (realpath(path, real)) return mf_strdup(real);
    mf_fail_errno(MF_EIO, "%s: cannot be found", path);
    return NULL;
}

static int open_locked(const char *named, mf_rundir **ret)
{
    char *path = mf_rundir_settle(named);
    *ret = NULL;
    int code = path ? new_rundir(path, ret) : mf_error_code() == MF_ENOMEM ? MF_ENOMEM : MF_EIO;
    if (code == MF_OK) code = mf_rundir_refuse_links(path, NULL);
    if (code == MF_OK) code = mf_below_add(path, &(*ret)->below);
    if (code == MF_OK) code = take_lock(*ret);
    mf_free(path);
    if (code != MF_OK) {
        mf_rundir_close(*ret);
        *ret = NULL;
    }
    return code;
}

void mf_rundir_expect(mf_rundir *dir)
{
    dir->has_config = mf_exists(dir->config);
    dir->has_manifest = mf_exists(dir->manifest);
}

/* Checks a file of the directory. Editors replace a file by removing it first, so a missing
 * file may appear again. */
static int judge_file(const mf_rundir *dir, const char *path)
{
    enum { LOOKS = 20 };
    static const struct timespec wait = {0, 50 * 1000 * 1000};
    struct stat st;
    for (int i = 0; i < LOOKS; i++) {
        if (i > 0) nanosleep(&wait, NULL);
        if (stat(path, &st) == 0) return MF_OK;
        if (errno != ENOENT && errno != ENOTDIR)
            return mf_fail_errno(MF_EIO, "%s: cannot look at the run", dir->path);
    }
    return mf_fail(MF_ERUN,
                   "%s: the run's folder was emptied while the run wrote to it: %s is gone; "
                   "expected it to stay until the end",
                   dir->path, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
}

static int judge_files(const mf_rundir *dir)
{
    const int rc = dir->has_config ? judge_file(dir, dir->config) : MF_OK;
    return rc == MF_OK && dir->has_manifest ? judge_file(dir, dir->manifest) : rc;
}

int mf_rundir_judge(const mf_rundir *dir)
{
    struct stat here, locked;
    if (dir->lock < 0) return MF_OK;
    const bool found = stat(dir->lock_file, &here) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR)
        return mf_fail_errno(MF_EIO, "%s: cannot look at the run", dir->path);
    if (found && fstat(dir->lock, &locked) == 0 && here.st_ino == locked.st_ino &&
        here.st_dev == locked.st_dev)
        return judge_files(dir);
    return mf_fail(MF_ERUN,
                   "%s: the run's folder was removed, renamed or replaced while the run wrote "
                   "to it; expected it to stay until the end",
                   dir->path);
}

/* Whether the name is one that mf_write_file_atomic uses: NAME.PROCESS-N.tmp. */
static bool is_draft(const char *name)
{
    const char *end = strrchr(name, '.');
    if (end == NULL || strcmp(end, ".tmp") != 0) return false;
    const char *at = end;
    while (at > name && isdigit((unsigned char)at[-1]))
        at--;
    if (at == end || at == name || at[-1] != '-') return false;
    const char *dash = --at;
    while (at > name && isdigit((unsigned char)at[-1]))
        at--;
    return at < dash && at > name + 1 && at[-1] == '.';
}

/* Whether the name is that of an unfinished trace: step-N.safetensors.tmp. */
static bool is_trace_draft(const char *name)
{
    const char *digits = name + strlen("step-");
    if (strncmp(name, "step-", strlen("step-")) != 0) return false;
    const size_t n = strspn(digits, "0123456789");
    return n > 0 && strcmp(digits + n, ".safetensors.tmp") == 0;
}

static int clean(const char *folder, bool traces)
{
    char **names;
    int n, code;
    if (!mf_is_dir(folder)) return MF_OK;
    code = mf_list_dir(folder, &names, &n);
    if (code != MF_OK) return code;
    for (int i = 0; i < n && code == MF_OK; i++) {
        if (!is_draft(names[i]) && !(traces && is_trace_draft(names[i]))) continue;
        char *path = mf_path_join(folder, names[i]);
        code = path != NULL ? mf_remove_tree(path) : MF_ENOMEM;
        if (code == MF_OK)
            mf_log(MF_LOG_WARN, "%s: removed: left over from a write that did not end", path);
        mf_free(path);
    }
    mf_list_free(names, n);
    return code;
}

int mf_rundir_clean(const mf_rundir *dir)
{
    int code = clean(dir->path, false);
    if (code == MF_OK) code = clean(dir->samples, false);
    return code == MF_OK ? clean(dir->trace, true) : code;
}

/* Opens a directory that was just created. Removes the directory if opening fails. */
static int open_made(const char *path, mf_rundir **ret)
{
    int code = open_locked(path, ret);
    if (code != MF_OK) {
        char why[MESSAGE_MAX];
        snprintf(why, sizeof why, "%s", mf_error_message());
        mf_remove_tree(path);
        return mf_fail(code, "%s", why);
    }
    (*ret)->made = true;
    return code;
}

static char *clean_name(const char *name)
{
    char *clean = mf_strdup(*name ? name : "run");
    for (char *c = clean; c != NULL && *c; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL) *c = '-';
    /* the name must not be hidden, and must not be "." or ".." */
    if (clean != NULL && *clean == '.') *clean = '-';
    return clean;
}

int mf_rundir_create(const char *parent, const char *name, mf_rundir **ret)
{
    *ret = NULL;
    int code = mf_mkdirs(parent);
    if (code != MF_OK) return code;
    char *clean = clean_name(name);
    if (clean == NULL) return MF_ENOMEM;
    for (int n = 1; n <= RUNS_MAX; n++) {
        char *leaf = mf_strf("%s-%d", clean, n);
        char *path = leaf != NULL ? mf_path_join(parent, leaf) : NULL;
        mf_free(leaf);
        if (path == NULL) {
            code = MF_ENOMEM;
            break;
        }
        bool made = mf_io()->mkdir(path, 0777) == 0, taken = !made && errno == EEXIST;
        if (made) code = mf_sync_parent(path);
        if (made && code == MF_OK)
            code = open_made(path, ret);
        else if (made)
            mf_io()->rmdir(path);
        else if (!taken)
            code = mf_fail_errno(MF_EIO, "%s: cannot make the directory", path);
        mf_free(path);
        if (!taken) break;
        if (n == RUNS_MAX)
            code = mf_fail(MF_EIO, "%s: there are %d runs named %s", parent, RUNS_MAX, clean);
    }
    mf_free(clean);
    return code;
}

/* Checks that the directory contains at most the lock file. */
static int check_empty(const char *path)
{
    char **names;
    int n, code = mf_list_dir(path, &names, &n);
    if (code != MF_OK) return code;
    for (int i = 0; i < n && code == MF_OK; i++)
        if (strcmp(names[i], LOCK_NAME) != 0)
            code = mf_fail(
                MF_EUSAGE,
                "%s: the directory holds files already (%s): expected an empty or a new one",
                path, names[i]);
    mf_list_free(names, n);
    return code;
}

bool mf_rundir_is_left(const char *path)
{
    char *lock = mf_path_join(path, LOCK_NAME);
    bool left = lock && mf_exists(lock);
    mf_free(lock);
    if (!left) return false;
    left = check_empty(path) == MF_OK;
    mf_error_clear();
    return left;
}

int mf_rundir_create_at(const char *path, mf_rundir **ret)
{
    *ret = NULL;
    const bool made = !mf_exists(path);
    if (mf_exists(path) && !mf_is_dir(path))
        return mf_fail(MF_EUSAGE, "%s: expected a directory, found a file", path);
    int code = mf_is_dir(path) ? check_empty(path) : MF_OK;
    if (code == MF_OK) code = mf_mkdirs(path);
    if (code == MF_OK) code = open_locked(path, ret);
    if (code != MF_OK) return code;
    (*ret)->made = made;
    code = check_empty(path); /* another process may have written there in the meantime */
    if (code != MF_OK) {
        mf_rundir_close(*ret);
        *ret = NULL;
    }
    return code;
}

static bool has(const char *path, const char *name)
{
    char *file = mf_path_join(path, name);
    bool is = file != NULL && mf_exists(file);
    mf_free(file);
    return is;
}

bool mf_rundir_is(const char *path)
{
    return mf_is_dir(path) && has(path, "config.ini");
}

/* Returns the run in `folder` whose name is the most similar to `name`; the caller frees it.
 * NULL: no name is similar, or there is not enough memory. */
static char *nearest_in(const char *folder, const char *name)
{
    char **names, *nearest = NULL;
    int n, kept = 0;
    if (mf_list_dir(folder, &names, &n) != MF_OK) return NULL;
    const char **runs = mf_alloc((size_t)n + 1, sizeof *runs);
    for (int i = 0; runs && i < n; i++) {
        char *path = mf_path_join(folder, names[i]);
        if (path && mf_rundir_is(path)) runs[kept++] = names[i];
        mf_free(path);
    }
    const char *found = runs ? mf_nearest(name, runs) : NULL;
    if (found)
        nearest = strcmp(folder, ".") == 0 ? mf_strdup(found) : mf_path_join(folder, found);
    mf_free(runs);
    mf_list_free(names, n);
    return nearest;
}

/* Returns the run that the user may have meant by a wrong path: a run with a similar name in
 * the same folder, or, if the path is only a name, a run in runs/. The caller frees it;
 * NULL: none. */
static char *nearest_run(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash) {
        char *folder = mf_strndup(path, (size_t)(slash - path));
        char *run = folder && slash[1] ? nearest_in(*folder ? folder : "/", slash + 1) : NULL;
        mf_free(folder);
        return run;
    }
    char *same = mf_path_join(runs_folder, path);
    if (same && mf_rundir_is(same)) return same;
    mf_free(same);
    char *run = nearest_in(".", path);
    return run ? run : nearest_in(runs_folder, path);
}

int mf_rundir_missing(const char *path, const char *name)
{
    if (mf_rundir_is(path) && name)
        return mf_fail(MF_EINPUT, "%s: the run has no %s", path, name);
    if (mf_exists(path))
        return mf_fail(MF_EINPUT, "%s: not a run: expected a directory with config.ini", path);
    char *run = nearest_run(path);
    mf_fail(MF_EINPUT, "%s: there is no such run%s%s%s", path, run ? "; did you mean '" : "",
            run ? run : "", run ? "'?" : "");
    mf_free(run);
    return MF_EINPUT;
}

static int check_run(const char *path)
{
    mf_error_clear();
    if (mf_rundir_is(path)) return MF_OK;
    return mf_error_code() == MF_ENOMEM ? MF_ENOMEM : mf_rundir_missing(path, NULL);
}

int mf_rundir_open(const char *path, mf_rundir **ret)
{
    *ret = NULL;
    int code = check_run(path);
    if (code == MF_OK) code = open_locked(path, ret);
    if (code == MF_OK) mf_rundir_expect(*ret);
    return code;
}

/* The run and the checkpoint that a path names. */
typedef struct target {
    char *run;    /* the run's directory */
    int64_t step; /* step of the checkpoint; -1: the path names no step */
    bool best;    /* the path names the best checkpoint */
} target;

/* Removes the last part of the path and returns true if this part is `name`. With name NULL, it
 * must be the folder of a checkpoint, whose step is written to *ret_step. Otherwise the path
 * is unchanged. */
static bool cut(char *path, const char *name, int64_t *ret_step)
{
    char *slash = strrchr(path, '/'), *leaf = slash ? slash + 1 : path;
    long long step;
    if (name ? strcmp(leaf, name) != 0
             : strncmp(leaf, "step-", 5) != 0 || !isdigit((unsigned char)leaf[5]) ||
                   !mf_parse_i64(leaf + 5, &step))
        return false;
    if (!name) *ret_step = step;
    if (slash && slash != path)
        *slash = 0;
    else
        snprintf(path, 2, "%s", slash ? "/" : "."); /* leaf has at least 2 bytes */
    return true;
}

/* Whether training has created the directory. A folder with some other config.ini has
 * no manifest. */
static bool was_trained(const char *path)
{
    return mf_rundir_is(path) && has(path, "manifest.json");
}

/* Finds the run and the checkpoint that the path names. A path of another form is treated as
 * the path of a run. The caller frees ret->run. MF_ENOMEM. */
static int find_target(const char *path, target *ret)
{
    *ret = (target){.run = mf_strdup(path), .step = -1};
    char *part = mf_strdup(path);
    if (!ret->run || !part) {
        mf_free(ret->run);
        mf_free(part);
        ret->run = NULL;
        return MF_ENOMEM;
    }
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        ret->run[n - 1] = part[n - 1] = 0;
    int64_t step = -1;
    cut(part, NULL, &step);
    const bool best = cut(part, "best", NULL), ckpt = best || cut(part, "ckpt", NULL);
    const bool config = step < 0 && !ckpt && cut(part, "config.ini", NULL);
    if (!mf_rundir_is(ret->run) && (config ? was_trained(part) : ckpt && mf_rundir_is(part))) {
        snprintf(ret->run, strlen(path) + 1, "%s", part);
        ret->step = step;
        ret->best = best;
    }
    mf_free(part);
    return MF_OK;
}

bool mf_rundir_readable(const char *path)
{
    target t;
    const bool is = find_target(path, &t) == MF_OK && mf_rundir_is(t.run);
    mf_free(t.run);
    return is;
}

int mf_rundir_read(const char *path, mf_rundir **ret)
{
    target t;
    *ret = NULL;
    int code = find_target(path, &t);
    if (code == MF_OK) code = check_run(t.run);
    if (code == MF_OK) code = new_rundir(t.run, ret);
    if (code == MF_OK) (*ret)->step = t.step;
    if (code == MF_OK && t.best) {
        char *ckpt = (*ret)->ckpt;
        (*ret)->ckpt = (*ret)->best;
        (*ret)->best = ckpt;
    }
    mf_free(t.run);
    return code;
}
