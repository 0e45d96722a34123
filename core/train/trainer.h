/* train/trainer.h: the training loop.
 *
 * Everything that happens in step s is a function of configuration, seed and s, so a run that
 * was killed continues with the same bits from its last checkpoint. The loop knows no plugin by
 * name; everything else that takes part is an observer (train/observer.h). It prints nothing
 * and handles no signals.
 *
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_run, mf_trainer_free
 * or, step by step:
 *     mf_trainer_new, mf_trainer_observe..., mf_trainer_step..., mf_trainer_finish
 *
 * Only one thread at a time may use a trainer. After a function has failed, only
 * mf_trainer_free may be called, unless its comment says otherwise. */
#ifndef MF_TRAIN_TRAINER_H
#define MF_TRAIN_TRAINER_H

#include "train/evaluate.h"
#include "train/observer.h"
#include "train/optim.h"
#include "train/run/rundir.h"

typedef struct mf_trainer_options {
    /* opened and locked by the caller, who closes it after freeing the trainer; NULL: nothing
     * is written */
    mf_rundir *dir;
    bool resume; /* continue from dir's newest checkpoint that verifies */
    void *arg;   /* argument of both functions */
    /* Called after each step: returns 0, or the number of the signal that ends training.
     * NULL: never. */
    int (*should_stop)(void *arg);
    /* Called after each step: returns whether a checkpoint is to be saved now. NULL: never. */
    bool (*should_save)(void *arg);
} mf_trainer_options;

/* The result of training. */
typedef struct mf_train_result {
    int64_t step, tokens;
    double loss, val_loss, floor, wall_s, tokens_per_s;
    int32_t n_layers;
    /* [n_layers] from the last evaluation; NaN without labels */
    const double *nmi, *nmi_random;
} mf_train_result;

/* Builds graphs and optimizer, and adds the observers of every run. The session must be one for
 * training and outlive the trainer. options may be NULL. Errors: those of the model, and
 * MF_ECHECKPOINT if there is no checkpoint to resume from. */
int mf_trainer_new(mf_session *s, const mf_trainer_options *options, mf_trainer **ret);
void mf_trainer_free(mf_trainer *t); /* frees observers too; t may be NULL */

/* Adds an observer after the present ones; only before the first step. ops must outlive the
 * trainer; self is passed to the hooks and freed by ops->free, even if this call fails. */
int mf_trainer_observe(mf_trainer *t, const mf_observer *ops, void *self);

/* Opens the files of the run and calls begin of all observers. The first step does this if the
 * caller did not. */
int mf_trainer_begin(mf_trainer *t);
/* Takes one optimizer step and calls the observers. own: train.accumulate batches of the
 * caller, of train.batch examples and model.seq positions (or the length of another bucket);
 * they are read during the call only. NULL: the next ones of the session's data. ret may be
 * NULL. MF_ELIMIT, MF_ESIGNAL: training ends here, a checkpoint was saved; MF_ENONFINITE: the
 * loss diverged; MF_EUSAGE: all steps are done; MF_EINVAL: own batches have another shape
 * (nothing was changed). */
int mf_trainer_step(mf_trainer *t, const mf_batch *const *own, const mf_step_result **ret);
/* Whether all steps are done. Never true if the session has no number of steps (steps 0). */
bool mf_trainer_done(const mf_trainer *t);
/* Call it after the last step: writes final values, files, pictures. */
int mf_trainer_finish(mf_trainer *t);
/* Calls begin, steps until all are done, finish. */
int mf_trainer_run(mf_trainer *t);

/* Evaluates at most `batches` batches of the validation split (0: all), and calls the
 * observers. ret may be NULL; pointers in it are valid until the next evaluation. MF_EUSAGE
 * without a validation split. */
int mf_trainer_evaluate(mf_trainer *t, int64_t batches, mf_metrics_record *ret);
/* Saves a checkpoint in the run directory. MF_EUSAGE without one. */
int mf_trainer_save(mf_trainer *t);
/* The same in another folder; keeps the newest `keep` there. on_save is not called. */
int mf_trainer_save_in(mf_trainer *t, const char *folder, int keep);
/* For observers: training ends after this step, with this code and "WHY at step N", and with a
 * checkpoint if there is a run directory. */
void mf_trainer_stop(mf_trainer *t, int code, const char *why);

/* ---- what is known ---- */
mf_session *mf_trainer_session(const mf_trainer *t);
const mf_rundir *mf_trainer_dir(const mf_trainer *t); /* NULL: none */
const mf_trainer_options *mf_trainer_settings(const mf_trainer *t);
bool mf_trainer_resumed(const mf_trainer *t);
int64_t mf_trainer_steps(const mf_trainer *t);  /* optimizer steps so far */
int64_t mf_trainer_tokens(const mf_trainer *t); /* trained on so far */
double mf_trainer_wall(const mf_trainer *t);    /* seconds, earlier parts of the run included */
double mf_trainer_elapsed(const mf_trainer *t); /* seconds since begin */
double mf_trainer_apart(const mf_trainer *t);   /* of these, spent between steps */
/* The graph of full length: others may share its memory between steps (graph.h). */
const mf_model_graph *mf_trainer_graph(const mf_trainer *t);
mf_optim *mf_trainer_optim(const mf_trainer *t);
double mf_trainer_val_loss(const mf_trainer *t); /* last evaluation; NaN before the first */
/* Of the last evaluation; NULL without a validation split. */
mf_evaluator *mf_trainer_evaluator(const mf_trainer *t);
/* Valid after finish, owned by the trainer. */
const mf_train_result *mf_trainer_result(const mf_trainer *t);

#endif
