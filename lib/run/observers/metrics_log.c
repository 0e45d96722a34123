/* run/observers/metrics_log.c: makes records from the values of a step, and writes them
 * to metrics.jsonl.
 *
 * A record is made for steps that train.log_every selects, the first step, the last step, each
 * step in which a live option was changed, and each evaluation. All lines of a step are in the
 * file before the checkpoint of that step is saved, so a resumed run can truncate the file.
 * Without a run directory, records are made but not written. */
#include <math.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "run/observers/head_tally.h"
#include "run/observers/observers.h"

#define MAX_PLUGIN_METRICS 64

typedef struct metrics_log {
    mf_step_file *file; /* NULL without a run directory */
    mf_metrics_record record;
    mf_named_value metrics[MAX_PLUGIN_METRICS];
    /* sums since the last training record; checkpoints contain the first three */
    double tokens, dropped, reassigned;
    double lap_started, lap_apart; /* times at the last record: clock, mf_trainer_apart */
    int64_t lap_tokens;
    int64_t lines; /* number of lines in the file when the checkpoint was saved; 0: an older
                    * checkpoint without it */
} metrics_log;

/* ---- a record ---- */

static double mean_of(const mf_tensor *x)
{
    const float *v = mf_tensor_host(x);
    const int64_t n = mf_shape_count(x->shape);
    double sum = 0;
    for (int64_t i = 0; v && i < n; i++)
        sum += (double)v[i];
    return v && n > 0 ? sum / (double)n : (double)NAN;
}

/* Adds the values of the last micro-batch, under their names in the graph. */
static void plugin_metrics(metrics_log *o, const mf_plughost *h, const mf_graph *g)
{
    mf_metrics_record *r = &o->record;
    mf_tensor *value;
    const char *name;
    for (int i = 0; i < MAX_PLUGIN_METRICS && (name = mf_plughost_metric(h, g, i, &value)); i++)
        o->metrics[r->n_metrics++].name = name;
    r->metrics = o->metrics;
}

static int64_t numbers(void *self, const mf_trainer *t, const mf_step_result *r)
{
    (void)self, (void)t;
    return r->wanted & MF_WANT_METRICS ? MAX_PLUGIN_METRICS : 0;
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    const mf_plughost *h = mf_training_session(t)->model->plugins;
    mf_tensor *value;
    (void)self;
    for (int i = 0; r->wanted & MF_WANT_METRICS && i < MAX_PLUGIN_METRICS; i++)
        out[i] = mf_plughost_metric(h, r->graph->g, i, &value) ? mean_of(value) : (double)NAN;
    return MF_OK;
}

static int fold(void *self, mf_trainer *t, mf_step_result *r, const double *in)
{
    metrics_log *o = self;
    (void)t;
    for (int i = 0; r->wanted & MF_WANT_METRICS && i < MAX_PLUGIN_METRICS; i++)
        o->metrics[i].value = in[i];
    return MF_OK;
}

static void heads(const mf_model *m, const mf_step_result *s, bool whole, mf_metrics_record *r)
{
    if (!s->heads) return;
    r->heads_active = mf_heads_active(m);
    r->heads_total = (int64_t)s->heads->layers * s->heads->heads;
    if (!whole && !s->importance) return;
    r->heads = s->heads->stats;
    r->n_head_layers = s->heads->layers;
}

/* Fills the record. whole: statistics of layers and heads were requested in this step and
 * are included. */
static void fill(metrics_log *o, mf_trainer *t, const mf_step_result *s, bool whole)
{
    const mf_model *m = mf_training_session(t)->model;
    mf_metrics_record *r = &o->record;
    mf_metrics_record_init(r);
    r->step = s->step;
    r->split = "train";
    r->dtype = mf_dtype_text(mf_training_session(t)->config->train.dtype);
    r->loss = s->loss;
    r->task_loss = s->task_loss;
    r->lr = s->lr;
    r->grad_norm = s->grad_norm;
    r->tokens = mf_trainer_tokens(t);
    r->tokens_per_s = s->tokens_per_s;
    r->wall_s = mf_trainer_wall(t);
    if (m->config->model.task == MF_TASK_LM) r->ppl = exp(s->task_loss);
    mf_predictions_score(s->predictions, r);
    if (mf_model_limited(m, s->graph)) {
        r->dropped_per_token = o->tokens > 0 ? o->dropped / o->tokens : 0;
        r->reassigned = o->reassigned;
    }
    r->regularizers = s->regularizers;
    r->n_regularizers = s->n_regularizers;
    r->n_turns = mf_changes(m->plugins, &r->turns);
    r->controllers = s->controllers;
    r->n_controllers = s->n_controllers;
    heads(m, s, whole, r);
    if (!whole) return;
    r->layers = s->layers;
    r->n_layers = s->n_layers;
    plugin_metrics(o, m->plugins, s->graph->g);
}

/* ---- each step ---- */

static bool scheduled(const mf_trainer *t, int64_t step)
{
    const mf_session *s = mf_training_session(t);
    const int64_t every = s->config->train.log_every;
    return step == 1 || step == s->steps || (every > 0 && step % every == 0);
}

static unsigned wants(void *self, const mf_trainer *t, int64_t step)
{
    (void)self;
    return scheduled(t, step) ? MF_WANT_ROUTING | MF_WANT_HEADS | MF_WANT_METRICS : 0;
}

/* The file stays open, so a line is written even if the folder was renamed. If the folder was
 * renamed or removed, its error is returned, because it is more helpful than an error of
 * the file. */
static int put(metrics_log *o, const mf_trainer *t, const mf_metrics_record *r)
{
    if (!o->file) return MF_OK;
    const int rc = mf_metrics_put(o->file, r);
    if (rc != MF_OK && rc != MF_ERUN) return rc;
    const int judged = mf_rundir_judge(mf_training_dir(t));
    return judged != MF_OK ? judged : rc;
}

static double lap(const metrics_log *o, const mf_trainer *t)
{
    return mf_clock() - o->lap_started - (mf_trainer_apart(t) - o->lap_apart);
}

static void begin_lap(metrics_log *o, const mf_trainer *t)
{
    o->lap_started = mf_clock();
    o->lap_apart = mf_trainer_apart(t);
    o->lap_tokens = 0;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *s)
{
    metrics_log *o = self;
    mf_plughost *plugins = mf_training_session(t)->model->plugins;
    const mf_change *changes;
    const bool changed = mf_changes(plugins, &changes) > 0, logged = scheduled(t, s->step);
    o->tokens += (double)s->tokens;
    o->dropped += s->dropped;
    o->reassigned += s->reassigned;
    o->lap_tokens += s->tokens;
    const double took = lap(o, t);
    if (took > 0 || logged || changed)
        s->tokens_per_s = took > 0 ? (double)o->lap_tokens / took : 0;
    if (!logged && !changed) return MF_OK;
    begin_lap(o, t);
    fill(o, t, s, logged);
    o->tokens = o->dropped = o->reassigned = 0;
    const int rc = put(o, t, &o->record);
    mf_changes_clear(plugins);
    s->record = logged ? &o->record : NULL;
    return rc;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    return put(self, t, r);
}

/* ---- the file ---- */

static int begin(void *self, mf_trainer *t)
{
    metrics_log *o = self;
    begin_lap(o, t);
    if (!mf_training_dir(t)) return MF_OK;
    const char *path = mf_training_dir(t)->metrics;
    const int64_t keep = mf_training_resumed(t) ? mf_trainer_steps(t) : -1;
    const int rc = mf_step_file_open(path, keep, &o->file);
    const int64_t found = rc == MF_OK ? mf_step_file_lines(o->file) : o->lines;
    /* A last line with a damaged step looks like a line after the checkpoint. */
    if (found < o->lines)
        mf_log(MF_LOG_WARN, "%s: %lld of the %lld lines up to step %lld are missing", path,
               (long long)(o->lines - found), (long long)o->lines, (long long)keep);
    return rc;
}

static int sync(const metrics_log *o)
{
    return o->file ? mf_step_file_sync(o->file) : MF_OK;
}

static int end(void *self, mf_trainer *t)
{
    (void)t;
    return sync(self);
}

static int save(void *self, mf_trainer *t, mf_state *s)
{
    const metrics_log *o = self;
    (void)t;
    int rc = sync(o);
    if (rc == MF_OK && o->file)
        rc = mf_state_set_int(s, "log/lines", mf_step_file_lines(o->file));
    if (rc == MF_OK) rc = mf_state_set_real(s, "log/seen", o->tokens);
    if (rc == MF_OK) rc = mf_state_set_real(s, "log/dropped", o->dropped);
    return rc == MF_OK ? mf_state_set_real(s, "log/moved", o->reassigned) : rc;
}

static int load(void *self, mf_trainer *t, const mf_state *s)
{
    metrics_log *o = self;
    (void)t;
    mf_state_real(s, "log/seen", &o->tokens); /* an older checkpoint does not contain
                                               * these values */
    mf_state_real(s, "log/dropped", &o->dropped);
    mf_state_real(s, "log/moved", &o->reassigned);
    mf_state_int(s, "log/lines", &o->lines);
    return MF_OK;
}

static void free_log(void *self)
{
    metrics_log *o = self;
    mf_step_file_close(o->file);
    mf_free(o);
}

int mf_observe_metrics_log(mf_trainer *t)
{
    static const mf_observer ops = {.name = "metrics log",
                                    .begin = begin,
                                    .wants = wants,
                                    .numbers = numbers,
                                    .measure = measure,
                                    .fold = fold,
                                    .after_step = after_step,
                                    .after_eval = after_eval,
                                    .end = end,
                                    .save = save,
                                    .load = load,
                                    .free = free_log};
    metrics_log *o = mf_alloc(1, sizeof *o);
    return o ? mf_trainer_observe(t, &ops, o) : MF_ENOMEM;
}
