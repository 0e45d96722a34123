/* mem: alignment, overflow, the arena, and failures of the n-th allocation. After a failed
 * reallocation the old block must be valid. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/resident.h"
#include "base/thread/thread_memory.h"
#include "tests/lib/fault.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pages are given back that lie within the block as a whole, and no others. */
START_TEST(whole_pages_are_released)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 5 * page;
    unsigned char *p =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    for (size_t before = 0; before < 2; before++)
        for (size_t behind = 0; behind < 2; behind++) {
            memset(p, 1, all);
            mf_resident_release(p + page - before, 2 * page + before + behind);
            ck_assert_uint_eq(p[page - 1], 1);
            for (size_t i = page; i < 3 * page; i++)
                ck_assert_uint_eq(p[i], 0);
            ck_assert_uint_eq(p[3 * page], 1);
        }
    memset(p, 1, all);
    mf_resident_release(p + 1, page - 1);
    ck_assert_uint_eq(p[0], 1);
    ck_assert_uint_eq(p[page - 1], 1);
    ck_assert_int_eq(munmap(p, all), 0);
}
END_TEST

static void *memory_of_thread(void *spare)
{
    char *of = mf_thread_memory(MF_THREAD_PROVENANCE, 64, spare);
    ck_assert_ptr_eq(of, mf_thread_memory(MF_THREAD_PROVENANCE, 64, spare));
    ck_assert_int_eq(of[0], 0);
    of[0] = 1;
    return of;
}

/* The second thread begins while the first one has its memory. */
START_TEST(threads_have_memory_of_their_own)
{
    static char spare[64];
    pthread_t thread;
    void *of = NULL, *here = memory_of_thread(spare);
    ck_assert_ptr_ne(here, spare);
    ck_assert_int_eq(pthread_create(&thread, NULL, memory_of_thread, spare), 0);
    ck_assert_int_eq(pthread_join(thread, &of), 0);
    ck_assert_ptr_ne(of, here);
    ck_assert_ptr_ne(of, spare);
}
END_TEST

START_TEST(aligned_and_zeroed)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = mf_alloc(sizes[i], 1), *q = mf_alloc_raw(sizes[i]);
        ck_assert_ptr_nonnull(p);
        ck_assert_ptr_nonnull(q);
        ck_assert_ptr_ne(p, q);
        ck_assert_uint_eq((uintptr_t)p % 64, 0);
        ck_assert_uint_eq((uintptr_t)q % 64, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_uint_eq(p[j], 0);
        memset(q, 0xA5, sizes[i]);
        mf_free(p);
        mf_free(q);
    }
    mf_free(NULL);
}
END_TEST

START_TEST(large_blocks_begin_with_a_large_page)
{
    const size_t page = (size_t)2 << 20, bytes = 16 * page;
    unsigned char *large = mf_alloc(bytes + 1, 1), *smaller = mf_alloc_raw(bytes - 1);
    ck_assert_ptr_nonnull(large);
    ck_assert_ptr_nonnull(smaller);
    ck_assert_uint_eq((uintptr_t)large % page, 0);
    ck_assert_uint_eq((uintptr_t)smaller % 64, 0);
    ck_assert(large[0] == 0 && large[bytes] == 0);
    large[bytes] = smaller[bytes - 2] = 1;
    mf_free(large);
    mf_free(smaller);
}
END_TEST

/* Large blocks are zero, but need no memory until they are accessed. */
START_TEST(large_blocks_take_no_memory_at_first)
{
    const size_t bytes = ((size_t)64 << 20) + 100, page = 4096;
    for (int pass = 0; pass < 2; pass++) {
        char *block = mf_alloc(bytes, 1);
        size_t resident = 0;
        ck_assert_ptr_nonnull(block);
        for (size_t i = 0; i < ((size_t)64 << 20); i += page) {
            unsigned char in = 0;
            ck_assert_int_eq(mincore(block + i, page, &in), 0);
            resident += in & 1;
        }
        ck_assert_uint_eq(resident, 0);
        size_t other = 0; /* collected for a single assertion, because Check writes a message
                           * for each assertion */
        for (size_t i = 0; i < bytes; i++)
            other += block[i] != 0;
        ck_assert_uint_eq(other, 0);
        memset(block, 1, bytes); /* the second pass may get this memory again */
        mf_free(block);
    }
}
END_TEST

START_TEST(too_much_is_refused)
{
    mf_error_clear();
    ck_assert_ptr_null(mf_alloc(SIZE_MAX / 2, 3));
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
    mf_error_clear();
    ck_assert_ptr_null(mf_alloc_raw(SIZE_MAX));
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
    mf_error_clear();
    /* less than the limit, but too large when it is rounded up to a large page */
    ck_assert_ptr_null(mf_alloc_raw(PTRDIFF_MAX - 100));
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
    mf_error_clear();
    ck_assert_ptr_null(mf_alloc_raw(SIZE_MAX - 10)); /* would overflow when rounded up */
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "out of memory"));
}
END_TEST

START_TEST(realloc_keeps)
{
    char *p = mf_strdup("0123456789");
    p = mf_realloc(p, 11, 1000);
    ck_assert_str_eq(p, "0123456789");
    p = mf_realloc(p, 1000, 5);
    ck_assert_int_eq(memcmp(p, "01234", 5), 0);
    fault_alloc(1, FAULT_FROM);
    ck_assert_ptr_null(mf_realloc(p, 5, 50));
    fault_off();
    ck_assert_int_eq(memcmp(p, "01234", 5), 0); /* the old block is still valid */
    mf_free(p);
    p = mf_realloc(NULL, 0, 10);
    ck_assert_ptr_nonnull(p);
    mf_free(p);
}
END_TEST

START_TEST(strings)
{
    char *a = mf_strndup("abcdef", 3), *b = mf_strndup("ab", 9),
         *c = mf_strf("%s-%03d", "x", 7);
    ck_assert_str_eq(a, "abc");
    ck_assert_str_eq(b, "ab");
    ck_assert_str_eq(c, "x-007");
    mf_free(a);
    mf_free(b);
    mf_free(c);
}
END_TEST

START_TEST(calls_are_counted)
{
    uint64_t before = mf_alloc_count();
    void *p = mf_alloc(4, 4), *q = mf_alloc_raw(4);
    q = mf_realloc(q, 4, 8);
    ck_assert_uint_eq(mf_alloc_count() - before, 3);
    mf_free(p);
    mf_free(q);
    ck_assert_uint_eq(mf_alloc_count() - before, 3);
}
END_TEST

/* Blocks of many sizes must be disjoint, aligned and zero, and later blocks must not
 * change them. */
START_TEST(arena_blocks)
{
    enum { N = 2000 };
    static unsigned char *blocks[N];
    static size_t sizes[N];
    mf_arena *arena = mf_arena_new();
    size_t sum = 0;
    uint64_t before = mf_alloc_count();
    for (size_t i = 0; i < N; i++) {
        sizes[i] = i % 97 == 0 ? 70000 + i : (i * 37) % 500;
        blocks[i] = mf_arena_alloc(arena, sizes[i]);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_uint_eq(blocks[i][j], 0);
        memset(blocks[i], (int)(i % 251), sizes[i]);
        sum += sizes[i];
    }
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_uint_eq(blocks[i][j], i % 251);
    ck_assert_uint_ge(mf_arena_used(arena), sum);
    ck_assert_uint_le(mf_arena_used(arena), sum + 16 * N);
    ck_assert_uint_lt(mf_alloc_count() - before, 60); /* chunks are counted, not blocks */
    ck_assert_ptr_null(mf_arena_alloc(arena, SIZE_MAX - 3));
    ck_assert_int_eq(mf_error_code(), MF_ENOMEM);
    mf_arena_free(arena);
    mf_arena_free(NULL);
}
END_TEST

static int arena_work(void)
{
    mf_arena *arena = mf_arena_new();
    int rc = MF_ENOMEM;
    if (!arena) return rc;
    for (int i = 0; i < 300; i++) {
        const char *text = mf_arena_strf(arena, "number %d", i);
        if (!text || !mf_arena_strdup(arena, text) || !mf_arena_alloc(arena, 300)) goto done;
    }
    if (mf_arena_alloc(arena, 100000)) rc = MF_OK;
done:
    mf_arena_free(arena);
    return rc;
}

START_TEST(nth_allocation_fails)
{
    for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
        for (long n = 1;; n++) {
            mf_error_clear();
            fault_alloc(n, (fault_form)form);
            int rc = arena_work();
            bool hit = fault_hit();
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
            ck_assert_int_eq(mf_error_code(), rc);
            if (!hit) {
                ck_assert_int_gt(n, 5); /* several calls have failed */
                break;
            }
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("mem");
    TCase *c = tcase_create("mem");
    tcase_add_test(c, aligned_and_zeroed);
    tcase_add_test(c, whole_pages_are_released);
    tcase_add_test(c, threads_have_memory_of_their_own);
    tcase_add_test(c, large_blocks_begin_with_a_large_page);
    tcase_add_test(c, large_blocks_take_no_memory_at_first);
    tcase_add_test(c, too_much_is_refused);
    tcase_add_test(c, realloc_keeps);
    tcase_add_test(c, strings);
    tcase_add_test(c, calls_are_counted);
    tcase_add_test(c, arena_blocks);
    tcase_add_test(c, nth_allocation_fails);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
