/* generate/score.c: log-probabilities of the tokens of a text. The graph of a text computes the
 * logits behind all of its tokens; it is built again if the next text has another length. */
#include "generate/score.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "generate/generator.h"

struct mf_scorer {
    mf_model *model;
    bool whole;              /* a text runs as one batch */
    mf_model_graph *graph;   /* of the last length; NULL until needed */
    mf_generator *generator; /* runs prefixes; NULL with `whole` */
};

/* ---- numbers ---- */

mf_log_sum mf_log_sum_of(const float *logits, int32_t vocab)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < vocab; i++)
        most = fmax(most, (double)logits[i]);
    for (int32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return (mf_log_sum){most, log(sum)};
}

double mf_log_share(mf_log_sum sum, float logit)
{
    return (double)logit - sum.most - sum.rest;
}

/* ---- runs ---- */

static int graph_of(mf_scorer *s, int64_t n)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_GENERATE, .batch = 1, .seq = (int32_t)n, .want_logits = true};
    if (s->graph && s->graph->shape.seq == n) return MF_OK;
    mf_model_graph_free(s->graph);
    s->graph = NULL;
    return mf_model_graph_new(s->model, &shape, &s->graph);
}

int mf_scorer_new(mf_model *m, mf_scorer **ret)
{
    mf_generator *g = NULL;
    int rc = mf_generator_new(m, false, &g); /* judges the model */
    if (rc != MF_OK) return rc;
    mf_scorer *s = mf_alloc(1, sizeof *s);
    if (s) {
        s->model = m;
        rc = graph_of(s, 1);
        s->whole = rc == MF_OK && m->config->model.causal && !mf_model_sees_sequences(m) &&
                   !mf_model_limited(m, s->graph);
    }
    if (!s || rc != MF_OK || s->whole)
        mf_generator_free(g);
    else
        s->generator = g;
    if (rc != MF_OK) mf_scorer_free(s);
    if (!s || rc != MF_OK) return s ? rc : MF_ENOMEM;
    *ret = s;
    return MF_OK;
}

void mf_scorer_free(mf_scorer *s)
{
    if (!s) return;
    mf_model_graph_free(s->graph);
    mf_generator_free(s->generator);
    mf_free(s);
}

static int run_whole(mf_scorer *s, const int32_t *ids, int64_t n, const float **ret)
{
    int rc = graph_of(s, n);
    if (rc != MF_OK) return rc;
    const mf_run forward = {.forward_only = true};
    mf_model_graph *mg = s->graph;
    int32_t *tokens = mf_tensor_input(mg->tokens), *positions = mf_tensor_input(mg->positions);
    int32_t *labels = mg->labels ? mf_tensor_input(mg->labels) : NULL;
    int32_t *sequence = mf_tensor_input(mg->sequence_ids);
    int32_t *segments = mg->segments ? mf_tensor_input(mg->segments) : NULL;
    for (int64_t i = 0; i < n; i++) {
        if (tokens) tokens[i] = ids[i];
        if (positions) positions[i] = (int32_t)i;
        if (labels) labels[i] = -1;
        if (sequence) sequence[i] = 0;
        if (segments) segments[i] = 0;
    }
    rc = mf_graph_run(mg->g, &forward);
    if (rc != MF_OK) return rc;
    *ret = mf_tensor_host(mg->logits);
    return *ret ? MF_OK : MF_ENOMEM;
}

static int judge(const mf_scorer *s, const int32_t *ids, int64_t n)
{
    const int64_t seq = s->model->config->model.seq;
    const int vocab = (int)s->model->dims.vocab;
    if (n < 1 || n > seq)
        return mf_fail(MF_EINPUT, "expected 1 to %lld tokens, found %lld", (long long)seq,
                       (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return mf_fail(MF_EINPUT, "token %lld is %d; expected one from 0 to %d",
                           (long long)i, (int)ids[i], vocab - 1);
    return MF_OK;
}

int mf_score(mf_scorer *s, const int32_t *ids, int64_t n,
             int (*row)(void *arg, int64_t i, const float *logits), void *arg)
{
    const float *logits = NULL;
    int rc = judge(s, ids, n);
    if (rc == MF_OK && s->whole) rc = run_whole(s, ids, n, &logits);
    if (s->generator) mf_generator_reset(s->generator);
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        if (s->generator) rc = mf_generator_feed(s->generator, &ids[i], 1, &logits);
        if (rc == MF_OK)
            rc = row(arg, i, logits + (s->whole ? i * (int64_t)s->model->dims.vocab : 0));
    }
    return rc;
}
