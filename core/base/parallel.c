/* base/parallel.c: runs tiles on threads; the only file with OpenMP regions. The number of
 * threads never decides how work is divided, so results have the same bits at any number
 * of threads. */
#include "base/parallel.h"

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

UNSEEN
void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg)
{
#ifdef _OPENMP
    int threads = mf_parallel_threads();
    if (tiles > 1 && threads > 1 && !omp_in_parallel()) {
        /* Always uses all threads, even for few tiles: libgomp ends and starts threads whenever
         * their number changes, which costs far more than idle threads. */
        char order = 0;
        RELEASE(&order);
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t tile = 0; tile < tiles; tile++) {
            ACQUIRE(&order);
            fn(arg, tile);
            RELEASE(&order);
        }
        ACQUIRE(&order);
        return;
    }
#endif
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}
