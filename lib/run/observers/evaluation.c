/* run/observers/evaluation.c: validation by train.eval_every and after the last step.
 *
 * Records of validation also contain the mean of the training losses since the last validation.
 * Checkpoints keep the sums for this mean, so a resumed run writes the same records. Graphs of
 * evaluation reuse the arena of the training graph. */
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/observers/observers.h"

/* Number of training batches that are evaluated if train.eval_batches is 0. */
#define TRAIN_BATCHES 8

struct mf_evaluation {
    mf_evaluator *val;            /* NULL without a validation split */
    mf_evaluator *on_train;       /* NULL unless train.eval_train */
    double val_loss, floor, bits; /* values of the last validation; NaN before the
                                   * first validation */
    /* step of the last validation; -1: none since the start or resume */
    int64_t at;
    /* sums over the training steps since the last validation */
    double steps, loss, examples, hits;
    /* results of the last mf_evaluation_train; NaN: not measured */
    double train_loss, train_accuracy;
    double *nmi, *nmi_random; /* [n_moe] */
};

/* ---- measurements ---- */

int mf_evaluation_train(mf_evaluation *e, mf_trainer *t, mf_metrics_record *r,
                        bool *ret_measured)
{
    const int64_t asked = mf_training_session(t)->config->train.eval_batches;
    *ret_measured = false;
    e->train_loss = e->train_accuracy = (double)NAN;
    if (!e->on_train) return MF_OK;
    int rc = mf_evaluator_run(e->on_train, mf_trainer_steps(t),
                              asked > 0 ? asked : TRAIN_BATCHES, r);
    if (rc != MF_OK) return rc;
    *ret_measured = true;
    e->train_loss = r->loss;
    e->train_accuracy = r->accuracy;
    r->split = "train_eval";
    r->wall_s = mf_trainer_wall(t);
    return MF_OK;
}

int mf_evaluation_val(mf_evaluation *e, mf_trainer *t, int64_t batches, mf_metrics_record *r)
{
    const mf_train_config *c = &mf_training_session(t)->config->train;
    const double before = mf_clock();
    int rc = mf_evaluator_run(e->val, mf_trainer_steps(t), batches, r);
    if (rc != MF_OK) return rc;
    const double took = mf_clock() - before;
    r->tokens_per_s = took > 0 ? (double)r->tokens / took : 0;
    r->wall_s = mf_trainer_wall(t);
    r->final = mf_trainer_done(t);
    r->apart = r->final && c->eval_every > 0 && r->curve.batches == 0 &&
               r->batches != mf_evaluator_batches(e->val, c->eval_batches);
    e->val_loss = r->task_loss;
    e->floor = r->floor;
    e->bits = r->bits_per_byte;
    e->at = mf_trainer_steps(t);
    if (e->steps > 0) r->train_loss = e->loss / e->steps;
    if (e->examples > 0) r->train_accuracy = e->hits / e->examples;
    /* The gaps compare validation with the evaluation of training data if it was evaluated,
     * else with the means over training steps. */
    r->gap_loss = r->loss - (e->on_train ? e->train_loss : r->train_loss);
    r->gap_accuracy = (e->on_train ? e->train_accuracy : r->train_accuracy) - r->accuracy;
    return MF_OK;
}

int mf_evaluation_val_last(mf_evaluation *e, mf_trainer *t, int64_t batches,
                           mf_metrics_record *r)
{
    r->final = true;
    if (mf_evaluator_batches(e->val, batches) == mf_evaluation_last(e, t)) return MF_OK;
    return mf_evaluation_val(e, t, mf_training_session(t)->config->train.final_batches, r);
}

double mf_evaluation_loss(const mf_evaluation *e)
{
    return e->val_loss;
}

double mf_evaluation_floor(const mf_evaluation *e)
{
    return e->floor;
}

double mf_evaluation_bits(const mf_evaluation *e)
{
    return e->bits;
}

mf_evaluator *mf_evaluation_evaluator(const mf_evaluation *e)
{
    return e->val;
}

void mf_evaluation_nmi(const mf_evaluation *e, const double **ret_nmi,
                       const double **ret_random)
{
    *ret_nmi = e->nmi;
    *ret_random = e->nmi_random;
}

/* ---- hooks ---- */

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    mf_evaluation *e = self;
    (void)t;
    e->steps += 1;
    e->loss += r->loss;
    e->examples += r->examples;
    e->hits += r->hits;
    return MF_OK;
}

static int between(void *self, mf_trainer *t)
{
    const mf_evaluation *e = self;
    const mf_train_config *c = &mf_training_session(t)->config->train;
    const int64_t every = c->eval_every;
    const bool last = mf_trainer_done(t);
    const bool due = last || (every > 0 && mf_trainer_steps(t) % every == 0);
    if (!e->val || !due) return MF_OK;
    return mf_training_evaluate(t, last ? c->final_batches : c->eval_batches, NULL);
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    mf_evaluation *e = self;
    (void)t;
    if (strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) == 0)
        e->steps = e->loss = e->examples = e->hits = 0;
    return MF_OK;
}

static int after_batch(void *arg, int64_t done, int64_t total)
{
    mf_trainer *t = arg;
    int rc = MF_OK;
    MF_TELL(t, rc, after_eval_batch, t, done, total);
    return rc;
}

/* Logs that a part of the split is not evaluated after the last step. */
static void judge_last(const mf_evaluation *e, const mf_trainer *t)
{
    const int64_t all = mf_evaluator_batches(e->val, 0), n = mf_evaluation_last(e, t);
    if (n < all)
        mf_log(MF_LOG_INFO,
               "the validation at the end takes the first %lld of %lld batches; "
               "train.final_batches = 0 takes all",
               (long long)n, (long long)all);
}

int64_t mf_evaluation_last(const mf_evaluation *e, const mf_trainer *t)
{
    return e->val ? mf_evaluator_batches(e->val,
                                         mf_training_session(t)->config->train.final_batches)
                  : 0;
}

static int begin(void *self, mf_trainer *t)
{
    const mf_evaluation *e = self;
    if (e->val) judge_last(e, t);
    return MF_OK;
}

static int after_rebuild(void *self, mf_trainer *t)
{
    mf_evaluation *e = self;
    const mf_graph *g = mf_trainer_graph(t)->g;
    int rc = e->val ? mf_evaluator_rebuild(e->val, g) : MF_OK;
    return rc == MF_OK && e->on_train ? mf_evaluator_rebuild(e->on_train, g) : rc;
}

static int end(void *self, mf_trainer *t)
{
    mf_evaluation *e = self;
    const int32_t n = mf_training_session(t)->model->n_moe;
    int rc = MF_OK;
    if (e->val && e->at != mf_trainer_steps(t)) {
        /* If a complete run is resumed, it does no step, so the evaluation is done here. */
        mf_metrics_record r;
        rc = mf_evaluator_run(e->val, mf_trainer_steps(t),
                              mf_training_session(t)->config->train.final_batches, &r);
        if (rc == MF_OK) {
            e->val_loss = r.task_loss;
            e->floor = r.floor;
            e->bits = r.bits_per_byte;
        }
    }
    for (int32_t i = 0; rc == MF_OK && i < n; i++) {
        const mf_moe_tally *tally = e->val ? mf_evaluator_tally(e->val, i) : NULL;
        const bool known = tally && tally->joint;
        e->nmi[i] = known ? mf_nmi(tally->joint, tally->experts, tally->labels) : (double)NAN;
        e->nmi_random[i] = known ? mf_random_nmi(tally, 0) : (double)NAN;
    }
    return rc;
}

static int save(void *self, mf_trainer *t, mf_state *s)
{
    const mf_evaluation *e = self;
    (void)t;
    int rc = mf_state_set_real(s, "val_loss", e->val_loss);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/steps", e->steps);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/loss", e->loss);
    if (rc == MF_OK) rc = mf_state_set_real(s, "since/rows", e->examples);
    return rc == MF_OK ? mf_state_set_real(s, "since/hits", e->hits) : rc;
}

static int load(void *self, mf_trainer *t, const mf_state *s)
{
    mf_evaluation *e = self;
    if (!mf_state_real(s, "val_loss", &e->val_loss))
        return mf_fail(MF_ECHECKPOINT, "%s: the checkpoint lacks the last validation loss",
                       mf_training_dir(t)->path);
    mf_state_real(s, "since/steps", &e->steps); /* an older checkpoint does not contain
                                                 * these values */
    mf_state_real(s, "since/loss", &e->loss);
    mf_state_real(s, "since/rows", &e->examples);
    mf_state_real(s, "since/hits", &e->hits);
    return MF_OK;
}

static void free_evaluation(void *self)
{
    mf_evaluation *e = self;
    mf_evaluator_free(e->val);
    mf_evaluator_free(e->on_train);
    mf_free(e->nmi);
    mf_free(e->nmi_random);
    mf_free(e);
}

static int open_evaluators(mf_evaluation *e, mf_trainer *t)
{
    mf_session *s = mf_training_session(t);
    const mf_train_config *c = &s->config->train;
    const mf_graph *g = mf_trainer_graph(t)->g;
    const size_t n = (size_t)s->model->n_moe + 1;
    e->nmi = mf_alloc(n, sizeof *e->nmi);
    e->nmi_random = mf_alloc(n, sizeof *e->nmi_random);
    if (!e->nmi || !e->nmi_random) return MF_ENOMEM;
    const bool some = s->corpus && s->corpus->split[MF_SPLIT_VAL].tokens > 0;
    if (!some || c->eval_every < 0) return MF_OK;
    int rc = mf_evaluator_new(s, MF_SPLIT_VAL, g, &e->val);
    if (rc == MF_OK) mf_evaluator_watch(e->val, after_batch, t);
    if (rc == MF_OK && c->eval_every > 0) mf_evaluator_mark(e->val, c->eval_batches);
    mf_world *world = mf_trainer_world(t);
    if (rc == MF_OK) rc = mf_evaluator_share(e->val, world);
    if (rc == MF_OK && c->eval_train) rc = mf_evaluator_new(s, MF_SPLIT_TRAIN, g, &e->on_train);
    return rc == MF_OK && e->on_train ? mf_evaluator_share(e->on_train, world) : rc;
}

int mf_observe_evaluation(mf_trainer *t, mf_evaluation **ret)
{
    static const mf_observer ops = {.name = "evaluation",
                                    .begin = begin,
                                    .after_step = after_step,
                                    .between = between,
                                    .after_eval = after_eval,
                                    .after_rebuild = after_rebuild,
                                    .end = end,
                                    .save = save,
                                    .load = load,
                                    .free = free_evaluation};
    mf_evaluation *e = mf_alloc(1, sizeof *e);
    if (!e) return MF_ENOMEM;
    e->val_loss = e->floor = e->bits = (double)NAN;
    e->at = -1;
    int rc = open_evaluators(e, t);
    if (rc != MF_OK) {
        free_evaluation(e);
        return rc;
    }
    rc = mf_trainer_observe(t, &ops, e);
    if (rc == MF_OK) *ret = e;
    return rc;
}
