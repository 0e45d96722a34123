/* Hashes what of a shared object is loaded. Two builds of one source in two folders, and the
 * stripped file of a package, differ in names for debuggers, in the table of sections and in a
 * build id; none of this is loaded as code or data, so all have one hash. */
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/map.h"
#include "lab/result/result_parts.h"

/* Reads program header i. Returns false if it, or what it describes, is not in the file. */
static bool segment(const mf_map *m, const Elf64_Ehdr *h, int i, Elf64_Phdr *ret)
{
    const uint64_t at = h->e_phoff + (uint64_t)i * sizeof *ret;
    if (h->e_phoff > m->size || at > m->size || m->size - at < sizeof *ret) return false;
    memcpy(ret, (const char *)m->data + at, sizeof *ret);
    return ret->p_offset <= m->size && ret->p_filesz <= m->size - ret->p_offset;
}

/* Sets bytes of the file to 0 in the copy of a segment. */
static void clear(char *copy, const Elf64_Phdr *p, uint64_t from, uint64_t n)
{
    for (uint64_t i = from; i < from + n; i++)
        if (i >= p->p_offset && i - p->p_offset < p->p_filesz) copy[i - p->p_offset] = 0;
}

static bool put_segments(const mf_map *m, const Elf64_Ehdr *h, char *copy, size_t *ret_size)
{
    Elf64_Phdr p, note;
    *ret_size = 0;
    for (int i = 0; i < h->e_phnum; i++) {
        if (!segment(m, h, i, &p)) return false;
        if (p.p_type != PT_LOAD) continue;
        const uint64_t where[] = {p.p_vaddr, p.p_filesz, p.p_memsz, p.p_flags};
        if (copy) {
            char *to = copy + *ret_size + sizeof where;
            memcpy(copy + *ret_size, where, sizeof where);
            memcpy(to, (const char *)m->data + p.p_offset, p.p_filesz);
            clear(to, &p, offsetof(Elf64_Ehdr, e_shoff), sizeof h->e_shoff);
            clear(to, &p, offsetof(Elf64_Ehdr, e_shentsize), 3 * sizeof h->e_shnum);
            for (int k = 0; k < h->e_phnum; k++)
                if (segment(m, h, k, &note) && note.p_type == PT_NOTE)
                    clear(to, &p, note.p_offset, note.p_filesz);
        }
        *ret_size += sizeof where + p.p_filesz;
        /* segments that overlap */
        if (*ret_size > 2 * m->size + sizeof where * 64) return false;
    }
    return *ret_size > 0;
}

bool mf_result_code(const char *path, char ret[MF_SHA256_HEX])
{
    mf_map m;
    Elf64_Ehdr h;
    size_t size;
    bool done = false;
    if (mf_map_open(path, &m) != MF_OK) return false;
    if (m.size >= sizeof h) {
        memcpy(&h, m.data, sizeof h);
        if (memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_ident[EI_CLASS] == ELFCLASS64 &&
            h.e_phentsize == sizeof(Elf64_Phdr) && put_segments(&m, &h, NULL, &size)) {
            char *copy = mf_alloc_raw(size);
            done = copy && put_segments(&m, &h, copy, &size);
            if (done) mf_sha256_hex(copy, size, ret);
            mf_free(copy);
        }
    }
    mf_map_close(&m);
    return done;
}
