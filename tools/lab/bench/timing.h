/* lab/bench/timing.h: how a measurement is repeated: alone, or alternately with another one.
 *
 * Warm-up runs map the pages and wake the threads; the result is the median of the timed runs.
 * Two programs on one machine are compared best if they run alternately, each with its memory
 * warm. For this, a third program says when each runs (turns_in), and divides the times pair
 * by pair. */
#ifndef MF_LAB_TIMING_H
#define MF_LAB_TIMING_H

#include <stdint.h>
#include <stdio.h>

typedef struct mf_timing_how {
    int repetitions;
    FILE *profile; /* gets the time of the timed runs by op; or NULL */
    /* If not NULL, each line of turns_in is a number of runs, and the reply on turns_out is
     * {"ms": [...]}. The end of the input ends the measurement. repetitions is ignored. */
    FILE *turns_in, *turns_out;
} mf_timing_how;

typedef struct mf_timing {
    double ms, ms_min, ms_max;  /* median, lowest, highest */
    double ms_p10, ms_p90;      /* quantiles .1 and .9 */
    double allocations, faults; /* per run: calls of mf_alloc; page faults */
} mf_timing;

/* Makes one run. It sets *ret_ms only if it times a part of itself. */
typedef int mf_timed_fn(void *arg, double *ret_ms);

/* Runs fn warm_up times untimed, then as `how` says. Fails as fn does; with MF_EINPUT if a line
 * is not a number from 1 to 100000 or the input ends before the first line; with MF_ERUN if the
 * reply cannot be written. */
int mf_timing_run(const mf_timing_how *how, int warm_up, mf_timed_fn *fn, void *arg,
                  mf_timing *ret);

#endif
