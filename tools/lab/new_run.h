/* lab/new_run.h: a run that a tool writes from a model in memory, as at step 0. */
#ifndef MF_LAB_NEW_RUN_H
#define MF_LAB_NEW_RUN_H

#include "run/folder/rundir.h"
#include "run/session.h"

/* Zero at the start. */
typedef struct mf_new_run {
    mf_rundir *dir; /* the caller closes it at the end */
    bool made;      /* the directory did not exist before */
} mf_new_run;

/* Makes and locks the directory `run`, which must be new or empty; NULL: runs/NAME-N. A tool
 * calls this before it computes, so that a name that is not free is reported at once. name
 * NULL: MF_ENOMEM. Else the errors of mf_rundir_create_at. */
int mf_new_run_open(const char *run, const char *name, mf_new_run *ret);
/* Writes configuration, tokenizer and weights of the session. Training with the configuration,
 * whose train.from becomes the new run, begins with these weights. */
int mf_new_run_write(mf_new_run *r, mf_session *s);
/* After a failure: removes all files that were written, and the directory if it was made. The
 * recorded error stays. */
void mf_new_run_undo(const mf_new_run *r);

#endif
