/* lab/compare/compare_parts.h: functions that the files of lab/compare share. */
#ifndef MF_LAB_COMPARE_PARTS_H
#define MF_LAB_COMPARE_PARTS_H

#include <sys/types.h>

#include "lab/compare/compare.h"

#define MF_PILOT_STEPS 40 /* number of steps whose speed is measured for equal time */

/* ---- compare.c ---- */
/* Writes OUT/ROUTER/config.ini. If the file exists with another text, fails with MF_EUSAGE. */
int mf_compare_keep_config(mf_compare *c, mf_compare_router *r);

/* ---- compare_plan.c ---- */
int mf_compare_plan_write(const mf_compare *c);
/* Reads the looks from the plan in OUT, and `most` if the spec does not set it. Does nothing if
 * there is no plan. */
int mf_compare_plan_looks(mf_compare *c);
/* Write the members of a plan into an object, and read them. Reading fails with MF_EINPUT,
 * without a message, if a member is wrong. */
void mf_compare_plan_put(mf_jw *w, const mf_compare_spec *s, const char *baseline);
int mf_compare_plan_take(mf_arena *arena, const mf_json *doc, mf_compare_spec *s);

/* ---- compare_margin.c ---- */
/* MF_EUSAGE if the margin's unit is not one of what this task is compared by. */
int mf_compare_margin_fits(const mf_compare *c);
/* The margin in the unit of `by`, or NaN. nats_per_bit: of the table. */
double mf_compare_margin_in(const mf_compare *c, mf_quality by, double nats_per_bit);
/* Gives each row its p against the margin, its verdict and the number of seeds. p, holm: room
 * for a number of each row. */
void mf_compare_margin_judge(mf_compare_table *t, double *p, double *holm, bool accuracy);

/* ---- compare_result.c ---- */
/* Reads the results of a run. *ret_done: whether the run has ended and has its last validation
 * and checkpoint. For a missing or new run it is false, and *ret stays unchanged. Fails if the
 * run has a file that cannot be read. */
int mf_compare_result(const mf_compare_run *run, bool *ret_done, mf_run_result *ret);
/* Number of finished steps, from the last line of the run's metrics; 0 if there is no line. */
int64_t mf_compare_steps_done(const mf_compare_run *run);

/* ---- compare_child.c ---- */
/* Claims a run with a lock. The lock is held until mf_compare_unclaim or the end of this
 * process, and until the child that inherited it has ended. *ret_fd is -1 if another process
 * holds the lock. Fails with MF_EIO if the lock file cannot be opened or locked. */
int mf_compare_claim(const mf_compare_run *run, int *ret_fd);
void mf_compare_unclaim(int fd);
/* Returns the first words of a command that trains `what` in a child, in the arena, with
 * room for MF_COMPARE_WORDS more and a NULL. They include the plugin files that the user
 * has allowed: the run reads its own configuration, in a folder that others may have made.
 * NULL: no memory is left. */
#define MF_COMPARE_WORDS 12
const char **mf_compare_command(mf_arena *arena, const char *what, int threads, int *ret_n);
/* Starts a command with its output appended to the file log. claim: a descriptor that the child
 * keeps; -1: none. */
int mf_compare_spawn(const char *const *argv, const char *log, int claim, pid_t *ret_pid);
/* Starts the run, or resumes it (*ret_again) if it has a checkpoint. A directory without a
 * checkpoint is removed first. claim: from mf_compare_claim. */
int mf_compare_start(const mf_compare *c, const mf_compare_router *r, const mf_compare_run *run,
                     int claim, pid_t *ret_pid, bool *ret_again);
/* The last message of the run, as the reason of its failure; NULL: out of memory. The caller
 * frees it with mf_free. status: from waitpid. */
char *mf_compare_last_words(const mf_compare_run *run, int status);

#endif
