/* base/file/io.h: files. The system calls that open, read, write, rename or remove files go
 * through a table. Tests replace the table to make the n-th call fail.
 *
 * Data, configurations and the files of runs are read and written with these functions. They
 * handle short reads, short writes and EINTR. The caller sees either success or one recorded
 * error that names the file. A path is UTF-8 bytes.
 *
 * Error codes: a function that reads returns MF_ENOTFOUND if the path does not exist, and
 * MF_EINPUT if the path has the wrong kind, is too large, or is shorter than expected. MF_EIO
 * is returned for every other refusal by the system and for each failed write, MF_ENOMEM if no
 * memory is left. A failed fsync is final: the kernel may have dropped the data, so no function
 * here tries again. */
#ifndef MF_BASE_IO_H
#define MF_BASE_IO_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mf_io_table {
    int (*open)(const char *path, int flags, int mode);
    ssize_t (*pread)(int fd, void *buf, size_t n, off_t offset);
    ssize_t (*write)(int fd, const void *buf, size_t n);
    int (*fsync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*rename_new)(const char *from, const char *to); /* fails with EEXIST if `to` exists */
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, int mode);
    int (*rmdir)(const char *path);
} mf_io_table;

const mf_io_table *mf_io(void);
const mf_io_table *mf_io_default(void);
void mf_io_set_table(const mf_io_table *table); /* NULL restores the default */

/* Reads a whole regular file into new memory, which the caller frees with mf_free. A NUL
 * follows the last byte. Refuses directories, devices, and files over max_bytes (0:
 * no bound). */
int mf_read_file(const char *path, size_t max_bytes, char **ret_data, size_t *ret_size);
/* Like mf_read_file, for input that a person names: "-" is standard input, and later calls
 * return the same bytes again. Any thread may call it. */
int mf_read_input(const char *path, size_t max_bytes, char **ret_data, size_t *ret_size);
bool mf_is_standard_input(const char *path);
/* Writes a new file in the folder of path, syncs it and renames it to path. So path always
 * contains either the complete old content or the complete new content. path must be a regular
 * file or not exist; a symbolic link is replaced by a file. */
int mf_write_file_atomic(const char *path, const void *data, size_t size);
/* Like mf_write_file_atomic, for a file that only its user may read and write. */
int mf_write_file_private(const char *path, const void *data, size_t size);

/* Opens a regular file for mf_file_read_at. */
int mf_file_open(const char *path, int *ret_fd, uint64_t *ret_size);
/* Like mf_file_open, but returns MF_EINPUT if the path is a symbolic link. */
int mf_file_open_itself(const char *path, int *ret_fd, uint64_t *ret_size);
/* Reads exactly n bytes at the offset; MF_EINPUT if the file ends earlier. path is used only
 * for messages. */
int mf_file_read_at(int fd, const char *path, void *buf, size_t n, uint64_t offset);
void mf_file_close(int fd); /* returns no result, because closing a file that was only read
                             * cannot lose data */

/* A sequential writer that keeps its first error, so one check at the end is enough. A writer
 * whose bytes are all zero is closed. */
typedef struct mf_writer {
    int fd;
    int error;      /* status code, MF_OK while there is no error */
    uint64_t bytes; /* size of the file after a flush, buffered bytes included */
    size_t fill;
    char *path;
    unsigned char *buffer;
    char *message; /* message of the first error */
} mf_writer;
/* Opens the writer. exclusive: the file must not exist yet; if false, an existing file
 * is truncated. */
int mf_writer_open(mf_writer *w, const char *path, bool exclusive);
/* opens the writer at the end of the file */
int mf_writer_append(mf_writer *w, const char *path);
void mf_writer_put(mf_writer *w, const void *data, size_t n);
void mf_writer_printf(mf_writer *w, const char *fmt, ...) MF_PRINTF(2, 3);
int mf_writer_flush(mf_writer *w);
/* Flushes, syncs if `sync` is true, always closes, and returns the first error of all calls;
 * the message contains the file's name. A writer that is closed already, or that did not open,
 * may be closed again. */
int mf_writer_close(mf_writer *w, bool sync);

/* Creates a directory unless it exists. Its parent must exist, so a folder that somebody has
 * removed or renamed is not created again. */
int mf_mkdir(const char *path);
/* Like mkdir -p; each directory that it creates is on disk before it returns. */
int mf_mkdirs(const char *path);
/* like rm -rf: the path may be missing, links are not followed; MF_EIO if directories are
 * nested deeper than 64 levels */
int mf_remove_tree(const char *path);
/* Syncs a directory, so that its entries survive a loss of power. A directory without read
 * permission is skipped. */
int mf_sync_dir(const char *path);
int mf_sync_parent(const char *path); /* syncs the directory that contains the entry of path */
char *mf_parent_of(const char *path); /* returns the path of that directory, to be freed with
                                       * mf_free; NULL: no memory */
/* Both functions follow symbolic links. They also return false if the system cannot tell;
 * mf_faults counts this case. */
bool mf_exists(const char *path);
bool mf_is_dir(const char *path);
/* lists the names in byte order, without . and ..; the caller frees them with mf_list_free */
int mf_list_dir(const char *path, char ***ret_names, int *ret_n);
/* frees the names and the array */
void mf_list_free(char **names, int n);
char *mf_path_join(const char *a, const char *b); /* returns b alone if b is absolute or a
                                                   * is "" */
/* Whether a path is relative and has no part "", "." or ".."; true for the path "". */
bool mf_path_goes_down(const char *path);

/* Computes XXH3-128 of bytes or of a file, as 32 hexadecimal digits (as xxh128sum
 * prints it). */
void mf_hash_bytes(const void *data, size_t n, char out[33]);
int mf_hash_file(const char *path, char out[33]);

#endif
