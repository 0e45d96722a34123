/* train/observers/checkpoints.c: saves checkpoints: by train.save_every, after the last step,
 * on request of the caller, and in RUN/best after the best validation so far.
 *
 * The best value is saved under the name of its measure. If a run is resumed with another
 * train.best_by, it has no best value yet. */
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "train/observers/observers.h"

typedef struct checkpoints {
    double best; /* best value of train.best_by so far; NaN before the first evaluation */
} checkpoints;

/* ---- the best validation ---- */

/* The metric that train.best_by names: that of the first task that has it, or the loss of
 * all tasks. */
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

/* Whether the value of train.best_by in this record is the first one or better than all earlier
 * ones; if so, it is stored. NaN is never better than a number. */
static bool is_best(checkpoints *o, const mf_train_config *c, const mf_metrics_record *r)
{
    const bool less = c->best_by == MF_BEST_LOSS || c->best_by == MF_BEST_MSE;
    const double now = quality((mf_best_by)c->best_by, r);
    if (!isnan(o->best) && (less ? !(now < o->best) : !(now > o->best))) return false;
    o->best = now;
    return true;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    const mf_train_config *c = &mf_trainer_session(t)->config->train;
    if (strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) != 0) return MF_OK;
    if (!is_best(self, c, r) || !c->keep_best) return MF_OK;
    return mf_trainer_save_in(t, mf_trainer_dir(t)->best, 1);
}

/* ---- by schedule ---- */

static int between(void *self, mf_trainer *t)
{
    const mf_trainer_options *o = mf_trainer_settings(t);
    const int64_t every = mf_trainer_session(t)->config->train.save_every;
    const bool due = mf_trainer_done(t) || (every > 0 && mf_trainer_steps(t) % every == 0);
    (void)self;
    if (!due && !(o->should_save && o->should_save(o->arg))) return MF_OK;
    return mf_trainer_save(t);
}

/* ---- state in checkpoints ---- */

static const char *best_name(const mf_trainer *t)
{
    static const char *const names[] = {"best_loss", "best/accuracy", "best/macro_f1",
                                        "best/mse",  "best/pearson",  "best/spearman"};
    return names[mf_trainer_session(t)->config->train.best_by];
}

static int save(void *self, mf_trainer *t, mf_state *s)
{
    return mf_state_set_real(s, best_name(t), ((checkpoints *)self)->best);
}

static int load(void *self, mf_trainer *t, const mf_state *s)
{
    mf_state_real(s, best_name(t), &((checkpoints *)self)->best);
    return MF_OK;
}

int mf_observe_checkpoints(mf_trainer *t)
{
    static const mf_observer ops = {.name = "checkpoints",
                                    .between = between,
                                    .after_eval = after_eval,
                                    .save = save,
                                    .load = load,
                                    .free = mf_free};
    if (!mf_trainer_dir(t)) return MF_OK;
    checkpoints *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->best = (double)NAN;
    return mf_trainer_observe(t, &ops, o);
}
