/* base/file/below.c: finds the registered folder that contains a path, and opens the parts of
 * the path one by one from the folder's descriptor. A path outside of all registered folders is
 * used unchanged. */
#include "base/file/below.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/file/own.h"
#include "base/log.h"
#include "base/mem.h"

struct mf_below {
    char *folder;
    size_t length;
    int fd;
    atomic_bool told; /* the log already says that a file had other names */
    struct mf_below *next;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static mf_below *first;

int mf_below_add(const char *folder, mf_below **ret)
{
    *ret = NULL;
    mf_below *b = mf_alloc(1, sizeof *b);
    if (!b) return MF_ENOMEM;
    b->fd = -1;
    b->folder = mf_strdup(folder);
    if (!b->folder) {
        mf_below_drop(b);
        return MF_ENOMEM;
    }
    b->length = strlen(folder);
    while (b->length > 1 && folder[b->length - 1] == '/')
        b->length--;
    do
        b->fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (b->fd < 0 && errno == EINTR);
    if (b->fd < 0) {
        mf_fail_errno(MF_EIO, "%s: cannot open the folder", folder);
        mf_below_drop(b);
        return MF_EIO;
    }
    pthread_rwlock_wrlock(&lock);
    b->next = first;
    first = b;
    pthread_rwlock_unlock(&lock);
    *ret = b;
    return MF_OK;
}

void mf_below_drop(mf_below *below)
{
    if (!below) return;
    pthread_rwlock_wrlock(&lock);
    for (mf_below **at = &first; *at; at = &(*at)->next)
        if (*at == below) {
            *at = below->next;
            break;
        }
    pthread_rwlock_unlock(&lock);
    if (below->fd >= 0) close(below->fd);
    mf_free(below->folder);
    mf_free(below);
}

/* ---- refusing links before anything is written ---- */

static int judge_entry(const char *path)
{
    struct stat st;
    char **names;
    int n, rc = MF_OK;
    if (lstat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? MF_OK
                   : mf_fail_errno(MF_EIO, "%s: cannot be examined", path);
    if (S_ISLNK(st.st_mode))
        return mf_fail(MF_EINPUT,
                       "%s: a symbolic link: expected a file or folder of its own, because "
                       "writing would change what the link points to; remove the link, or put "
                       "a copy in its place",
                       path);
    if (S_ISREG(st.st_mode)) return MF_OK;
    if (!S_ISDIR(st.st_mode))
        return mf_fail(MF_EINPUT, "%s: a device, pipe or socket: expected a file or a folder",
                       path);
    rc = mf_list_dir(path, &names, &n);
    if (rc != MF_OK) return rc;
    for (int i = 0; i < n && rc == MF_OK; i++) {
        char *entry = mf_path_join(path, names[i]);
        rc = entry ? judge_entry(entry) : MF_ENOMEM;
        mf_free(entry);
    }
    mf_list_free(names, n);
    return rc;
}

int mf_below_judge(const char *folder, const char *const *names)
{
    int rc = MF_OK;
    for (; *names && rc == MF_OK; names++) {
        char *path = mf_path_join(folder, *names);
        rc = path ? judge_entry(path) : MF_ENOMEM;
        mf_free(path);
    }
    return rc;
}

/* ---- calls ---- */

/* The target of a call: `name` in the folder `fd`. */
typedef struct target {
    int fd;   /* AT_FDCWD: name is the whole path */
    bool own; /* fd was opened for this target, so it must be closed with the target */
    const char *name;
    atomic_bool *told; /* flag of the registered folder */
} target;

/* Returns the longest registered folder that contains the path, or NULL. The caller holds
 * `lock`. */
static mf_below *folder_of(const char *path)
{
    mf_below *found = NULL;
    for (mf_below *b = first; b; b = b->next)
        if (strncmp(path, b->folder, b->length) == 0 && path[b->length] == '/' &&
            path[b->length + 1] != '\0' && (!found || b->length > found->length))
            found = b;
    return found;
}

/* Opens one part of a path, a folder in `fd`. If the part is a symbolic link, errno is ELOOP
 * and not ENOTDIR, so that messages name the link. */
static int go_down(int fd, const char *part, size_t n)
{
    char name[256];
    struct stat st;
    if (n >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, part, n);
    name[n] = '\0';
    int next;
    do
        next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (next < 0 && errno == EINTR);
    if (next >= 0 || errno != ENOTDIR) return next;
    errno = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) ? ELOOP
                                                                                    : ENOTDIR;
    return -1;
}

/* Opens the folder that contains the last part of the path. The caller holds `lock`. Returns
 * false with the reason in errno. */
static bool find(const char *path, target *ret)
{
    mf_below *b = folder_of(path);
    *ret = (target){AT_FDCWD, false, path, NULL};
    if (!b) return true;
    const char *at = path + b->length;
    int fd = b->fd;
    while (*at == '/')
        at++;
    if (!mf_path_goes_down(at)) {
        errno = EINVAL;
        return false;
    }
    for (const char *end; (end = strchr(at, '/')) != NULL; at = end + 1) {
        const int next = go_down(fd, at, (size_t)(end - at)), why = errno;
        if (fd != b->fd) close(fd);
        errno = why;
        if (next < 0) return false;
        fd = next;
    }
    *ret = (target){fd, fd != b->fd, at, &b->told};
    return true;
}

static void end(const target *t)
{
    const int why = errno;
    if (t->own) close(t->fd);
    pthread_rwlock_unlock(&lock);
    errno = why;
}

static bool begin(const char *path, target *ret)
{
    pthread_rwlock_rdlock(&lock);
    if (find(path, ret)) return true;
    end(&(target){AT_FDCWD, false, path, NULL});
    return false;
}

/* Opens a file below a registered folder for writing. If the file has several names, the file
 * that is opened is a copy with this name alone. *ret_tell is set if the caller must log that
 * there were other names. */
static int open_own(const target *t, int flags, mode_t mode, bool *ret_tell)
{
    bool copied = false;
    if (!(flags & O_EXCL) && mf_file_own(t->fd, t->name, &copied) != 0) return -1;
    *ret_tell = copied && !atomic_exchange(t->told, true);
    return openat(t->fd, t->name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int mf_below_open(const char *path, int flags, int mode)
{
    target t;
    bool tell = false;
    if (!(flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)))
        return open(path, flags | O_CLOEXEC, (mode_t)mode);
    if (!begin(path, &t)) return -1;
    const int fd = t.fd == AT_FDCWD ? open(path, flags | O_CLOEXEC, (mode_t)mode)
                                    : open_own(&t, flags, (mode_t)mode, &tell);
    end(&t);
    if (tell) {
        const int why = errno;
        mf_log(MF_LOG_INFO,
               "%s: the file has other names (hard links): this folder gets copies of such "
               "files, and the others stay as they are",
               path);
        errno = why;
    }
    return fd;
}

/* Whether the target is a symbolic link. A rename would replace the link without
 * following it. */
static bool is_link(const target *t)
{
    struct stat st;
    return t->fd != AT_FDCWD && fstatat(t->fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(st.st_mode);
}

static int rename_in(const target *from, const target *to, bool only_new)
{
    if (is_link(from) || is_link(to)) {
        errno = ELOOP;
        return -1;
    }
#ifdef RENAME_NOREPLACE
    if (only_new) {
        if (renameat2(from->fd, from->name, to->fd, to->name, RENAME_NOREPLACE) == 0) return 0;
        if (errno != ENOSYS && errno != EINVAL) return -1;
    }
#endif
    return only_new ? mf_rename_new_by_hand(from->fd, from->name, to->fd, to->name)
                    : renameat(from->fd, from->name, to->fd, to->name);
}

int mf_below_rename(const char *from, const char *to, bool only_new)
{
    target a, b;
    if (!begin(from, &a)) return -1;
    const bool found = find(to, &b);
    const int rc = found ? rename_in(&a, &b, only_new) : -1, why = errno;
    if (found && b.own) close(b.fd);
    errno = why;
    end(&a);
    return rc;
}

int mf_below_unlink(const char *path, bool folder)
{
    target t;
    if (!begin(path, &t)) return -1;
    const int rc = unlinkat(t.fd, t.name, folder ? AT_REMOVEDIR : 0);
    end(&t);
    return rc;
}

int mf_below_mkdir(const char *path, int mode)
{
    target t;
    if (!begin(path, &t)) return -1;
    const int rc = mkdirat(t.fd, t.name, (mode_t)mode);
    end(&t);
    return rc;
}
