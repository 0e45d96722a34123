/* base/file/io.c: reads and writes whole files, and reads parts of a file at an offset. A file
 * is replaced by rename only, so a reader sees the old content or the new one, never a part. */
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_regular(const char *path, int flags, int *ret_fd, uint64_t *ret_size)
{
    struct stat st;
    /* Without O_NONBLOCK, opening a named pipe would wait for a writer. The flag has no effect
     * on regular files. */
    int fd = mf_raw_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags, 0);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return mf_fail(MF_ENOTFOUND, "%s: there is no such file", path);
        if (errno == ELOOP && flags)
            return mf_fail(MF_EINPUT, "%s: expected a file, found a symbolic link", path);
        if (errno == ELOOP) return mf_fail_errno(MF_EINPUT, "%s: cannot open", path);
        return mf_fail_errno(MF_EIO, "%s: cannot open", path);
    }
    if (fstat(fd, &st) != 0) {
        mf_fail_errno(MF_EIO, "%s: cannot stat", path);
        mf_file_close(fd);
        return MF_EIO;
    }
    if (!S_ISREG(st.st_mode)) {
        mf_file_close(fd);
        return mf_fail(MF_EINPUT, "%s: expected a regular file, found a %s", path,
                       S_ISDIR(st.st_mode) ? "directory" : "device, pipe or socket");
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)st.st_size;
    return MF_OK;
}

int mf_file_open(const char *path, int *ret_fd, uint64_t *ret_size)
{
    return open_regular(path, 0, ret_fd, ret_size);
}

int mf_file_open_itself(const char *path, int *ret_fd, uint64_t *ret_size)
{
    return open_regular(path, O_NOFOLLOW, ret_fd, ret_size);
}

int mf_file_read_at(int fd, const char *path, void *buf, size_t n, uint64_t offset)
{
    ssize_t got;
    if (n > PTRDIFF_MAX || offset > (uint64_t)INT64_MAX - n)
        return mf_fail(MF_EINPUT, "%s: offset %llu is past the end of any file", path,
                       (unsigned long long)offset);
    got = mf_raw_read(fd, buf, n, offset);
    if (got < 0) return mf_fail_errno(MF_EIO, "%s: cannot read", path);
    if ((size_t)got < n)
        return mf_fail(MF_EINPUT, "%s: expected %zu bytes at offset %llu, found %zu: cut short",
                       path, n, (unsigned long long)offset, (size_t)got);
    return MF_OK;
}

void mf_file_close(int fd)
{
    if (fd >= 0) mf_raw_close(fd);
}

static int too_large(const char *path, size_t max_bytes)
{
    return mf_fail(MF_EINPUT, "%s: file is too large: expected at most %zu bytes", path,
                   max_bytes);
}

/* The size from fstat is only a hint: a file may grow, and files in /proc report 0. */
static int read_to_end(int fd, const char *path, uint64_t hint, size_t max_bytes,
                       char **ret_data, size_t *ret_size)
{
    enum { FIRST = 4096 };
    size_t room, size = 0;
    char *data;
    if (hint >= SIZE_MAX / 2) return too_large(path, SIZE_MAX / 2);
    /* The buffer has space for the NUL and one more byte. A read that leaves the last byte free
     * has reached the end of the file. */
    room = hint ? (size_t)hint + 2 : FIRST;
    data = mf_alloc_raw(room);
    if (!data) return mf_fail_context(MF_ENOMEM, "%s", path);
    for (;;) {
        ssize_t got = mf_raw_read(fd, data + size, room - 1 - size, size);
        if (got < 0) {
            mf_fail_errno(MF_EIO, "%s: cannot read", path);
            mf_free(data);
            return MF_EIO;
        }
        size += (size_t)got;
        if (max_bytes && size > max_bytes) {
            mf_free(data);
            return too_large(path, max_bytes);
        }
        if (size < room - 1) break;
        char *larger = mf_realloc(data, size, room * 2);
        if (!larger) {
            mf_free(data);
            return mf_fail_context(MF_ENOMEM, "%s", path);
        }
        data = larger;
        room *= 2;
    }
    data[size] = '\0';
    *ret_data = data;
    *ret_size = size;
    return MF_OK;
}

int mf_read_file(const char *path, size_t max_bytes, char **ret_data, size_t *ret_size)
{
    uint64_t size;
    int fd;
    int rc = mf_file_open(path, &fd, &size);
    if (rc != MF_OK) return rc;
    if (max_bytes && size > max_bytes)
        rc = too_large(path, max_bytes);
    else
        rc = read_to_end(fd, path, size, max_bytes, ret_data, ret_size);
    mf_file_close(fd);
    return rc;
}

/* Creates and opens a file with a new name in the folder of path. It tries further names while
 * a name is taken, because process numbers repeat and a killed process may have left its
 * file behind. */
static int open_beside(const char *path, int mode, char **ret_name, int *ret_fd)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        char *name = mf_strf("%s.%ld-%d.tmp", path, (long)getpid(), i);
        int fd;
        if (!name) return MF_ENOMEM;
        fd = mf_raw_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (fd >= 0) {
            *ret_name = name;
            *ret_fd = fd;
            return MF_OK;
        }
        if (errno != EEXIST) {
            /* the message contains the name that the caller requested */
            mf_fail_errno(MF_EIO, "%s: cannot create", path);
            mf_free(name);
            return mf_error_code();
        }
        mf_free(name);
    }
    return mf_fail(MF_EIO, "%s: cannot create a file beside it: %d names are taken", path,
                   TRIES);
}

static int write_atomic(const char *path, const void *data, size_t size, int mode)
{
    struct stat st;
    char *name = NULL, *parent = NULL;
    int fd = -1, rc;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return mf_fail(MF_EIO, "%s: cannot write: not a regular file", path);
    rc = open_beside(path, mode, &name, &fd);
    if (rc != MF_OK) goto done;
    /* The parent is found before the rename, so after the rename only the disk can fail. */
    parent = mf_parent_of(path);
    if (!parent) {
        rc = MF_ENOMEM;
        goto fail;
    }
    if (mf_raw_write(fd, data, size) != 0) {
        rc = mf_fail_errno(MF_EIO, "%s: cannot write", path);
        goto fail;
    }
    if (mf_raw_fsync(fd) != 0) {
        rc = mf_fail_errno(MF_EIO, "%s: cannot sync", path);
        goto fail;
    }
    if (mf_raw_close(fd) != 0) {
        fd = -1;
        rc = mf_fail_errno(MF_EIO, "%s: cannot close", path);
        goto fail;
    }
    fd = -1;
    if (mf_io()->rename(name, path) != 0) {
        rc = mf_fail_errno(MF_EIO, "%s: cannot rename into place", path);
        goto fail;
    }
    rc = mf_sync_dir(parent);
    goto done;
fail:
    if (fd >= 0) mf_raw_close(fd);
    mf_io()->unlink(name); /* a failure is ignored: the first error is already recorded */
done:
    mf_free(parent);
    mf_free(name);
    return rc;
}

int mf_write_file_atomic(const char *path, const void *data, size_t size)
{
    return write_atomic(path, data, size, 0666);
}

int mf_write_file_private(const char *path, const void *data, size_t size)
{
    return write_atomic(path, data, size, 0600);
}
