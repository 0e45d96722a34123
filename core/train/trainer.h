/* train/trainer.h: the training loop.
 *
 * Everything in step s follows from configuration, seed and the state before s. So a run that
 * was killed continues from its last checkpoint with the same bits. The loop knows no plugin by
 * name; all else that takes part in training is an observer (train/observer.h). It prints
 * nothing and handles no signals.
 *
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_run, mf_trainer_free
 * or step by step:
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_step..., mf_trainer_finish
 *
 * Only one thread at a time may use a trainer. After a function has failed, only
 * mf_trainer_free may be called, unless its comment says otherwise. */
#ifndef MF_TRAIN_TRAINER_H
#define MF_TRAIN_TRAINER_H

#include "run/evaluate.h"
#include "train/observer.h"
#include "train/optim/optim.h"
#include "run/rundir.h"

typedef struct mf_trainer_options {
    /* Opened and locked by the caller, who closes it after freeing the trainer. NULL: no files
     * are written. */
    mf_rundir *dir;
    bool resume; /* continue from dir's newest checkpoint that verifies */
    /* The ranks of the run; NULL: one process. Ranks other than 0 write no files: they read
     * `dir` on resume, and otherwise need none. All ranks must call the same functions. */
    mf_world *world;
    bool keeps; /* rank 0 has a run directory, so checkpoints are saved */
    void *arg;  /* argument of both callbacks */
    /* Called after each step. Returns 0, or the number of the signal that ends training. NULL:
     * training is not interrupted. */
    int (*should_stop)(void *arg);
    /* Called after each step at which no checkpoint is due, if dir is set: returns whether a
     * checkpoint is to be saved now. NULL: never. */
    bool (*should_save)(void *arg);
} mf_trainer_options;

/* The result of training. */
typedef struct mf_train_result {
    int64_t step, tokens;
    double loss, val_loss, floor;
    double bits_per_byte; /* of the last validation; NaN: not known */
    /* wall_s: with evaluations, and the parts before a resume; tokens_per_s: of the steps since
     * begin, without evaluations and checkpoints */
    double wall_s, tokens_per_s;
    int32_t n_layers;
    /* [n_layers] from the last evaluation, set by mf_trainer_finish; NaN without labels */
    const double *nmi, *nmi_random;
} mf_train_result;

/* Builds graphs and optimizer, and adds the observers of every run. The session must be opened
 * for training and outlive the trainer. options may be NULL. Errors: those of the model; to
 * resume, MF_EUSAGE without a run directory, MF_ECHECKPOINT without a checkpoint
 * that verifies. A session has one trainer in its life: it keeps the addresses of the trainer's
 * live options. */
int mf_trainer_new(mf_session *s, const mf_trainer_options *options, mf_trainer **ret);
void mf_trainer_free(mf_trainer *t); /* also frees the observers; t may be NULL */

/* Adds an observer after the present ones. MF_EUSAGE after mf_trainer_begin or the first step.
 * ops must outlive the trainer. self is passed to the hooks; ops->free frees it, even if this
 * call fails. */
int mf_trainer_observe(mf_trainer *t, const mf_observer *ops, void *self);

/* Passes the state of a checkpoint to the observers of a resumed run, and calls `begin` of all
 * observers, which opens the files of the run. Steps, evaluations, saves and mf_trainer_finish
 * call mf_trainer_begin if the caller has not; a second call has no effect. */
int mf_trainer_begin(mf_trainer *t);
/* Takes one optimizer step and calls the observers. own: train.accumulate batches of the
 * caller, each with train.batch examples and model.seq positions (or the length of a shorter
 * bucket); they are read only during the call. NULL: the next batches of the session's data.
 * ret may be NULL. Errors: MF_ELIMIT, MF_ESIGNAL: the step was taken, training ends here, and a
 * checkpoint was saved if there is a run directory; MF_ENONFINITE: the loss diverged;
 * MF_EUSAGE: all steps are done, or there are no data; MF_EINVAL: own batches have another
 * shape. After MF_EUSAGE and MF_EINVAL nothing was changed. */
int mf_trainer_step(mf_trainer *t, const mf_batch *const *own, const mf_step_result **ret);
/* Whether all steps are done, or an observer has ended training (train.patience). A session
 * without a planned number of steps (0) has never done all. */
bool mf_trainer_done(const mf_trainer *t);
/* Call this after the last step. It calls `end` of the observers, which write the last files,
 * and fills the result. */
int mf_trainer_finish(mf_trainer *t);
/* Calls begin, takes steps until all are done, and calls finish. */
int mf_trainer_run(mf_trainer *t);

/* Evaluates at most `batches` batches of the validation split (0: all), before them training
 * data if train.eval_train is set, and calls judge_eval and after_eval of the observers. If
 * this ends training, it takes train.final_batches. ret: the record of validation, may be NULL;
 * pointers in it are valid until the next evaluation. MF_EUSAGE without a validation split. */
int mf_trainer_evaluate(mf_trainer *t, int64_t batches, mf_metrics_record *ret);
/* For the evaluation: calls after_eval_batch of the observers. */
int mf_trainer_tell_batch(mf_trainer *t, int64_t done, int64_t total);
/* Number of batches of the validation after the last step; 0 without a validation split. */
int64_t mf_trainer_last_batches(const mf_trainer *t);
/* Saves a checkpoint in the run directory, and calls on_save of the observers. MF_EUSAGE if
 * there is no run directory. */
int mf_trainer_save(mf_trainer *t);
/* Saves a checkpoint in another folder, and keeps the newest `keep` there. Does not call
 * on_save. On ranks other than 0 folder is NULL: they only take part in the comparison of what
 * must be the same on all of them. */
int mf_trainer_save_in(mf_trainer *t, const char *folder, int64_t keep);
/* Saves the checkpoint of the best validation, in place of the last one. */
int mf_trainer_save_best(mf_trainer *t);
/* For observers: ends training after this step with this code and the message "WHY at step N".
 * If there is a run directory, a checkpoint is saved. No effect after the last step. */
void mf_trainer_stop(mf_trainer *t, int code, const char *why);

/* For observers: this step is the last one; training then ends as after all steps. */
void mf_trainer_end_here(mf_trainer *t);

/* ---- access ---- */
mf_session *mf_trainer_session(const mf_trainer *t);
/* NULL without a run directory, and on ranks other than 0 */
const mf_rundir *mf_trainer_dir(const mf_trainer *t);
/* Whether the run has a directory, which rank 0 writes. */
bool mf_trainer_keeps(const mf_trainer *t);
/* What the process, or with several ranks any of them, was asked for: the number of a signal to
 * stop, or 0; to save; to end by train.time_limit. */
int mf_trainer_asked_stop(mf_trainer *t);
bool mf_trainer_asked_save(mf_trainer *t);
bool mf_trainer_late(mf_trainer *t);
const mf_trainer_options *mf_trainer_settings(const mf_trainer *t);
/* MF_OK, or the code with which a step, an evaluation, a save or the finish has ended training;
 * MF_ESIGNAL and MF_ELIMIT, too. */
int mf_trainer_status(const mf_trainer *t);
bool mf_trainer_resumed(const mf_trainer *t);
int64_t mf_trainer_steps(const mf_trainer *t);  /* optimizer steps so far */
int64_t mf_trainer_tokens(const mf_trainer *t); /* trained so far */
double mf_trainer_wall(const mf_trainer *t);    /* seconds, with the parts before a resume */
double mf_trainer_elapsed(const mf_trainer *t); /* seconds since begin */
/* the part of mf_trainer_elapsed that passed between steps (evaluation, checkpoints) */
double mf_trainer_apart(const mf_trainer *t);
/* The graph of full length. Other graphs may reuse its arena between steps (graph.h). */
const mf_model_graph *mf_trainer_graph(const mf_trainer *t);
mf_optim *mf_trainer_optim(const mf_trainer *t);
double mf_trainer_val_loss(const mf_trainer *t); /* last task loss; NaN: none yet */
/* Evaluator of the validation split; NULL without one. */
mf_evaluator *mf_trainer_evaluator(const mf_trainer *t);
/* Valid after finish. The trainer owns it. */
const mf_train_result *mf_trainer_result(const mf_trainer *t);

#endif
