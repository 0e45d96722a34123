/* run/observers/heads.c: measures attention heads in a step. Gates, entropy and gradient norms
 * are read in steps in which they are requested. Importance needs one forward pass per head, so
 * it is measured only if a controller requests it, on the last micro-batch. The graph for
 * importance is built at the first request after graphs were rebuilt. */
#include <string.h>
#include "base/mem.h"
#include "run/head_measure.h"
#include "run/observers/observers.h"

typedef struct heads {
    mf_session *session;
    mf_step_result *now; /* result of the present step; NULL before the first step */
    /* The fields tally, one and record are NULL if heads cannot be switched off. */
    mf_head_tally *tally, *one; /* tally: of the step; one: of one micro-batch */
    mf_head_record *record;
    mf_model_graph *probe; /* graph that can run without single heads; built on request */
    /* [layers, heads] increase of the loss without the head; allocated with probe */
    double *worse;
} heads;

/* ---- importance: the loss without one head ---- */

static int probe_graph(heads *o)
{
    const mf_config *c = o->session->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = mf_session_masked(o->session),
                                  .packed = mf_session_packed(o->session),
                                  .try_heads = true};
    if (o->probe) return MF_OK;
    if (!o->worse)
        o->worse = mf_alloc((size_t)c->model.layers * (size_t)c->model.heads, sizeof *o->worse);
    return !o->worse ? MF_ENOMEM : mf_model_graph_new(o->session->model, &shape, &o->probe);
}

static void forget_probe(heads *o)
{
    mf_model_graph_free(o->probe);
    mf_free(o->worse);
    o->probe = NULL;
    o->worse = NULL;
}

static int try_heads(heads *o)
{
    mf_head_record *r = o->record;
    const mf_run run = {.seed = (uint64_t)o->session->config->train.seed,
                        .step = (uint64_t)o->now->step,
                        .forward_only = true};
    memset(o->worse, 0, (size_t)r->layers * (size_t)r->heads * sizeof *o->worse);
    mf_batch_feed(o->now->batch, o->probe);
    int rc = mf_heads_try(o->probe, &run, r, 1, o->worse);
    if (rc == MF_OK) mf_heads_importance(r, o->worse);
    return rc;
}

/* Measures importance, once per step, and copies it to out [layers, heads], at most n values.
 * This function is a callback of mf_plughost_set_importance. */
static int importance(void *arg, int32_t n, float *out, int32_t *ret_n)
{
    heads *o = arg;
    mf_head_record *r = o->record;
    *ret_n = 0;
    if (!r || !o->now) return MF_OK;
    if (!o->now->importance) {
        int rc = probe_graph(o);
        if (rc == MF_OK) rc = try_heads(o);
        if (rc != MF_OK) return rc;
        o->now->importance = true;
    }
    for (int32_t l = 0; l < r->layers; l++)
        for (int32_t h = 0; h < r->heads && *ret_n < n; h++)
            out[(*ret_n)++] = r->stats[l].importance[h];
    return MF_OK;
}

/* ---- each step ---- */

static int before_step(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t;
    if (r->wanted & MF_WANT_HEADS) mf_head_tally_reset(((heads *)self)->tally);
    return MF_OK;
}

static int after_batch(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t;
    ((heads *)self)->now = r;
    return MF_OK;
}

static int64_t numbers(void *self, const mf_trainer *t, const mf_step_result *r)
{
    (void)t;
    return r->wanted & MF_WANT_HEADS ? mf_head_tally_numbers(((heads *)self)->tally) : 0;
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    heads *o = self;
    (void)t;
    if (!(r->wanted & MF_WANT_HEADS)) return MF_OK;
    mf_head_tally_reset(o->one);
    mf_head_tally_add(o->one, r->graph);
    mf_head_tally_put(o->one, out);
    return MF_OK;
}

static int fold(void *self, mf_trainer *t, mf_step_result *r, const double *in)
{
    (void)t;
    if (r->wanted & MF_WANT_HEADS) mf_head_tally_take(((heads *)self)->tally, in);
    return MF_OK;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *result)
{
    heads *o = self;
    const mf_model *m = o->session->model;
    mf_head_record *r = o->record;
    (void)t;
    result->heads = r;
    if (!r || !(result->wanted & MF_WANT_HEADS)) return MF_OK;
    mf_head_record_fill(r, m, o->tally);
    for (int32_t l = 0; l < r->layers; l++) {
        float *norm = mf_head_record_gradients(r, l);
        mf_head_gradients(m, l, 1.0 / (double)o->session->config->train.accumulate, norm);
        r->stats[l].grad_norm = norm;
    }
    return MF_OK;
}

static int after_rebuild(void *self, mf_trainer *t)
{
    (void)t;
    forget_probe(self);
    return MF_OK;
}

static void free_heads(void *self)
{
    heads *o = self;
    mf_plughost_set_importance(o->session->model->plugins, NULL, NULL);
    forget_probe(o);
    mf_head_tally_free(o->tally);
    mf_head_tally_free(o->one);
    mf_head_record_free(o->record);
    mf_free(o);
}

int mf_observe_heads(mf_trainer *t)
{
    static const mf_observer ops = {.name = "heads",
                                    .before_step = before_step,
                                    .after_batch = after_batch,
                                    .numbers = numbers,
                                    .measure = measure,
                                    .fold = fold,
                                    .after_step = after_step,
                                    .after_rebuild = after_rebuild,
                                    .free = free_heads};
    heads *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->session = mf_training_session(t);
    mf_plughost_set_importance(o->session->model->plugins, o, importance);
    int rc = mf_head_tally_new(o->session->model, &o->tally);
    if (rc == MF_OK) rc = mf_head_tally_new(o->session->model, &o->one);
    if (rc == MF_OK) rc = mf_head_record_new(o->session->model, &o->record);
    if (rc != MF_OK) {
        free_heads(o);
        return rc;
    }
    return mf_trainer_observe(t, &ops, o);
}
