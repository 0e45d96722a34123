/* run/observers/checkpoints.c: saves checkpoints: by train.save_every, after the last step, on
 * request of the caller, and in RUN/best after the best validation so far. After train.patience
 * validations without a better result, this observer ends training and writes the reason
 * to RUN/ended.txt.
 *
 * The best value is saved under the name of its measure. If a run is resumed with another
 * train.best_by, there is no best value yet. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/observers/observers.h"

typedef struct checkpoints {
    double best;   /* best value of train.best_by so far; NaN before the first evaluation */
    int64_t at;    /* step of the best evaluation; 0: unknown */
    int64_t since; /* number of validations since the best one */
    bool fresh;    /* the latest validation is the best, and its checkpoint is not saved yet */
} checkpoints;

/* ---- the best validation ---- */

/* Returns the metric that train.best_by names. It is the metric of the first task that has it,
 * or the loss of all tasks. */
static double quality(mf_best_by by, const mf_metrics_record *r)
{
    const mf_task_score one = mf_metrics_one_task(r), *s = r->n_tasks > 0 ? r->tasks : &one;
    const bool number = by >= MF_BEST_MSE;
    for (int i = 0; i + 1 < r->n_tasks && s->number != number; i++)
        s++;
    switch (by) {
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

/* Whether the value of train.best_by in this record is the first value or better than all
 * earlier values. If so, it is stored. NaN is never better than a number. */
static bool is_best(checkpoints *o, const mf_train_config *c, const mf_metrics_record *r)
{
    const bool less = c->best_by == MF_BEST_LOSS || c->best_by == MF_BEST_MSE;
    /* the last validation may use more batches than earlier validations */
    const mf_metrics_record like = mf_metrics_like(r);
    double now = quality((mf_best_by)c->best_by, &like);
    if (isnan(now)) now = quality((mf_best_by)c->best_by, r);
    if (!isnan(o->best) && (less ? !(now < o->best) : !(now > o->best))) return false;
    o->best = now;
    return true;
}

/* Whether training ends because validations no longer improve. */
static bool is_spent(const checkpoints *o, const mf_trainer *t)
{
    const int64_t patience = mf_training_session(t)->config->train.patience;
    return patience > 0 && o->since >= patience;
}

static int judge_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    checkpoints *o = self;
    /* A run that has ended is not checked again, whatever is evaluated afterwards. */
    if (is_spent(o, t)) return MF_OK;
    o->fresh = is_best(o, &mf_training_session(t)->config->train, r);
    if (o->fresh) {
        o->at = mf_trainer_steps(t);
        o->since = 0;
        return MF_OK;
    }
    o->since++;
    if (is_spent(o, t)) mf_trainer_end_here(t);
    return MF_OK;
}

/* Saves the best checkpoint when all observers have processed its validation, because the
 * checkpoint's state contains their results. */
static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    const mf_train_config *c = &mf_training_session(t)->config->train;
    checkpoints *o = self;
    (void)r;
    const bool saves = o->fresh && mf_training_keeps(t) && (c->keep_best || c->patience > 0);
    o->fresh = false;
    return saves ? mf_training_save_best(t) : MF_OK;
}

/* ---- RUN/ended.txt ---- */

static char *ended_path(const mf_trainer *t)
{
    return mf_path_join(mf_training_dir(t)->path, MF_RUN_ENDED);
}

/* Removes RUN/ended.txt, because a run that continues has not ended. */
static int begin(void *self, mf_trainer *t)
{
    checkpoints *o = self;
    if (is_spent(o, t)) mf_trainer_end_here(t);
    if (!mf_training_dir(t) || !mf_training_resumed(t) || mf_trainer_done(t)) return MF_OK;
    char *path = ended_path(t);
    if (!path) return MF_ENOMEM;
    const bool gone = mf_io()->unlink(path) == 0 || errno == ENOENT;
    const int rc = gone ? MF_OK : mf_fail_errno(MF_EIO, "cannot remove %s", path);
    mf_free(path);
    return rc;
}

static int end(void *self, mf_trainer *t)
{
    static const char *const words[] = {"loss", "accuracy", "macro_f1",
                                        "mse",  "pearson",  "spearman"};
    const checkpoints *o = self;
    const mf_train_config *c = &mf_training_session(t)->config->train;
    char text[256];
    const int64_t steps = mf_training_session(t)->steps;
    if (!is_spent(o, t) || (steps > 0 && mf_trainer_steps(t) >= steps)) return MF_OK;
    snprintf(text, sizeof text,
             "training ended at step %lld: no better validation in %lld (train.patience); the "
             "best, %s %.6g, was at step %lld\n",
             (long long)mf_trainer_steps(t), (long long)o->since, words[c->best_by], o->best,
             (long long)o->at);
    mf_log(MF_LOG_INFO, "%.*s", (int)strlen(text) - 1, text);
    if (!mf_training_dir(t)) return MF_OK;
    char *path = ended_path(t);
    const int rc = path ? mf_write_file_atomic(path, text, strlen(text)) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

/* ---- by schedule ---- */

static int between(void *self, mf_trainer *t)
{
    const int64_t every = mf_training_session(t)->config->train.save_every;
    const bool due = mf_trainer_done(t) || (every > 0 && mf_trainer_steps(t) % every == 0);
    (void)self;
    if (!mf_training_keeps(t)) return MF_OK;
    return due || mf_trainer_asked_save(t) ? mf_training_save(t) : MF_OK;
}

/* ---- state in checkpoints ---- */

static const char *best_name(const mf_trainer *t)
{
    static const char *const names[] = {"best_loss", "best/accuracy", "best/macro_f1",
                                        "best/mse",  "best/pearson",  "best/spearman"};
    return names[mf_training_session(t)->config->train.best_by];
}

static int save(void *self, mf_trainer *t, mf_state *s)
{
    const checkpoints *o = self;
    int rc = mf_state_set_real(s, best_name(t), o->best);
    if (mf_training_session(t)->config->train.patience == 0) return rc;
    if (rc == MF_OK) rc = mf_state_set_int(s, "best/at", o->at);
    return rc == MF_OK ? mf_state_set_int(s, "best/since", o->since) : rc;
}

static int load(void *self, mf_trainer *t, const mf_state *s)
{
    checkpoints *o = self;
    if (!mf_state_real(s, best_name(t), &o->best)) return MF_OK;
    mf_state_int(s, "best/at", &o->at);
    mf_state_int(s, "best/since", &o->since);
    return MF_OK;
}

int mf_observe_checkpoints(mf_trainer *t)
{
    static const mf_observer ops = {.name = "checkpoints",
                                    .begin = begin,
                                    .between = between,
                                    .judge_eval = judge_eval,
                                    .after_eval = after_eval,
                                    .end = end,
                                    .save = save,
                                    .load = load,
                                    .free = mf_free};
    checkpoints *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->best = (double)NAN;
    return mf_trainer_observe(t, &ops, o);
}
