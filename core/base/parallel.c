/* base/parallel.c: runs tiles on threads; the only file with OpenMP regions. The number of
 * threads never decides how work is divided, so results have the same bits at any number
 * of threads. */
#include "base/parallel.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* The OpenMP runtime is not built with the thread sanitizer, which therefore does not see its
 * barriers. These calls tell it that a region comes after what its caller did before, and
 * before what the caller does next. */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#define ACQUIRE(at) __tsan_acquire(at)
#define RELEASE(at) __tsan_release(at)
#define UNSEEN      __attribute__((no_sanitize("thread")))
#else
#define ACQUIRE(at) (void)(at)
#define RELEASE(at) (void)(at)
#define UNSEEN
#endif

static _Thread_local int threads_now; /* 0: not requested yet */

#ifdef _OPENMP
/* The default number of threads: OMP_NUM_THREADS, else the number of cores of the affinity
 * mask. It is read before main begins, because the OpenMP default is set to 1 later: this keeps
 * OpenBLAS to one thread (kernels/cpu/blas.c), while tiles run on several threads here. For the
 * same reason no code here may raise the default. */
static int threads_at_start;
__attribute__((constructor)) static void ask_threads(void)
{
    threads_at_start = omp_get_max_threads();
}

static int default_threads(void)
{
    return threads_at_start > 0 ? threads_at_start : 1;
}
#endif

int mf_parallel_threads(void)
{
#ifdef _OPENMP
    if (threads_now == 0) threads_now = default_threads();
    return threads_now;
#else
    return 1;
#endif
}

int mf_parallel_usual_threads(void)
{
#ifdef _OPENMP
    return default_threads();
#else
    return 1;
#endif
}

int mf_parallel_set_threads(int threads)
{
#ifdef _OPENMP
    threads_now = threads > 0 ? threads : default_threads();
    if (threads_now > MF_THREADS_MAX) threads_now = MF_THREADS_MAX;
    return threads_now;
#else
    (void)threads;
    return threads_now = 1;
#endif
}

#ifdef _OPENMP
/* Tiles begin .. end - 1 that nobody has begun, as begin << 32 | end. */
typedef struct share {
    alignas(64) _Atomic uint64_t left;
} share;

enum { SHARES_MAX = 256 }; /* they lie on the stack of the caller */

/* Takes the first tile of a share, or its last one; false: it has none. */
UNSEEN
static bool take(share *s, bool first, int64_t *ret_tile)
{
    uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed), rest;
    do {
        const uint64_t begin = left >> 32, end = left & UINT32_MAX;
        if (begin >= end) return false;
        *ret_tile = (int64_t)(first ? begin : end - 1);
        rest = first ? (begin + 1) << 32 | end : begin << 32 | (end - 1);
    } while (!atomic_compare_exchange_weak_explicit(
        &s->left, &left, rest, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Each thread has a share of the tiles, always the same one, so that it finds in its caches
 * what it wrote in the call before. When its share is done, it takes tiles from the end of the
 * others': a thread that the system has stopped for a while delays the others by one tile. */
UNSEEN
static void run_shares(int64_t tiles, int threads, mf_tile_fn fn, void *arg)
{
    char order = 0;
    share shares[SHARES_MAX];
    const int n = threads < SHARES_MAX ? threads : SHARES_MAX;
    for (int i = 0; i < n; i++)
        atomic_init(&shares[i].left,
                    (uint64_t)(tiles * i / n) << 32 | (uint64_t)(tiles * (i + 1) / n));
    RELEASE(&order);
    /* Always uses all threads, even for few tiles: libgomp ends and starts threads whenever
     * their number changes, which costs far more than idle threads. */
#pragma omp parallel num_threads(threads)
    {
        const int own = omp_get_thread_num() % n;
        for (int i = 0; i < n; i++) {
            int64_t tile;
            while (take(&shares[(own + i) % n], i == 0, &tile)) {
                ACQUIRE(&order);
                fn(arg, tile);
                RELEASE(&order);
            }
        }
    }
    ACQUIRE(&order);
}
#endif

UNSEEN
void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg)
{
#ifdef _OPENMP
    int threads = mf_parallel_threads();
    if (tiles > 1 && tiles <= UINT32_MAX && threads > 1 && !omp_in_parallel()) {
        run_shares(tiles, threads, fn, arg);
        return;
    }
#endif
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}
