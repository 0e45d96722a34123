/* base/io.h: files, behind a table that tests can replace to make the n-th call fail.
 *
 * Everything that core writes or reads goes through these functions. Short reads and writes and
 * EINTR are handled below this line; what comes out is success or one recorded error that names
 * the file. A path is UTF-8 bytes.
 *
 * Codes: MF_ENOTFOUND for a path that is not there, MF_EINPUT for one that is not a regular
 * file or is too large, MF_EIO for all that the system refuses. A failed fsync is final: the
 * kernel may have dropped the data, so nothing here tries again.
 */
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

/* Whole regular file into fresh memory (mf_free), NUL added after the last byte. Refuses
 * directories, devices and files over max_bytes (0: no bound). */
int mf_read_file(const char *path, size_t max_bytes, char **ret_data, size_t *ret_size);
/* Beside, synced, renamed: the old content or the new, never a part. What stands at path must
 * be a regular file or nothing; a symbolic link is replaced by a file. */
int mf_write_file_atomic(const char *path, const void *data, size_t size);

/* Reading at a place: a regular file, opened once. */
int mf_file_open(const char *path, int *ret_fd, uint64_t *ret_size);
/* Exactly n bytes; MF_EINPUT when the file ends before. path: for messages. */
int mf_file_read_at(int fd, const char *path, void *buf, size_t n, uint64_t offset);
void mf_file_close(int fd); /* of a file read from: cannot fail in a way that matters */

/* Sequential writer with an error that sticks: check once, at the end. A zeroed one is
 * closed. */
typedef struct mf_writer {
    int fd;
    int error;      /* status, MF_OK while all is well */
    uint64_t bytes; /* size of the file once all that was put is written */
    size_t fill;
    char *path;
    unsigned char *buffer;
    char *message;  /* of the first error */
} mf_writer;
int mf_writer_open(mf_writer *w, const char *path, bool exclusive); /* truncates unless
                                                                       exclusive */
int mf_writer_append(mf_writer *w, const char *path);               /* to the end of the file */
void mf_writer_put(mf_writer *w, const void *data, size_t n);
void mf_writer_printf(mf_writer *w, const char *fmt, ...) MF_PRINTF(2, 3);
int mf_writer_flush(mf_writer *w);
/* First error of all, file name in the message. Always closes; harmless on a closed writer or
 * on one that did not open. */
int mf_writer_close(mf_writer *w, bool sync);

int mf_mkdirs(const char *path);      /* like mkdir -p */
int mf_remove_tree(const char *path); /* like rm -rf: absent is fine, links are not followed */
int mf_sync_dir(const char *path);
bool mf_exists(const char *path); /* follows links */
bool mf_is_dir(const char *path);
int mf_list_dir(const char *path, char ***ret_names, int *ret_n); /* sorted; mf_free each +
                                                                     array */
void mf_list_free(char **names, int n);                           /* ... or all at once */
char *mf_path_join(const char *a, const char *b); /* b alone when absolute or a is "" */

/* XXH3-128 of bytes or of a file, as 32 hexadecimal digits (what xxh128sum prints). */
void mf_hash_bytes(const void *data, size_t n, char out[33]);
int mf_hash_file(const char *path, char out[33]);

#endif
