/* base/mem.c: checked allocation through a table of functions. Every block is 64-byte aligned,
 * and each failed allocation records MF_ENOMEM. */
#include "base/mem.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, LARGE_PAGE = 2 << 20, LARGE = 32 << 20 };

/* Requests large pages for large blocks. A gemm reads many rows at once, and with small pages
 * each row is on another page. In a virtual machine the address of each page is
 * translated twice. */
static void *system_alloc(size_t bytes)
{
    const size_t unit = bytes >= LARGE ? LARGE_PAGE : ALIGNMENT;
    /* aligned_alloc requires a multiple of the alignment. The sum cannot overflow: mf_alloc_raw
     * refuses such sizes. */
    const size_t whole = (bytes + unit - 1) & ~(unit - 1);
    void *block = aligned_alloc(unit, whole);
#ifdef MADV_HUGEPAGE
    if (block && unit == LARGE_PAGE) madvise(block, whole, MADV_HUGEPAGE);
#endif
    return block;
}

static const mf_mem_table system_table = {system_alloc, free};
static const mf_mem_table *table = &system_table;
static atomic_uint_fast64_t calls;

void mf_mem_set_table(const mf_mem_table *new_table)
{
    table = new_table ? new_table : &system_table;
}

void *mf_alloc_raw(size_t bytes)
{
    void *block;
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (bytes > PTRDIFF_MAX - LARGE_PAGE) {
        mf_fail(MF_ENOMEM, "out of memory: a block of %zu bytes is past any address space",
                bytes);
        return NULL;
    }
    block = table->alloc(bytes ? bytes : 1);
    if (!block) mf_fail(MF_ENOMEM, "out of memory: no block of %zu bytes", bytes);
    return block;
}

/* Sets a large block to zero by returning its pages to the system, which supplies pages of
 * zeros at the first access. So parts that are never accessed, such as moments of frozen
 * parameters, use no memory. False: the caller must write the zeros. */
static bool drop_pages(void *block, size_t bytes)
{
    if (table != &system_table || bytes < LARGE) return false;
    const size_t whole = bytes & ~((size_t)LARGE_PAGE - 1);
    if (madvise(block, whole, MADV_DONTNEED) != 0) return false;
    memset((char *)block + whole, 0, bytes - whole);
    return true;
}

void *mf_alloc(size_t count, size_t size)
{
    size_t bytes;
    void *block;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
        mf_fail(MF_ENOMEM,
                "out of memory: %zu elements of %zu bytes are past any address space", count,
                size);
        return NULL;
    }
    block = mf_alloc_raw(bytes);
    if (block && !drop_pages(block, bytes)) memset(block, 0, bytes);
    return block;
}

void *mf_realloc(void *block, size_t old_bytes, size_t new_bytes)
{
    void *fresh = mf_alloc_raw(new_bytes);
    if (!fresh) return NULL;
    if (block) {
        memcpy(fresh, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        mf_free(block);
    }
    return fresh;
}

void mf_free(void *block)
{
    if (block) table->release(block);
}

char *mf_strndup(const char *text, size_t n)
{
    size_t length = strnlen(text, n);
    char *copy = mf_alloc_raw(length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *mf_memdup(const void *bytes, size_t n)
{
    char *copy = mf_alloc_raw(n + 1);
    if (!copy) return NULL;
    memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

char *mf_strdup(const char *text)
{
    return mf_strndup(text, strlen(text));
}

char *mf_strf(const char *fmt, ...)
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
    text = mf_alloc_raw((size_t)n + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

uint64_t mf_alloc_count(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}
