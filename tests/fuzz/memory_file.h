/* memory_file.h: an input as a file, for readers that take a path.
 *
 * The reader's open, pread and close go through the table of base/file/io.h, which here
 * answers from the input's own memory: the kernel keeps an empty file of the right size, for
 * fstat. That is two to four times as fast as a file with content. A reader that maps files
 * needs one. */
#ifndef MF_TESTS_MEMORY_FILE_H
#define MF_TESTS_MEMORY_FILE_H

#include "tests/fuzz/fuzz.h"

#include "base/file/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FUZZ_FILES = 2 };

typedef struct fuzz_file {
    char path[128];
    int fd;
    const uint8_t *data;
    size_t size, held; /* held: what fstat says */
} fuzz_file;

static fuzz_file fuzz_files[FUZZ_FILES];
static int fuzz_n_files;

static inline const fuzz_file *fuzz_file_of(int fd)
{
    for (int i = 0; i < fuzz_n_files; i++)
        if (fuzz_files[i].fd == fd) return &fuzz_files[i];
    return NULL;
}

static inline int fuzz_open(const char *path, int flags, int mode)
{
    for (int i = 0; i < fuzz_n_files; i++)
        if (strcmp(fuzz_files[i].path, path) == 0) return fuzz_files[i].fd;
    return mf_io_default()->open(path, flags, mode);
}

static inline ssize_t fuzz_pread(int fd, void *to, size_t n, off_t offset)
{
    const fuzz_file *f = fuzz_file_of(fd);
    if (!f) return mf_io_default()->pread(fd, to, n, offset);
    if (offset < 0 || (size_t)offset >= f->size) return 0;
    if (n > f->size - (size_t)offset) n = f->size - (size_t)offset;
    memcpy(to, f->data + offset, n);
    return (ssize_t)n;
}

static inline int fuzz_close(int fd)
{
    return fuzz_file_of(fd) ? 0 : mf_io_default()->close(fd);
}

/* Makes file number i (0 ... FUZZ_FILES - 1) hold the input, which must stay. path names a file
 * that exists, which the first call empties; NULL: one in memory. Returns its path. */
static inline const char *fuzz_set_file(int i, const char *path, const uint8_t *data, size_t n)
{
    static mf_io_table table;
    fuzz_file *f = &fuzz_files[i];
    if (!table.open) {
        table = *mf_io_default();
        table.open = fuzz_open;
        table.pread = fuzz_pread;
        table.close = fuzz_close;
        mf_io_set_table(&table);
    }
    if (f->path[0] == '\0') {
        FUZZ_REQUIRE(i == fuzz_n_files && i < FUZZ_FILES);
        f->fd = path ? mf_io_default()->open(path, O_RDWR, 0)
                     : memfd_create("input", MFD_CLOEXEC);
        FUZZ_REQUIRE(f->fd >= 0 && ftruncate(f->fd, 0) == 0);
        if (path)
            snprintf(f->path, sizeof f->path, "%s", path);
        else
            snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
        fuzz_n_files++;
    }
    if (f->held != n) FUZZ_REQUIRE(ftruncate(f->fd, (off_t)n) == 0);
    f->held = f->size = n;
    f->data = data;
    return f->path;
}

static inline const char *fuzz_memory_file(const uint8_t *data, size_t size)
{
    return fuzz_set_file(0, NULL, data, size);
}

/* The same with content in the kernel, too, for readers that map it. */
static inline const char *fuzz_mapped_file(const uint8_t *data, size_t size)
{
    const char *path = fuzz_set_file(0, NULL, data, 0);
    FUZZ_REQUIRE(pwrite(fuzz_files[0].fd, data, size, 0) == (ssize_t)size);
    fuzz_files[0].held = fuzz_files[0].size = size;
    return path;
}

#endif
