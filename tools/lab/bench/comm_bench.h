/* lab/bench/comm_bench.h: the speed of the exchanges between the ranks of a run.
 *
 *  latency    a message of 8 bytes to a peer and back: half of the time
 *  bandwidth  a large message to a peer and back: its bytes by half of the time
 *  all_to_all each rank sends as many bytes to each other one: the time until all have them
 *
 * Each is measured inside of a node, among the ranks on the machine of rank 0, and between
 * nodes: a peer on another machine, and all ranks together. */
#ifndef MF_LAB_COMM_BENCH_H
#define MF_LAB_COMM_BENCH_H

#include "comm/world.h"

typedef struct mf_comm_bench {
    const char *what;    /* "latency", "bandwidth", "all_to_all" */
    const char *between; /* "node": on one machine; "nodes": on several */
    int ranks;           /* that take part */
    int64_t bytes;       /* of a message */
    double us;           /* median time, in microseconds */
    double gb_per_s;     /* bytes that a rank sends, by that time */
} mf_comm_bench;

/* Measures with `repetitions` timings each (at least 1). All ranks must call this; `show` is
 * called on rank 0 alone, after each measurement. MF_EUSAGE: there is one rank; MF_ENOMEM;
 * those of mf_world_exchange. */
int mf_comm_bench_run(mf_world *w, int repetitions,
                      void (*show)(void *arg, const mf_comm_bench *r), void *arg);

#endif
