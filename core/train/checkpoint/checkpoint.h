/* train/checkpoint/checkpoint.h: checkpoints that are whole or refused.
 *
 * RUN/ckpt/
 *   step-N/model.safetensors    parameters and buffers by full name
 *   step-N/state.safetensors    moments, numbers, blobs; see mf_state
 *   step-N/MANIFEST.json        size and XXH3-128 of both, step, what made it; written last
 *   latest                      "step-N\n"
 * A checkpoint is written to step-N.tmp, every file synced, the manifest last, the directory
 * synced, renamed, the parent synced, then read back and verified; only then older ones beyond
 * `keep` are removed. A failure on the way voids it and leaves every earlier one as it was.
 * Reading verifies sizes and checksums of all files, names and shapes of all tensors, before
 * anything is taken over.
 */
#ifndef MF_TRAIN_CHECKPOINT_H
#define MF_TRAIN_CHECKPOINT_H

#include "graph/store/param.h"

/* ---- what a run must remember beside parameters and moments ----
 * Named numbers and blobs; names are paths ("controller.0.bias/ema"). Doubles keep their bits,
 * NaN included. set replaces. get returns false, and leaves out alone, when there is no such
 * name or it is of the other kind. */
typedef struct mf_state mf_state;
mf_state *mf_state_new(void);
void mf_state_free(mf_state *s);
int mf_state_set_int(mf_state *s, const char *name, int64_t value);
int mf_state_set_real(mf_state *s, const char *name, double value);
int mf_state_set_blob(mf_state *s, const char *name, const void *data, size_t n);
bool mf_state_int(const mf_state *s, const char *name, int64_t *out);
bool mf_state_real(const mf_state *s, const char *name, double *out);
/* Owned by the state; NULL when absent. */
const void *mf_state_blob(const mf_state *s, const char *name, size_t *ret_n);
/* In order of name; NULL past the end. */
const char *mf_state_name_at(const mf_state *s, int i);

/* ---- what made a checkpoint ----
 * Compared on resume: the promise of equal bits holds for an equal identity only. */
typedef struct mf_provenance_plugin {
    const char *name, *kind, *file, *hash;
} mf_provenance_plugin;

typedef struct mf_provenance {
    const char *version; /* of moefw */
    int abi;
    int threads;
    const char *kernels; /* set in force and its instruction set: "cpu avx512" */
    const char *cpu;     /* model name, or "" */
    const char *blas;    /* library, version, core type, or "" */
    const mf_provenance_plugin *plugins;
    int n_plugins;
} mf_provenance;

/* ---- writing and reading ---- */

/* A checkpoint of step in folder (RUN/ckpt, made if need be). Keeps the newest `keep` (0: all).
 * An earlier checkpoint of the same step is replaced. moments: of a store made for training. */
int mf_ckpt_save(const char *folder, int64_t step, const mf_store *store, const mf_state *state,
                 const mf_provenance *identity, int keep);

/* Resume. Removes left-overs of saves that did not end (with a line in the log), then takes the
 * newest checkpoint that verifies; one that does not is named in the log and set aside as
 * step-N.bad. Fills values and moments of the store. identity: now; differences from that of
 * the checkpoint are told in the log. MF_ECHECKPOINT if there is none: a run never begins anew
 * on its own. state: free it. */
int mf_ckpt_resume(const char *folder, mf_store *store, const mf_provenance *identity,
                   mf_state **ret_state, int64_t *ret_step);

/* For reading only: the newest that verifies, or, with step >= 0, this one and no other. The
 * store needs no moments. ret_step may be NULL. MF_ECHECKPOINT. */
int mf_ckpt_load(const char *folder, int64_t step, mf_store *store, int64_t *ret_step);
/* The same, with the numbers that were saved beside it (no moments), into a store that may
 * differ in the parameters whose names hold `but`: of these, the ones that are in the
 * checkpoint with the same name and shape are read, the others left as they are. but NULL: no
 * parameter differs. state: free it; ret_state may be NULL. */
int mf_ckpt_load_with_state(const char *folder, int64_t step, mf_store *store, const char *but,
                            int64_t *ret_step, mf_state **ret_state);
/* The newest that verifies, as start values: what store and checkpoint have in common is read,
 * the rest of the store left as it is (*ret_missing of its parameters), and so is what
 * controllers remember of their run. MF_ECHECKPOINT: one name, two
 * shapes; or nothing in common. */
int mf_ckpt_start(const char *folder, mf_store *store, int64_t *ret_step, int *ret_missing);

/* ---- looking at them ---- */

/* Steps of the complete checkpoints in folder, newest first; mf_free. None: *ret_n = 0. */
int mf_ckpt_list(const char *folder, int64_t **ret_steps, int *ret_n);
char *mf_ckpt_path(const char *folder, int64_t step); /* mf_free */

typedef struct mf_ckpt_report {
    bool ok;
    int64_t step;    /* -1: not known */
    int64_t tensors; /* of the model */
    uint64_t bytes;  /* of all files */
    char **errors;
    int n_errors;
} mf_ckpt_report;
/* Verifies the checkpoint in path (RUN/ckpt/step-N) without a store. Returns MF_OK when the
 * report could be made, good or bad. */
int mf_ckpt_verify(const char *path, mf_ckpt_report *ret);
void mf_ckpt_report_free(mf_ckpt_report *r);

#endif
