/* run/training.h: the training of a session: the loop (train/trainer.h) with the observers that
 * every run has, and the folder for its files.
 *
 *     mf_training_new, mf_trainer_observe..., mf_trainer_run, mf_trainer_free
 *
 * The trainer argument of the functions below must come from mf_training_new. */
#ifndef MF_RUN_TRAINING_H
#define MF_RUN_TRAINING_H

#include "run/checkpoint/checkpoint.h"
#include "run/evaluate.h"
#include "run/metrics/metrics.h"
#include "run/metrics/predictions.h"
#include "run/folder/rundir.h"
#include "train/trainer.h"

typedef struct mf_training_options {
    /* The run directory. The caller opens and locks it, and closes it after freeing the
     * trainer. NULL: no files are written. */
    mf_rundir *dir;
    bool resume; /* continue from dir's newest checkpoint that verifies */
    /* The ranks of the run; NULL: one process. Ranks other than 0 write no files. They read
     * `dir` on resume, and otherwise do not need it. All ranks must call the same functions. */
    mf_world *world;
    bool keeps; /* rank 0 has a run directory, so checkpoints are saved */
    void *arg;  /* argument of both callbacks */
    /* Called after each step. Returns 0, or the number of the signal that ends training. NULL:
     * training is not interrupted. */
    int (*should_stop)(void *arg);
    /* Called after each step at which no checkpoint is due, if dir is set. Returns whether a
     * checkpoint must be saved now. NULL: never. */
    bool (*should_save)(void *arg);
} mf_training_options;

/* The result of training. */
typedef struct mf_train_result {
    int64_t step, tokens;
    double loss, val_loss, floor;
    double bits_per_byte; /* value of the last validation; NaN: unknown */
    /* wall_s: time with evaluations and with the parts before a resume; tokens_per_s: rate of
     * the steps since begin, without evaluations and checkpoints */
    double wall_s, tokens_per_s;
    int32_t n_layers;
    /* [n_layers] from the last evaluation, set at the end; NaN without labels */
    const double *nmi, *nmi_random;
} mf_train_result;

/* Makes the trainer of a session, with the observers of every run. The session must be
 * opened for training and outlive the trainer. options may be NULL. Errors: those of
 * mf_trainer_new. When resuming: MF_EUSAGE without a run directory, MF_ECHECKPOINT if no
 * checkpoint verifies. */
int mf_training_new(mf_session *s, const mf_training_options *options, mf_trainer **ret);

/* Returns the job of the training loop for a session that was opened for training. */
mf_train_job mf_training_job(const mf_session *s);

/* Evaluates at most `batches` batches of the validation split (0: all), and before that
 * training data if train.eval_train is set. Calls judge_eval and after_eval of the observers.
 * If the evaluation ends training, it uses train.final_batches. ret: the record of validation,
 * may be NULL; pointers in it are valid until the next evaluation. MF_EUSAGE without a
 * validation split. */
int mf_training_evaluate(mf_trainer *t, int64_t batches, mf_metrics_record *ret);
/* Number of batches of the validation after the last step; 0 without a validation split. */
int64_t mf_training_last_batches(const mf_trainer *t);
/* Saves a checkpoint in the run directory, and calls on_save of the observers. MF_EUSAGE if
 * there is no run directory. */
int mf_training_save(mf_trainer *t);
/* Saves a checkpoint in another folder, and keeps the newest `keep` there. Does not call
 * on_save. On ranks other than 0 folder is NULL: these ranks only participate in the comparison
 * of values that must be the same on all ranks. */
int mf_training_save_in(mf_trainer *t, const char *folder, int64_t keep);
/* Saves the checkpoint of the best validation. It replaces the previous best checkpoint. */
int mf_training_save_best(mf_trainer *t);

/* ---- access ---- */
mf_session *mf_training_session(const mf_trainer *t);
/* Returns NULL without a run directory, and on ranks other than 0. */
mf_rundir *mf_training_dir(const mf_trainer *t);
/* Whether the run has a directory, which rank 0 writes. */
bool mf_training_keeps(const mf_trainer *t);
bool mf_training_resumed(const mf_trainer *t);
double mf_training_val_loss(const mf_trainer *t); /* Returns the last task loss; NaN:
                                                   * none yet. */
/* Evaluator of the validation split; NULL without one. */
mf_evaluator *mf_training_evaluator(const mf_trainer *t);
/* The result is valid at the end of training: after mf_trainer_finish, and in `end` of
 * observers after the evaluation. The trainer owns it. */
const mf_train_result *mf_training_result(const mf_trainer *t);

#endif
