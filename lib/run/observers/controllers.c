/* run/observers/controllers.c: calls after_step of routers, experts, adapters and regularizers,
 * then calls the controllers and collects their changes.
 *
 * Statistics are requested only in steps in which a router or controller may read them. Records
 * contain the latest value that each controller set for each option. After a resume these
 * values are read from the changes in metrics.jsonl. */
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "plugin/load/open.h"
#include "run/observers/head_tally.h"
#include "run/observers/observers.h"
#include "train/optim/optim.h"

/* The latest value that a controller set for an option. */
typedef struct changed {
    int controller; /* index of the controller */
    const char *option;
    double value;
} changed;

typedef struct controllers {
    const mf_session *session;
    changed *changed;       /* [n] in the order of first changes */
    mf_named_value *values; /* [cap] the same values, grouped by controller, for records */
    int n, cap;
    mf_controller_record *records; /* [n_controllers] */
} controllers;

/* ---- changes ---- */

static int controller_of(const controllers *o, const char *section)
{
    const mf_config *c = o->session->config;
    for (int i = 0; i < c->n_controllers; i++)
        if (strcmp(c->controllers[i].section, section) == 0) return i;
    return -1;
}

static int grow(controllers *o)
{
    const int cap = o->cap ? 2 * o->cap : 16;
    const size_t was = (size_t)o->cap, now = (size_t)cap;
    changed *k = mf_realloc(o->changed, was * sizeof *k, now * sizeof *k);
    if (!k) return MF_ENOMEM;
    o->changed = k;
    mf_named_value *v = mf_realloc(o->values, was * sizeof *v, now * sizeof *v);
    if (!v) return MF_ENOMEM;
    o->values = v;
    o->cap = cap;
    return MF_OK;
}

static int keep(controllers *o, int controller, const char *option, double value)
{
    for (int i = 0; i < o->n; i++)
        if (o->changed[i].controller == controller &&
            strcmp(o->changed[i].option, option) == 0) {
            o->changed[i].value = value;
            return MF_OK;
        }
    int rc = o->n == o->cap ? grow(o) : MF_OK;
    if (rc == MF_OK) o->changed[o->n++] = (changed){controller, option, value};
    return rc;
}

/* Returns the registry's copy of an option's name. The copy exists as long as the model. */
static const char *lasting_name(const controllers *o, const char *option, bool *ret_stored)
{
    const mf_plughost *h = o->session->model->plugins;
    for (int i = 0; i < mf_live_count(h); i++)
        if (strcmp(mf_live_name(h, i), option) == 0) {
            *ret_stored = mf_live_is_stored(h, i);
            return mf_live_name(h, i);
        }
    return NULL;
}

static int note(controllers *o, const mf_change *change)
{
    bool stored = false;
    const char *option = lasting_name(o, change->option, &stored);
    const int controller = controller_of(o, change->by);
    /* Values of single heads are in the record's member `heads`. */
    if (stored || !option || controller < 0) return MF_OK;
    return keep(o, controller, option, change->to);
}

static int note_changes(controllers *o)
{
    const mf_change *changes;
    const int n = mf_changes(o->session->model->plugins, &changes);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = note(o, &changes[i]);
    return rc;
}

static int recall(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    int rc = MF_OK;
    (void)t;
    for (int i = 0; rc == MF_OK && i < r->n_turns; i++)
        rc = note(self, &r->turns[i]);
    return rc;
}

static void fill_records(controllers *o)
{
    const mf_config *c = o->session->config;
    int at = 0;
    for (int i = 0; i < c->n_controllers; i++) {
        mf_controller_record *out = &o->records[i];
        *out = (mf_controller_record){c->controllers[i].label, 0, o->values + at};
        for (int k = 0; k < o->n; k++)
            if (o->changed[k].controller == i) {
                o->values[at++] = (mf_named_value){o->changed[k].option, o->changed[k].value};
                out->n++;
            }
    }
}

/* ---- each step ---- */

/* Whether controller i is called after step `step` (from 1). */
static bool due(const mf_config *c, int i, int64_t step)
{
    const int64_t every = c->controllers[i].every;
    return step % (every > 0 ? every : 1) == 0;
}

static unsigned wants(void *self, const mf_trainer *t, int64_t step)
{
    const controllers *o = self;
    const mf_model *m = o->session->model;
    const unsigned all = MF_WANT_ROUTING | MF_WANT_HEADS;
    (void)t;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_router *r = mf_loaded_vtable(mf_instance_plugin(m->moe[i].router));
        if (r->flags & MF_ROUTER_STATS) return all;
    }
    for (int i = 0; i < m->config->n_controllers; i++) {
        const mf_controller *c = mf_loaded_vtable(mf_instance_plugin(m->controllers[i]));
        if (!(c->flags & MF_CONTROLLER_BLIND) && due(o->session->config, i, step)) return all;
    }
    return 0;
}

/* Calls after_step of routers and of all experts. Layers that share a router or experts have
 * one set of buffers. It is updated once, with the statistics of all these layers together. */
static int call_layers(const mf_model *m, const mf_step *s, const mf_layer_stats *shared)
{
    mf_step of_all = *s;
    int rc = MF_OK;
    if (shared) {
        of_all.n_layers = 1;
        of_all.layers = shared;
        s = &of_all;
    }
    for (int32_t i = 0; rc == MF_OK && i < (shared ? 1 : m->n_moe); i++) {
        rc = mf_instance_after_step(m->moe[i].router, s);
        if (rc == MF_OK) rc = mf_instance_after_step(m->moe[i].expert, s);
        if (rc == MF_OK && m->moe[i].shared) rc = mf_instance_after_step(m->moe[i].shared, s);
    }
    return rc;
}

static int call_plugins(const mf_session *session, const mf_step *s,
                        const mf_layer_stats *shared)
{
    const mf_model *m = session->model;
    const mf_config *c = session->config;
    int rc = call_layers(m, s, shared);
    if (rc == MF_OK) rc = mf_adapters_after_step(m, s);
    for (int i = 0; rc == MF_OK && i < m->config->n_regularizers; i++)
        rc = mf_instance_after_step(m->regularizers[i], s);
    for (int i = 0; rc == MF_OK && i < m->config->n_controllers; i++)
        if (due(c, i, s->step)) rc = mf_instance_on_step(m->controllers[i], s);
    return rc;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    controllers *o = self;
    mf_model *m = o->session->model;
    const mf_step s = {.size = sizeof s,
                       .n_layers = m->n_moe,
                       .step = r->step,
                       .max_steps = o->session->steps,
                       .loss = r->loss,
                       .task_loss = r->task_loss,
                       .lr = r->lr,
                       .grad_norm = r->grad_norm,
                       .val_loss = mf_training_val_loss(t),
                       .tokens = mf_trainer_tokens(t),
                       .layers = r->layers,
                       .heads = r->heads ? r->heads->stats : NULL,
                       .n_head_layers = r->heads ? r->heads->layers : 0,
                       .skipped = r->skipped,
                       .accumulate = (int32_t)mf_trainer_job(t)->train->accumulate,
                       .step_tokens = r->tokens};
    mf_plughost_set_step(m->plugins, r->step);
    int rc = call_plugins(o->session, &s, r->shared);
    /* MF_ENOTFOUND of a plugin does not mean a missing file of the run */
    if (rc == MF_ENOTFOUND) rc = mf_fail(MF_ERUN, "%s", mf_error_message());
    /* The optimizer must follow changes of pruning and of the heads' learning rates. */
    if (rc == MF_OK && mf_heads_set_parts(m)) rc = mf_optim_refresh(mf_trainer_optim(t));
    if (rc == MF_OK) rc = note_changes(o);
    fill_records(o);
    r->controllers = o->records;
    r->n_controllers = m->config->n_controllers;
    return rc;
}

static void free_controllers(void *self)
{
    controllers *o = self;
    mf_free(o->changed);
    mf_free(o->values);
    mf_free(o->records);
    mf_free(o);
}

int mf_observe_controllers(mf_trainer *t)
{
    static const mf_observer ops = {.name = "controllers",
                                    .wants = wants,
                                    .after_step = after_step,
                                    .runs_plugins = true,
                                    .recall = recall,
                                    .free = free_controllers};
    controllers *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->session = mf_training_session(t);
    o->records = mf_alloc((size_t)o->session->config->n_controllers + 1, sizeof *o->records);
    if (!o->records) {
        free_controllers(o);
        return MF_ENOMEM;
    }
    return mf_trainer_observe(t, &ops, o);
}
