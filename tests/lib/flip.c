/* flip.c: damages a shared object.
 *
 *     flip FILE SEED OUT
 *
 * writes FILE to OUT with 1 to 8 changed bytes, at places drawn with SEED. No changed byte is
 * in an executable segment. So headers, tables, relocations and texts are damaged, but no code,
 * because damaged code could do anything. */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* A random number less than n (splitmix64). */
static size_t draw(size_t n)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((z ^ (z >> 31)) % n);
}

static bool is_code(const unsigned char *bytes, size_t at)
{
    Elf64_Ehdr h;
    memcpy(&h, bytes, sizeof h);
    for (int i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, bytes + h.e_phoff + (size_t)i * sizeof p, sizeof p);
        if (p.p_type == PT_LOAD && (p.p_flags & PF_X) && at >= p.p_offset &&
            at - p.p_offset < p.p_filesz)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static unsigned char from[1 << 22], to[1 << 22];
    if (argc != 4) return 2;
    FILE *f = fopen(argv[1], "rb");
    const size_t n = f ? fread(from, 1, sizeof from, f) : 0;
    if (n <= sizeof(Elf64_Ehdr) || n == sizeof from) return 1;
    fclose(f);
    memcpy(to, from, n);
    state = strtoull(argv[2], NULL, 10);
    for (size_t changes = 1 + draw(8); changes > 0;) {
        const size_t at = draw(n);
        if (is_code(from, at)) continue;
        to[at] = draw(2) ? (unsigned char)draw(256) : (unsigned char)(to[at] ^ (1u << draw(8)));
        changes--;
    }
    f = fopen(argv[3], "wb");
    if (!f || fwrite(to, 1, n, f) != n || fclose(f) != 0) return 1;
    return 0;
}
