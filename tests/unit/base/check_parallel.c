/* parallel: every tile runs once; nesting; thread numbers; the same bits with any number of
 * threads; and no thread is created before the first parallel call. */
#include "check_main.h"

#include "base/thread/parallel.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TILES = 1000 };

static void count_tile(void *arg, int64_t tile)
{
    atomic_int *count = arg;
    count[tile]++;
}

static int threads_of_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;
    if (!dir) return -1;
    for (struct dirent *e; (e = readdir(dir));)
        n += *e->d_name != '.';
    closedir(dir);
    return n;
}

/* This must be the first test, because the process must still have only one thread. */
START_TEST(nothing_starts_unasked)
{
    int at_start = threads_of_process();
    int n = mf_parallel_set_threads(4);
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(mf_parallel_threads(), 4);
    ck_assert_int_eq(threads_of_process(), at_start);
    /* Without other threads a forked child can compute in parallel. */
    pid_t child = fork();
    if (child == 0) {
        static atomic_int count[TILES];
        alarm(20);
        mf_parallel(TILES, count_tile, count);
        _exit(count[0] == 1 && count[TILES - 1] == 1 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(every_tile_once)
{
    for (int threads = 1; threads <= 5; threads += 2) {
        static const int64_t sizes[] = {0, 1, 2, 3, 7, TILES};
        ck_assert_int_eq(mf_parallel_set_threads(threads), threads);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            static atomic_int count[TILES];
            memset(count, 0, sizeof count);
            mf_parallel(sizes[s], count_tile, count);
            for (int64_t i = 0; i < TILES; i++)
                ck_assert_int_eq(count[i], i < sizes[s]);
        }
    }
}
END_TEST

/* There are more threads than shares of tiles. */
START_TEST(many_threads)
{
    static atomic_int count[TILES];
    mf_parallel_set_threads(300);
    mf_parallel(TILES, count_tile, count);
    for (int64_t i = 0; i < TILES; i++)
        ck_assert_int_eq(count[i], 1);
}
END_TEST

typedef struct nested {
    pthread_t self[8][8];
    pthread_t outer[8];
    int64_t row;
} nested;

typedef struct nested_row {
    nested *all;
    int64_t row;
} nested_row;

static void inner_tile(void *arg, int64_t tile)
{
    nested_row *r = arg;
    r->all->self[r->row][tile] = pthread_self();
}

/* Number of tiles that have begun. */
static atomic_int begun;

static void wait_until_begun(int n)
{
    for (int i = 0; i < 20000 && begun < n; i++)
        usleep(1000);
}

static void outer_tile(void *arg, int64_t tile)
{
    nested *all = arg;
    begun++;
    wait_until_begun(2); /* waits so that one thread does not run all tiles */
    nested_row r = {all, tile};
    all->outer[tile] = pthread_self();
    mf_parallel(8, inner_tile, &r);
}

START_TEST(nested_calls_stay_in_their_thread)
{
    static nested all;
    bool several = false;
    begun = 0;
    mf_parallel_set_threads(4);
    mf_parallel(8, outer_tile, &all);
    for (int i = 0; i < 8; i++) {
        several = several || !pthread_equal(all.outer[i], all.outer[0]);
        for (int j = 0; j < 8; j++)
            ck_assert(pthread_equal(all.self[i][j], all.outer[i]));
    }
    ck_assert(several);
}
END_TEST

static void first_is_last(void *arg, int64_t tile)
{
    int *ret_before_it = arg;
    if (tile == 0) {
        wait_until_begun(TILES - 1);
        *ret_before_it = begun;
    }
    begun++;
}

/* Other threads run the tiles of a thread that is blocked. */
START_TEST(a_stopped_thread_delays_one_tile)
{
    int before_it = -1;
    begun = 0;
    mf_parallel_set_threads(2);
    mf_parallel(TILES, first_is_last, &before_it);
    ck_assert_int_eq(before_it, TILES - 1);
    ck_assert_int_eq(begun, TILES);
}
END_TEST

typedef struct partial {
    float sum[64];
} partial;

static void sum_tile(void *arg, int64_t tile)
{
    partial *p = arg;
    for (int i = 0; i < 5000; i++)
        p->sum[tile] += 1.0f / (float)(1 + tile * 5000 + i);
}

/* The guarantee of the header: tiles summed in tile order have the same bits. */
START_TEST(same_bits_at_any_thread_count)
{
    float first = 0;
    for (int threads = 1; threads <= 8; threads++) {
        static partial p;
        float total = 0;
        memset(&p, 0, sizeof p);
        mf_parallel_set_threads(threads);
        mf_parallel(64, sum_tile, &p);
        for (int i = 0; i < 64; i++)
            total += p.sum[i];
        if (threads == 1) first = total;
        ck_assert(memcmp(&first, &total, sizeof total) == 0);
    }
    ck_assert(first > 13.2f && first < 13.3f); /* the harmonic number of 320,000 is 13.253 */
}
END_TEST

START_TEST(thread_numbers)
{
    int usual;
    ck_assert_int_eq(mf_parallel_set_threads(3), 3);
    ck_assert_int_eq(mf_parallel_threads(), 3);
    usual = mf_parallel_set_threads(0);
    ck_assert_int_ge(usual, 1);
    ck_assert_int_eq(mf_parallel_set_threads(-5), usual);
    ck_assert_int_eq(mf_parallel_set_threads(1 << 30), MF_THREADS_MAX);
    ck_assert_int_eq(mf_parallel_set_threads(0), usual); /* the default number, not the number
                                                          * that was set before */
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("parallel");
    TCase *c = tcase_create("parallel");
    tcase_add_test(c, nothing_starts_unasked);
    tcase_add_test(c, every_tile_once);
    tcase_add_test(c, many_threads);
    tcase_add_test(c, nested_calls_stay_in_their_thread);
    tcase_add_test(c, a_stopped_thread_delays_one_tile);
    tcase_add_test(c, same_bits_at_any_thread_count);
    tcase_add_test(c, thread_numbers);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
