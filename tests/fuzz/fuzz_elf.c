/* fuzz_elf: any file is accepted as a shared object or refused with a reason, and is never
 * executed. All loadable segments of an accepted file are within the file. Its symbols, its
 * kind and its names of the host's functions are read without access outside the file. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "base/mem.h"
#include "plugin/load/file.h"
#include "plugin/load/symbols.h"

#include <elf.h>
#include <string.h>

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
    const char *path = fuzz_memory_file(data, size);
    struct stat st;
    int fd = -1;
    mf_error_clear();
    int rc = mf_plugin_file_open(path, MF_FILE_ANY, &fd, &st);
    if (rc == MF_OK) {
        unsigned char *bytes = NULL;
        require_inside(data, size);
        FUZZ_REQUIRE(mf_plugin_file_read(path, fd, &st, &bytes) == MF_OK);
        rc = mf_plugin_symbols(bytes, size);
        FUZZ_REQUIRE(rc == MF_OK || (rc == MF_EPLUGIN && strlen(mf_error_message()) > 0));
        uint32_t kind;
        FUZZ_REQUIRE(mf_plugin_symbols_kind(bytes, size, &kind) || (rc != MF_OK && kind == 0));
        mf_arena *arena = mf_arena_new();
        const char *names = arena ? mf_plugin_host_names(bytes, size, arena) : NULL;
        FUZZ_REQUIRE(!names || strlen(names) < size);
        mf_arena_free(arena);
        mf_free(bytes);
        mf_file_close(fd);
        return 0;
    }
    FUZZ_REQUIRE(rc == MF_EPLUGIN && fd == -1);
    FUZZ_REQUIRE(strlen(mf_error_message()) > 0);
    return 0;
}
