/* train/run/load.h: opens a run on disk: its configuration, tokenizer and newest weights. */
#ifndef MF_TRAIN_LOAD_H
#define MF_TRAIN_LOAD_H

#include "train/checkpoint/checkpoint.h"
#include "train/run/session.h"

/* Differences to the run that the caller requests. */
typedef struct mf_load_change {
    /* Load the weights of this step; -1: the newest. */
    int64_t step;
    /* Another router: mlp, or mlp:hidden=64,input_norm=none. Parameters with the same name and
     * shape are those of the run; others get initial values. NULL: the router of the run. */
    const char *router;
    /* Type that gemms read: f32, bf16; NULL: as trained. */
    const char *dtype;
} mf_load_change;
/* Opens the run in dir with options, in which tokenizer_file is set here. *ret_step: step of
 * the weights. MF_EINPUT if dir is no run, MF_ECHECKPOINT if it has no checkpoint that
 * verifies. The caller closes the session. */
int mf_load_run_as(const char *dir, const mf_session_options *options,
                   const mf_load_change *change, mf_session **ret, int64_t *ret_step);

/* Checks that the heads of a checkpoint predict what those of the model predict. MF_ECHECKPOINT
 * if not. Older checkpoints do not contain this and always fit. */
int mf_load_tasks(const mf_model *m, const mf_state *s);
/* Writes the name under which a checkpoint's state has the kind of task i (0 classify,
 * 1 regress). */
void mf_load_task_name(const mf_model *m, int i, char *out, size_t size);

/* Prefix of live options in a checkpoint's state; the name of the option follows. */
#define MF_LIVE_STATE "live/"
/* Sets the live options of h that the state contains. but: options whose names contain this
 * text stay unchanged; NULL: none. */
int mf_load_live(mf_plughost *h, const mf_state *s, const char *but);

#endif
