/* lab/compare_parts.h: what the files of a comparison share. */
#ifndef MF_LAB_COMPARE_PARTS_H
#define MF_LAB_COMPARE_PARTS_H

#include <sys/types.h>

#include "lab/compare.h"

#define MF_PILOT_STEPS 40 /* optimizer steps whose speed counts for equal time */

/* ---- compare.c ---- */
/* The configuration of a router's runs as text, seed and threads left open (mf_free); steps 0:
 * as configured. */
int mf_compare_config_text(const mf_compare *c, const mf_compare_router *r, char **ret);
/* Writes OUT/ROUTER/config.ini, or judges that the one there is the same: MF_EUSAGE. */
int mf_compare_keep_config(mf_compare *c, mf_compare_router *r);

/* ---- compare_plan.c ---- */
int mf_compare_plan_write(const mf_compare *c);

/* ---- compare_result.c ---- */
/* What a run has to show. *ret_done: it is at its end, the last validation included. A run that
 * is not there or has just begun is not done; MF_EINPUT for one that cannot be read. */
int mf_compare_result(const mf_compare_run *run, bool *ret_done, mf_run_result *ret);
/* Steps that are done, from the last line of its metrics; 0 if none. */
int64_t mf_compare_steps_done(const mf_compare_run *run);

/* ---- compare_child.c ---- */
/* The claim on a run: a lock that lasts until this process and the child that inherited it have
 * ended. *ret_fd: -1 when another process has it. */
int mf_compare_claim(const mf_compare_run *run, int *ret_fd);
void mf_compare_unclaim(int fd);
/* Starts or goes on with the run. Under its claim: a directory without a checkpoint is
 * removed. */
int mf_compare_start(const mf_compare *c, const mf_compare_router *r, const mf_compare_run *run,
                     int claim, pid_t *ret_pid, bool *ret_again);
/* What the run said last, made a reason (mf_free); status: as waitpid gives it. */
char *mf_compare_last_words(const mf_compare_run *run, int status);

#endif
