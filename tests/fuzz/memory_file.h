/* memory_file.h: an input as a file, for readers that need a path.
 *
 * The reader's open, pread and close go through the table of base/file/io.h, which here reads
 * from the input's own memory. The kernel keeps only an empty file of the right size, for
 * fstat. This is two to four times as fast as a file with content. A reader that maps files
 * needs a file with content. */
#ifndef MF_TESTS_MEMORY_FILE_H
#define MF_TESTS_MEMORY_FILE_H

#include "tests/fuzz/fuzz.h"

#include "base/file/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FUZZ_FILES = 12 };

typedef struct fuzz_file {
    char path[128];
    int fd;
    const uint8_t *data;
    size_t size, held; /* held: the size that fstat returns */
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
    if (n > 0) memcpy(to, f->data + offset, n);
    return (ssize_t)n;
}

static inline int fuzz_close(int fd)
{
    return fuzz_file_of(fd) ? 0 : mf_io_default()->close(fd);
}

/* Sets the content of file number i (0 ... FUZZ_FILES - 1) to the input, which must remain
 * valid. path names an existing file, which the first call empties; NULL: a file in memory.
 * Returns its path. */
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
        f->fd =
            path ? mf_io_default()->open(path, O_RDWR, 0) : memfd_create("input", MFD_CLOEXEC);
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

static char fuzz_folder[64];
static int fuzz_made;

static inline void fuzz_remove_folder(void)
{
    for (int i = 0; i < fuzz_made; i++) {
        char *path = fuzz_files[i].path;
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path); /* the last file of a folder removes the folder */
    }
    rmdir(fuzz_folder);
}

/* Makes an empty folder, which is removed at the end of the process. In the folder, makes files
 * with these names (FILE or SUBFOLDER/FILE), which are numbers 0 .. n-1 of fuzz_set_file.
 * Returns the path of the folder. */
static inline const char *fuzz_make_folder(const char *const *names, int n)
{
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/fuzz.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_REQUIRE(mkdtemp(fuzz_folder));
    atexit(fuzz_remove_folder);
    for (int i = 0; i < n; i++) {
        char path[128];
        const char *slash = strchr(names[i], '/');
        if (slash) {
            snprintf(path, sizeof path, "%s/%.*s", fuzz_folder, (int)(slash - names[i]),
                     names[i]);
            FUZZ_REQUIRE(mkdir(path, 0700) == 0 || errno == EEXIST);
        }
        snprintf(path, sizeof path, "%s/%s", fuzz_folder, names[i]);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        FUZZ_REQUIRE(fd >= 0 && close(fd) == 0);
        fuzz_set_file(i, path, NULL, 0);
        fuzz_made++;
    }
    return fuzz_folder;
}

static inline const char *fuzz_memory_file(const uint8_t *data, size_t size)
{
    return fuzz_set_file(0, NULL, data, size);
}

/* Like fuzz_set_file, but the kernel's file has the content, too, for readers that map
 * the file. */
static inline const char *fuzz_mapped_file(const uint8_t *data, size_t size)
{
    const char *path = fuzz_set_file(0, NULL, data, 0);
    FUZZ_REQUIRE(pwrite(fuzz_files[0].fd, data, size, 0) == (ssize_t)size);
    fuzz_files[0].held = fuzz_files[0].size = size;
    return path;
}

#endif
