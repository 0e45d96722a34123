/* train/evaluate.c: runs batches of a split through evaluation graphs and sums losses, routing
 * and predictions. The memory of the sums is allocated once, when the evaluator is created;
 * graphs of shorter lengths are built when a batch first needs them. */
#include "train/evaluate.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "graph/shape.h"
#include "model/heads.h"
#include "train/metrics/predictions.h"
#include "train/head_measure.h"
#include "train/length_buckets.h"

struct mf_evaluator {
    mf_session *session;
    mf_split split;
    mf_batcher *batcher;
    mf_length_buckets *buckets;
    const mf_batch *batch; /* batch of the last run; the buckets own it */
    mf_model_graph *graph;
    const mf_graph *arena_of;     /* graph whose arena is reused; may be NULL */
    mf_moe_tally **tallies;       /* [n_moe] */
    mf_layer_stats *stats;        /* [n_moe] */
    float *shares;                /* [n_moe][MF_MOE_SHARES][E] */
    mf_named_value *regularizers; /* [n] */
    mf_head_tally *head_tally;    /* this and the next: NULL if heads cannot be switched off */
    mf_head_record *head_record;
    mf_predictions *predictions; /* NULL for language models */
    mf_trace_recorder *recorder; /* NULL: no trace is recorded */
    int64_t record_every;
    int (*each)(void *arg, int64_t done, int64_t total); /* or NULL */
    void *each_arg;
    double floor;          /* of the first floor_targets targets; NaN: not known */
    int64_t floor_targets; /* 0: nothing was evaluated yet */
};

int mf_evaluator_rebuild(mf_evaluator *e, const mf_graph *arena_of)
{
    const mf_config *c = e->session->config;
    e->arena_of = arena_of;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = true,
                                  .arena_of = arena_of,
                                  .want_logits = e->predictions != NULL,
                                  .want_trace = e->recorder != NULL};
    mf_length_buckets_free(e->buckets);
    e->buckets = NULL;
    /* All batches of a trace must have the same shape. */
    int rc = mf_length_buckets_new(e->session, &shape, e->recorder != NULL, &e->buckets);
    if (rc != MF_OK) return rc;
    e->graph = mf_length_buckets_graph(e->buckets);
    return MF_OK;
}

int mf_evaluator_record(mf_evaluator *e, mf_trace_recorder *recorder, int64_t every)
{
    e->recorder = recorder;
    e->record_every = every > 0 ? every : 1;
    return mf_evaluator_rebuild(e, e->arena_of);
}

static int allocate(mf_evaluator *e)
{
    const mf_model *m = e->session->model;
    const size_t n = (size_t)m->n_moe + 1, experts = (size_t)m->config->moe.experts;
    e->tallies = mf_alloc(n, sizeof *e->tallies);
    e->stats = mf_alloc(n, sizeof *e->stats);
    e->shares = mf_alloc(n * MF_MOE_SHARES * experts, sizeof *e->shares);
    e->regularizers = mf_alloc((size_t)m->config->n_regularizers + 1, sizeof *e->regularizers);
    if (!e->tallies || !e->stats || !e->shares || !e->regularizers) return MF_ENOMEM;
    const mf_split_range *range = &e->session->corpus->split[e->split];
    int rc = mf_predictions_new(m, range->end - range->begin, &e->predictions);
    if (rc != MF_OK) return rc;
    for (int32_t i = 0; i < m->n_moe; i++) {
        rc = mf_moe_tally_new(m->moe[i].layer, (int32_t)experts, (int32_t)m->config->moe.top_k,
                              m->dims.labels, &e->tallies[i]);
        if (rc != MF_OK) return rc;
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        if (mf_model_has_regularizer(m, i))
            e->regularizers[i].name = m->config->regularizers[i].label;
    rc = mf_head_tally_new(m, &e->head_tally);
    return rc == MF_OK ? mf_head_record_new(m, &e->head_record) : rc;
}

int mf_evaluator_new(mf_session *s, mf_split split, const mf_graph *arena_of,
                     mf_evaluator **ret)
{
    mf_evaluator *e = mf_alloc(1, sizeof *e);
    if (!e) return MF_ENOMEM;
    e->session = s;
    e->split = split;
    mf_batch_spec spec;
    mf_session_batch_spec(s, split, &spec);
    spec.order = MF_ORDER_SEQUENTIAL;
    spec.context = (int32_t)s->config->train.eval_context;
    int rc = mf_batcher_new(s->corpus, &spec, &e->batcher);
    if (rc == MF_OK) rc = allocate(e);
    if (rc == MF_OK) rc = mf_evaluator_rebuild(e, arena_of);
    if (rc != MF_OK) {
        mf_evaluator_free(e);
        return rc;
    }
    *ret = e;
    return MF_OK;
}

void mf_evaluator_free(mf_evaluator *e)
{
    if (!e) return;
    for (int32_t i = 0; e->tallies && i < e->session->model->n_moe; i++)
        mf_moe_tally_free(e->tallies[i]);
    mf_free(e->tallies);
    mf_free(e->stats);
    mf_free(e->shares);
    mf_free(e->regularizers);
    mf_predictions_free(e->predictions);
    mf_head_tally_free(e->head_tally);
    mf_head_record_free(e->head_record);
    mf_length_buckets_free(e->buckets);
    mf_batcher_free(e->batcher);
    mf_free(e);
}

static double scalar(const mf_tensor *t)
{
    const float *v = t ? mf_tensor_host(t) : NULL;
    return v ? (double)*v : 0;
}

static void finish(mf_evaluator *e, mf_metrics_record *r, double loss, double task,
                   double weight, double targets, double bytes)
{
    const mf_model *m = e->session->model;
    const int32_t experts = (int32_t)m->config->moe.experts;
    r->split = mf_split_name(e->split);
    r->loss = weight > 0 ? loss / weight : 0;
    r->task_loss = weight > 0 ? task / weight : 0;
    r->tokens = (int64_t)targets;
    int64_t all;
    mf_model_count(m, &all, &r->params_active);
    if (m->config->model.task == MF_TASK_LM) {
        r->ppl = exp(r->task_loss);
        if (bytes > 0) r->bits_per_byte = task / log(2.0) / bytes;
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        e->regularizers[i].value /= weight > 0 ? weight : 1;
    r->regularizers = e->regularizers;
    r->n_regularizers = m->config->n_regularizers;
    if (e->head_record) {
        mf_head_record_fill(e->head_record, m, e->head_tally);
        r->heads = e->head_record->stats;
        r->n_head_layers = e->head_record->layers;
        r->heads_active = mf_heads_active(m);
        r->heads_total = (int64_t)r->n_head_layers * e->head_record->heads;
    }
    for (int32_t i = 0; i < m->n_moe; i++)
        mf_moe_tally_stats(e->tallies[i], e->shares + (int64_t)i * MF_MOE_SHARES * experts,
                           &e->stats[i]);
    mf_predictions_score(e->predictions, r);
    r->layers = e->stats;
    r->n_layers = m->n_moe;
}

/* Computes the floor of the targets of a run, which are the first ones of the split. Most runs
 * have as many as the run before. */
static int find_floor(mf_evaluator *e, mf_metrics_record *r)
{
    int rc = MF_OK;
    if (r->tokens != e->floor_targets)
        rc = mf_batcher_floor(e->batcher, r->tokens, &e->floor);
    if (rc != MF_OK) return rc;
    e->floor_targets = r->tokens;
    r->floor = r->tokens > 0 ? e->floor : (double)NAN;
    return MF_OK;
}

int64_t mf_evaluator_batches(const mf_evaluator *e, int64_t batches)
{
    const int64_t all = mf_batcher_count(e->batcher);
    return batches > 0 && batches < all ? batches : all;
}

void mf_evaluator_watch(mf_evaluator *e, int (*each)(void *arg, int64_t done, int64_t total),
                        void *arg)
{
    e->each = each;
    e->each_arg = arg;
}

int mf_evaluator_run(mf_evaluator *e, int64_t step, int64_t batches, mf_metrics_record *ret)
{
    const int64_t n = mf_evaluator_batches(e, batches);
    const mf_model *m = e->session->model;
    const mf_run run = {.seed = (uint64_t)e->session->config->train.seed,
                        .step = (uint64_t)step,
                        .metrics = true,
                        .forward_only = true};
    double loss = 0, task = 0, weight = 0, targets = 0, bytes = 0, ppl = 0, measured = 0;
    double tokens = 0, dropped = 0, moved = 0;
    for (int32_t i = 0; i < m->n_moe; i++)
        mf_moe_tally_reset(e->tallies[i]);
    for (int i = 0; i < m->config->n_regularizers; i++)
        e->regularizers[i].value = 0;
    mf_head_tally_reset(e->head_tally);
    mf_predictions_clear(e->predictions);
    mf_metrics_record_init(ret);
    ret->step = step;
    ret->dtype = mf_dtype_text(e->session->config->train.dtype);
    for (int64_t b = 0; b < n; b++) {
        int rc = mf_length_buckets_take(e->buckets, e->batcher, b, &e->batch, &e->graph);
        if (rc == MF_OK && e->batch->n_targets == 0) continue;
        if (rc == MF_OK) rc = mf_graph_run(e->graph->g, &run);
        if (rc != MF_OK) return rc;
        const double w = (double)e->batch->n_targets;
        ppl += exp(scalar(e->graph->task_loss));
        measured++;
        task += w * scalar(e->graph->task_loss);
        loss += w * scalar(e->graph->loss);
        for (int i = 0; i < m->config->n_regularizers; i++)
            e->regularizers[i].value += w * scalar(e->graph->regularizers[i]);
        weight += w;
        targets += w;
        bytes += e->batch->n_bytes < 0 ? NAN : (double)e->batch->n_bytes;
        mf_predictions_add(e->predictions, e->batch, e->graph);
        tokens += (double)e->batch->n_tokens;
        mf_head_tally_add(e->head_tally, e->graph);
        for (int32_t i = 0; i < m->n_moe; i++) {
            double d, n_moved;
            mf_moe_tally_add(e->tallies[i], &e->graph->moe[i]);
            mf_moe_overflow(&e->graph->moe[i], &d, &n_moved);
            dropped += d;
            moved += n_moved;
        }
        if (e->recorder && b % e->record_every == 0)
            rc = mf_trace_recorder_add(e->recorder, b, e->batch, e->graph);
        if (rc == MF_OK && e->each) rc = e->each(e->each_arg, b + 1, n);
        if (rc != MF_OK) return rc;
    }
    finish(e, ret, loss, task, weight, targets, bytes);
    if (m->config->model.task == MF_TASK_LM && measured > 0)
        ret->ppl_batch_mean = ppl / measured;
    if (m->n_moe > 0 && e->graph->moe[0].limited) {
        ret->drop_rate = tokens > 0 ? dropped / tokens : 0;
        ret->reassigned = moved;
    }
    return find_floor(e, ret);
}

int mf_evaluator_heads(mf_evaluator *e, int64_t step, int64_t batches)
{
    if (!e->head_record)
        return mf_fail(MF_EUSAGE,
                       "no adapter of this model wants heads to be measured one by one (as "
                       "head_gates does)");
    return mf_heads_measure(e->session, e->split, batches, step, e->head_record);
}

const mf_moe_tally *mf_evaluator_tally(const mf_evaluator *e, int32_t moe_layer)
{
    return moe_layer < e->session->model->n_moe ? e->tallies[moe_layer] : NULL;
}

double mf_random_nmi(const mf_moe_tally *t, uint64_t seed)
{
    if (!t->joint) return (double)NAN;
    const uint64_t stream = mf_rng_stream("nmi.random");
    double *counts = mf_alloc((size_t)t->experts * (size_t)t->labels, sizeof *counts);
    if (!counts) return (double)NAN;
    uint64_t drawn = 0;
    for (int32_t l = 0; l < t->labels; l++) {
        double rows = 0;
        for (int32_t x = 0; x < t->experts; x++)
            rows += t->joint[x * t->labels + l];
        for (double i = 0; i < rows; i++) {
            const uint64_t x = mf_rng_below(seed, stream, 0, drawn++, (uint64_t)t->experts);
            counts[x * (uint64_t)t->labels + (uint64_t)l] += 1;
        }
    }
    const double nmi = mf_nmi(counts, t->experts, t->labels);
    mf_free(counts);
    return nmi;
}
