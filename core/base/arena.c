/* base/arena.c: a bump allocator in growing chunks. Blocks are freed all at once, with
 * the arena.
 *
 * Chunks double from 4 KiB to 1 MiB: the arena of a small configuration needs about one page,
 * and an arena of many blocks needs few calls of the allocator. A block that does not fit into
 * the current chunk and is larger than a quarter of the next one gets a chunk of its own, so
 * the rest of the current chunk stays usable. */
#include "base/mem.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_MIN = 4096, CHUNK_MAX = 1 << 20, BLOCK_ALIGN = 16 };

typedef struct chunk {
    struct chunk *next;
    size_t size, fill; /* size: bytes of data; fill: bytes in use */
    _Alignas(64) unsigned char data[];
} chunk;

struct mf_arena {
    chunk *chunks; /* list of chunks; the first one is being filled */
    size_t next_size;
    size_t used;
};

mf_arena *mf_arena_new(void)
{
    mf_arena *arena = mf_alloc(1, sizeof *arena);
    if (arena) arena->next_size = CHUNK_MIN;
    return arena;
}

void mf_arena_free(mf_arena *arena)
{
    if (!arena) return;
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        mf_free(c);
    }
    mf_free(arena);
}

static chunk *new_chunk(size_t size)
{
    chunk *c = mf_alloc(1, sizeof *c + size);
    if (c) c->size = size;
    return c;
}

static void *alone(mf_arena *arena, size_t bytes)
{
    chunk *c = new_chunk(bytes);
    if (!c) return NULL;
    c->fill = bytes;
    /* The new block becomes the second of the list, because the first chunk is the one
     * being filled. */
    if (arena->chunks) {
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        arena->chunks = c;
    }
    arena->used += bytes;
    return c->data;
}

void *mf_arena_alloc(mf_arena *arena, size_t bytes)
{
    chunk *c = arena->chunks;
    void *block;
    if (bytes > PTRDIFF_MAX / 2) {
        mf_fail(MF_ENOMEM, "out of memory: a block of %zu bytes is past any address space",
                bytes);
        return NULL;
    }
    bytes = bytes ? (bytes + BLOCK_ALIGN - 1) & ~(size_t)(BLOCK_ALIGN - 1) : BLOCK_ALIGN;
    if (!c || c->size - c->fill < bytes) {
        if (bytes > arena->next_size / 4) return alone(arena, bytes);
        c = new_chunk(arena->next_size);
        if (!c) return NULL;
        if (arena->next_size < CHUNK_MAX) arena->next_size *= 2;
        c->next = arena->chunks;
        arena->chunks = c;
    }
    block = c->data + c->fill;
    c->fill += bytes;
    arena->used += bytes;
    return block;
}

char *mf_arena_strdup(mf_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mf_arena_alloc(arena, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

char *mf_arena_strf(mf_arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int n;
    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        mf_fail(MF_EINVAL, "text could not be formatted from \"%s\"", fmt);
        return NULL;
    }
    text = mf_arena_alloc(arena, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

size_t mf_arena_used(const mf_arena *arena)
{
    return arena->used;
}
