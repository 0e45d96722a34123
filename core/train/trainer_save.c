#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "model/heads.h"
#include "train/checkpoint.h"
#include "train/identity.h"
#include "train/load.h"
#include "train/trainer_parts.h"
#include "train/weights.h"

/* ---- the beginning of a run ---- */

static int write_config(const mf_trainer *t)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return mf_fail(MF_ENOMEM, "no memory to write %s", t->dir->config);
    int rc = mf_config_write(t->session->config, f);
    if (fclose(f) != 0 && rc == MF_OK)
        rc = mf_fail(MF_ENOMEM, "no memory to write %s", t->dir->config);
    if (rc == MF_OK) rc = mf_write_file_atomic(t->dir->config, text, n);
    free(text);
    return rc;
}

/* How the weights are distributed before the first step: nothing else remembers them. */
static int write_weights(const mf_trainer *t)
{
    mf_inventory *v = NULL;
    mf_weights w;
    int rc = mf_inventory_of_store(t->session->model->store, &v);
    if (rc == MF_OK) rc = mf_weights_of(v, &w);
    mf_inventory_free(v);
    return rc == MF_OK ? mf_weights_write(t->dir->weights, &w) : rc;
}

/* keep_to_step: as in train/step_file.h. */
static int open_logs(mf_trainer *t, int64_t keep_to_step)
{
    int rc = mf_step_file_open(t->dir->metrics, keep_to_step, &t->log);
    return rc == MF_OK ? mf_step_file_open(t->dir->memory, keep_to_step, &t->memory) : rc;
}

int mf_trainer_sync(mf_trainer *t)
{
    int rc = mf_step_file_sync(t->log);
    return rc == MF_OK ? mf_step_file_sync(t->memory) : rc;
}

int mf_trainer_begin(mf_trainer *t)
{
    int rc = write_config(t);
    if (rc == MF_OK) rc = write_weights(t);
    if (rc == MF_OK) rc = mf_identity_write(t->dir->manifest, t->session);
    if (rc == MF_OK && t->session->tokenizer)
        rc = mf_tokenizer_save(t->session->tokenizer, t->dir->tokenizer);
    return rc == MF_OK ? open_logs(t, -1) : rc;
}

/* A run whose gates have another form than ours. Layers that it lacks have start values, which
 * are of our form. */
static int take_gates(const mf_trainer *t, const char *config)
{
    mf_ini *ini = mf_ini_new();
    int rc = ini ? mf_ini_load(ini, config) : MF_ENOMEM;
    if (rc == MF_OK) {
        const mf_ini_entry *gates = mf_ini_get(ini, "model", "head_gates"),
                           *form = mf_ini_get(ini, "model", "gate_form"),
                           *count = mf_ini_get(ini, "model", "layers");
        const bool raw = form && strcmp(form->value, "raw") == 0;
        long long layers = 0;
        if (gates && strcmp(gates->value, "yes") == 0 && count &&
            mf_parse_i64(count->value, &layers))
            mf_gates_convert(t->session->model, raw ? MF_GATE_RAW : MF_GATE_SIGMOID, layers);
    }
    mf_ini_free(ini);
    return rc;
}

int mf_trainer_start_from(mf_trainer *t)
{
    const char *path = t->session->config->train.from;
    mf_rundir *from = NULL;
    int64_t step = 0;
    int missing = 0;
    int rc = mf_rundir_read(path, &from);
    if (rc == MF_OK) rc = mf_ckpt_start(from->ckpt, t->session->model->store, &step, &missing);
    if (rc == MF_OK) rc = take_gates(t, from->config);
    mf_rundir_close(from);
    if (rc != MF_OK) return mf_fail_context(rc, "train.from");
    mf_log(MF_LOG_INFO, "begins with the weights of %s after %lld steps%s", path,
           (long long)step, missing > 0 ? "; what it lacks keeps its start values" : "");
    return MF_OK;
}

/* ---- what is saved beside parameters, buffers and moments ---- */

static void frozen_name(char *out, size_t size, const mf_param *p)
{
    snprintf(out, size, "frozen/%s", p->name);
}

/* Of another measure there is no best yet. */
static const char *best_name(const mf_trainer *t)
{
    static const char *const names[] = {"best_loss", "best/accuracy", "best/macro_f1",
                                        "best/mse",  "best/pearson",  "best/spearman"};
    return names[t->session->config->train.best_by];
}

static int collect(const mf_trainer *t, mf_state *s)
{
    const mf_plughost *h = t->session->model->plugins;
    int rc = mf_state_set_int(s, "step", t->step);
    if (rc == MF_OK) rc = mf_state_set_int(s, "tokens", t->tokens);
    if (rc == MF_OK) rc = mf_state_set_int(s, "skipped", t->skipped);
    if (rc == MF_OK) rc = mf_state_set_real(s, "val_loss", t->val_loss);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/steps", t->since.steps);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/loss", t->since.loss);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/rows", t->since.rows);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/hits", t->since.hits);
    if (rc == MF_OK) rc = mf_state_set_real(s, best_name(t), t->best);
    if (rc == MF_OK) rc = mf_state_set_real(s, "log/seen", t->seen);
    if (rc == MF_OK) rc = mf_state_set_real(s, "log/dropped", t->dropped);
    if (rc == MF_OK) rc = mf_state_set_real(s, "log/moved", t->moved);
    if (rc == MF_OK)
        rc = mf_state_set_real(s, "wall_s", t->wall_before + mf_clock() - t->started);
    for (int i = 0; rc == MF_OK && i < mf_live_count(h); i++) {
        char name[256];
        double value = 0;
        if (mf_live_is_stored(h, i)) continue;
        snprintf(name, sizeof name, MF_LIVE_STATE "%s", mf_live_name(h, i));
        rc = mf_live_get(h, mf_live_name(h, i), &value);
        if (rc == MF_OK) rc = mf_state_set_real(s, name, value);
    }
    const mf_model *m = t->session->model;
    for (int i = 0; rc == MF_OK && i < mf_model_tasks(m); i++) {
        char name[96];
        mf_load_task_name(m, i, name, sizeof name);
        rc = mf_state_set_int(s, name, mf_model_task_kind(m, i) == MF_TASK_REGRESS);
    }
    const mf_store *store = t->session->model->store;
    for (int i = 0; rc == MF_OK && i < mf_store_count(store); i++) {
        char name[256];
        if (!mf_store_at(store, i)->frozen) continue;
        frozen_name(name, sizeof name, mf_store_at(store, i));
        rc = mf_state_set_int(s, name, 1);
    }
    return rc;
}

static int save_in(mf_trainer *t, const char *folder, int keep)
{
    mf_state *s = mf_state_new();
    if (!s) return MF_ENOMEM;
    int rc = mf_trainer_sync(t);
    if (rc == MF_OK) rc = collect(t, s);
    if (rc == MF_OK)
        rc = mf_ckpt_save(folder, t->step, t->session->model->store, s,
                          mf_identity_now(t->session->model), keep);
    mf_state_free(s);
    return rc == MF_OK ? rc : mf_fail_context(rc, "saving step %lld", (long long)t->step);
}

int mf_trainer_save(mf_trainer *t)
{
    return save_in(t, t->dir->ckpt, (int)t->session->config->train.keep);
}

int mf_trainer_save_best(mf_trainer *t)
{
    return save_in(t, t->dir->best, 1);
}

/* ---- going on ---- */

/* What controllers froze or thawed: the checkpoint decides, and graphs follow. */
static int restore_frozen(mf_trainer *t, const mf_state *s)
{
    const mf_store *store = t->session->model->store;
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
    return changed ? mf_trainer_rebuild(t) : MF_OK;
}

static int restore(mf_trainer *t, const mf_state *s)
{
    mf_plughost *h = t->session->model->plugins;
    if (!mf_state_int(s, "step", &t->step) || !mf_state_int(s, "tokens", &t->tokens) ||
        !mf_state_int(s, "skipped", &t->skipped) ||
        !mf_state_real(s, "val_loss", &t->val_loss) ||
        !mf_state_real(s, "wall_s", &t->wall_before))
        return mf_fail(MF_ECHECKPOINT, "%s: the checkpoint lacks the position of the run",
                       t->dir->path);
    mf_state_real(s, best_name(t), &t->best); /* an older checkpoint lacks these */
    mf_state_real(s, "log/seen", &t->seen);
    mf_state_real(s, "log/dropped", &t->dropped);
    mf_state_real(s, "log/moved", &t->moved);
    mf_state_real(s, "since/steps", &t->since.steps);
    mf_state_real(s, "since/loss", &t->since.loss);
    mf_state_real(s, "since/rows", &t->since.rows);
    mf_state_real(s, "since/hits", &t->since.hits);
    int rc = mf_load_tasks(t->session->model, s);
    if (rc == MF_OK) rc = mf_load_live(h, s, NULL);
    if (rc != MF_OK) return rc;
    mf_turns_clear(h);
    return restore_frozen(t, s);
}

/* Graphs were built over start values: what is pruned, or switched off, is known by now. */
static int restore_structure(mf_trainer *t)
{
    const mf_model_config *c = &t->session->config->model;
    mf_plughost_rebuild(t->session->model->plugins);
    return c->head_gates || c->skip == MF_SKIP_UNET ? mf_trainer_rebuild(t) : MF_OK;
}

/* Was the line of a train step written because log_every said so, or for the sake of a turn? */
static bool by_schedule(const mf_trainer *t, const mf_metrics_record *r)
{
    const int64_t every = t->session->config->train.log_every;
    return strcmp(r->split, "train") != 0 || r->step == 1 || r->step == t->session->steps ||
           (every > 0 && r->step % every == 0);
}

/* Controllers see the same past as in an unbroken run. */
static int recall(mf_trainer *t)
{
    mf_metrics_history *old = NULL;
    int rc = mf_metrics_read(t->dir->metrics, &old);
    for (int i = 0; rc == MF_OK && i < old->n; i++) {
        const mf_metrics_record *r = &old->records[i];
        if (r->step > t->step) continue;
        for (int j = 0; rc == MF_OK && j < r->n_turns; j++)
            rc = mf_trainer_note_turn(t, &r->turns[j]);
        if (rc == MF_OK && by_schedule(t, r)) rc = mf_past_add(t->past, r);
    }
    mf_metrics_history_free(old);
    return rc;
}

int mf_trainer_resume(mf_trainer *t)
{
    mf_state *s = NULL;
    int64_t step = 0;
    int rc = mf_ckpt_resume(t->dir->ckpt, t->session->model->store,
                            mf_identity_now(t->session->model), &s, &step);
    if (rc == MF_OK) rc = restore(t, s);
    if (rc == MF_OK) rc = restore_structure(t);
    mf_state_free(s);
    if (rc == MF_OK) rc = recall(t);
    if (rc == MF_OK) rc = mf_trainer_cut_samples(t);
    return rc == MF_OK ? open_logs(t, t->step) : rc;
}
