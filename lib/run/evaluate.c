/* run/evaluate.c: runs batches of a split through evaluation graphs and sums losses, routing
 * and predictions. The measurements of a batch are a list of numbers. The lists are added in
 * the order of the batches. The memory of lists and sums is allocated once, when the evaluator
 * is created. A graph for a shorter length is built when a batch first needs it. */
#include "run/evaluate.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "graph/shape.h"
#include "model/heads.h"
#include "run/metrics/predictions.h"
#include "run/head_measure.h"
#include "run/modules.h"
#include "train/length_buckets.h"
#include "train/parallel/shares.h"

struct mf_evaluator {
    mf_session *session;
    mf_split split;
    mf_batcher *batcher;
    mf_length_buckets *buckets;
    const mf_batch *batch; /* batch of the last run; the buckets own it */
    mf_model_graph *graph;
    const mf_graph *arena_of; /* graph whose arena is reused; may be NULL */
    mf_moe_tally **tallies;   /* [n_moe] */
    mf_moe_tally **one;       /* [n_moe] tally of each layer in one batch */
    mf_world *world;          /* NULL: this process runs all batches */
    double *numbers;          /* [window] numbers of consecutive batches */
    int64_t window;
    mf_comm_piece *pieces;        /* [2 window ranks] pieces for exchanges between ranks */
    mf_layer_stats *stats;        /* [n_moe] */
    float *shares;                /* [n_moe][MF_MOE_SHARES][experts], the most of a layer */
    mf_named_value *regularizers; /* [n] */
    /* these three are NULL if heads cannot be switched off */
    mf_head_tally *head_tally, *head_one;
    mf_head_record *head_record;
    mf_predictions *predictions; /* NULL for language models */
    mf_trace_recorder *recorder; /* NULL: no trace is recorded */
    int64_t record_every;
    int (*each)(void *arg, int64_t done, int64_t total); /* see mf_evaluator_watch; may
                                                          * be NULL */
    void *each_arg;
    int64_t marked;        /* number of batches set by mf_evaluator_mark */
    double floor;          /* floor of the first floor_targets targets; NaN: unknown */
    int64_t floor_targets; /* 0: nothing was evaluated yet */
};

int mf_evaluator_rebuild(mf_evaluator *e, const mf_graph *arena_of)
{
    mf_batch_spec spec;
    mf_session_eval_spec(e->session, e->split, &spec);
    e->arena_of = arena_of;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = spec.rows,
                                  .seq = spec.seq,
                                  .masked = true,
                                  .arena_of = arena_of,
                                  .want_logits = e->predictions != NULL,
                                  .want_trace = e->recorder != NULL};
    mf_length_buckets_free(e->buckets);
    e->buckets = NULL;
    /* All batches of a trace must have the same shape. */
    int rc =
        mf_length_buckets_new(e->session->model, &shape,
                              e->recorder || !mf_session_by_length(e->session), &e->buckets);
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

/* Indices of the sums over batches. After FIRST follow the weight and the loss of each task of
 * whole examples, then regularizers, predictions, heads and MoE layers. */
enum { TARGETS, TASK_LOSS, LOSS, BYTES, TOKENS, DROPPED, MOVED, FIRST };

static int64_t rows_of(const mf_evaluator *e)
{
    return e->session->config->train.batch;
}

static int64_t numbers_of(const mf_evaluator *e)
{
    const mf_model *m = e->session->model;
    int64_t n = FIRST + 2 * mf_model_tasks(m) + m->config->n_regularizers +
                mf_predictions_numbers(e->predictions, rows_of(e)) +
                mf_head_tally_numbers(e->head_tally);
    for (int32_t i = 0; i < m->n_moe; i++)
        n += mf_moe_tally_numbers(e->one[i]);
    return n;
}

static int allocate(mf_evaluator *e)
{
    const mf_model *m = e->session->model;
    const size_t n = (size_t)m->n_moe + 1, experts = (size_t)mf_model_most_experts(m->config);
    e->tallies = mf_alloc(n, sizeof *e->tallies);
    e->one = mf_alloc(n, sizeof *e->one);
    e->stats = mf_alloc(n, sizeof *e->stats);
    e->shares = mf_alloc(n * MF_MOE_SHARES * experts, sizeof *e->shares);
    e->regularizers = mf_alloc((size_t)m->config->n_regularizers + 1, sizeof *e->regularizers);
    if (!e->tallies || !e->one || !e->stats || !e->shares || !e->regularizers) return MF_ENOMEM;
    const mf_split_range *range = &e->session->corpus->split[e->split];
    int rc = mf_predictions_new(m, range->end - range->begin, &e->predictions);
    if (rc != MF_OK) return rc;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_moe_layer *l = &m->moe[i];
        const int32_t own = (int32_t)l->config.experts, k = (int32_t)l->config.top_k;
        rc = mf_moe_tally_new(l->layer, own, k, m->dims.labels, &e->tallies[i]);
        if (rc == MF_OK) rc = mf_moe_tally_new(0, own, k, m->dims.labels, &e->one[i]);
        if (rc != MF_OK) return rc;
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        if (mf_model_has_regularizer(m, i))
            e->regularizers[i].name = m->config->regularizers[i].label;
    if (rc == MF_OK) rc = mf_head_tally_new(m, &e->head_tally);
    if (rc == MF_OK) rc = mf_head_tally_new(m, &e->head_one);
    if (rc == MF_OK) rc = mf_head_record_new(m, &e->head_record);
    if (rc != MF_OK) return rc;
    e->window = 1;
    e->numbers = mf_alloc((size_t)numbers_of(e), sizeof *e->numbers);
    return e->numbers ? MF_OK : MF_ENOMEM;
}

int mf_evaluator_new(mf_session *s, mf_split split, const mf_graph *arena_of,
                     mf_evaluator **ret)
{
    mf_evaluator *e = mf_alloc(1, sizeof *e);
    if (!e) return MF_ENOMEM;
    e->session = s;
    e->split = split;
    mf_batch_spec spec;
    mf_session_eval_spec(s, split, &spec);
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
    for (int32_t i = 0; e->one && i < e->session->model->n_moe; i++)
        mf_moe_tally_free(e->one[i]);
    mf_free(e->tallies);
    mf_free(e->one);
    mf_free(e->stats);
    mf_free(e->shares);
    mf_free(e->regularizers);
    mf_predictions_free(e->predictions);
    mf_head_tally_free(e->head_tally);
    mf_head_tally_free(e->head_one);
    mf_free(e->numbers);
    mf_free(e->pieces);
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

/* Sums over the batches of a run; the evaluator holds the other sums. */
typedef struct sums {
    double loss, task, targets, bytes, ppl, measured, tokens, dropped, moved;
    /* Weights and losses of tasks of whole examples. */
    double weights[1 + MF_TASKS_MAX], losses[1 + MF_TASKS_MAX];
} sums;

/* Divides the sums of a task by the number of examples that have a label of the task. Some
 * examples may have none. */
static void finish_losses(const mf_evaluator *e, mf_metrics_record *r, const sums *s)
{
    const mf_model *m = e->session->model;
    const int n = mf_model_tasks(m);
    const double targets = s->targets > 0 ? s->targets : 1, mean = s->task / targets;
    r->loss = s->loss / targets;
    r->task_loss = mean;
    if (n == 0 || (n == 1 && s->weights[0] == s->targets)) return;
    r->task_loss = 0;
    for (int i = 0; i < n; i++)
        if (s->weights[i] > 0)
            r->task_loss += (n > 1 ? m->task_weights[i] : 1) * s->losses[i] / s->weights[i];
    r->loss += r->task_loss - mean;
}

static void finish(mf_evaluator *e, mf_metrics_record *r, const sums *s)
{
    const mf_model *m = e->session->model;
    const int32_t experts = mf_model_most_experts(m->config);
    const double targets = s->targets, bytes = s->bytes;
    r->split = mf_split_name(e->split);
    finish_losses(e, r, s);
    r->tokens = (int64_t)targets;
    int64_t all;
    mf_model_count(m, &all, &r->params_active);
    if (m->config->model.task == MF_TASK_LM) {
        r->ppl = exp(r->task_loss);
        if (bytes > 0) r->bits_per_byte = s->task / log(2.0) / bytes;
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        e->regularizers[i].value /= targets > 0 ? targets : 1;
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

/* Computes the floor of the targets of a run, which are the first targets of the split. Most
 * runs have the same number of targets as the run before. */
static int find_floor(mf_evaluator *e, mf_metrics_record *r)
{
    int rc = MF_OK;
    if (r->tokens != e->floor_targets) rc = mf_batcher_floor(e->batcher, r->tokens, &e->floor);
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

/* ---- one batch ---- */

/* If ranks share the experts, all ranks run a graph at the same time. A rank without a batch
 * runs its graph only to compute its experts for the tokens of the other ranks. */
static int run_for_others(mf_evaluator *e, const mf_run *run)
{
    bool *silent = &e->session->model->expert_ranks.silent;
    int rc = mf_length_buckets_take(e->buckets, mf_batcher_source(e->batcher), 0, &e->batch,
                                    &e->graph);
    if (rc != MF_OK) return rc;
    *silent = true;
    rc = mf_graph_run(e->graph->g, run);
    *silent = false;
    return rc;
}

static bool meets(const mf_evaluator *e)
{
    return mf_experts_shared(&e->session->model->expert_ranks);
}

/* Runs batch b and writes its numbers to out [numbers_of]. A batch without targets is not run;
 * its TARGETS is 0. */
static int measure(mf_evaluator *e, const mf_run *run, int64_t b, double *out)
{
    const mf_model *m = e->session->model;
    int rc = mf_length_buckets_take(e->buckets, mf_batcher_source(e->batcher), b, &e->batch,
                                    &e->graph);
    out[TARGETS] = rc == MF_OK ? (double)e->batch->n_targets : 0;
    if (rc == MF_OK && e->batch->n_targets == 0 && meets(e)) return run_for_others(e, run);
    if (rc != MF_OK || e->batch->n_targets == 0) return rc;
    mf_run one = *run;
    one.step = mf_evaluation_draws(run->step, b);
    rc = mf_graph_run(e->graph->g, &one);
    if (rc != MF_OK) return rc;
    out[TASK_LOSS] = scalar(e->graph->task_loss);
    out[LOSS] = scalar(e->graph->loss);
    out[BYTES] = e->batch->n_bytes < 0 ? (double)NAN : (double)e->batch->n_bytes;
    out[TOKENS] = (double)e->batch->n_tokens;
    out[DROPPED] = out[MOVED] = 0;
    double *at = out + FIRST;
    for (int i = 0; i < mf_model_tasks(m); i++) {
        *at++ = mf_batch_weight(e->batch, e->session->model, mf_session_masked(e->session), i);
        *at++ = scalar(e->graph->tasks[i].loss);
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        *at++ = scalar(e->graph->regularizers[i]);
    mf_predictions_put(e->predictions, e->batch, e->graph, at);
    at += mf_predictions_numbers(e->predictions, rows_of(e));
    mf_head_tally_reset(e->head_one);
    mf_head_tally_add(e->head_one, e->graph);
    mf_head_tally_put(e->head_one, at);
    at += mf_head_tally_numbers(e->head_one);
    for (int32_t i = 0; i < m->n_moe; i++) {
        double dropped, moved;
        mf_moe_tally_reset(e->one[i]);
        mf_moe_tally_add(e->one[i], &e->graph->moe[i]);
        mf_moe_tally_put(e->one[i], at);
        e->tallies[i]->top_k = e->one[i]->top_k;
        mf_moe_overflow(&e->graph->moe[i], &dropped, &moved);
        out[DROPPED] += dropped;
        out[MOVED] += moved;
        at += mf_moe_tally_numbers(e->one[i]);
    }
    if (e->recorder && b % e->record_every == 0)
        rc = mf_trace_recorder_add(e->recorder, b, e->batch, e->graph);
    return rc;
}

static void clear(mf_evaluator *e)
{
    const mf_model *m = e->session->model;
    for (int32_t i = 0; i < m->n_moe; i++)
        mf_moe_tally_reset(e->tallies[i]);
    for (int i = 0; i < m->config->n_regularizers; i++)
        e->regularizers[i].value = 0;
    mf_head_tally_reset(e->head_tally);
    mf_predictions_clear(e->predictions);
}

/* Adds the numbers of a batch. Called in the order of the batches. */
static void fold(mf_evaluator *e, const double *in, sums *s)
{
    const mf_model *m = e->session->model;
    const double w = in[TARGETS];
    s->ppl += exp(in[TASK_LOSS]);
    s->measured++;
    s->task += w * in[TASK_LOSS];
    s->loss += w * in[LOSS];
    s->targets += w;
    s->bytes += in[BYTES];
    s->tokens += in[TOKENS];
    s->dropped += in[DROPPED];
    s->moved += in[MOVED];
    in += FIRST;
    for (int i = 0; i < mf_model_tasks(m); i++, in += 2) {
        s->weights[i] += in[0];
        s->losses[i] += in[0] * in[1];
    }
    for (int i = 0; i < m->config->n_regularizers; i++)
        e->regularizers[i].value += w * *in++;
    mf_predictions_take(e->predictions, rows_of(e), in);
    in += mf_predictions_numbers(e->predictions, rows_of(e));
    mf_head_tally_take(e->head_tally, in);
    in += mf_head_tally_numbers(e->head_tally);
    for (int32_t i = 0; i < m->n_moe; i++) {
        mf_moe_tally_take(e->tallies[i], e->one[i]->labels, in);
        in += mf_moe_tally_numbers(e->one[i]);
    }
}

/* ---- a run ---- */

/* The rank that runs batch b. Rank 0 writes traces, so it runs the recorded batches. */
static int rank_of(const mf_evaluator *e, int64_t b)
{
    if (e->recorder && b % e->record_every == 0) return 0;
    return (int)(b % mf_world_ranks(e->world));
}

/* Sends the numbers of batches first .. first+n-1 to all ranks. */
static int exchange(mf_evaluator *e, int64_t first, int64_t n)
{
    const int rank = mf_world_rank(e->world), ranks = mf_world_ranks(e->world);
    const int64_t bytes = numbers_of(e) * (int64_t)sizeof *e->numbers;
    mf_comm_piece *send = e->pieces, *recv = e->pieces + e->window * ranks;
    int n_send = 0, n_recv = 0;
    for (int64_t i = 0; ranks > 1 && i < n; i++) {
        const int owner = rank_of(e, first + i);
        double *at = e->numbers + i * numbers_of(e);
        if (owner != rank) recv[n_recv++] = (mf_comm_piece){owner, at, bytes};
        for (int r = 0; owner == rank && r < ranks; r++)
            if (r != rank) send[n_send++] = (mf_comm_piece){r, at, bytes};
    }
    return mf_world_exchange(e->world, "the results of an evaluation", n_send, send, n_recv,
                             recv);
}

/* Stores in *c the measurements after the first e->marked batches of an evaluation that has
 * more batches. */
static void mark(mf_evaluator *e, const sums *s, mf_metrics_curve *c)
{
    const bool lm = e->session->config->model.task == MF_TASK_LM;
    mf_metrics_record r;
    if (!(s->targets > 0)) return;
    mf_metrics_record_init(&r);
    mf_predictions_score(e->predictions, &r);
    *c = (mf_metrics_curve){.batches = e->marked,
                            .tokens = (int64_t)s->targets,
                            .loss = s->loss / s->targets,
                            .task_loss = s->task / s->targets,
                            .ppl = lm ? exp(s->task / s->targets) : (double)NAN,
                            .bits_per_byte = lm && s->bytes > 0 ? s->task / log(2.0) / s->bytes
                                                                : (double)NAN,
                            .accuracy = r.accuracy,
                            .macro_f1 = r.macro_f1,
                            .mse = r.mse,
                            .pearson = r.pearson,
                            .spearman = r.spearman};
}

static int run_batches(mf_evaluator *e, const mf_run *run, int64_t n, sums *s,
                       mf_metrics_curve *curve)
{
    const int rank = mf_world_rank(e->world), ranks = mf_world_ranks(e->world);
    int rc = MF_OK;
    for (int64_t first = 0; rc == MF_OK && first < n; first += e->window) {
        const int64_t m = n - first < e->window ? n - first : e->window;
        for (int64_t i = 0; rc == MF_OK && i < m; i++)
            if (rank_of(e, first + i) == rank)
                rc = measure(e, run, first + i, e->numbers + i * numbers_of(e));
        if (rc == MF_OK && meets(e) && rank >= m % ranks && m % ranks != 0)
            rc = run_for_others(e, run);
        if (rc == MF_OK) rc = exchange(e, first, m);
        for (int64_t i = 0; rc == MF_OK && i < m; i++) {
            const double *in = e->numbers + i * numbers_of(e);
            if (in[TARGETS] > 0) fold(e, in, s);
            if (first + i + 1 == e->marked && e->marked < n) mark(e, s, curve);
            if (in[TARGETS] > 0 && e->each) rc = e->each(e->each_arg, first + i + 1, n);
        }
    }
    return rc;
}

void mf_evaluator_mark(mf_evaluator *e, int64_t batches)
{
    e->marked = batches;
}

int mf_evaluator_share(mf_evaluator *e, mf_world *world)
{
    const size_t ranks = (size_t)mf_world_ranks(world), window = 4 * ranks;
    if (ranks == 1) return MF_OK;
    double *numbers = mf_alloc(window * (size_t)numbers_of(e), sizeof *numbers);
    if (!numbers) return MF_ENOMEM;
    mf_free(e->numbers);
    e->numbers = numbers;
    e->pieces = mf_alloc(2 * window * ranks, sizeof *e->pieces);
    if (!e->pieces) return MF_ENOMEM;
    e->window = (int64_t)window;
    e->world = world;
    return MF_OK;
}

int mf_evaluator_run(mf_evaluator *e, int64_t step, int64_t batches, mf_metrics_record *ret)
{
    const mf_model *m = e->session->model;
    const mf_run run = {.seed = (uint64_t)e->session->config->train.seed,
                        .step = (uint64_t)step,
                        .metrics = true,
                        .forward_only = true};
    sums s = {0};
    clear(e);
    mf_metrics_record_init(ret);
    ret->step = step;
    ret->dtype = mf_dtype_text(e->session->config->train.dtype);
    ret->batches = mf_evaluator_batches(e, batches);
    const int rc = run_batches(e, &run, ret->batches, &s, &ret->curve);
    if (rc != MF_OK) return rc;
    finish(e, ret, &s);
    if (m->config->model.task == MF_TASK_LM && s.measured > 0)
        ret->ppl_batch_mean = s.ppl / s.measured;
    if (mf_model_limited(m, e->graph)) {
        ret->dropped_per_token = s.tokens > 0 ? s.dropped / s.tokens : 0;
        ret->reassigned = s.moved;
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
