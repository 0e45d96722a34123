/* plugin/load/mapped.c: compares a mapped plugin with the bytes of its file, using the program
 * headers of both. */
#include "plugin/load/mapped.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "plugin/load/file.h"

typedef struct image {
    const struct link_map *map;
    const unsigned char *bytes; /* bytes of the file */
    size_t size;
    bool found, same;
} image;

/* Whether relocations may have changed read-only segments. */
static bool has_text_relocations(const struct link_map *map)
{
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_TEXTREL || (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL)))
            return true;
    return false;
}

static bool is_compared(const Elf64_Phdr *p)
{
    return p->p_type == PT_NOTE || (p->p_type == PT_LOAD && (p->p_flags & (PF_W | PF_X)) == 0);
}

/* AddressSanitizer keeps bytes between the globals of a plugin that memcmp must not read, so
 * this function uses plain loads. */
__attribute__((no_sanitize("address"))) static bool
is_equal(const unsigned char *mapped, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mapped[i] != bytes[i]) return false;
    return true;
}

/* Whether the mapped segments equal those of the file. The program headers are compared first:
 * if they are equal, the segments of the file are mapped at the addresses in them. */
static bool is_same(const image *m, const struct dl_phdr_info *info)
{
    Elf64_Ehdr header;
    if (m->size < sizeof header) return false;
    memcpy(&header, m->bytes, sizeof header);
    const size_t n = (size_t)header.e_phnum * sizeof(Elf64_Phdr);
    if (info->dlpi_phnum != header.e_phnum || header.e_phoff > m->size ||
        m->size - header.e_phoff < n ||
        memcmp(info->dlpi_phdr, m->bytes + header.e_phoff, n) != 0)
        return false;
    const bool changed = has_text_relocations(m->map);
    for (int i = 0; i < header.e_phnum; i++) {
        const Elf64_Phdr *p = (const Elf64_Phdr *)info->dlpi_phdr + i;
        if (!is_compared(p) || changed) continue;
        if (p->p_offset > m->size || m->size - p->p_offset < p->p_filesz) return false;
        if (!is_equal((const unsigned char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr),
                      m->bytes + p->p_offset, p->p_filesz))
            return false;
    }
    return true;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    image *m = arg;
    (void)size;
    if (info->dlpi_addr != m->map->l_addr) return 0;
    m->found = true;
    m->same = is_same(m, info);
    return 1;
}

int mf_plugin_mapped_is(void *handle, const char *path, int fd, const struct stat *st,
                        const char *hash)
{
    image m = {.size = (size_t)st->st_size};
    char now[33];
    unsigned char *bytes;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &m.map) != 0)
        return mf_fail(MF_EPLUGIN, "the dynamic linker does not tell where it is mapped");
    int rc = mf_plugin_file_read(path, fd, st, &bytes);
    if (rc != MF_OK) return rc;
    m.bytes = bytes;
    mf_hash_bytes(bytes, m.size, now);
    dl_iterate_phdr(look, &m);
    const bool same = m.found && m.same && strcmp(now, hash) == 0;
    mf_free(bytes);
    if (same) return MF_OK;
    return mf_fail(MF_EPLUGIN, "it changed while it was loaded: expected the bytes that were "
                               "checked, found others in memory; try again");
}
