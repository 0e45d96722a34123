/* base/file/io_raw.c: single system calls, repeated until they are complete. The caller never
 * sees EINTR, and sees a short count only at the end of a file. */
#include "base/file/io_raw.h"
#include "base/file/io.h"

#include <errno.h>

int mf_raw_open(const char *path, int flags, int mode)
{
    int fd;
    do
        fd = mf_io()->open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

ssize_t mf_raw_read(int fd, void *buf, size_t n, uint64_t offset)
{
    unsigned char *to = buf;
    size_t done = 0;
    while (done < n) {
        ssize_t got = mf_io()->pread(fd, to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int mf_raw_write(int fd, const void *data, size_t n)
{
    const unsigned char *from = data;
    while (n > 0) {
        ssize_t put = mf_io()->write(fd, from, n);
        if (put < 0 && errno == EINTR) continue;
        /* A write of 0 bytes makes no progress and sets no errno; without this error the loop
         * would never end. */
        if (put == 0) errno = EIO;
        if (put <= 0) return -1;
        from += put;
        n -= (size_t)put;
    }
    return 0;
}

int mf_raw_fsync(int fd)
{
    int rc;
    do
        rc = mf_io()->fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

int mf_raw_ftruncate(int fd, uint64_t size)
{
    int rc;
    do
        rc = mf_io()->ftruncate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc;
}

int mf_raw_close(int fd)
{
    int rc = mf_io()->close(fd);
    /* Linux has released the descriptor even after EINTR. Closing it again could close a
     * descriptor of another thread. */
    return rc != 0 && errno == EINTR ? 0 : rc;
}
