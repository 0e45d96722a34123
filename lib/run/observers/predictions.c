/* run/observers/predictions.c: compares the predictions of a step with the labels. Runs of
 * language models do not have this observer. */
#include "run/observers/observers.h"

static int before_step(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t, (void)r;
    mf_predictions_clear(self);
    return MF_OK;
}

static int64_t rows_of(const mf_trainer *t)
{
    return mf_training_session(t)->config->train.batch;
}

static int64_t numbers(void *self, const mf_trainer *t, const mf_step_result *r)
{
    (void)r;
    return mf_predictions_numbers(self, rows_of(t));
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    (void)t;
    mf_predictions_put(self, r->batch, r->graph, out);
    return MF_OK;
}

static int fold(void *self, mf_trainer *t, mf_step_result *r, const double *in)
{
    (void)r;
    mf_predictions_take(self, rows_of(t), in);
    return MF_OK;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t;
    r->predictions = self;
    mf_predictions_hits(self, &r->examples, &r->hits);
    return MF_OK;
}

static void free_predictions(void *self)
{
    mf_predictions_free(self);
}

int mf_observe_predictions(mf_trainer *t)
{
    static const mf_observer ops = {.name = "predictions",
                                    .before_step = before_step,
                                    .numbers = numbers,
                                    .measure = measure,
                                    .fold = fold,
                                    .after_step = after_step,
                                    .free = free_predictions};
    const mf_session *s = mf_training_session(t);
    mf_predictions *p = NULL;
    const int rc =
        mf_predictions_new(s->model, s->config->train.batch * s->config->train.accumulate, &p);
    return rc == MF_OK && p ? mf_trainer_observe(t, &ops, p) : rc;
}
