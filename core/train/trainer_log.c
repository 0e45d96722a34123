#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "train/trainer_parts.h"

void mf_trainer_stats(mf_trainer *t)
{
    const mf_model *m = t->session->model;
    const int64_t experts = m->config->moe.experts;
    for (int32_t i = 0; i < m->n_moe; i++)
        mf_moe_tally_stats(t->tallies[i], t->shares + i * MF_MOE_SHARES * experts,
                           &t->stats[i]);
}

static int controller_of(const mf_trainer *t, const char *section)
{
    const mf_config *c = t->session->config;
    for (int i = 0; i < c->n_controllers; i++)
        if (strcmp(c->controllers[i].section, section) == 0) return i;
    return -1;
}

static int add_knob(mf_trainer *t, int controller, const char *option, double value)
{
    for (int i = 0; i < t->n_knobs; i++)
        if (t->knobs[i].controller == controller && strcmp(t->knobs[i].option, option) == 0) {
            t->knobs[i].value = value;
            return MF_OK;
        }
    if (t->n_knobs == t->cap_knobs) {
        const int cap = t->cap_knobs ? 2 * t->cap_knobs : 16;
        const size_t was = (size_t)t->cap_knobs, now = (size_t)cap;
        mf_knob *k = mf_realloc(t->knobs, was * sizeof *k, now * sizeof *k);
        if (!k) return MF_ENOMEM;
        t->knobs = k;
        mf_named_value *v = mf_realloc(t->knob_values, was * sizeof *v, now * sizeof *v);
        if (!v) return MF_ENOMEM;
        t->knob_values = v;
        t->cap_knobs = cap;
    }
    t->knobs[t->n_knobs++] = (mf_knob){controller, option, value};
    return MF_OK;
}

/* The registry's copy of an option's name: it lives as long as the model. */
static const char *lasting_name(const mf_trainer *t, const char *option, bool *ret_stored)
{
    const mf_plughost *h = t->session->model->plugins;
    for (int i = 0; i < mf_live_count(h); i++)
        if (strcmp(mf_live_name(h, i), option) == 0) {
            *ret_stored = mf_live_is_stored(h, i);
            return mf_live_name(h, i);
        }
    return NULL;
}

int mf_trainer_note_turn(mf_trainer *t, const mf_turn *turn)
{
    bool stored = false;
    const char *option = lasting_name(t, turn->option, &stored);
    const int controller = controller_of(t, turn->by);
    /* What each head was turned to is in `heads`. */
    if (stored) return MF_OK;
    return option && controller >= 0 ? add_knob(t, controller, option, turn->to) : MF_OK;
}

int mf_trainer_note_turns(mf_trainer *t)
{
    const mf_turn *turns;
    const int n = mf_turns(t->session->model->plugins, &turns);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = mf_trainer_note_turn(t, &turns[i]);
    return rc;
}

static void controllers(mf_trainer *t, mf_metrics_record *r)
{
    const mf_config *c = t->session->config;
    int at = 0;
    for (int i = 0; i < c->n_controllers; i++) {
        mf_controller_record *out = &t->controllers[i];
        *out = (mf_controller_record){c->controllers[i].label, 0, t->knob_values + at};
        for (int k = 0; k < t->n_knobs; k++)
            if (t->knobs[k].controller == i) {
                t->knob_values[at++] = (mf_named_value){t->knobs[k].option, t->knobs[k].value};
                out->n++;
            }
    }
    r->controllers = t->controllers;
    r->n_controllers = c->n_controllers;
}

static double mean_of(const mf_tensor *x)
{
    const float *v = mf_tensor_data(x);
    const int64_t n = mf_shape_count(x->shape);
    double sum = 0;
    for (int64_t i = 0; v && i < n; i++)
        sum += (double)v[i];
    return v && n > 0 ? sum / (double)n : (double)NAN;
}

static void plugin_metrics(mf_trainer *t, mf_metrics_record *r)
{
    const mf_plughost *h = t->session->model->plugins;
    const int room = (int)(sizeof t->plugin_metrics / sizeof *t->plugin_metrics);
    mf_tensor *value;
    const char *name;
    for (int i = 0; i < room && (name = mf_plughost_metric(h, t->graph->g, i, &value)); i++)
        t->plugin_metrics[r->n_metrics++] = (mf_named_value){name, mean_of(value)};
    r->metrics = t->plugin_metrics;
}

void mf_trainer_record(mf_trainer *t, bool with_layers, mf_metrics_record *r)
{
    const mf_model *m = t->session->model;
    mf_metrics_record_init(r);
    r->step = t->step;
    r->split = "train";
    r->dtype = mf_dtype_text(m->config->train.dtype);
    r->loss = t->loss;
    r->task_loss = t->task_loss;
    r->lr = t->lr_now;
    r->grad_norm = t->grad_norm;
    r->tokens = t->tokens;
    r->tokens_per_s = t->tokens_per_s;
    r->wall_s = t->wall_before + mf_clock() - t->started;
    if (m->config->model.task == MF_TASK_LM) r->ppl = exp(t->task_loss);
    mf_answers_score(t->answers, r);
    if (m->n_moe > 0 && t->graph->moe[0].limited) {
        r->drop_rate = t->seen > 0 ? t->dropped / t->seen : 0;
        r->reassigned = t->moved;
    }
    r->regularizers = t->regularizers;
    r->n_regularizers = m->config->n_regularizers;
    r->n_turns = mf_turns(m->plugins, &r->turns);
    controllers(t, r);
    if (t->head_record) {
        r->heads_active = mf_heads_active(m);
        r->heads_total = (int64_t)t->head_record->layers * t->head_record->heads;
    }
    if (t->head_record && (with_layers || t->importance_known)) {
        r->heads = t->head_record->stats;
        r->n_head_layers = t->head_record->layers;
    }
    if (!with_layers) return;
    r->layers = t->stats;
    r->n_layers = m->n_moe;
    plugin_metrics(t, r);
}
