/* gguf.h: reads GGUF files in tests. It shares no code with the writer. It fails the test if a
 * file is not of version 3, or if its data do not begin at multiples of 32 bytes and end at the
 * end of the file. */
#ifndef MF_TESTS_GGUF_H
#define MF_TESTS_GGUF_H

#include <stdint.h>

typedef struct gguf_entry {
    char *name;
    char *text; /* value of a key; for a tensor its type and shape "F32 [8,64]", outermost
                 * dimension first */
    /* bytes of a tensor in the file; NULL for a key */
    const unsigned char *data;
    uint64_t bytes;
} gguf_entry;

typedef struct gguf_file {
    unsigned char *all;
    uint64_t n;
    gguf_entry *entry; /* sorted by name */
    int count;
} gguf_file;

void gguf_open(gguf_file *f, const char *path);
void gguf_close(gguf_file *f);
/* Finds an entry; NULL: there is none. */
const gguf_entry *gguf_find(const gguf_file *f, const char *name);
/* One line for each entry: name, text, and the hash of a tensor's data. Arrays are shown by
 * length and hash. The caller frees the text with free(). */
char *gguf_lines(const gguf_file *f);

#endif
