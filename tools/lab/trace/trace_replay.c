/* Runs a trace's batches through a model. All numbers of the trace are checked against the
 * model before the first run. */
#include "lab/trace/trace_replay.h"
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "run/evaluate.h"

/* The recorded choices of one layer, for the whole trace. */
typedef struct {
    void *chosen, *admitted, *gate, *token;
} feed;

typedef struct {
    const mf_trace *trace;
    mf_session *session;
    mf_moe_forced *forced; /* [n_layers] or NULL */
    feed *feeds;           /* [n_layers] */
    mf_model_graph *graph;
    mf_batch *batch;
} replay;

/* ---- checks that the model fits ---- */

/* Fails unless the trace has exactly the tasks of the model, and only classes of the model. */
static int tasks_fit(const mf_trace *t, const mf_model *m)
{
    const char *path = mf_st_path(t->file);
    const int n = mf_model_tasks(m);
    for (int i = 0; i <= MF_TASKS_MAX; i++) {
        const mf_trace_task *have = &t->tasks[i];
        const bool number = i < n && mf_model_task_kind(m, i) == MF_TASK_REGRESS;
        /* the classes of the first task are stored as the targets */
        const bool class = i > 0 && i < n && !number;
        if ((have->values != NULL) != number || (have->classes != NULL) != class)
            return mf_fail(MF_EINPUT,
                           "%s: task %d: %s in the trace; the model learns %s; expected a "
                           "trace of the same tasks",
                           path, i,
                           have->values    ? "numbers"
                           : have->classes ? "classes"
                                           : "no numbers or further classes",
                           number  ? "numbers"
                           : i < n ? "classes"
                                   : "no such task");
        for (int64_t k = 0; class && k < t->tokens / t->seq; k++)
            if (have->classes[k] < -1 || have->classes[k] >= m->dims.more_classes[i - 1])
                return mf_fail(MF_EINPUT, "%s: task %d, sequence %lld: class %d of %d", path, i,
                               (long long)k, (int)have->classes[k],
                               (int)m->dims.more_classes[i - 1]);
    }
    return MF_OK;
}

static int fits(const mf_trace *t, const mf_model *m)
{
    const char *path = mf_st_path(t->file);
    if (m->n_moe != t->n_layers)
        return mf_fail(MF_EINPUT, "%s has %d MoE layers, the model %d", path, t->n_layers,
                       (int)m->n_moe);
    for (int i = 0; i < t->n_layers; i++) {
        const mf_trace_layer *l = &t->layers[i];
        if (l->layer != m->moe[i].layer)
            return mf_fail(MF_EINPUT, "%s: MoE layer %d; the model has layer %d in its place",
                           path, (int)l->layer, (int)m->moe[i].layer);
        const int experts = (int)m->moe[i].config.experts;
        if (l->experts != experts)
            return mf_fail(MF_EINPUT, "%s: MoE layer %d has %d experts, the model %d", path,
                           (int)l->layer, (int)l->experts, experts);
    }
    if (t->seq > m->config->model.seq)
        return mf_fail(MF_EINPUT, "%s has sequences of %d tokens; the model takes at most %lld",
                       path, (int)t->seq, (long long)m->config->model.seq);
    const int64_t n_targets = t->by_row ? t->tokens / t->seq : t->tokens;
    const int32_t values = t->by_row ? m->dims.classes : m->dims.vocab;
    if (t->by_row != mf_task_by_row(m->config->model.task))
        return mf_fail(MF_EINPUT, "%s was recorded in %s, and the model's task is another one",
                       path, t->by_row ? "learning of sequences" : "modelling tokens");
    int rc = t->by_row ? tasks_fit(t, m) : MF_OK;
    if (rc != MF_OK) return rc;
    for (int64_t i = 0; i < n_targets; i++)
        if (t->target[i] < -1 || t->target[i] >= values)
            return mf_fail(MF_EINPUT, "%s: target %lld is %d of %d", path, (long long)i,
                           (int)t->target[i], (int)values);
    for (int64_t i = 0; i < t->tokens; i++) {
        if (t->token[i] < -1 || t->token[i] >= m->dims.vocab)
            return mf_fail(MF_EINPUT, "%s: token %lld: id %d; the model has %d ids", path,
                           (long long)i, (int)t->token[i], (int)m->dims.vocab);
        if (t->position[i] < -1 || t->position[i] >= t->seq)
            return mf_fail(MF_EINPUT, "%s: token %lld: position %d of %d", path, (long long)i,
                           (int)t->position[i], (int)t->seq);
        if (t->sequence[i] < 0)
            return mf_fail(MF_EINPUT, "%s: token %lld: sequence %d", path, (long long)i,
                           (int)t->sequence[i]);
        if (t->label && m->dims.labels > 0 && t->label[i] >= m->dims.labels)
            return mf_fail(MF_EINPUT, "%s: token %lld: label %d of %d", path, (long long)i,
                           (int)t->label[i], (int)m->dims.labels);
    }
    return MF_OK;
}

/* ---- forced choices ---- */

static int judge_rows(const mf_trace *t, const mf_trace_layer *l, const char *what,
                      const int32_t *value, int64_t below, int64_t per_batch)
{
    const int64_t batch = (int64_t)t->rows * t->seq;
    for (int64_t r = 0; r < l->rows; r++) {
        const int64_t base = below == 0 ? r / per_batch * batch : 0;
        const int64_t least = value[r] == -1 ? -1 : base,
                      most = below == 0 ? base + batch : below;
        if (value[r] < least || value[r] >= most)
            return mf_fail(MF_EINPUT, "%s: layer %d, row %lld: %s %d", mf_st_path(t->file),
                           (int)l->layer, (long long)r, what, (int)value[r]);
    }
    return MF_OK;
}

static int read_feed(replay *x, int i)
{
    const mf_trace *t = x->trace;
    const mf_trace_layer *l = &t->layers[i];
    feed *f = &x->feeds[i];
    const int64_t per_batch = l->rows / t->batches;
    x->forced[i] = (mf_moe_forced){.rows = (int32_t)per_batch, .listed = l->token != NULL};
    int rc = l->gate ? mf_trace_read(t, l->chosen, &f->chosen)
                     : mf_fail(MF_EINPUT,
                               "%s: no gates, so they cannot be forced; expected a trace that "
                               "moefw trace record made",
                               mf_st_path(t->file));
    if (rc == MF_OK) rc = mf_trace_read(t, l->admitted, &f->admitted);
    if (rc == MF_OK) rc = mf_trace_read(t, l->gate, &f->gate);
    if (rc == MF_OK) rc = mf_trace_read(t, l->token, &f->token);
    if (rc == MF_OK) rc = judge_rows(t, l, "expert", f->chosen, l->experts, per_batch);
    if (rc == MF_OK && f->admitted)
        rc = judge_rows(t, l, "admitted expert", f->admitted, l->experts, per_batch);
    if (rc == MF_OK && f->token) rc = judge_rows(t, l, "token", f->token, 0, per_batch);
    return rc;
}

static int read_feeds(replay *x)
{
    const size_t n = (size_t)x->trace->n_layers + 1;
    int rc = MF_OK;
    x->forced = mf_alloc(n, sizeof *x->forced);
    x->feeds = mf_alloc(n, sizeof *x->feeds);
    if (!x->forced || !x->feeds) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < x->trace->n_layers; i++)
        rc = read_feed(x, i);
    return rc;
}

/* Copies the assignments of batch b to the inputs of the graph, with tokens numbered from the
 * start of the batch. */
static void feed_choices(const replay *x, int64_t b)
{
    const mf_trace *t = x->trace;
    const int32_t base = (int32_t)(b * t->rows * t->seq);
    for (int i = 0; i < t->n_layers; i++) {
        const feed *f = &x->feeds[i];
        const mf_moe_choice *to = &x->graph->moe[i].forced;
        const int64_t n = to->rows, from = b * n;
        int32_t *chosen = mf_tensor_input(to->chosen),
                *admitted = mf_tensor_input(to->admitted);
        float *gate = mf_tensor_input(to->gate);
        int32_t *token = to->token ? mf_tensor_input(to->token) : NULL;
        const int32_t *in = (const int32_t *)(f->admitted ? f->admitted : f->chosen) + from;
        if (chosen) memcpy(chosen, (int32_t *)f->chosen + from, (size_t)n * sizeof *chosen);
        if (admitted) memcpy(admitted, in, (size_t)n * sizeof *admitted);
        if (gate) memcpy(gate, (float *)f->gate + from, (size_t)n * sizeof *gate);
        for (int64_t r = 0; token && r < n; r++) {
            const int32_t at = ((const int32_t *)f->token)[from + r];
            token[r] = at < 0 ? -1 : at - base;
        }
    }
}

/* ---- running ---- */

/* Copies the labels of the examples of a batch. `first` is the number of its first example in
 * the trace. tasks_fit has checked that the trace has the tasks of the model. */
static void take_labels(const mf_trace *t, int64_t first, mf_batch *to)
{
    const size_t n = (size_t)t->rows;
    memcpy(to->classes, t->target + first, n * sizeof *to->classes);
    for (int i = 0; i <= MF_TASKS_MAX; i++) {
        const mf_trace_task *have = &t->tasks[i];
        float *values = i == 0 ? to->values : to->more_values[i - 1];
        if (have->values) memcpy(values, have->values + first, n * sizeof *values);
        if (have->classes)
            memcpy(to->more_classes[i - 1], have->classes + first, n * sizeof(int32_t));
    }
}

static void fill(const mf_trace *t, int64_t b, mf_batch *to)
{
    const int64_t n = (int64_t)t->rows * t->seq, from = b * n;
    to->n_targets = to->n_tokens = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool real = t->token[from + i] >= 0;
        to->mask[i] = real ? 1.0f : 0.0f;
        to->tokens[i] = real ? t->token[from + i] : 0;
        to->targets[i] = real && !t->by_row ? t->target[from + i] : -1;
        to->positions[i] = real ? t->position[from + i] : 0;
        to->sequence[i] = t->sequence[from + i] % t->rows;
        to->labels[i] = real && t->label ? t->label[from + i] : -1;
        to->n_tokens += real;
        to->n_targets += to->targets[i] >= 0;
    }
    if (t->by_row) take_labels(t, b * t->rows, to);
    for (int64_t row = 0; t->by_row && row < t->rows; row++)
        to->n_targets += t->token[from + row * t->seq] >= 0 || to->classes[row] >= 0;
}

static int run_batches(replay *x, mf_trace_recorder *to)
{
    const mf_trace *t = x->trace;
    const mf_tokenizer *words = x->session->tokenizer;
    int rc = MF_OK;
    for (int64_t b = 0; rc == MF_OK && b < t->batches; b++) {
        const int64_t index = t->sequence[b * t->rows * t->seq] / t->rows;
        const mf_run run = {.seed = (uint64_t)t->seed,
                            .step = mf_evaluation_draws((uint64_t)t->step, index),
                            .forward_only = true};
        fill(t, b, x->batch);
        mf_batch_segments(x->batch, words ? words->special[MF_SPECIAL_SEP] : -1);
        mf_batch_feed(x->batch, x->graph);
        if (x->forced) feed_choices(x, b);
        rc = mf_graph_run(x->graph->g, &run);
        if (rc == MF_OK) rc = mf_trace_recorder_add(to, index, x->batch, x->graph);
    }
    return rc;
}

int mf_trace_replay(const mf_trace *t, mf_session *s, bool forced, mf_trace_recorder *to)
{
    replay x = {.trace = t, .session = s};
    int rc = fits(t, s->model);
    if (rc == MF_OK && forced) rc = read_feeds(&x);
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = t->rows,
                                  .seq = t->seq,
                                  .masked = true,
                                  .want_trace = true,
                                  .forced = x.forced};
    if (rc == MF_OK) rc = mf_batch_new(t->rows, t->seq, &x.batch);
    if (rc == MF_OK) rc = mf_model_graph_new(s->model, &shape, &x.graph);
    if (rc == MF_OK) rc = run_batches(&x, to);
    mf_model_graph_free(x.graph);
    mf_batch_free(x.batch);
    for (int i = 0; x.feeds && i < t->n_layers; i++) {
        mf_free(x.feeds[i].chosen);
        mf_free(x.feeds[i].admitted);
        mf_free(x.feeds[i].gate);
        mf_free(x.feeds[i].token);
    }
    mf_free(x.feeds);
    mf_free(x.forced);
    return rc;
}
