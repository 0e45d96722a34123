/* io/writer.h: a file that is written from its beginning to its end. Error codes are those of
 * base/file/io.h; its table of system calls is used here, too. */
#ifndef MF_IO_WRITER_H
#define MF_IO_WRITER_H

#include "base/file/io.h"

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

#endif
