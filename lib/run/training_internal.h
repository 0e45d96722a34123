/* run/training_internal.h: the owner of a trainer (mf_training), for training.c
 * and training_state.c. */
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
    mf_routes *routes;         /* train.routes = trace, else NULL */
    mf_state *resumed;         /* state from the checkpoint; set between mf_training_new
                                * and begin */
    int64_t saved;             /* step of the newest checkpoint since begin, or -1 */
    mf_train_result result;
} mf_training;

/* Reads parameters, moments, position, live options and frozen flags from the newest checkpoint
 * that verifies, and rebuilds graphs if necessary. The state of observers remains
 * in g->resumed. */
int mf_training_resume(mf_training *g);

/* Functions of mf_trainer_owner; self is the mf_training. */
/* Passes g->resumed and the earlier metrics to the observers, and frees g->resumed. */
int mf_training_recall(void *self);
/* Called after files of the run were written with the status rc. Checks that the folder of the
 * run is still the folder that is locked. Returns MF_ERUN if it is not, even if rc is an error
 * of a file. Also returns MF_ERUN if a file of the run could not be read again. Otherwise
 * returns rc. */
int mf_training_judge(void *self, int rc);

#endif
