/* gguf.h: reads GGUF files in tests. It shares no code with the writer, and ends the test if a
 * file is not one of version 3 with data at multiples of 32 bytes, up to its end. */
#ifndef MF_TESTS_GGUF_H
#define MF_TESTS_GGUF_H

#include <stdint.h>

typedef struct gguf_entry {
    char *name;
    char *text; /* a key's value, or a tensor's type and shape "F32 [8,64]", outermost first */
    /* a tensor: its bytes in the file; a key: NULL */
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
/* NULL: there is none. */
const gguf_entry *gguf_find(const gguf_file *f, const char *name);
/* One line for each entry: name, text, and the hash of a tensor's data. The caller frees it
 * with free(). Arrays are shown by length and hash. */
char *gguf_lines(const gguf_file *f);

#endif
