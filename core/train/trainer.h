/* train/trainer.h: the loop.
 *
 * Everything that happens in step s is a function of configuration, seed and s, so a run that
 * was killed goes on to the same bits from its last checkpoint. The loop knows blocks,
 * parameters and controllers, and no plugin by name. Who watches (progress lines, summaries) is
 * told through an observer; the loop itself prints nothing.
 */
#ifndef MF_TRAIN_TRAINER_H
#define MF_TRAIN_TRAINER_H

#include "train/evaluate.h"
#include "train/rundir.h"

typedef struct mf_observer {
    void *arg;
    /* After each step; record is NULL for steps that are not logged. */
    void (*on_step)(void *arg, int64_t step, int64_t steps, double loss, double tokens_per_s,
                    const mf_metrics_record *record);
    void (*on_eval)(void *arg, const mf_metrics_record *record);
    void (*on_save)(void *arg, int64_t step);
} mf_observer;

typedef struct mf_train_result {
    int64_t step, tokens;
    double loss, val_loss, floor, wall_s, tokens_per_s;
    int32_t n_layers;
    double *nmi, *nmi_random; /* [n_layers]; NaN without labels */
} mf_train_result;

typedef struct mf_trainer mf_trainer;

/* dir: opened and locked by the caller; resume: go on from its last good checkpoint. */
int mf_trainer_new(mf_session *s, mf_rundir *dir, bool resume, const mf_observer *observer,
                   mf_trainer **ret);
void mf_trainer_free(mf_trainer *t);
/* To the end, or until a signal, the time limit (MF_ESIGNAL, MF_ELIMIT: a checkpoint was saved)
 * or divergence (MF_ENONFINITE). */
int mf_trainer_run(mf_trainer *t);
/* The last evaluation's figures. Valid after run, owned by the trainer. */
const mf_train_result *mf_trainer_result(const mf_trainer *t);
int64_t mf_trainer_step(const mf_trainer *t); /* updates done so far */
int mf_trainer_signal(const mf_trainer *t); /* that ended the run, 0 if none */

#endif
