/* train/trainer_internal.h: the trainer itself, for trainer.c and trainer_state.c alone.
 * Observers, like everybody else, use train/trainer.h. */
#ifndef MF_TRAIN_TRAINER_INTERNAL_H
#define MF_TRAIN_TRAINER_INTERNAL_H

#include "train/length_buckets.h"
#include "train/observers/observers.h"
#include "train/optim.h"
#include "train/trainer.h"

typedef struct mf_observed {
    const mf_observer *ops;
    void *self;
} mf_observed;

struct mf_trainer {
    mf_session *session;
    mf_trainer_options options;
    mf_length_buckets *buckets;
    mf_optim *optim;
    mf_observed *observers; /* [n_observers] */
    int n_observers, cap_observers;
    mf_evaluation *evaluation; /* one of them */
    mf_state *resumed;         /* between new and begin: what the checkpoint holds */
    bool begun;

    /* the position: what changes from step to step, beside parameters and moments */
    int64_t step;                  /* optimizer steps so far */
    int64_t tokens;                /* trained on so far */
    int64_t skipped;               /* optimizer steps that were skipped in a row */
    double wall_before;            /* seconds in earlier parts of the run */
    double lr, weight_decay, clip; /* live options */

    double started, apart; /* clock at begin; seconds between steps since then */
    int64_t saved;         /* step of the newest checkpoint of this part of the run, or -1 */
    int stop;              /* MF_OK, or the code with which training ends after this step */
    char why[128];
    mf_step_result now;      /* the step at hand */
    mf_model_graph **graphs; /* [accumulate] those that its micro-batches went through */
    float *loss_sum;         /* on the device: the sum of their losses */
    mf_train_result result;
};

/* Calls a hook of all observers, in order, until one fails; the rest of the arguments goes
 * behind `self`. rc is an int variable of the caller. */
#define MF_TELL(t, rc, hook, ...)                                                              \
    for (int i_ = 0; (rc) == MF_OK && i_ < (t)->n_observers; i_++)                             \
        if ((t)->observers[i_].ops->hook)                                                      \
    (rc) = (t)->observers[i_].ops->hook((t)->observers[i_].self, __VA_ARGS__)

/* Rebuilds graphs and refreshes the optimizer, after parameters were frozen or the
 * structure changed. */
int mf_trainer_rebuild(mf_trainer *t);
/* Reads the newest checkpoint that verifies: parameters, moments, position, live options. What
 * observers saved is left in t->resumed. */
int mf_trainer_resume(mf_trainer *t);
/* Hands t->resumed and the metrics so far to the observers. */
int mf_trainer_recall(mf_trainer *t);

#endif
