/* base/thread/parallel.h: runs fixed tiles on threads.
 *
 * The shape alone decides how work is divided into tiles, never the number of threads, and one
 * thread computes a tile from beginning to end. So results have the same bits at any number of
 * threads, if tiles write to separate memory and the caller sums their results in tile order.
 *
 * Only gemms have fewer tiles for fewer threads, because each tile packs its operands; their
 * tiling does not change results. Each thread begins with its own share of the tiles, and takes
 * tiles of other shares when its own share is empty. The reason: the system stops threads for
 * milliseconds, and with fixed shares all other threads would wait. Each thread that calls
 * mf_parallel has a team of workers, which wait awake for some microseconds and then sleep. */
#ifndef MF_BASE_PARALLEL_H
#define MF_BASE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

typedef void (*mf_tile_fn)(void *arg, int64_t tile);

/* Runs fn(arg, t) for t in 0..tiles-1, in any order, and waits until all are finished. Two
 * kinds of calls run all tiles in the calling thread: a call from inside a tile, unless the
 * outer call has only one tile, and a call with more than UINT32_MAX tiles. */
void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg);

enum { MF_THREADS_MAX = 1024 };

/* Sets the number of threads; 0 or less: OMP_NUM_THREADS if set, else the number of usable
 * cores. Returns the number in use (at most MF_THREADS_MAX). The number applies to calls that
 * this thread makes. Several threads may call mf_parallel at the same time, each with its
 * own workers. */
int mf_parallel_set_threads(int threads);
int mf_parallel_threads(void);
int mf_parallel_usual_threads(void); /* the number of threads that
                                      * mf_parallel_set_threads(0) sets */

/* Sets the function that each worker calls when it begins. If the function returns false, the
 * worker computes no tiles. Call this before the first mf_parallel. */
void mf_parallel_on_begin(bool (*begin)(void));

#endif
