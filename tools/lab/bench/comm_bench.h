/* lab/bench/comm_bench.h: the speed of the exchanges between the ranks of a run.
 *
 *   latency    half of the time of a message of 8 bytes to a peer and back
 *   bandwidth  bytes of a large message, divided by half of the time to a peer and back
 *   all_to_all each rank sends equally many bytes to every other rank; the time until all
 *              ranks have received them
 *
 * Each is measured within a node, among the ranks on the machine of rank 0, and between nodes,
 * with a peer on another machine, or with all ranks together. */
#ifndef MF_LAB_COMM_BENCH_H
#define MF_LAB_COMM_BENCH_H

#include "comm/world.h"

typedef struct mf_comm_bench {
    const char *what;    /* "latency", "bandwidth", "all_to_all" */
    const char *between; /* "node": on one machine; "nodes": on several */
    int ranks;           /* number of ranks that take part */
    int64_t bytes;       /* size of a message */
    double us;           /* median time, in microseconds */
    double gb_per_s;     /* bytes that a rank sends, divided by that time */
} mf_comm_bench;

/* Measures with `repetitions` timings each (at least 1). All ranks must call this; `show` is
 * called on rank 0 only, after each measurement. Fails with MF_EUSAGE if there is only one
 * rank, with MF_ENOMEM, or like mf_world_exchange. */
int mf_comm_bench_run(mf_world *w, int repetitions,
                      void (*show)(void *arg, const mf_comm_bench *r), void *arg);

#endif
