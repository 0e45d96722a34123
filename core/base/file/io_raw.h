/* base/file/io_raw.h: system calls that the files of base/file share. They handle EINTR, short
 * reads and short writes. mf_raw_open returns the descriptor, mf_raw_read returns the number of
 * bytes, and the other functions return 0. On failure each function returns -1 with errno, like
 * the call that it wraps. */
#ifndef MF_BASE_IO_RAW_H
#define MF_BASE_IO_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int mf_raw_open(const char *path, int flags, int mode);
/* Reads up to n bytes; fewer only at the end of the file. */
ssize_t mf_raw_read(int fd, void *buf, size_t n, uint64_t offset);
int mf_raw_write(int fd, const void *data, size_t n);
int mf_raw_fsync(int fd);
int mf_raw_ftruncate(int fd, uint64_t size);
int mf_raw_close(int fd); /* the descriptor is closed even on an error */

/* The fallback of the default table's rename_new, for systems without RENAME_NOREPLACE. Each
 * name is relative to the folder of its descriptor, or a path if the descriptor is AT_FDCWD. */
int mf_rename_new_by_hand(int from_fd, const char *from, int to_fd, const char *to);

#endif
