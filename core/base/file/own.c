/* base/file/own.c: gives a file that has several names a copy of its own. The old file is
 * locked while the copy takes over its name, so only one of two processes makes the copy. A
 * file that another process uses as a lock is not replaced. */
#include "base/file/own.h"

#include "base/file/io_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_at(int folder, const char *name, int flags, mode_t mode)
{
    int fd;
    do
        fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Whether the name belongs to a file that has further names and that this process may
 * replace now. */
static bool is_shared(int folder, const char *name, int fd, struct stat *st)
{
    struct stat here;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || st->st_nlink < 2) return false;
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
        return false;
    return fstatat(folder, name, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_ino == st->st_ino && here.st_dev == st->st_dev;
}

static int copy(int from, int to)
{
    char part[16384];
    for (uint64_t at = 0;;) {
        const ssize_t n = mf_raw_read(from, part, sizeof part, at);
        if (n == 0) return mf_raw_fsync(to);
        if (n < 0 || mf_raw_write(to, part, (size_t)n) != 0) return -1;
        at += (uint64_t)n;
    }
}

static int replace(int folder, const char *name, int fd, mode_t mode)
{
    char draft[PATH_MAX];
    const int n = snprintf(draft, sizeof draft, "%s.%ld-0.tmp", name, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof draft) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int to = open_at(folder, draft, O_WRONLY | O_CREAT | O_EXCL, mode & 0777);
    if (to < 0) return -1;
    int rc = copy(fd, to), why = errno;
    if (mf_raw_close(to) != 0 && rc == 0) {
        rc = -1;
        why = errno;
    }
    if (rc == 0 && renameat(folder, draft, folder, name) != 0) {
        rc = -1;
        why = errno;
    }
    if (rc != 0) unlinkat(folder, draft, 0);
    errno = why;
    return rc;
}

int mf_file_own(int folder, const char *name, bool *ret_copied)
{
    struct stat st;
    int rc = 0;
    *ret_copied = false;
    const int fd = open_at(folder, name, O_RDWR, 0);
    if (fd < 0) return 0; /* opening the file to write it reports the error */
    if (is_shared(folder, name, fd, &st)) {
        rc = replace(folder, name, fd, st.st_mode);
        *ret_copied = rc == 0;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return rc;
}
