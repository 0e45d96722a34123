/* Writes a run from a model in memory. A directory that was there before, and empty, stays when
 * a failure is undone. */
#include "lab/new_run.h"
#include <stdio.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/provenance.h"
#include "run/observers/observers.h"

int mf_new_run_open(const char *run, const char *name, mf_new_run *ret)
{
    ret->made = !run || !mf_exists(run);
    if (!name) return MF_ENOMEM;
    return run ? mf_rundir_create_at(run, &ret->dir)
               : mf_rundir_create("runs", name, &ret->dir);
}

int mf_new_run_write(mf_new_run *r, mf_session *s)
{
    mf_state *state = mf_state_new();
    s->config->train.from = r->dir->path;
    int rc = state ? mf_run_files_write(s, r->dir) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_write_file_atomic(r->dir->metrics, "", 0);
    if (rc == MF_OK)
        rc =
            mf_ckpt_save(r->dir->ckpt, 0, s->model->store, NULL, state, mf_provenance_of(s), 0);
    mf_state_free(state);
    return rc;
}

void mf_new_run_undo(const mf_new_run *r)
{
    const int rc = mf_error_code();
    char why[2048];
    char **names = NULL;
    int n = 0;
    if (!r->dir) return;
    snprintf(why, sizeof why, "%s", mf_error_message());
    if (r->made)
        mf_remove_tree(r->dir->path);
    else if (mf_list_dir(r->dir->path, &names, &n) == MF_OK)
        for (int i = 0; i < n; i++) {
            char *path = mf_path_join(r->dir->path, names[i]);
            if (path) mf_remove_tree(path);
            mf_free(path);
        }
    mf_list_free(names, n);
    mf_fail(rc, "%s", why);
}
