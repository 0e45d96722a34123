/* run/load.h: opens a run on disk: its configuration, tokenizer and weights. */
#ifndef MF_RUN_LOAD_H
#define MF_RUN_LOAD_H

#include "run/checkpoint/checkpoint.h"
#include "run/session.h"

/* The caller's changes to the run. */
typedef struct mf_load_change {
    /* load the weights of this step; -1: the newest */
    int64_t step;
    /* Another router: mlp, or mlp:hidden=64,input_norm=none. Parameters that have the same name
     * and shape in the run are read from the run; the others get initial values. NULL: the
     * router of the run. */
    const char *router;
    const char *router_section; /* section whose router is replaced; NULL: "router" */
    /* type that gemms read: f32, bf16; NULL: as in training */
    const char *dtype;
    const char *device; /* device, as in train.device; NULL: the device of the run */
    /* parameters keep their initial values; live options are not set */
    bool no_weights;
    /* The router must be usable for training: in a decoder, a router that reads later tokens is
     * refused unless the configuration allows it. */
    bool strict_router;
    int n_set; /* number of further changes of the configuration, which override the
                * fields above */
    const mf_assignment *set;
} mf_load_change;
/* Opens the run that mf_rundir_read finds for dir, with options. The function uses a copy of
 * the options, in which it sets tokenizer_file, dims and the names of classes. *ret_step: step
 * of the weights, not set with no_weights. MF_EINPUT if dir is not a run; MF_ECHECKPOINT if the
 * run has no checkpoint that verifies, or if the checkpoint is of another run; MF_EUSAGE if dir
 * is a checkpoint of another step than change->step. The caller closes the session. */
int mf_load_run_as(const char *dir, const mf_session_options *options,
                   const mf_load_change *change, mf_session **ret, int64_t *ret_step);

/* Checks that each task has the same kind (classify or regress) in the checkpoint and in the
 * model; else MF_ECHECKPOINT. Older checkpoints do not contain the kinds and always fit. */
int mf_load_tasks(const mf_model *m, const mf_state *s);
/* Writes the name under which a checkpoint's state contains the kind of task i (0 classify,
 * 1 regress). */
void mf_load_task_name(const mf_model *m, int i, char *out, size_t size);

/* Prefix of live options in a checkpoint's state; the name of the option follows. */
#define MF_LIVE_STATE "live/"
/* Sets the live options of h that the state contains. Counts that are not in the state get
 * their first values (mf_live_start). but: options whose names contain this text stay
 * unchanged; NULL: none. */
int mf_load_live(mf_plughost *h, const mf_state *s, const char *but);

#endif
