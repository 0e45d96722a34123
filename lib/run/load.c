/* run/load.c: reads a run's configuration, with the caller's changes, opens a session
 * with the run's tokenizer and dimensions, and loads weights and live options from
 * a checkpoint. */
#include "run/load.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/provenance.h"
#include "run/folder/rundir.h"

#define MAX_SET 64

/* Converts "name:key=value,key=value" to assignments. Unless the change is strict, a router
 * that reads later tokens is allowed, because it is not used for training. */
static int router_assignments(mf_arena *arena, const mf_load_change *change, mf_assignment *set,
                              int *ret_n)
{
    const char *text = change->router,
               *section = change->router_section ? change->router_section : "router";
    char *name = mf_arena_strdup(arena, text), *rest = name ? strchr(name, ':') : NULL, *one;
    int n = 0;
    if (!name) return MF_ENOMEM;
    if (rest) *rest++ = 0;
    set[n++].text = mf_arena_strf(arena, "%s.plugin=%s", section, name);
    if (!change->strict_router) set[n++].text = "moe.force_causal=yes";
    while (rest && (one = strsep(&rest, ",")) != NULL) {
        if (n == MAX_SET)
            return mf_fail(MF_EUSAGE, "router %s: expected at most %d options", name,
                           MAX_SET - 2);
        set[n++].text = mf_arena_strf(arena, "%s.%s", section, one);
    }
    *ret_n = n;
    for (int i = 0; i < n; i++) {
        set[i].origin = "--router";
        if (!set[i].text) return MF_ENOMEM;
    }
    return MF_OK;
}

static int load_config(const char *path, const mf_load_change *change, mf_config **ret)
{
    mf_assignment *set = NULL;
    int n = 0;
    mf_arena *arena = mf_arena_new();
    if (arena) set = mf_arena_alloc(arena, ((size_t)change->n_set + MAX_SET + 2) * sizeof *set);
    int rc = set ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && change->router) rc = router_assignments(arena, change, set, &n);
    if (rc == MF_OK && change->dtype) {
        const char *text = mf_arena_strf(arena, "train.dtype=%s", change->dtype);
        set[n++] = (mf_assignment){text, "--set"};
        if (!text) rc = MF_ENOMEM;
    }
    if (rc == MF_OK && change->device) {
        const char *text = mf_arena_strf(arena, "train.device=%s", change->device);
        set[n++] = (mf_assignment){text, "--device"};
        if (!text) rc = MF_ENOMEM;
    }
    for (int i = 0; rc == MF_OK && i < change->n_set; i++)
        set[n++] = change->set[i];
    if (rc == MF_OK) rc = mf_config_load_from(path, n, set, NULL, ret);
    mf_arena_free(arena);
    return rc;
}

int mf_load_live(mf_plughost *h, const mf_state *s, const char *but)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_live_count(h); i++) {
        const char *option = mf_live_name(h, i);
        char name[256];
        double value, now;
        snprintf(name, sizeof name, MF_LIVE_STATE "%s", option);
        bool there = mf_state_real(s, name, &value);
        if (!there && mf_live_old_name(h, option)) {
            snprintf(name, sizeof name, MF_LIVE_STATE "%s", mf_live_old_name(h, option));
            there = mf_state_real(s, name, &value);
        }
        if (!there) there = mf_live_start(h, i, &value);
        if (!there || (but && strstr(option, but))) continue;
        rc = mf_live_get(h, option, &now);
        if (rc == MF_OK && value != now)
            rc = mf_live_set(h, option, value, "resume", "value of the checkpoint");
    }
    return rc;
}

int mf_load_tasks(const mf_model *m, const mf_state *s)
{
    for (int i = 0; i < mf_model_tasks(m); i++) {
        static const char *const kinds[] = {"classify", "regress"};
        const bool number = mf_model_task_kind(m, i) == MF_TASK_REGRESS;
        char name[96];
        int64_t was = number;
        mf_load_task_name(m, i, name, sizeof name);
        if (mf_state_int(s, name, &was) && (was != 0) != number)
            return mf_fail(MF_ECHECKPOINT,
                           "the checkpoint's head %s is one to %s; expected one to %s",
                           mf_model_task_name(m, i), kinds[was != 0], kinds[number]);
    }
    return MF_OK;
}

void mf_load_task_name(const mf_model *m, int i, char *out, size_t size)
{
    snprintf(out, size, "task/%s/regress", mf_model_task_name(m, i));
}

int mf_load_run_as(const char *path, const mf_session_options *options,
                   const mf_load_change *change, mf_session **ret, int64_t *ret_step)
{
    mf_rundir *dir = NULL;
    mf_config *config;
    mf_session *s = NULL;
    mf_state *state = NULL;
    mf_model_dims dims;
    const char **classes = NULL;
    const char **labels = NULL;
    int32_t n_classes = 0, n_labels = 0;
    char id[MF_PROVENANCE_ID];
    bool found;
    mf_names more[MF_TASKS_MAX] = {{0}};
    int rc = mf_rundir_read(path, &dir);
    if (rc == MF_OK) rc = mf_provenance_read_dims(dir->manifest, &dims);
    if (rc == MF_OK) rc = mf_provenance_read_classes(dir->manifest, &classes, &n_classes);
    if (rc == MF_OK) rc = mf_provenance_read_labels(dir->manifest, &labels, &n_labels);
    if (rc == MF_OK) rc = mf_provenance_read_more_classes(dir->manifest, more);
    if (rc == MF_OK) rc = mf_provenance_read_id(dir->manifest, id, &found);
    if (rc == MF_OK) rc = load_config(dir->config, change, &config);
    if (rc == MF_OK) {
        mf_session_options o = *options;
        o.dims = &dims;
        o.class_names = classes;
        o.n_class_names = n_classes;
        o.more_names = more;
        o.label_names = labels;
        o.n_label_names = n_labels;
        o.tokenizer_file = mf_exists(dir->tokenizer) ? dir->tokenizer : NULL;
        o.stored_file = change->no_weights ? "" : dir->stored; /* "": no list */
        if (change->router) o.bind_but = ".router.";
        rc = mf_session_open(config, &o, &s);
    }
    if (rc == MF_OK && dir->step >= 0 && change->step >= 0 && change->step != dir->step)
        rc = mf_fail(MF_EUSAGE,
                     "the path names the checkpoint of step %lld, found step %lld, too",
                     (long long)dir->step, (long long)change->step);
    if (rc == MF_OK && !change->no_weights)
        rc = mf_ckpt_load_with_state(dir->ckpt, change->step < 0 ? dir->step : change->step, id,
                                     s->model->store, change->router ? ".router." : NULL,
                                     ret_step, &state);
    if (rc == MF_OK && state) rc = mf_load_tasks(s->model, state);
    if (rc == MF_OK && state)
        rc = mf_load_live(s->model->plugins, state, change->router ? "router." : NULL);
    mf_state_free(state);
    mf_free(classes);
    mf_free(labels);
    for (int i = 0; i < MF_TASKS_MAX; i++)
        mf_free(more[i].name);
    mf_rundir_close(dir);
    if (rc != MF_OK) {
        mf_session_close(s);
        /* A missing file that the run needs is wrong input. A missing router named by the
         * caller is not. */
        if (rc == MF_ENOTFOUND && !change->router) rc = MF_EINPUT;
        return mf_fail_in(rc, path);
    }
    *ret = s;
    return MF_OK;
}
