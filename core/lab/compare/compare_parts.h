/* lab/compare/compare_parts.h: functions that the files of lab/compare share. */
#ifndef MF_LAB_COMPARE_PARTS_H
#define MF_LAB_COMPARE_PARTS_H

#include <sys/types.h>

#include "lab/compare/compare.h"

#define MF_PILOT_STEPS 40 /* steps whose speed is measured for equal time */

/* ---- compare.c ---- */
/* Writes OUT/ROUTER/config.ini. If the file exists with another text, fails with MF_EUSAGE. */
int mf_compare_keep_config(mf_compare *c, mf_compare_router *r);

/* ---- compare_plan.c ---- */
int mf_compare_plan_write(const mf_compare *c);

/* ---- compare_result.c ---- */
/* Reads the results of a run. *ret_done: it has ended, with its last validation; a missing or
 * new run has not. MF_EINPUT if the run cannot be read. */
int mf_compare_result(const mf_compare_run *run, bool *ret_done, mf_run_result *ret);
/* Steps done, from the last line of its metrics; 0 if there is none. */
int64_t mf_compare_steps_done(const mf_compare_run *run);

/* ---- compare_child.c ---- */
/* Claims a run with a lock that is held until this process and the child that inherited it have
 * ended. *ret_fd is -1 if another process holds it. */
int mf_compare_claim(const mf_compare_run *run, int *ret_fd);
void mf_compare_unclaim(int fd);
/* Starts or resumes the run; needs its claim. A directory without a checkpoint is removed. */
int mf_compare_start(const mf_compare *c, const mf_compare_router *r, const mf_compare_run *run,
                     int claim, pid_t *ret_pid, bool *ret_again);
/* The last message of the run as a reason; the caller frees it with mf_free. status:
 * from waitpid. */
char *mf_compare_last_words(const mf_compare_run *run, int status);

#endif
