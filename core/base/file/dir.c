/* base/file/dir.c: creates, lists and removes directories, and joins paths. Removing a tree
 * never follows a symbolic link. */
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool look(const char *path, struct stat *st)
{
    if (stat(path, st) == 0) return true;
    mf_fault_errno(path);
    return false;
}

bool mf_exists(const char *path)
{
    struct stat st;
    return look(path, &st);
}

bool mf_is_dir(const char *path)
{
    struct stat st;
    return look(path, &st) && S_ISDIR(st.st_mode);
}

int mf_sync_dir(const char *path)
{
    int fd = mf_raw_open(path, O_RDONLY | O_DIRECTORY, 0);
    int rc = MF_OK;
    /* A directory may be writable but not readable; then it cannot be synced. */
    if (fd < 0 && errno == EACCES) return MF_OK;
    if (fd < 0) return mf_fail_errno(MF_EIO, "%s: cannot open", path);
    /* With these error codes the file system has nothing to sync for a directory. */
    if (mf_raw_fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP &&
        errno != ENOSYS)
        rc = mf_fail_errno(MF_EIO, "%s: cannot sync", path);
    mf_raw_close(fd);
    return rc;
}

/* Returns the directory that contains the entry of path. */
char *mf_parent_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n > 0 ? mf_strndup(path, n) : mf_strdup(".");
}

int mf_sync_parent(const char *path)
{
    char *parent = mf_parent_of(path);
    const int rc = parent ? mf_sync_dir(parent) : MF_ENOMEM;
    mf_free(parent);
    return rc;
}

/* An existing directory is no error, because another process may have made it. That process may
 * have been killed before its sync, so the entry of an existing directory is synced, too. */
int mf_mkdir(const char *path)
{
    if (mf_io()->mkdir(path, 0777) == 0) return mf_sync_parent(path);
    if (errno == EEXIST) {
        struct stat st;
        if (stat(path, &st) != 0) return mf_fail_errno(MF_EIO, "%s: cannot stat", path);
        if (S_ISDIR(st.st_mode)) return mf_sync_parent(path);
        return mf_fail(MF_EIO, "%s: cannot make directory: a file of that name is there", path);
    }
    /* mkdir also fails on a read-only file system and without permission to write; the
     * directory may exist nevertheless. */
    const int why = errno;
    if ((why == EROFS || why == EACCES) && mf_is_dir(path)) return MF_OK;
    errno = why;
    return mf_fail_errno(MF_EIO, "%s: cannot make directory", path);
}

int mf_mkdirs(const char *path)
{
    char *copy;
    int rc = MF_OK;
    if (*path == '\0') return mf_fail(MF_EIO, "cannot make a directory with an empty name");
    copy = mf_strdup(path);
    if (!copy) return MF_ENOMEM;
    for (char *s = copy + 1; rc == MF_OK && *s; s++) {
        if (*s != '/' || s[-1] == '/') continue;
        *s = '\0';
        rc = mf_mkdir(copy);
        *s = '/';
    }
    if (rc == MF_OK) rc = mf_mkdir(copy);
    mf_free(copy);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void mf_list_free(char **names, int n)
{
    for (int i = 0; i < n; i++)
        mf_free(names[i]);
    mf_free(names);
}

static int add_name(char ***names, int *n, int *room, const char *name)
{
    if (*n == *room) {
        int more = *room ? *room * 2 : 16;
        char **larger =
            mf_realloc(*names, (size_t)*n * sizeof **names, (size_t)more * sizeof **names);
        if (!larger) return MF_ENOMEM;
        *names = larger;
        *room = more;
    }
    (*names)[*n] = mf_strdup(name);
    if (!(*names)[*n]) return MF_ENOMEM;
    ++*n;
    return MF_OK;
}

/* Lists a directory. flags: O_NOFOLLOW if the caller must not leave the tree, otherwise 0. */
static int list(const char *path, int flags, char ***ret_names, int *ret_n)
{
    char **names = NULL;
    int n = 0, room = 0, rc = MF_OK;
    DIR *dir;
    int fd = mf_raw_open(path, O_RDONLY | O_DIRECTORY | flags, 0);
    if (fd < 0) {
        int code = errno == ENOENT ? MF_ENOTFOUND : errno == ENOTDIR ? MF_EINPUT : MF_EIO;
        return mf_fail_errno(code, "%s: cannot list", path);
    }
    do
        dir = fdopendir(fd);
    while (!dir && errno == EINTR);
    if (!dir) {
        rc = mf_fail_errno(MF_EIO, "%s: cannot list", path);
        mf_raw_close(fd);
        return rc;
    }
    for (;;) {
        struct dirent *e;
        errno = 0;
        e = readdir(dir);
        if (!e) {
            if (errno == EINTR) continue;
            if (errno) rc = mf_fail_errno(MF_EIO, "%s: cannot list", path);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        rc = add_name(&names, &n, &room, e->d_name);
        if (rc != MF_OK) break;
    }
    closedir(dir);
    if (rc != MF_OK) {
        mf_list_free(names, n);
        return rc;
    }
    if (n > 1) qsort(names, (size_t)n, sizeof *names, by_name);
    *ret_names = names;
    *ret_n = n;
    return MF_OK;
}

int mf_list_dir(const char *path, char ***ret_names, int *ret_n)
{
    return list(path, 0, ret_names, ret_n);
}

static int remove_at(const char *path, int depth)
{
    enum { DEPTH_MAX = 64 };
    struct stat st;
    char **names;
    int n, rc;
    if (lstat(path, &st) != 0) {
        if (errno == ENOENT) return MF_OK;
        return mf_fail_errno(MF_EIO, "%s: cannot remove", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        if (mf_io()->unlink(path) != 0 && errno != ENOENT)
            return mf_fail_errno(MF_EIO, "%s: cannot remove", path);
        return MF_OK;
    }
    if (depth == DEPTH_MAX)
        return mf_fail(MF_EIO, "%s: cannot remove: nested deeper than %d", path, DEPTH_MAX);
    rc = list(path, O_NOFOLLOW, &names, &n);
    if (rc != MF_OK) return rc;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *child = mf_path_join(path, names[i]);
        rc = child ? remove_at(child, depth + 1) : MF_ENOMEM;
        mf_free(child);
    }
    mf_list_free(names, n);
    if (rc == MF_OK && mf_io()->rmdir(path) != 0 && errno != ENOENT)
        rc = mf_fail_errno(MF_EIO, "%s: cannot remove", path);
    return rc;
}

int mf_remove_tree(const char *path)
{
    return remove_at(path, 0);
}

char *mf_path_join(const char *a, const char *b)
{
    size_t n = strlen(a);
    if (n == 0 || *b == '/') return mf_strdup(b);
    return mf_strf("%s%s%s", a, a[n - 1] == '/' ? "" : "/", b);
}

bool mf_path_goes_down(const char *path)
{
    for (size_t n; *path; path += n + (path[n] == '/')) {
        n = strcspn(path, "/");
        if (n == 0 || (n <= 2 && strspn(path, ".") >= n)) return false;
        if (path[n] == '/' && path[n + 1] == '\0') return false;
    }
    return true;
}
