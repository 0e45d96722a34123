/* plugin/load/symbols.c: looks up one symbol in the bytes of an ELF file, by the hash tables
 * that the dynamic linker uses. Every offset is checked against the file's size before use. */
#include "plugin/load/symbols.h"

#include <elf.h>
#include <moefw/plugin.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

#define SYMBOL "moefw_plugin"

enum { LONGEST_SYMBOL = 32 };

typedef struct image {
    const unsigned char *bytes;
    size_t size;
    const char *symbol; /* symbol that is searched; its name is shorter than LONGEST_SYMBOL */
    Elf64_Ehdr header;
    uint64_t symbols, strings, gnu, sysv; /* addresses of the tables; 0: the file has no
                                           * such table */
} image;

/* Copies n bytes from an offset of the file; returns false if the bytes are outside of
 * the file. */
static bool get(const image *m, uint64_t offset, void *to, size_t n)
{
    if (offset > m->size || m->size - offset < n) return false;
    memcpy(to, m->bytes + offset, n);
    return true;
}

static bool program_header(const image *m, int i, Elf64_Phdr *to)
{
    return get(m, m->header.e_phoff + (uint64_t)i * sizeof *to, to, sizeof *to);
}

/* Like get, but from an address in one of the loaded segments. */
static bool get_at(const image *m, uint64_t address, void *to, size_t n)
{
    Elf64_Phdr p;
    for (int i = 0; i < m->header.e_phnum && program_header(m, i, &p); i++)
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
            return get(m, p.p_offset + (address - p.p_vaddr), to, n);
    return false;
}

static void read_dynamic(image *m)
{
    Elf64_Phdr p;
    Elf64_Dyn d;
    for (int i = 0; i < m->header.e_phnum && program_header(m, i, &p); i++) {
        if (p.p_type != PT_DYNAMIC) continue;
        for (uint64_t k = 0; k + sizeof d <= p.p_filesz; k += sizeof d) {
            if (!get(m, p.p_offset + k, &d, sizeof d) || d.d_tag == DT_NULL) return;
            if (d.d_tag == DT_SYMTAB) m->symbols = d.d_un.d_ptr;
            if (d.d_tag == DT_STRTAB) m->strings = d.d_un.d_ptr;
            if (d.d_tag == DT_GNU_HASH) m->gnu = d.d_un.d_ptr;
            if (d.d_tag == DT_HASH) m->sysv = d.d_un.d_ptr;
        }
    }
}

/* Reads symbol number i; returns whether it is the symbol that is searched. */
static bool is_it(const image *m, uint32_t i, Elf64_Sym *to)
{
    char name[LONGEST_SYMBOL];
    const size_t n = strlen(m->symbol) + 1;
    return n <= sizeof name &&
           get_at(m, m->symbols + (uint64_t)i * sizeof *to, to, sizeof *to) &&
           get_at(m, m->strings + to->st_name, name, n) && memcmp(name, m->symbol, n) == 0;
}

static bool find_gnu(const image *m, Elf64_Sym *to)
{
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    uint32_t hash = 5381, i, chain;
    for (const char *c = m->symbol; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    if (!get_at(m, m->gnu, &head, sizeof head) || head.buckets == 0) return false;
    const uint64_t buckets = m->gnu + sizeof head + (uint64_t)head.bloom * 8;
    const uint64_t chains = buckets + (uint64_t)head.buckets * 4;
    if (!get_at(m, buckets + (uint64_t)(hash % head.buckets) * 4, &i, sizeof i)) return false;
    for (; i >= head.first; i++) {
        if (!get_at(m, chains + (uint64_t)(i - head.first) * 4, &chain, sizeof chain))
            return false;
        if ((chain | 1) == (hash | 1) && is_it(m, i, to)) return true;
        if (chain & 1) return false;
    }
    return false;
}

/* Searches the older table, which contains the number of symbols. All symbols are compared, so
 * a cycle in the table's chains does no harm. */
static bool find_sysv(const image *m, Elf64_Sym *to)
{
    uint32_t head[2]; /* numbers of buckets and of symbols */
    if (!get_at(m, m->sysv, head, sizeof head)) return false;
    for (uint32_t i = 1; i < head[1]; i++) {
        Elf64_Sym s;
        if (!get_at(m, m->symbols + (uint64_t)i * sizeof s, &s, sizeof s)) return false;
        if (is_it(m, i, to)) return true;
    }
    return false;
}

/* Returns whether the file defines the symbol, and the symbol's entry. m contains the file's
 * header and the symbol's name. */
static bool find_symbol(image *m, Elf64_Sym *to)
{
    read_dynamic(m);
    return m->symbols != 0 && m->strings != 0 &&
           ((m->gnu != 0 && find_gnu(m, to)) || (m->sysv != 0 && find_sysv(m, to))) &&
           to->st_shndx != SHN_UNDEF;
}

int mf_plugin_symbols(const unsigned char *bytes, size_t size)
{
    image m = {.bytes = bytes, .size = size, .symbol = SYMBOL};
    Elf64_Sym s;
    if (!get(&m, 0, &m.header, sizeof m.header))
        return mf_fail(MF_EPLUGIN, "truncated ELF file: expected a header, found %zu bytes",
                       size);
    if (!find_symbol(&m, &s))
        return mf_fail(MF_EPLUGIN,
                       "no symbol: expected an exported constant '" SYMBOL "', found "
                       "none; write MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(...)");
    if (ELF64_ST_TYPE(s.st_info) == STT_FUNC)
        return mf_fail(MF_EPLUGIN, "the symbol " SYMBOL ": expected a constant, found "
                                   "a function; write MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(...)");
    return MF_OK;
}

bool mf_symbols_export(const unsigned char *bytes, size_t size, const char *symbol)
{
    image m = {.bytes = bytes, .size = size, .symbol = symbol};
    Elf64_Sym s;
    return get(&m, 0, &m.header, sizeof m.header) && find_symbol(&m, &s);
}

bool mf_plugin_symbols_kind(const unsigned char *bytes, size_t size, uint32_t *ret)
{
    image m = {.bytes = bytes, .size = size, .symbol = SYMBOL};
    Elf64_Sym s;
    uint32_t magic, kind;
    *ret = 0;
    if (!get(&m, 0, &m.header, sizeof m.header) || !find_symbol(&m, &s)) return false;
    if (get_at(&m, s.st_value, &magic, sizeof magic) && magic == MF_MAGIC &&
        get_at(&m, s.st_value + offsetof(mf_plugin, kind), &kind, sizeof kind))
        *ret = kind;
    return true;
}

/* Whether the library's name is a path. Also true if the name cannot be read. */
static bool is_path(const image *m, uint64_t at)
{
    char c;
    for (uint64_t i = 0; get_at(m, m->strings + at + i, &c, 1) && c != '/'; i++)
        if (c == '\0') return false;
    return true;
}

bool mf_symbols_move(const unsigned char *bytes, size_t size)
{
    image m = {.bytes = bytes, .size = size, .symbol = SYMBOL};
    Elf64_Phdr p;
    Elf64_Dyn d;
    if (!get(&m, 0, &m.header, sizeof m.header)) return false;
    read_dynamic(&m);
    for (int i = 0; i < m.header.e_phnum && program_header(&m, i, &p); i++) {
        if (p.p_type != PT_DYNAMIC) continue;
        for (uint64_t k = 0; k + sizeof d <= p.p_filesz; k += sizeof d) {
            if (!get(&m, p.p_offset + k, &d, sizeof d) || d.d_tag == DT_NULL) return true;
            if (d.d_tag == DT_RPATH || d.d_tag == DT_RUNPATH || d.d_tag == DT_CONFIG ||
                d.d_tag == DT_DEPAUDIT || d.d_tag == DT_AUDIT || d.d_tag == DT_AUXILIARY ||
                d.d_tag == DT_FILTER || (d.d_tag == DT_NEEDED && is_path(&m, d.d_un.d_val)))
                return false;
        }
    }
    return true;
}

const char *mf_plugin_host_names(const unsigned char *bytes, size_t size, mf_arena *arena)
{
    static const char first[] = "moefw host: ";
    enum { LONGEST = 4096 };
    const unsigned char *at = memmem(bytes, size, first, sizeof first - 1);
    const size_t left = at ? size - (size_t)(at - bytes) : 0;
    if (!at || !memchr(at, '\0', left < LONGEST ? left : LONGEST)) return NULL;
    return mf_arena_strdup(arena, (const char *)at);
}
