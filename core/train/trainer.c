#include "train/trainer_parts.h"
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "plugin/open.h"
#include "train/memory.h"
#include "train/schedule.h"
#include "train/signals.h"

#define MAX_SKIPPED 3

/* ---- making ---- */

static int build_graph(mf_trainer *t)
{
    const mf_config *c = t->session->config;
    const mf_model_shape shape = {.mode = MF_MODE_TRAIN,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = t->session->corpus->spans != NULL,
                                  .want_logits = t->answers != NULL,
                                  .accumulate = c->train.accumulate > 1};
    int rc = t->ladder ? mf_ladder_rebuild(t->ladder)
                       : mf_ladder_new(t->session, &shape, c->model.head_gates, &t->ladder);
    if (rc != MF_OK) return rc;
    t->batch = mf_ladder_batch(t->ladder);
    t->graph = mf_ladder_graph(t->ladder);
    return MF_OK;
}

static int allocate(mf_trainer *t)
{
    const mf_model *m = t->session->model;
    const size_t n = (size_t)m->n_moe + 1, experts = (size_t)m->config->moe.experts;
    t->tallies = mf_alloc(n, sizeof *t->tallies);
    t->stats = mf_alloc(n, sizeof *t->stats);
    t->shares = mf_alloc(n * MF_MOE_SHARES * experts, sizeof *t->shares);
    t->regularizers = mf_alloc((size_t)m->config->n_regularizers + 1, sizeof *t->regularizers);
    t->controllers = mf_alloc((size_t)m->config->n_controllers + 1, sizeof *t->controllers);
    t->result.nmi = mf_alloc(n, sizeof *t->result.nmi);
    t->result.nmi_random = mf_alloc(n, sizeof *t->result.nmi_random);
    if (!t->tallies || !t->stats || !t->shares || !t->regularizers || !t->controllers ||
        !t->result.nmi || !t->result.nmi_random)
        return MF_ENOMEM;
    for (int32_t i = 0; i < m->n_moe; i++) {
        int rc =
            mf_moe_tally_new(m->moe[i].layer, (int32_t)experts, (int32_t)m->config->moe.top_k,
                             m->facts.labels, &t->tallies[i]);
        if (rc != MF_OK) return rc;
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        if (mf_model_has_regularizer(m, i))
            t->regularizers[i].name = m->config->regularizers[i].label;
    int rc =
        mf_answers_new(m, m->config->train.batch * m->config->train.accumulate, &t->answers);
    if (rc == MF_OK) rc = mf_head_tally_new(m, &t->head_tally);
    return rc == MF_OK ? mf_head_record_new(m, &t->head_record) : rc;
}

static int register_live(mf_trainer *t)
{
    mf_plughost *h = t->session->model->plugins;
    const mf_train_config *c = &t->session->config->train;
    t->lr = c->lr;
    t->weight_decay = c->weight_decay;
    t->clip = c->clip;
    mf_plughost_set_history(h, t->past, mf_past_get);
    mf_plughost_set_importance(h, t, mf_trainer_importance);
    int rc = mf_live_register_real(h, "train.lr", &t->lr, 0, 1e3);
    if (rc == MF_OK)
        rc = mf_live_register_real(h, "train.weight_decay", &t->weight_decay, 0, 1e3);
    return rc == MF_OK ? mf_live_register_real(h, "train.clip", &t->clip, 0, 1e9) : rc;
}

/* [trace] every = n: the evaluator shows each n-th batch to a recorder. */
static int prepare_trace(mf_trainer *t)
{
    const int64_t every = t->session->config->trace.every;
    const mf_trace_about about = {.run = t->dir->path, .split = mf_split_name(MF_SPLIT_VAL)};
    if (every <= 0 || !t->evaluator || t->session->model->n_moe == 0) return MF_OK;
    int rc = mf_trace_recorder_new(t->session, &about, &t->recorder);
    return rc == MF_OK ? mf_evaluator_record(t->evaluator, t->recorder, every) : rc;
}

static int write_trace(mf_trainer *t)
{
    char *path = mf_strf("%s/step-%lld.safetensors", t->dir->trace, (long long)t->step);
    int rc = path ? mf_trace_recorder_write(t->recorder, path, t->step) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

static int prepare(mf_trainer *t, bool resume)
{
    mf_session *s = t->session;
    const mf_train_config *c = &s->config->train;
    int rc = mf_past_new(&t->past);
    if (rc == MF_OK) rc = allocate(t);
    if (rc == MF_OK && !resume && c->from[0] != '\0') rc = mf_trainer_start_from(t);
    if (rc == MF_OK) rc = register_live(t);
    mf_heads_set_parts(s->model);
    if (rc == MF_OK) rc = mf_optim_new(s->model->store, c, &t->optim);
    if (rc == MF_OK) rc = build_graph(t);
    if (rc == MF_OK && s->corpus->split[MF_SPLIT_VAL].tokens > 0 && c->eval_every >= 0)
        rc = mf_evaluator_new(s, MF_SPLIT_VAL, t->graph->g, &t->evaluator);
    if (rc == MF_OK && t->evaluator && c->eval_train)
        rc = mf_evaluator_new(s, MF_SPLIT_TRAIN, t->graph->g, &t->on_train);
    if (rc == MF_OK) rc = prepare_trace(t);
    if (rc == MF_OK) rc = resume ? mf_trainer_resume(t) : mf_trainer_begin(t);
    return rc;
}

int mf_trainer_new(mf_session *s, mf_rundir *dir, bool resume, const mf_observer *observer,
                   mf_trainer **ret)
{
    mf_trainer *t = mf_alloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->session = s;
    t->dir = dir;
    if (observer) t->observer = *observer;
    t->val_loss = t->best = (double)NAN;
    int rc = prepare(t, resume);
    if (rc != MF_OK) {
        mf_trainer_free(t);
        return rc;
    }
    *ret = t;
    return MF_OK;
}

void mf_trainer_free(mf_trainer *t)
{
    if (!t) return;
    for (int32_t i = 0; t->tallies && i < t->session->model->n_moe; i++)
        mf_moe_tally_free(t->tallies[i]);
    mf_step_file_close(t->log);
    mf_step_file_close(t->memory);
    mf_evaluator_free(t->evaluator);
    mf_evaluator_free(t->on_train);
    mf_trace_recorder_free(t->recorder);
    mf_optim_free(t->optim);
    mf_ladder_free(t->ladder);
    mf_answers_free(t->answers);
    mf_trainer_forget_probe(t);
    mf_head_tally_free(t->head_tally);
    mf_head_record_free(t->head_record);
    mf_past_free(t->past);
    mf_free(t->tallies);
    mf_free(t->stats);
    mf_free(t->shares);
    mf_free(t->regularizers);
    mf_free(t->controllers);
    mf_free(t->knobs);
    mf_free(t->knob_values);
    mf_free(t->result.nmi);
    mf_free(t->result.nmi_random);
    mf_free(t);
}

/* ---- one step ---- */

static double scalar(const mf_tensor *x)
{
    const float *v = x ? mf_tensor_data(x) : NULL;
    return v ? (double)*v : 0;
}

/* Is controller i to be called after update number `step` (from 1)? */
static bool controller_due(const mf_trainer *t, int i, int64_t step)
{
    const int64_t every = t->session->config->controllers[i].every;
    return step % (every > 0 ? every : 1) == 0;
}

/* Does anybody read the layers' statistics after this step? */
static bool stats_wanted(const mf_trainer *t)
{
    const mf_model *m = t->session->model;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_router *r = mf_loaded_vtable(mf_instance_plugin(m->moe[i].router));
        if (r->flags & MF_ROUTER_STATS) return true;
    }
    for (int i = 0; i < t->session->config->n_controllers; i++) {
        const mf_controller *c = mf_loaded_vtable(mf_instance_plugin(m->controllers[i]));
        if (!(c->flags & MF_CONTROLLER_BLIND) && controller_due(t, i, t->step + 1)) return true;
    }
    return false;
}

static void clear_measurements(mf_trainer *t)
{
    const mf_model *m = t->session->model;
    t->loss = t->task_loss = 0;
    t->importance_known = false;
    mf_head_tally_reset(t->head_tally);
    mf_answers_clear(t->answers);
    for (int32_t i = 0; i < m->n_moe; i++)
        mf_moe_tally_reset(t->tallies[i]);
    for (int i = 0; i < m->config->n_regularizers; i++)
        t->regularizers[i].value = 0;
}

/* Forward and backward of all micro-batches; gradients are summed in the store. */
static int gradients(mf_trainer *t, bool metrics)
{
    const mf_model *m = t->session->model;
    const int64_t micro = m->config->train.accumulate;
    clear_measurements(t);
    if (micro > 1) {
        int64_t n;
        mf_store_values(m->store, &n);
        memset(mf_store_grads(m->store), 0, (size_t)n * sizeof(float));
    }
    for (int64_t j = 0; j < micro; j++) {
        const int64_t at = t->step * micro + j;
        const mf_run run = {
            .seed = (uint64_t)m->config->train.seed, .step = (uint64_t)at, .metrics = metrics};
        int rc = mf_ladder_take(t->ladder, t->session->train, at, &t->batch, &t->graph);
        if (rc == MF_OK) rc = mf_graph_run(t->graph->g, &run);
        if (rc != MF_OK) return rc;
        mf_answers_add(t->answers, t->batch, t->graph);
        t->loss += scalar(t->graph->loss) / (double)micro;
        t->task_loss += scalar(t->graph->task_loss) / (double)micro;
        t->tokens += t->batch->n_tokens;
        t->lap_tokens += t->batch->n_tokens;
        t->seen += (double)t->batch->n_tokens;
        for (int i = 0; i < m->config->n_regularizers; i++)
            t->regularizers[i].value += scalar(t->graph->regularizers[i]) / (double)micro;
        for (int32_t i = 0; i < m->n_moe; i++) {
            double dropped, moved;
            if (metrics) mf_moe_tally_add(t->tallies[i], &t->graph->moe[i]);
            mf_moe_overflow(&t->graph->moe[i], &dropped, &moved);
            t->dropped += dropped;
            t->moved += moved;
        }
        if (metrics) mf_head_tally_add(t->head_tally, t->graph);
    }
    return MF_OK;
}

/* Runs the step's micro-batches again, looking at every value, to say where it began. */
static int trace_nonfinite(mf_trainer *t)
{
    const mf_config *c = t->session->config;
    for (int64_t j = 0; j < c->train.accumulate; j++) {
        const int64_t at = t->step * c->train.accumulate + j;
        const mf_run run = {
            .seed = (uint64_t)c->train.seed, .step = (uint64_t)at, .check_finite = true};
        int rc = mf_ladder_take(t->ladder, t->session->train, at, &t->batch, &t->graph);
        if (rc == MF_OK) rc = mf_graph_run(t->graph->g, &run);
        if (rc != MF_OK) return mf_fail_context(rc, "step %lld", (long long)t->step + 1);
    }
    return mf_fail(
        MF_ENONFINITE,
        "step %lld: loss %g, gradient norm %g: every value is finite, but the sum of "
        "squares of the gradient is not; a smaller train.lr or train.clip may help",
        (long long)t->step + 1, t->loss, t->grad_norm);
}

/* What a line of validation says of the training before it. */
static void sum_up(mf_trainer *t)
{
    double rows, hits;
    t->since.steps += 1;
    t->since.loss += t->loss;
    mf_answers_hits(t->answers, &rows, &hits);
    t->since.rows += rows;
    t->since.hits += hits;
}

/* Update, or leave the update out where the policy allows it. */
static int update(mf_trainer *t)
{
    const mf_train_config *c = &t->session->config->train;
    mf_optim_step s = {.step = t->step,
                       .weight_decay = t->weight_decay,
                       .clip = t->clip,
                       .grad_scale = 1.0 / (double)c->accumulate};
    s.lr = t->lr_now = mf_schedule_lr(c, t->lr, t->step, t->session->steps);
    mf_optim_measure(t->optim, &s);
    t->grad_norm = s.grad_norm;
    if (isfinite(t->loss) && isfinite(s.grad_norm)) {
        t->skipped = 0;
        mf_optim_update(t->optim, &s);
        return MF_OK;
    }
    int rc = trace_nonfinite(t);
    if (c->nan_policy == 0 || ++t->skipped > MAX_SKIPPED) return rc;
    mf_log(MF_LOG_WARN, "%s; update left out (%d in a row)", mf_error_message(),
           (int)t->skipped);
    mf_error_clear();
    return MF_OK;
}

static int after_step(mf_trainer *t)
{
    const mf_model *m = t->session->model;
    const mf_step s = {.size = sizeof s,
                       .n_layers = m->n_moe,
                       .step = t->step,
                       .max_steps = t->session->steps,
                       .loss = t->loss,
                       .task_loss = t->task_loss,
                       .lr = t->lr_now,
                       .grad_norm = t->grad_norm,
                       .val_loss = t->val_loss,
                       .tokens = t->tokens,
                       .layers = t->stats,
                       .heads = t->head_record ? t->head_record->stats : NULL,
                       .n_head_layers = t->head_record ? t->head_record->layers : 0};
    int rc = MF_OK;
    mf_plughost_set_step(m->plugins, t->step);
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++) {
        rc = mf_instance_after_step(m->moe[i].router, &s);
        if (rc == MF_OK) rc = mf_instance_after_step(m->moe[i].expert, &s);
    }
    for (int i = 0; rc == MF_OK && i < m->config->n_regularizers; i++)
        rc = mf_instance_after_step(m->regularizers[i], &s);
    for (int i = 0; rc == MF_OK && i < m->config->n_controllers; i++)
        if (controller_due(t, i, t->step)) rc = mf_instance_on_step(m->controllers[i], &s);
    if (rc == MF_OK) rc = mf_trainer_head_rates(t);
    return rc == MF_OK ? mf_trainer_note_turns(t) : rc;
}

int mf_trainer_rebuild(mf_trainer *t)
{
    const mf_store *store = t->session->model->store;
    int64_t n;
    mf_trainer_forget_probe(t);
    mf_heads_set_parts(t->session->model);
    int rc = build_graph(t);
    /* Values may have lain in gradients that the new graph does not write. */
    mf_store_values(store, &n);
    memset(mf_store_grads(store), 0, (size_t)n * sizeof(float));
    if (rc == MF_OK && t->evaluator) rc = mf_evaluator_rebuild(t->evaluator, t->graph->g);
    if (rc == MF_OK && t->on_train) rc = mf_evaluator_rebuild(t->on_train, t->graph->g);
    return rc == MF_OK ? mf_optim_refresh(t->optim) : rc;
}

static int rebuild_if_asked(mf_trainer *t)
{
    const char *reason = mf_plughost_rebuild(t->session->model->plugins);
    if (!reason) return MF_OK;
    mf_log(MF_LOG_INFO, "step %lld: building graphs anew: %s", (long long)t->step, reason);
    return mf_trainer_rebuild(t);
}

static int log_step(mf_trainer *t, bool logged)
{
    mf_metrics_record r;
    const double now = mf_clock(), lap = now - t->lap_started;
    const mf_turn *turns;
    const bool turned = mf_turns(t->session->model->plugins, &turns) > 0;
    if (logged || turned) {
        t->tokens_per_s = lap > 0 ? (double)t->lap_tokens / lap : 0;
        t->lap_started = now;
        t->lap_tokens = 0;
        mf_trainer_record(t, logged, &r);
        t->seen = t->dropped = t->moved = 0;
        int rc = mf_metrics_put(t->log, &r);
        if (rc == MF_OK && logged) rc = mf_past_add(t->past, &r);
        mf_turns_clear(t->session->model->plugins);
        if (rc != MF_OK) return rc;
    } else if (lap > 0) {
        t->tokens_per_s = (double)t->lap_tokens / lap;
    }
    if (t->observer.on_step)
        t->observer.on_step(t->observer.arg, t->step, t->session->steps, t->loss,
                            t->tokens_per_s, logged ? &r : NULL);
    return MF_OK;
}

/* ---- the loop ---- */

/* Of the training data, where all of the validation data are measured. */
#define TRAIN_BATCHES 8

static int evaluate_train(mf_trainer *t, double *ret_loss, double *ret_accuracy)
{
    mf_metrics_record r;
    const int64_t asked = t->session->config->train.eval_batches;
    int rc = mf_evaluator_run(t->on_train, t->step, asked > 0 ? asked : TRAIN_BATCHES, &r);
    if (rc != MF_OK) return rc;
    *ret_loss = r.loss;
    *ret_accuracy = r.accuracy;
    r.split = "train_eval";
    r.wall_s = t->wall_before + mf_clock() - t->started;
    return mf_metrics_put(t->log, &r);
}

/* What the best validation is told by: of the first task that has it. */
static double quality(const mf_trainer *t, const mf_metrics_record *r)
{
    const mf_task_score one = mf_metrics_one_task(r), *s = r->n_tasks > 0 ? r->tasks : &one;
    const int64_t by = t->session->config->train.best_by;
    const bool number = by >= MF_BEST_MSE;
    for (int i = 0; i + 1 < r->n_tasks && s->number != number; i++)
        s++;
    switch ((mf_best_by)by) {
    case MF_BEST_ACCURACY:
        return s->accuracy;
    case MF_BEST_MACRO_F1:
        return s->macro_f1;
    case MF_BEST_MSE:
        return s->mse;
    case MF_BEST_PEARSON:
        return s->pearson;
    case MF_BEST_SPEARMAN:
        return s->spearman;
    case MF_BEST_LOSS:
        break;
    }
    return r->task_loss;
}

/* Better than all before, and to be kept? What is not known is better than nothing alone. */
static bool is_best(mf_trainer *t, const mf_metrics_record *r)
{
    const mf_train_config *c = &t->session->config->train;
    const bool less = c->best_by == MF_BEST_LOSS || c->best_by == MF_BEST_MSE;
    const double now = quality(t, r);
    if (!isnan(t->best) && (less ? !(now < t->best) : !(now > t->best))) return false;
    t->best = now;
    return c->keep_best;
}

static int evaluate(mf_trainer *t)
{
    mf_metrics_record r;
    const double before = mf_clock();
    const bool last = t->step == t->session->steps;
    double train_loss = (double)NAN, train_accuracy = (double)NAN;
    if (t->on_train) {
        int rc = evaluate_train(t, &train_loss, &train_accuracy);
        if (rc != MF_OK) return rc;
    }
    int rc = mf_evaluator_run(t->evaluator, t->step,
                              last ? 0 : t->session->config->train.eval_batches, &r);
    if (rc == MF_OK && t->recorder) rc = write_trace(t);
    if (rc != MF_OK) return rc;
    const double took = mf_clock() - before;
    r.tokens_per_s = took > 0 ? (double)r.tokens / took : 0;
    r.wall_s = t->wall_before + mf_clock() - t->started;
    t->val_loss = r.task_loss;
    if (t->since.steps > 0) r.train_loss = t->since.loss / t->since.steps;
    if (t->since.rows > 0) r.train_accuracy = t->since.hits / t->since.rows;
    t->since = (mf_trainer_sums){0};
    /* What was measured of training data by these same weights, or else how training went. */
    r.gap_loss = r.loss - (t->on_train ? train_loss : r.train_loss);
    r.gap_accuracy = (t->on_train ? train_accuracy : r.train_accuracy) - r.accuracy;
    rc = mf_metrics_put(t->log, &r);
    if (rc == MF_OK) rc = mf_memory_put(t->memory, t->step);
    if (rc == MF_OK) rc = mf_past_add(t->past, &r);
    if (rc == MF_OK && t->observer.on_eval) t->observer.on_eval(t->observer.arg, &r);
    if (rc == MF_OK && is_best(t, &r)) rc = mf_trainer_save_best(t);
    if (rc == MF_OK && !last) rc = mf_trainer_sample_here(t);
    t->lap_started += mf_clock() - before; /* evaluation is not training time */
    return rc;
}

static int save(mf_trainer *t)
{
    const double before = mf_clock();
    int rc = mf_trainer_save(t);
    if (rc == MF_OK && t->observer.on_save) t->observer.on_save(t->observer.arg, t->step);
    t->lap_started += mf_clock() - before;
    return rc;
}

static int one_step(mf_trainer *t, bool *ret_evaluated, bool *ret_saved)
{
    const mf_train_config *c = &t->session->config->train;
    const int64_t next = t->step + 1;
    const bool last = next == t->session->steps;
    const bool logged = next == 1 || last || (c->log_every > 0 && next % c->log_every == 0);
    const bool measured = logged || stats_wanted(t);
    int rc = gradients(t, measured);
    if (rc == MF_OK) rc = update(t);
    if (rc != MF_OK) return rc;
    t->step = next;
    sum_up(t);
    if (measured) mf_trainer_stats(t);
    if (measured) mf_trainer_head_stats(t);
    rc = after_step(t);
    if (rc == MF_OK) rc = log_step(t, logged);
    if (rc == MF_OK) rc = rebuild_if_asked(t);
    *ret_evaluated = t->evaluator && (last || (c->eval_every > 0 && next % c->eval_every == 0));
    if (rc == MF_OK && *ret_evaluated) rc = evaluate(t);
    *ret_saved =
        last || (c->save_every > 0 && next % c->save_every == 0) || mf_signals_take_save();
    if (rc == MF_OK && *ret_saved) rc = save(t);
    return rc;
}

static void conclude(mf_trainer *t)
{
    mf_train_result *r = &t->result;
    r->step = t->step;
    r->tokens = t->tokens;
    r->loss = t->loss;
    r->val_loss = t->val_loss;
    r->wall_s = t->wall_before + mf_clock() - t->started;
    r->tokens_per_s = t->tokens_per_s;
    r->floor = mf_session_floor(t->session);
    r->n_layers = t->session->model->n_moe;
    for (int32_t i = 0; i < r->n_layers; i++) {
        const mf_moe_tally *tally = t->evaluator ? mf_evaluator_tally(t->evaluator, i) : NULL;
        const bool known = tally && tally->joint;
        r->nmi[i] = known ? mf_nmi(tally->joint, tally->experts, tally->labels) : (double)NAN;
        r->nmi_random[i] = known ? mf_random_nmi(tally, 0) : (double)NAN;
    }
}

static int stop_early(mf_trainer *t, bool saved)
{
    const double limit = t->session->config->train.time_limit;
    const bool late = limit > 0 && mf_clock() - t->started >= limit;
    t->stopped_by = mf_signals_stop();
    if (t->step >= t->session->steps || (!t->stopped_by && !late)) return MF_OK;
    if (!saved) {
        int rc = save(t);
        if (rc != MF_OK) return rc;
    }
    if (t->stopped_by)
        return mf_fail(MF_ESIGNAL, "stopped by signal %d at step %lld; go on with --resume",
                       t->stopped_by, (long long)t->step);
    return mf_fail(MF_ELIMIT, "time limit of %g s reached at step %lld; go on with --resume",
                   limit, (long long)t->step);
}

int mf_trainer_run(mf_trainer *t)
{
    int rc = MF_OK;
    bool evaluated = false, saved = true;
    t->started = t->lap_started = mf_clock();
    mf_signals_catch();
    while (rc == MF_OK && t->step < t->session->steps) {
        rc = one_step(t, &evaluated, &saved);
        if (rc == MF_OK) rc = stop_early(t, saved);
    }
    if (rc == MF_OK && t->evaluator && !evaluated) {
        /* A finished run that was resumed: the figures come from a fresh evaluation. */
        mf_metrics_record r;
        rc = mf_evaluator_run(t->evaluator, t->step, 0, &r);
        if (rc == MF_OK && t->recorder) rc = write_trace(t);
        if (rc == MF_OK) t->val_loss = r.task_loss;
    }
    if (rc == MF_OK) rc = mf_trainer_sync(t);
    if (rc == MF_OK) conclude(t);
    if (rc == MF_OK) rc = mf_trainer_sample(t);
    mf_signals_release();
    return rc;
}

const mf_train_result *mf_trainer_result(const mf_trainer *t)
{
    return &t->result;
}

int64_t mf_trainer_step(const mf_trainer *t)
{
    return t->step;
}

int mf_trainer_signal(const mf_trainer *t)
{
    return t->stopped_by;
}
