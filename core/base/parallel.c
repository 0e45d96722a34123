/* base/parallel.c: the one place that uses OpenMP.
 *
 * No parallel region starts before the first mf_parallel: a process that forks afterwards has a
 * child whose own first region never returns (libgomp), so start-up must stay free of them.
 */
#include "base/parallel.h"
#include "base/error.h"
#include "base/place.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
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

/* Of a pause each: some tens of microseconds, about what waking up costs. */
#define SPINS "3000"

/* Of a product up to 3 MB of copied operands and sums lie on the stack. */
#define STACK ((size_t)4 << 20)

#ifdef _OPENMP
/* OMP_STACKSIZE: a number and B, K, M or G; K without. SIZE_MAX for what is not one. */
static size_t stack_size(const char *text)
{
    char *end;
    const double number = strtod(text, &end), kib = 1024;
    while (isspace((unsigned char)*end))
        end++;
    const int unit = toupper((unsigned char)*end);
    const double bytes = unit == 'B'                ? number
                         : unit == 'M'              ? number * kib * kib
                         : unit == 'G'              ? number * kib * kib * kib
                         : unit == 'K' || unit == 0 ? number * kib
                                                    : -1;
    return end == text || bytes < 0 || bytes > 1e18 ? SIZE_MAX : (size_t)bytes;
}

/* Sets what a new start of the program needs; *ret_restart: it needs one. */
static int enlarge_stacks(bool *ret_restart)
{
    static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"};
    struct rlimit limit;
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        if (text && stack_size(text) < STACK && setenv(names[i], "4M", 1) == 0)
            *ret_restart = true;
    }
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= STACK)
        return MF_OK;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < STACK)
        return mf_fail(MF_EDEP,
                       "the stack is limited to %llu KiB, expected at least %zu (ulimit -Hs)",
                       (unsigned long long)limit.rlim_max / 1024, STACK / 1024);
    limit.rlim_cur = STACK;
    if (setrlimit(RLIMIT_STACK, &limit) == 0) *ret_restart = true;
    return MF_OK;
}
#endif

int mf_parallel_prepare(char **argv)
{
#ifdef _OPENMP
    bool restart = false;
    int rc = enlarge_stacks(&restart);
    if (rc != MF_OK) return rc;
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL &&
        setenv("GOMP_SPINCOUNT", SPINS, 0) == 0)
        restart = true;
    if (restart) execv(mf_place_program(), argv);
#else
    (void)argv;
#endif
    return MF_OK;
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
