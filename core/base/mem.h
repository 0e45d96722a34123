/* base/mem.h: memory. Allocation goes through a table. Tests replace the table to make the n-th
 * allocation fail.
 *
 * mf_alloc returns zeroed memory, 64-byte aligned, or NULL with MF_ENOMEM recorded. Sizes that
 * overflow are refused. mf_free(NULL) is allowed. An arena is a bump allocator: its blocks stay
 * valid until the arena is freed. Graphs, configurations and plugin instances each own
 * one arena. */
#ifndef MF_BASE_MEM_H
#define MF_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

typedef struct mf_mem_table {
    void *(*alloc)(size_t bytes); /* returns 64-byte aligned memory, which need not be zeroed */
    void (*release)(void *block);
} mf_mem_table;

/* NULL restores the default table. Not thread-safe: for tests and start-up. */
void mf_mem_set_table(const mf_mem_table *table);

void *mf_alloc(size_t count, size_t size); /* returns zeroed memory */
void *mf_alloc_raw(size_t bytes);          /* returns memory that is not zeroed */
/* keeps the first min(old_bytes, new_bytes) bytes */
void *mf_realloc(void *block, size_t old_bytes, size_t new_bytes);
void mf_free(void *block);
char *mf_strdup(const char *text);
char *mf_strndup(const char *text, size_t n); /* copies up to the first NUL, or n bytes */
char *mf_memdup(const void *bytes, size_t n); /* copies n bytes, which may contain NUL, and
                                               * appends a NUL */
char *mf_strf(const char *fmt, ...); /* returns a formatted text, which the caller frees
                                      * with mf_free */

/* Number of allocating calls since the process began, including failed calls. The step loop
 * must not increase it. */
uint64_t mf_alloc_count(void);

typedef struct mf_arena mf_arena;
mf_arena *mf_arena_new(void);
void mf_arena_free(mf_arena *arena);
void *mf_arena_alloc(mf_arena *arena, size_t bytes); /* returns zeroed memory,
                                                      * 16-byte aligned */
char *mf_arena_strdup(mf_arena *arena, const char *text);
char *mf_arena_strf(mf_arena *arena, const char *fmt, ...);
size_t mf_arena_used(const mf_arena *arena);

#endif
