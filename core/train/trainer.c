/* train/trainer.c: takes optimizer steps and calls the observers.
 *
 * A step changes only parameters, buffers, moments and the position (step, tokens, skipped);
 * all other state belongs to observers. The batches of a step depend only on the step number,
 * unless the caller passes them. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/device/recorder.h"
#include "plugin/crash.h"
#include "train/trainer_internal.h"

/* ---- construction ---- */

static int build_graph(mf_trainer *t)
{
    const mf_train_job *job = &t->job;
    const mf_model_shape shape = {.mode = MF_MODE_TRAIN,
                                  .batch = (int32_t)job->train->batch,
                                  .seq = (int32_t)job->model->config->model.seq,
                                  .masked = job->masked,
                                  .packed = job->packed,
                                  .given = job->given,
                                  .want_logits = mf_model_tasks(job->model) > 0,
                                  .payload = {.in = sizeof(mf_update_now),
                                              .out = sizeof(double),
                                              .slots = (int)job->train->accumulate}};
    return t->buckets ? mf_length_buckets_rebuild(t->buckets)
                      : mf_length_buckets_new(job->model, &shape,
                                              !job->by_length || job->model->head_switches,
                                              &t->buckets);
}

/* Allocates what a step needs besides its graphs. */
static int new_step(mf_trainer *t)
{
    mf_device *d = mf_store_device(t->job.model->store);
    void *sum = NULL;
    t->graphs = mf_alloc((size_t)t->job.train->accumulate, sizeof *t->graphs);
    if (!t->graphs) return MF_ENOMEM;
    int rc = mf_device_alloc(d, sizeof *t->loss_sum, &sum);
    t->loss_sum = sum;
    if (rc == MF_OK) rc = mf_shares_new(&t->job, &t->shares);
    if (rc == MF_OK) rc = mf_trainer_ranks_new(t);
    if (rc == MF_OK && t->job.record) rc = mf_recorder_new(d, &t->recorder);
    return rc;
}

const char *const mf_trainer_live[] = {"train.lr", "train.weight_decay", "train.clip", NULL};

static int register_live(mf_trainer *t)
{
    mf_plughost *h = t->job.model->plugins;
    const mf_train_config *c = t->job.train;
    t->lr = c->lr;
    t->weight_decay = c->weight_decay;
    t->clip = c->clip;
    const struct {
        double *value, hi;
    } live[] = {{&t->lr, 1e3}, {&t->weight_decay, 1e3}, {&t->clip, 1e9}};
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && mf_trainer_live[i]; i++)
        rc = mf_live_register_real(h, mf_trainer_live[i], live[i].value, 0, live[i].hi);
    return rc;
}

static int name_regularizers(mf_trainer *t)
{
    const mf_model *m = t->job.model;
    const int n = m->config->n_regularizers;
    t->now.regularizers = mf_alloc((size_t)n + 1, sizeof *t->now.regularizers);
    if (!t->now.regularizers) return MF_ENOMEM;
    t->now.n_regularizers = n;
    for (int i = 0; i < n; i++)
        if (mf_model_has_regularizer(m, i))
            t->now.regularizers[i].name = m->config->regularizers[i].label;
    return MF_OK;
}

static int prepare(mf_trainer *t)
{
    mf_model *m = t->job.model;
    int rc = name_regularizers(t);
    if (rc == MF_OK) rc = register_live(t);
    mf_heads_set_parts(m);
    if (rc == MF_OK) rc = mf_optim_new(m->store, t->job.train, &t->optim);
    if (rc == MF_OK) rc = new_step(t);
    return rc == MF_OK ? build_graph(t) : rc;
}

int mf_trainer_new(const mf_train_job *job, mf_world *world, const mf_trainer_owner *owner,
                   mf_trainer **ret)
{
    mf_trainer *t = mf_alloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->job = *job;
    t->world = world;
    int rc = prepare(t);
    if (rc != MF_OK) {
        mf_trainer_free(t);
        return rc;
    }
    if (owner) t->owner = *owner;
    *ret = t;
    return MF_OK;
}

void mf_trainer_free(mf_trainer *t)
{
    if (!t) return;
    if (t->guarded) mf_guard_end(&t->guard);
    for (int i = t->n_observers; i-- > 0;)
        if (t->observers[i].ops->free) t->observers[i].ops->free(t->observers[i].self);
    mf_free(t->observers);
    mf_recorder_free(t->recorder);
    mf_optim_free(t->optim);
    mf_length_buckets_free(t->buckets);
    mf_shares_free(t->shares);
    mf_free(t->now.regularizers);
    mf_free(t->graphs);
    mf_free(t->numbers);
    mf_trainer_ranks_free(t);
    mf_gradient_sum_free(t->sum);
    mf_gradient_sum_free(t->expert_sum);
    mf_device_free(mf_store_device(t->job.model->store), t->loss_sum);
    if (t->owner.free) t->owner.free(t->owner.self);
    mf_free(t);
}

static int add_observer(mf_trainer *t, const mf_observer *ops, void *self)
{
    if (t->begun)
        return mf_fail(MF_EUSAGE, "observer %s: expected before the first step", ops->name);
    if (t->n_observers == t->cap_observers) {
        const int cap = t->cap_observers ? 2 * t->cap_observers : 16;
        mf_observed *more = mf_realloc(t->observers, (size_t)t->cap_observers * sizeof *more,
                                       (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        t->observers = more;
        t->cap_observers = cap;
    }
    t->observers[t->n_observers++] = (mf_observed){ops, self};
    return MF_OK;
}

int mf_trainer_observe(mf_trainer *t, const mf_observer *ops, void *self)
{
    const int rc = add_observer(t, ops, self);
    if (rc != MF_OK && ops->free) ops->free(self);
    return rc;
}

const mf_observed *mf_trainer_observers(const mf_trainer *t, int *ret_n)
{
    *ret_n = t->n_observers;
    return t->observers;
}

int mf_trainer_judge(const mf_trainer *t, int rc)
{
    return t->owner.judge ? t->owner.judge(t->owner.self, rc) : rc;
}

void mf_trainer_restore(mf_trainer *t)
{
    if (!t->guarded || mf_guard_restore(&t->guard, "in a step") == MF_OK) return;
    mf_log(MF_LOG_WARN, "a plugin %s; it is as before again", mf_error_message());
    mf_error_clear();
    /* A folder that cannot be reached is logged once. */
    mf_guard_end(&t->guard);
    mf_guard_save(&t->guard);
}

int mf_trainer_note(mf_trainer *t, int rc)
{
    if (rc != MF_OK && rc != MF_EUSAGE && rc != MF_EINVAL) t->status = rc;
    return rc;
}

int mf_trainer_begin(mf_trainer *t)
{
    int rc = MF_OK;
    if (t->begun) return MF_OK;
    t->begun = true;
    t->guarded = mf_crash_watching();
    if (t->guarded) mf_guard_save(&t->guard);
    if (t->owner.recall) rc = t->owner.recall(t->owner.self);
    /* The checkpoint was read, but does not contain something that the run needs. */
    if (rc == MF_ECHECKPOINT) return rc;
    MF_TELL(t, rc, begin, t);
    t->started = mf_clock();
    t->tokens_before = t->tokens;
    return mf_trainer_judge(t, rc);
}

/* ---- one step ---- */

int mf_trainer_rebuild(mf_trainer *t)
{
    mf_heads_set_parts(t->job.model);
    mf_recorder_clear(t->recorder);
    int rc = build_graph(t);
    /* The new graph may not write all gradients that the old graph wrote. */
    if (rc == MF_OK) rc = mf_store_zero(t->job.model->store, MF_BLOCK_GRADS);
    MF_TELL(t, rc, after_rebuild, t);
    return rc == MF_OK ? mf_optim_refresh(t->optim) : rc;
}

static int rebuild_if_asked(mf_trainer *t)
{
    const char *reason = mf_plughost_rebuild(t->job.model->plugins);
    if (!reason) return MF_OK;
    mf_log(MF_LOG_INFO, "step %lld: building graphs anew: %s", (long long)t->step, reason);
    return mf_trainer_rebuild(t);
}

/* Clears the values of the last step, and collects the flags of the values that observers will
 * read in the new step. The statistics to which `layers` and `heads` point remain until
 * observers replace them. */
static void clear(mf_trainer *t)
{
    mf_step_result *r = &t->now;
    r->step = t->step + 1;
    r->wanted = 0;
    r->loss = r->task_loss = 0;
    r->tokens = 0;
    r->skipped = r->importance = false;
    r->dropped = r->reassigned = r->examples = r->hits = 0;
    r->record = NULL;
    for (int i = 0; i < r->n_regularizers; i++)
        r->regularizers[i].value = 0;
    for (int i = 0; i < t->n_observers; i++)
        if (t->observers[i].ops->wants)
            r->wanted |= t->observers[i].ops->wants(t->observers[i].self, t, r->step);
}

static int end_early(mf_trainer *t)
{
    const int code = t->stop;
    t->stop = MF_OK;
    const int rc = t->owner.save ? t->owner.save(t->owner.self) : MF_OK;
    if (rc != MF_OK) return rc;
    return mf_fail(code, "%s at step %lld", t->why, (long long)t->step);
}

/* Checks the caller's batches before the step changes anything. MF_EINVAL: a wrong shape;
 * MF_EUSAGE: neither the caller nor the source has batches. */
static int judge_own(const mf_trainer *t, const mf_batch *const *own)
{
    int rc = MF_OK;
    for (int64_t j = 0; own && rc == MF_OK && j < t->job.train->accumulate; j++)
        rc = mf_length_buckets_judge(t->buckets, own[j]);
    if (!own && !t->job.source.fill)
        rc = mf_fail(MF_EUSAGE, "there are no data to train on; expected own batches");
    return rc;
}

/* Whether observers write files in this step, apart from checkpoints. */
static bool writes(const mf_trainer *t)
{
    const int64_t every = t->job.train->eval_every;
    return t->now.wanted != 0 || (every > 0 && t->step % every == 0) || mf_trainer_done(t);
}

/* Calls the observers after a step. Plugins have run in the step, and also run in some
 * observers, and later observers write files. So the state of the process is restored. */
static int tell_step(mf_trainer *t)
{
    const bool restore = writes(t);
    int rc = MF_OK;
    if (restore) mf_trainer_restore(t);
    for (int i = 0; rc == MF_OK && i < t->n_observers; i++) {
        const mf_observed *o = &t->observers[i];
        if (!o->ops->after_step) continue;
        rc = o->ops->after_step(o->self, t, &t->now);
        if (restore && o->ops->runs_plugins) mf_trainer_restore(t);
    }
    return rc;
}

static int take_step(mf_trainer *t, const mf_batch *const *own, const mf_step_result **ret)
{
    if (mf_trainer_done(t))
        return mf_fail(MF_EUSAGE, "all %lld steps are done",
                       (long long)(t->ended ? t->step : t->job.steps));
    int rc = judge_own(t, own);
    if (rc == MF_OK) rc = mf_trainer_begin(t);
    if (rc != MF_OK) return rc;
    clear(t);
    MF_TELL(t, rc, before_step, t, &t->now);
    if (rc == MF_OK) rc = mf_trainer_update(t, own, mf_trainer_gradients(t, own));
    if (rc != MF_OK) {
        mf_recorder_cancel(t->recorder);
        return rc;
    }
    t->step++;
    rc = tell_step(t);
    if (rc == MF_OK) rc = rebuild_if_asked(t);
    const double before = mf_clock();
    MF_TELL(t, rc, between, t);
    t->apart += mf_clock() - before;
    if (rc != MF_OK) rc = mf_trainer_judge(t, rc);
    if (rc == MF_OK && t->stop != MF_OK && !mf_trainer_done(t)) rc = end_early(t);
    if (ret) *ret = &t->now;
    return rc;
}

int mf_trainer_step(mf_trainer *t, const mf_batch *const *own, const mf_step_result **ret)
{
    return mf_trainer_note(t, take_step(t, own, ret));
}

/* ---- the loop ---- */

bool mf_trainer_done(const mf_trainer *t)
{
    return t->ended || (t->job.steps > 0 && t->step >= t->job.steps);
}

int mf_trainer_finish(mf_trainer *t)
{
    int rc = mf_trainer_begin(t);
    const double took = mf_trainer_elapsed(t) - t->apart;
    t->speed = took > 0 ? (double)(t->tokens - t->tokens_before) / took : 0;
    MF_TELL(t, rc, end, t);
    return mf_trainer_note(t, mf_trainer_judge(t, rc));
}

int mf_trainer_run(mf_trainer *t)
{
    int rc = mf_trainer_begin(t);
    while (rc == MF_OK && !mf_trainer_done(t))
        rc = mf_trainer_step(t, NULL, NULL);
    return rc == MF_OK ? mf_trainer_finish(t) : rc;
}

void mf_trainer_stop(mf_trainer *t, int code, const char *why)
{
    t->stop = code;
    snprintf(t->why, sizeof t->why, "%s", why);
}

void mf_trainer_end_here(mf_trainer *t)
{
    t->ended = true;
}

/* ---- access ---- */

void *mf_trainer_owner_of(const mf_trainer *t)
{
    return t->owner.self;
}

const mf_train_job *mf_trainer_job(const mf_trainer *t)
{
    return &t->job;
}

mf_world *mf_trainer_world(const mf_trainer *t)
{
    return t->world;
}

mf_trainer_place mf_trainer_where(const mf_trainer *t)
{
    return (mf_trainer_place){.step = t->step,
                              .tokens = t->tokens,
                              .skipped = t->skipped,
                              .wall_s = t->begun ? mf_trainer_wall(t) : t->wall_before};
}

void mf_trainer_go(mf_trainer *t, const mf_trainer_place *to)
{
    t->step = to->step;
    t->tokens = to->tokens;
    t->skipped = to->skipped;
    t->wall_before = to->wall_s;
}

int mf_trainer_status(const mf_trainer *t)
{
    return t->status;
}

int64_t mf_trainer_steps(const mf_trainer *t)
{
    return t->step;
}

int64_t mf_trainer_tokens(const mf_trainer *t)
{
    return t->tokens;
}

double mf_trainer_loss(const mf_trainer *t)
{
    return t->now.loss;
}

double mf_trainer_speed(const mf_trainer *t)
{
    return t->speed;
}

double mf_trainer_elapsed(const mf_trainer *t)
{
    return mf_clock() - t->started;
}

double mf_trainer_wall(const mf_trainer *t)
{
    return t->wall_before + mf_trainer_elapsed(t);
}

double mf_trainer_apart(const mf_trainer *t)
{
    return t->apart;
}

const mf_model_graph *mf_trainer_graph(const mf_trainer *t)
{
    return mf_length_buckets_graph(t->buckets);
}

mf_optim *mf_trainer_optim(const mf_trainer *t)
{
    return t->optim;
}
