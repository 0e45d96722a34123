/* train/trainer.h: the training loop.
 *
 * Everything in step s follows from configuration, seed and the state before s. So a run that
 * was killed continues from its last checkpoint with the same bits. The loop has no names of
 * plugins in its code, and no code for a corpus or for files. Everything else that takes part
 * in training is an observer (train/observer.h); the surrounding program part is the owner of
 * the loop. The loop prints nothing and handles no signals. run/training.h makes a run with
 * data, files and the usual observers.
 *
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_run, mf_trainer_free
 * or step by step:
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_step..., mf_trainer_finish
 *
 * Only one thread at a time may use a trainer. After a function has failed, only
 * mf_trainer_free may be called, unless the comment of the function says otherwise. */
#ifndef MF_TRAIN_TRAINER_H
#define MF_TRAIN_TRAINER_H

#include "comm/world.h"
#include "train/job.h"
#include "train/observer.h"
#include "train/optim/optim.h"

/* The owner of the loop, for example the code that manages the folder of the run. Any function
 * may be NULL. */
typedef struct mf_trainer_owner {
    void *self;
    /* Called once, before `begin` of the observers. */
    int (*recall)(void *self);
    /* Called after observers wrote files, with their status. Returns the status with which
     * training continues. */
    int (*judge)(void *self, int rc);
    /* Called if training ends before its last step. */
    int (*save)(void *self);
    /* Called after each step: returns 0, or the number of the signal that ends training. */
    int (*should_stop)(void *self);
    /* Called after each step at which no checkpoint is due. Returns whether to save a
     * checkpoint now. */
    bool (*should_save)(void *self);
    void (*free)(void *self); /* called after the observers are freed */
} mf_trainer_owner;

/* Builds graphs and optimizer. A model can have only one trainer, because it keeps the
 * addresses of the trainer's live options. world: the ranks of the run, which must all call the
 * same functions; NULL: one process. The owner is freed with the trainer, but not if this call
 * fails. Errors: those of the model. */
int mf_trainer_new(const mf_train_job *job, mf_world *world, const mf_trainer_owner *owner,
                   mf_trainer **ret);
void mf_trainer_free(mf_trainer *t); /* also frees the observers; t may be NULL */

/* Adds an observer after the present ones. MF_EUSAGE after mf_trainer_begin or the first step.
 * ops must outlive the trainer. self is passed to the hooks; ops->free frees it, even if this
 * call fails. */
int mf_trainer_observe(mf_trainer *t, const mf_observer *ops, void *self);

typedef struct mf_observed {
    const mf_observer *ops;
    void *self;
} mf_observed;
/* Returns the observers [*ret_n], in their order. */
const mf_observed *mf_trainer_observers(const mf_trainer *t, int *ret_n);
/* Calls a hook of all observers, in order, until one fails. The arguments of the hook are
 * `self` and then the remaining arguments of the macro. rc is an int variable of the caller. */
#define MF_TELL(t, rc, hook, ...)                                                              \
    do {                                                                                       \
        int n_ = 0;                                                                            \
        const mf_observed *o_ = mf_trainer_observers(t, &n_);                                  \
        for (int i_ = 0; (rc) == MF_OK && i_ < n_; i_++)                                       \
            if (o_[i_].ops->hook) (rc) = o_[i_].ops->hook(o_[i_].self, __VA_ARGS__);           \
    } while (0)

/* Calls the owner's `recall`, and `begin` of all observers, which opens the files of the run.
 * mf_trainer_step and mf_trainer_finish call this if the caller has not; a second call has
 * no effect. */
int mf_trainer_begin(mf_trainer *t);
/* Takes one optimizer step and calls the observers. own: train.accumulate batches of the
 * caller, each with train.batch examples and model.seq positions (or the length of a shorter
 * bucket); they are read only during the call. NULL: the next batches of the job's source. ret
 * may be NULL. Errors:
 * - MF_ELIMIT, MF_ESIGNAL: the step was taken, training ends here, and the owner has saved it
 * - MF_ENONFINITE: the loss diverged
 * - MF_EUSAGE: all steps are done, or there are no data; nothing was changed
 * - MF_EINVAL: own batches have another shape; nothing was changed */
int mf_trainer_step(mf_trainer *t, const mf_batch *const *own, const mf_step_result **ret);
/* Whether all steps are done, or an observer has ended training (train.patience). The steps of
 * a job without a planned number of steps (0) are never all done. */
bool mf_trainer_done(const mf_trainer *t);
/* Call this after the last step. Observers then write their last files (`end`). */
int mf_trainer_finish(mf_trainer *t);
/* Calls begin, takes steps until all are done, and calls finish. */
int mf_trainer_run(mf_trainer *t);

/* For observers: ends training after this step with this code and the message "WHY at step N".
 * The owner then saves. It has no effect after the last step. */
void mf_trainer_stop(mf_trainer *t, int code, const char *why);
/* For observers: makes this step the last one; training then ends as if all steps were done. */
void mf_trainer_end_here(mf_trainer *t);

/* ---- for the owner ---- */
/* The position of training. */
typedef struct mf_trainer_place {
    int64_t step, tokens; /* numbers of steps and tokens so far */
    int64_t skipped;      /* number of consecutive steps that were not taken */
    double wall_s;        /* seconds, including the parts before a resume */
} mf_trainer_place;
mf_trainer_place mf_trainer_where(const mf_trainer *t);
void mf_trainer_go(mf_trainer *t, const mf_trainer_place *to);
/* Rebuilds graphs and updates the optimizer's ranges, after parameters were frozen or the
 * structure changed. */
int mf_trainer_rebuild(mf_trainer *t);
/* Returns the result of the owner's `judge`; rc if the owner has no such function. */
int mf_trainer_judge(const mf_trainer *t, int rc);
/* Records the code with which training ends, for mf_trainer_status, and returns rc. Refused
 * calls (MF_EUSAGE, MF_EINVAL) end nothing. */
int mf_trainer_note(mf_trainer *t, int rc);
/* Restores working folder, umask, signal mask and locale of the process if a plugin has changed
 * them, with a warning. This is done only in the program itself: another program that uses the
 * library may change them between two steps. */
void mf_trainer_restore(mf_trainer *t);
/* Returns MF_EPLUGIN, on which all ranks agree, in two cases: a buffer or parameter is not the
 * same on all ranks, or the last micro-batch has other results on one rank or when it
 * runs again. */
int mf_trainer_judge_equal(mf_trainer *t);
/* Saving of moments that other ranks keep (mf_store_shards). Rank 0 reads elements at ..
 * at+count-1 with mf_trainer_read_moments. which: as for mf_store_read_moments, or
 * MF_TRAINER_VALUES for values of parameters of which each rank holds a part. Meanwhile the
 * other ranks answer in mf_trainer_serve_moments, until rank 0 calls mf_trainer_end_moments. */
enum { MF_TRAINER_VALUES = 2 };
bool mf_trainer_shares_moments(const mf_trainer *t);
int mf_trainer_read_moments(void *trainer, int which, int64_t at, int64_t count, float *to);
int mf_trainer_serve_moments(mf_trainer *t);
int mf_trainer_end_moments(mf_trainer *t);

/* ---- access ---- */
void *mf_trainer_owner_of(const mf_trainer *t); /* the field `self` of the owner */
const mf_train_job *mf_trainer_job(const mf_trainer *t);
mf_world *mf_trainer_world(const mf_trainer *t);
/* These functions return the requests to the process, or with several ranks to any rank: the
 * number of a signal to stop, or 0; a request to save; a request to end by train.time_limit. */
int mf_trainer_asked_stop(mf_trainer *t);
bool mf_trainer_asked_save(mf_trainer *t);
bool mf_trainer_late(mf_trainer *t);
/* Returns MF_OK, or the code with which a step, an evaluation, a save or the finish has ended
 * training, including MF_ESIGNAL and MF_ELIMIT. */
int mf_trainer_status(const mf_trainer *t);
int64_t mf_trainer_steps(const mf_trainer *t);  /* number of optimizer steps so far */
int64_t mf_trainer_tokens(const mf_trainer *t); /* number of tokens trained so far */
double mf_trainer_loss(const mf_trainer *t);    /* loss of the last step */
double mf_trainer_wall(const mf_trainer *t);    /* seconds, including the parts before
                                                 * a resume */
double mf_trainer_elapsed(const mf_trainer *t); /* seconds since mf_trainer_begin */
/* the part of mf_trainer_elapsed that passed between steps (evaluation, checkpoints) */
double mf_trainer_apart(const mf_trainer *t);
/* Returns the tokens per second of the steps since mf_trainer_begin, without the time
 * between steps. */
double mf_trainer_speed(const mf_trainer *t);
/* Returns the graph of full length. Other graphs may reuse its arena between
 * steps (graph.h). */
const mf_model_graph *mf_trainer_graph(const mf_trainer *t);
mf_optim *mf_trainer_optim(const mf_trainer *t);

/* Names of the live options that a trainer registers, NULL-terminated, in the order
 * of registration. */
extern const char *const mf_trainer_live[];

#endif
