/* run/folder/restart.c: distinguishes a run that has saved nothing from a run whose checkpoints
 * are lost. Lines of metrics.jsonl are written before the checkpoint of their step. */
#include "run/folder/restart.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint.h"
#include "run/metrics/step_file.h"

/* Raises *arg, an int64_t, to the step of a line if the step is greater. */
static int note_step(void *arg, const mf_json *line, bool *ret_damaged)
{
    int64_t *last = arg, step;
    *ret_damaged = !mf_json_int(mf_json_get(line, "step"), &step);
    if (!*ret_damaged && step > *last) *last = step;
    return MF_OK;
}

int mf_restart_possible(const mf_rundir *dir, int64_t save_every, int64_t steps, bool *ret)
{
    const int64_t first =
        save_every > 0 && (steps == 0 || save_every < steps) ? save_every : steps;
    int64_t last = -1; /* the last step in the metrics */
    mf_step_damage damage;
    bool saved;
    *ret = false;
    int rc = mf_ckpt_any(dir->ckpt, &saved);
    if (rc != MF_OK || saved) return rc;
    if (first > 0) rc = mf_step_file_read(dir->metrics, note_step, &last, &damage);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        rc = MF_OK;
    }
    /* The first save makes the folder, and this save may have been interrupted. */
    *ret = rc == MF_OK && (last < first || (last == first && mf_is_dir(dir->ckpt)));
    return rc;
}

int mf_restart_clear(const mf_rundir *dir)
{
    const char *const written[] = {dir->manifest, dir->metrics, dir->memory,  dir->report,
                                   dir->sample,   dir->samples, dir->weights, dir->ckpt,
                                   dir->trace,    dir->best};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof written / sizeof *written; i++)
        rc = mf_remove_tree(written[i]);
    static const char *const others[] = {MF_RUN_ENDED, MF_RUN_MLFLOW, "tensorboard"};
    for (size_t i = 0; rc == MF_OK && i < sizeof others / sizeof *others; i++) {
        char *path = mf_path_join(dir->path, others[i]);
        rc = path ? mf_remove_tree(path) : MF_ENOMEM;
        mf_free(path);
    }
    return rc == MF_OK ? mf_sync_dir(dir->path) : rc;
}
