/* base/parallel.c: the one place that uses OpenMP.
 *
 * No parallel region starts before the first mf_parallel: a process that forks afterwards has a
 * child whose own first region never returns (libgomp), so start-up must stay free of them.
 */
#include "base/parallel.h"
#include "base/place.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int threads_now; /* 0: not asked yet */

#ifdef _OPENMP
/* OMP_NUM_THREADS, else the cores of our affinity mask. Asked before main begins, because the
 * OpenMP default is lowered later: OpenBLAS is kept to one thread by that (kernels/cpu/blas.c),
 * since tiles are spread over threads here. For the same reason nothing here may raise it. */
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

#define SPINS "3000" /* of a pause each: some tens of microseconds, about what waking up costs */

void mf_parallel_prepare(char **argv)
{
#ifdef _OPENMP
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", SPINS, 0) != 0) return;
    execv(mf_place_program(), argv);
#else
    (void)argv;
#endif
}

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

void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg)
{
#ifdef _OPENMP
    int threads = mf_parallel_threads();
    if (tiles > 1 && threads > 1 && !omp_in_parallel()) {
        /* Always the full team, even for few tiles: libgomp ends and remakes threads whenever
         * the team's size changes, which costs far more than idle members. */
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t tile = 0; tile < tiles; tile++)
            fn(arg, tile);
        return;
    }
#endif
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}
