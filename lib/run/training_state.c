/* run/training_state.c: saves the state of training in a checkpoint, and restores it.
 *
 * This file saves the position, live options, the kind of each task, and which parameters are
 * frozen. Each observer adds its own state. Names in the state are part of the file format,
 * because runs of earlier versions can be resumed. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/load.h"
#include "run/folder/provenance.h"
#include "run/training_internal.h"

enum { MESSAGE = 2048 };

/* ---- saving ---- */

static void frozen_name(char *out, size_t size, const mf_param *p)
{
    snprintf(out, size, "frozen/%s", p->name);
}

static int collect_position(const mf_trainer *t, mf_state *s)
{
    const mf_trainer_place at = mf_trainer_where(t);
    int rc = mf_state_set_int(s, "step", at.step);
    if (rc == MF_OK) rc = mf_state_set_int(s, "tokens", at.tokens);
    return rc == MF_OK ? mf_state_set_int(s, "skipped", at.skipped) : rc;
}

static int collect_options(const mf_plughost *h, mf_state *s)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_live_count(h); i++) {
        char name[256];
        double value = 0, start;
        if (mf_live_is_stored(h, i)) continue;
        snprintf(name, sizeof name, MF_LIVE_STATE "%s", mf_live_name(h, i));
        rc = mf_live_get(h, mf_live_name(h, i), &value);
        if (rc == MF_OK && mf_live_start(h, i, &start) && value == start) continue;
        if (rc == MF_OK) rc = mf_state_set_real(s, name, value);
    }
    return rc;
}

static int collect_model(const mf_model *m, mf_state *s)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_model_tasks(m); i++) {
        char name[96];
        mf_load_task_name(m, i, name, sizeof name);
        rc = mf_state_set_int(s, name, mf_model_task_kind(m, i) == MF_TASK_REGRESS);
    }
    for (int i = 0; rc == MF_OK && i < mf_store_count(m->store); i++) {
        char name[256];
        if (!mf_store_at(m->store, i)->frozen) continue;
        frozen_name(name, sizeof name, mf_store_at(m->store, i));
        rc = mf_state_set_int(s, name, 1);
    }
    return rc;
}

/* Whether a folder that no longer exists may have caused the error. */
static bool of_files(int rc)
{
    return rc == MF_EIO || rc == MF_EINPUT || rc == MF_ENOTFOUND || rc == MF_ECHECKPOINT;
}

int mf_training_judge(void *self, int rc)
{
    const mf_training *g = self;
    char why[MESSAGE];
    if (!g->options.dir || (rc != MF_OK && !of_files(rc))) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    const int judged = mf_rundir_judge(g->options.dir);
    if (rc == MF_OK || judged == MF_ERUN) return judged;
    if (rc == MF_EIO) return mf_fail(rc, "%s", why);
    /* The run wrote these files itself, so the input is not wrong. Something has removed or
     * changed them during the run. */
    return mf_fail(MF_ERUN,
                   "%s: a file that the run has just written is missing or damaged: %s",
                   g->options.dir->path, why);
}

int mf_training_save_in(mf_trainer *t, const char *folder, int64_t keep)
{
    mf_session *session = mf_training_session(t);
    const mf_model *m = session->model;
    const mf_ckpt_moments moments = {.read = mf_trainer_read_moments, .arg = t};
    mf_provenance now = *mf_provenance_of(session);
    int rc = mf_trainer_begin(t);
    if (rc == MF_OK) rc = mf_trainer_judge_equal(t);
    if (rc != MF_OK) return rc;
    if (!folder) return mf_trainer_serve_moments(t);
    mf_state *s = mf_state_new();
    rc = s ? MF_OK : MF_ENOMEM;
    mf_trainer_restore(t);
    if (rc == MF_OK) rc = mf_trainer_judge(t, rc);
    if (rc == MF_OK) rc = collect_position(t, s);
    if (rc == MF_OK) rc = collect_options(m->plugins, s);
    if (rc == MF_OK) rc = collect_model(m, s);
    MF_TELL(t, rc, save, t, s);
    now.wall_s = mf_trainer_wall(t);
    if (rc == MF_OK)
        rc = mf_ckpt_save(folder, mf_trainer_steps(t), m->store,
                          mf_trainer_shares_moments(t) ? &moments : NULL, s, &now, keep);
    const int ended = mf_trainer_end_moments(t);
    if (rc == MF_OK) rc = ended;
    mf_state_free(s);
    rc = mf_trainer_judge(t, rc);
    if (rc == MF_OK) return rc;
    return mf_fail_context(rc, "saving step %lld", (long long)mf_trainer_steps(t));
}

int mf_training_save_best(mf_trainer *t)
{
    const mf_rundir *dir = mf_training_dir(t);
    return mf_training_save_in(t, dir ? dir->best : NULL, 1);
}

int mf_training_save(mf_trainer *t)
{
    if (!mf_training_keeps(t))
        return mf_fail(MF_EUSAGE, "the trainer has no run directory to save in");
    mf_training *g = mf_trainer_owner_of(t);
    const mf_rundir *dir = mf_training_dir(t);
    int rc = mf_training_save_in(t, dir ? dir->ckpt : NULL, mf_trainer_job(t)->train->keep);
    if (rc == MF_OK) g->saved = mf_trainer_steps(t);
    MF_TELL(t, rc, on_save, t);
    return mf_trainer_note(t, rc);
}

/* ---- resume ---- */

/* Restores which parameters are frozen. Rebuilds graphs if this changes a parameter. */
static int restore_frozen(mf_training *g, const mf_state *s)
{
    const mf_store *store = g->session->model->store;
    bool changed = false;
    for (int i = 0; i < mf_store_count(store); i++) {
        mf_param *p = mf_store_at(store, i);
        char name[256];
        int64_t value = 0;
        frozen_name(name, sizeof name, p);
        const bool frozen = mf_state_int(s, name, &value) && value != 0;
        if (p->buffer || p->frozen == frozen) continue;
        p->frozen = frozen;
        changed = true;
    }
    return changed ? mf_trainer_rebuild(g->loop) : MF_OK;
}

static int restore(mf_training *g, const mf_state *s, double wall_s)
{
    mf_plughost *h = g->session->model->plugins;
    mf_trainer_place at = {.wall_s = wall_s};
    if (!mf_state_int(s, "step", &at.step) || !mf_state_int(s, "tokens", &at.tokens) ||
        !mf_state_int(s, "skipped", &at.skipped))
        return mf_fail(MF_ECHECKPOINT, "%s: the checkpoint lacks the position of the run",
                       g->options.dir->path);
    mf_trainer_go(g->loop, &at);
    int rc = mf_load_tasks(g->session->model, s);
    if (rc == MF_OK) rc = mf_load_live(h, s, NULL);
    if (rc != MF_OK) return rc;
    mf_changes_clear(h);
    return restore_frozen(g, s);
}

/* Graphs were built before the checkpoint was read. If heads or adapters can be switched off,
 * or if moe.top_k was changed, the graphs are rebuilt with the values of the checkpoint. */
static int restore_structure(mf_training *g)
{
    const mf_model *m = g->session->model;
    mf_plughost_rebuild(m->plugins);
    const bool other_k = m->top_k != (double)m->config->moe.top_k;
    const bool other = m->head_switches || other_k || mf_live_switch(m->plugins, "");
    return other ? mf_trainer_rebuild(g->loop) : MF_OK;
}

static int read_checkpoint(mf_training *g, double *ret_wall_s)
{
    const mf_model *m = g->session->model;
    int64_t step = 0;
    const int rc = mf_provenance_recall(g->session, g->options.dir->manifest);
    if (rc != MF_OK) return rc;
    return mf_ckpt_resume(g->options.dir->ckpt, m->store, mf_provenance_of(g->session),
                          &g->resumed, &step, ret_wall_s);
}

/* Rank 0 removes the leftovers of interrupted saves and reads; then the other ranks read. */
static int read_in_turn(mf_training *g, double *ret_wall_s)
{
    const bool first = mf_world_rank(g->options.world) == 0;
    int rc = first ? mf_rundir_clean(g->options.dir) : MF_OK;
    if (rc == MF_OK && first) rc = mf_ckpt_clean(g->options.dir->best);
    if (rc == MF_OK && first) rc = read_checkpoint(g, ret_wall_s);
    rc = mf_world_agree(g->options.world, rc);
    return rc == MF_OK && !first ? read_checkpoint(g, ret_wall_s) : rc;
}

int mf_training_resume(mf_training *g)
{
    double wall_s = 0;
    if (!g->options.dir)
        return mf_fail(MF_EUSAGE, "resume: expected a run directory, found none");
    int rc = read_in_turn(g, &wall_s);
    if (rc == MF_OK) rc = restore(g, g->resumed, wall_s);
    return rc == MF_OK ? restore_structure(g) : rc;
}

int mf_training_recall(void *self)
{
    mf_training *g = self;
    mf_trainer *t = g->loop;
    mf_metrics_history *past = NULL;
    int rc = MF_OK;
    MF_TELL(t, rc, load, t, g->resumed);
    mf_state_free(g->resumed);
    g->resumed = NULL;
    if (rc == MF_OK) rc = mf_metrics_read(g->options.dir->metrics, &past);
    for (int i = 0; rc == MF_OK && i < past->n; i++)
        if (past->records[i].step <= mf_trainer_steps(t))
            MF_TELL(t, rc, recall, t, &past->records[i]);
    mf_metrics_history_free(past);
    return rc;
}
