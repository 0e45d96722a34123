/* fuzz_elf: any file is accepted as a shared object or refused with a reason, and is never
 * executed. All segments of an accepted file lie inside the file. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "plugin/load/file.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_words[] = {"\177ELF",
                                  "\002\001\001",
                                  "\003",
                                  "\076",
                                  "\100",
                                  "\070",
                                  "\001",
                                  "\377\377\377\377",
                                  "\377\377\377\377\377\377\377\177",
                                  NULL};

static void require_inside(const uint8_t *data, size_t size)
{
    Elf64_Ehdr h;
    FUZZ_REQUIRE(size >= sizeof h);
    memcpy(&h, data, sizeof h);
    for (int i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        FUZZ_REQUIRE(h.e_phoff <= size && (size - h.e_phoff) / sizeof p > (size_t)i);
        memcpy(&p, data + h.e_phoff + (size_t)i * sizeof p, sizeof p);
        FUZZ_REQUIRE(p.p_type != PT_LOAD ||
                     (p.p_offset <= size && p.p_filesz <= size - p.p_offset));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    char path[32];
    struct stat st;
    int fd = -1;
    if (file < 0) file = memfd_create("plugin", MFD_CLOEXEC);
    FUZZ_REQUIRE(file >= 0 && ftruncate(file, 0) == 0);
    FUZZ_REQUIRE(pwrite(file, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    mf_error_clear();
    int rc = mf_plugin_file_open(path, true, &fd, &st);
    if (rc == MF_OK) {
        require_inside(data, size);
        close(fd);
        return 0;
    }
    FUZZ_REQUIRE(rc == MF_EPLUGIN && fd == -1);
    FUZZ_REQUIRE(strlen(mf_error_message()) > 0);
    return 0;
}
