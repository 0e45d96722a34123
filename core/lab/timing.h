/* lab/timing.h: how a measure is repeated: freely, or in turns with another program.
 *
 * Runs first warm up, so that pages are there and threads awake; the median of the timed ones
 * counts. A comparison of two programs on one machine is worth most when they run in turn, each
 * with its memory warm: then whoever drives both says when (turns_in), and divides pair by
 * pair.
 */
#ifndef MF_LAB_TIMING_H
#define MF_LAB_TIMING_H

#include <stdint.h>
#include <stdio.h>

typedef struct mf_timing_how {
    int repetitions;
    FILE *profile; /* where the time of the timed runs went, by op; NULL: not asked */
    /* Not NULL: each line read is a number of runs, answered by {"ms": [...]} on turns_out; the
     * end of input ends the measure. repetitions then says nothing. */
    FILE *turns_in, *turns_out;
} mf_timing_how;

typedef struct mf_timing {
    double ms, ms_min, ms_max;  /* median and ends */
    double ms_p10, ms_p90;      /* one in ten is below, and above */
    double allocations, faults; /* per run: calls of mf_alloc; pages that were not there */
} mf_timing;

/* One run. ret_ms stays untouched unless the run times a part of itself. */
typedef int mf_timed_fn(void *arg, double *ret_ms);

/* MF_EINPUT for a line that is no number from 1 to 100000, and for an end before the first. */
int mf_timing_run(const mf_timing_how *how, int warm_up, mf_timed_fn *fn, void *arg,
                  mf_timing *ret);

#endif
