/* run/folder/restart.c: distinguishes a run that has saved nothing from one whose checkpoints
 * are gone: lines of metrics.jsonl are written before the checkpoint of their step. */
#include "run/folder/restart.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint.h"
#include "run/metrics/metrics.h"

int mf_restart_possible(const mf_rundir *dir, int64_t save_every, int64_t steps, bool *ret)
{
    const int64_t first =
        save_every > 0 && (steps == 0 || save_every < steps) ? save_every : steps;
    /* The folder is made by the first save, which may have been interrupted. */
    const int64_t last = mf_is_dir(dir->ckpt) ? first : first - 1;
    mf_metrics_history *past = NULL;
    bool saved;
    *ret = false;
    int rc = mf_ckpt_any(dir->ckpt, &saved);
    if (rc != MF_OK || saved) return rc;
    *ret = true;
    if (first == 0 || !mf_exists(dir->metrics)) return MF_OK;
    rc = mf_metrics_read(dir->metrics, &past);
    if (rc != MF_OK) { /* its first line is not complete */
        mf_error_clear();
        return rc == MF_ENOMEM ? MF_ENOMEM : MF_OK;
    }
    for (int i = 0; i < past->n; i++)
        *ret = *ret && past->records[i].step <= last;
    mf_metrics_history_free(past);
    return MF_OK;
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
