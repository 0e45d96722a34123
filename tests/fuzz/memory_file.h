/* memory_file.h: an input as a file, for readers that take a path. The file is in memory. */
#ifndef MF_TESTS_MEMORY_FILE_H
#define MF_TESTS_MEMORY_FILE_H

#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

/* Replaces the content of the file, which is made by the first call. Returns its path. */
static inline const char *fuzz_memory_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("input", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_REQUIRE(fd >= 0);
    FUZZ_REQUIRE(ftruncate(fd, 0) == 0);
    FUZZ_REQUIRE(pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

#endif
