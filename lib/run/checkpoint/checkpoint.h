/* run/checkpoint/checkpoint.h: writes and reads checkpoints; a damaged checkpoint is refused.
 *
 * RUN/ckpt/
 *    step-N/model.safetensors    parameters and buffers by full name
 *    step-N/state.safetensors    moments, numbers and blobs; see mf_state
 *    step-N/MANIFEST.json        size and XXH3-128 of both, step, provenance; written last
 *    latest                      "step-N\n"
 *
 * Saving writes step-N.tmp, syncs every file with the manifest last, and syncs the directory.
 * It then reads the checkpoint again to verify it, renames it, syncs the parent, and writes
 * `latest`. Only then are older checkpoints beyond `keep` removed. If saving fails before the
 * rename, step-N.tmp is removed. After any failure all checkpoints of other steps remain.
 *
 * Reading first verifies sizes and checksums of all files, and names and shapes of all tensors.
 * Only then are values written to the store. */
#ifndef MF_RUN_CHECKPOINT_H
#define MF_RUN_CHECKPOINT_H

#include "graph/store/param.h"

/* ---- state beside parameters and moments ----
 *
 * Numbers and blobs by name. Names are paths ("since/loss"). A double keeps all its bits, also
 * if it is NaN. A set function replaces an earlier value; it may fail with MF_ENOMEM. A get
 * function returns false and leaves *out unchanged if the name is missing or has another kind
 * of value. */
typedef struct mf_state mf_state;
mf_state *mf_state_new(void);
void mf_state_free(mf_state *s);
int mf_state_set_int(mf_state *s, const char *name, int64_t value);
int mf_state_set_real(mf_state *s, const char *name, double value);
int mf_state_set_blob(mf_state *s, const char *name, const void *data, size_t n);
bool mf_state_int(const mf_state *s, const char *name, int64_t *out);
bool mf_state_real(const mf_state *s, const char *name, double *out);
/* Returns the bytes of a blob, which the state owns. NULL if there is no such blob. */
const void *mf_state_blob(const mf_state *s, const char *name, size_t *ret_n);
/* Returns the i-th name in alphabetical order; NULL after the last name. */
const char *mf_state_name_at(const mf_state *s, int i);

/* ---- provenance of a checkpoint ----
 *
 * On resume, the checkpoint's provenance is compared with the provenance of the process, except
 * abi, threads and wall_s. Only if they are the same is the resumed run bitwise equal to an
 * uninterrupted run. A checkpoint of another run is refused. */
typedef struct mf_provenance_plugin {
    const char *name, *kind, *file, *hash;
} mf_provenance_plugin;

typedef struct mf_provenance {
    const char *version; /* version of moefw */
    int abi;
    int threads;
    const char *kernels; /* kernels and instruction set in use: "cpu avx512" */
    const char *cpu;     /* model name, or "" */
    const char *blas;    /* library, version, core type, or "" */
    const mf_provenance_plugin *plugins;
    int n_plugins;
    double wall_s; /* number of seconds that the run took so far */
    /* Names of the run, and of the tokens and labels that it reads (pieces, all and files in
     * run/folder/data_sums.h). NULL or "": unknown, as in checkpoints of earlier versions. */
    const char *run, *data, *data_all, *data_files;
} mf_provenance;

/* ---- writing and reading ---- */

/* Source of moments that the store does not keep itself (mf_store_shards). The function reads
 * moments `which` at .. at+count-1, like mf_store_read_moments. With MF_CKPT_VALUES it reads
 * values of parameters of which each process holds a part. */
enum { MF_CKPT_VALUES = 2 };
typedef struct mf_ckpt_moments {
    int (*read)(void *arg, int which, int64_t at, int64_t count, float *to);
    void *arg;
} mf_ckpt_moments;

/* Saves a checkpoint of `step` in folder (RUN/ckpt), which is created if missing, in an
 * existing run. Replaces an earlier checkpoint of the same step. Keeps the newest `keep`
 * checkpoints up to this step (0: all), and those of later steps. MF_EINVAL if the store has no
 * moments; MF_EIO; MF_ENOMEM; MF_ECHECKPOINT if reading the checkpoint again fails; then
 * `latest` and an earlier checkpoint of the step do not change. moments NULL: the store keeps
 * all moments. */
int mf_ckpt_save(const char *folder, int64_t step, const mf_store *store,
                 const mf_ckpt_moments *moments, const mf_state *state,
                 const mf_provenance *identity, int64_t keep);

/* Resumes from the newest checkpoint that verifies: fills values and moments of the store.
 * Leftovers of interrupted saves are removed, and damaged checkpoints that are newer are
 * renamed to step-N.bad; both are logged. `identity` is the provenance of this process;
 * differences from the checkpoint's provenance are logged. MF_ECHECKPOINT if no checkpoint
 * verifies, or if the newest valid checkpoint is of another run: a run never starts again from
 * step 0 by itself. The caller frees *ret_state. ret_wall: the seconds that the run had taken;
 * may be NULL. */
int mf_ckpt_resume(const char *folder, mf_store *store, const mf_provenance *identity,
                   mf_state **ret_state, int64_t *ret_step, double *ret_wall);

/* Whether the folder, which may be missing, contains anything that is or was a checkpoint,
 * also a damaged or a replaced checkpoint. The leftovers of an interrupted first save do
 * not count. */
int mf_ckpt_any(const char *folder, bool *ret);

/* Removes the leftovers of interrupted saves from the folder, which may be missing. If a
 * replaced checkpoint exists and the new one was not renamed, the replaced checkpoint gets its
 * name back. mf_ckpt_resume does this itself. */
int mf_ckpt_clean(const char *folder);

/* Loads parameters without moments from the newest checkpoint that verifies, or only from that
 * of `step` if step >= 0. ret_step may be NULL. MF_ECHECKPOINT if there is none. */
int mf_ckpt_load(const char *folder, int64_t step, mf_store *store, int64_t *ret_step);
/* The same as mf_ckpt_load, and also reads the saved state. run: name of the run to which the
 * checkpoint must belong, else MF_ECHECKPOINT; NULL or "": any run. A checkpoint without a name
 * fits any run. The store may differ from the checkpoint in parameters whose names contain
 * `but`: a parameter with the same name and shape is read, any other keeps its values. but
 * NULL: no parameter may differ. The caller frees *ret_state; ret_state may be NULL. */
int mf_ckpt_load_with_state(const char *folder, int64_t step, const char *run, mf_store *store,
                            const char *but, int64_t *ret_step, mf_state **ret_state);
/* Reads the newest checkpoint that verifies as initial values. Parameters that are missing in
 * the checkpoint keep their values; *ret_missing counts them. Buffers of controllers and the
 * heads' learning-rate factors are not read. MF_ECHECKPOINT if no checkpoint verifies, if it is
 * not of `run` (as in mf_ckpt_load_with_state), if a parameter has another shape there, or if
 * store and checkpoint have no parameter in common. */
int mf_ckpt_start(const char *folder, const char *run, mf_store *store, int64_t *ret_step,
                  int *ret_missing);

/* ---- inspection ---- */

/* Steps of the complete checkpoints in folder, newest first; *ret_n may be 0. The caller frees
 * the list with mf_free. */
int mf_ckpt_list(const char *folder, int64_t **ret_steps, int *ret_n);
char *mf_ckpt_path(const char *folder, int64_t step); /* Returns FOLDER/step-N. The caller frees
                                                       * it with mf_free. */

typedef struct mf_ckpt_report {
    bool ok;
    int64_t step;    /* -1: unknown */
    int64_t tensors; /* number of tensors of the model */
    uint64_t bytes;  /* size of all files except the manifest */
    char **errors;
    int n_errors;
} mf_ckpt_report;
/* Verifies the checkpoint in path (RUN/ckpt/step-N) without a store. Returns MF_OK if the
 * checkpoint could be examined; ret->ok tells whether it is valid. The caller frees the
 * contents of ret in every case. */
int mf_ckpt_verify(const char *path, mf_ckpt_report *ret);
void mf_ckpt_report_free(mf_ckpt_report *r);

#endif
