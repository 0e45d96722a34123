/* run/training_internal.h: the owner of a trainer, for training.c and training_state.c. */
#ifndef MF_RUN_TRAINING_INTERNAL_H
#define MF_RUN_TRAINING_INTERNAL_H

#include "run/observers/observers.h"
#include "run/session.h"
#include "run/training.h"

typedef struct mf_training {
    mf_trainer *loop;
    mf_session *session;
    mf_training_options options;
    mf_evaluation *evaluation; /* one of the observers */
    mf_state *resumed;         /* state from the checkpoint, between new and begin */
    int64_t saved;             /* step of the newest checkpoint since begin, or -1 */
    mf_train_result result;
} mf_training;

/* Reads parameters, moments, position, live options and frozen flags from the newest checkpoint
 * that verifies, and rebuilds graphs if this is necessary. The state of observers remains
 * in g->resumed. */
int mf_training_resume(mf_training *g);

/* Functions of mf_trainer_owner; self is the mf_training. */
/* Passes g->resumed and the earlier metrics to the observers, and frees g->resumed. */
int mf_training_recall(void *self);
/* Checks after files of the run were written, with the result rc, that its folder is still the
 * one that is locked. MF_ERUN if not, also in place of the error of a file, and if a file of
 * the run was not read back; else rc. */
int mf_training_judge(void *self, int rc);

#endif
