/* base/parallel.h: fixed tiles over threads.
 *
 * Work is cut into tiles by its shape alone, never by the number of threads; a tile is computed
 * by one thread from start to end. So results have the same bits at any thread count, as long
 * as tiles write apart and what they sum is summed over tiles in tile order by the caller.
 */
#ifndef MF_BASE_PARALLEL_H
#define MF_BASE_PARALLEL_H

#include <stdint.h>

typedef void (*mf_tile_fn)(void *arg, int64_t tile);

/* Runs fn(arg, 0..tiles-1). Calls made by a tile of a call that is spread over threads run in
 * the calling thread. */
void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg);

enum { MF_THREADS_MAX = 1024 };

/* Before any computing: makes threads that wait for work sleep soon instead of spinning, which
 * on a busy machine costs whole time slices (30 times slower, measured with twice as many
 * runnable threads as cores). The OpenMP runtime reads this from the environment when it is
 * loaded, so the program starts itself again with it, once; goes on if the environment says
 * something already or the system refuses. Stacks of threads that are too small for a product
 * are made larger in the same way; MF_EDEP where the system's limit forbids that. argv: as main
 * got it. */
int mf_parallel_prepare(char **argv);

/* Threads used from now on; 0 = OMP_NUM_THREADS if set, else the number of usable cores.
 * Returns the number in force (at most MF_THREADS_MAX). To be called from the main thread. */
int mf_parallel_set_threads(int threads);
int mf_parallel_threads(void);

#endif
