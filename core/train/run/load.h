/* train/run/load.h: a run on disk, opened again: its configuration, tokenizer and newest
 * weights. */
#ifndef MF_TRAIN_LOAD_H
#define MF_TRAIN_LOAD_H

#include "train/checkpoint/checkpoint.h"
#include "train/run/session.h"

/* What else may be asked of a run. */
typedef struct mf_load_change {
    /* The weights after so many updates; -1: the newest. */
    int64_t step;
    /* Another router: mlp, or mlp:hidden=64,input_norm=none; its parameters are the run's where
     * name and shape are the same, else start values. NULL: the run's own. */
    const char *router;
    /* What products are made of: f32, bf16; NULL: as trained. */
    const char *dtype;
} mf_load_change;
/* dir: a run directory. options: tokenizer_file is set here. *ret_step: of the weights.
 * MF_EINPUT when dir is no run, MF_ECHECKPOINT when it has no checkpoint that verifies. */
int mf_load_run_as(const char *dir, const mf_session_options *options,
                   const mf_load_change *change, mf_session **ret, int64_t *ret_step);

/* What the heads of a checkpoint answer: is it what the model's do? MF_ECHECKPOINT. An older
 * checkpoint does not say, and fits. */
int mf_load_tasks(const mf_model *m, const mf_state *s);
/* Name in a checkpoint's state of the kind of task i: 1 regress, 0 classify. */
void mf_load_task_name(const mf_model *m, int i, char *out, size_t size);

/* Names in a checkpoint's state: this, then that of the live option. */
#define MF_LIVE_STATE "live/"
/* Turns the live options of h to what the state says, those alone that it holds. but: options
 * whose names hold this text stay as they are; NULL: none. */
int mf_load_live(mf_plughost *h, const mf_state *s, const char *but);

#endif
