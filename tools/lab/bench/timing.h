/* lab/bench/timing.h: repeats a measurement, either alone or alternately with another program.
 *
 * Warm-up runs map the pages and wake the threads. The result is the median of the timed runs.
 * Two programs on one machine are compared best if they run alternately, each with warm memory.
 * For this, a third program tells each of them when to run (turns_in), and computes the ratios
 * of the times pair by pair. */
#ifndef MF_LAB_TIMING_H
#define MF_LAB_TIMING_H

#include <stdint.h>
#include <stdio.h>

typedef struct mf_timing_how {
    int repetitions;
    FILE *profile; /* the times of the timed runs by op are written here; NULL: no profile */
    /* If not NULL, each line of turns_in is a number of runs. After these runs the reply {"ms":
     * [...]} is written to turns_out. The end of the input ends the measurement. repetitions
     * is ignored. */
    FILE *turns_in, *turns_out;
} mf_timing_how;

typedef struct mf_timing {
    double ms, ms_min, ms_max;  /* median, lowest, highest */
    double ms_p10, ms_p90;      /* quantiles .1 and .9 */
    double allocations, faults; /* numbers per run: calls of mf_alloc; page faults */
} mf_timing;

/* Makes one run. It sets *ret_ms only if it measures the time of a part of the run itself. */
typedef int mf_timed_fn(void *arg, double *ret_ms);

/* Runs fn warm_up times untimed, then as `how` says. Fails like fn. Fails with MF_EINPUT if a
 * line is not a number from 1 to 100000, or if the input ends before the first line, and with
 * MF_ERUN if the reply cannot be written. */
int mf_timing_run(const mf_timing_how *how, int warm_up, mf_timed_fn *fn, void *arg,
                  mf_timing *ret);

#endif
