/* run/sample/sample_take.c: runs the model on some tokens of the validation data and describes
 * their routing and attention for run/sample/sample.h. This does not change the training run.
 * The tokens depend only on the data, so all samples of a run show the same tokens. */
#include "run/sample/sample_take.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "model/heads.h"
#include "run/sample/sample_steps.h"
#include "run/sample/sample.h"

#define SAMPLE_TOKENS 64
#define SAMPLE_ROWS   8 /* number of examples; a single example may have too few tokens */
/* number of windows of a stream in which changes of topic are counted */
#define SAMPLE_SEARCH 64
#define SAMPLE_SEEN   24 /* greatest number of tokens in attention pictures */
/* greatest number of heads of blocks, and of heads of experts, with attention pictures */
#define SAMPLE_HEADS 16

typedef struct {
    mf_arena *arena;
    mf_batch *batch;
    int32_t *place; /* [n] index of each shown token in the batch */
    /* n: number of shown tokens; seen: number of tokens with attention, all of the
     * first example */
    int n, seen;
    mf_sample sample;
} sampler;

/* ---- tokens ---- */

/* Finds the first tokens that are not padding. */
static int find_tokens(sampler *x)
{
    const mf_batch *b = x->batch;
    x->place = mf_arena_alloc(x->arena, SAMPLE_TOKENS * sizeof *x->place);
    if (!x->place) return MF_ENOMEM;
    for (int32_t i = 0; i < b->rows * b->seq && x->n < SAMPLE_TOKENS; i++) {
        if (b->mask[i] == 0) continue;
        if (i < b->seq && i < SAMPLE_SEEN) x->seen++;
        x->place[x->n++] = i;
    }
    return MF_OK;
}

static char *piece(sampler *x, const mf_tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *text = t ? mf_tokenizer_piece(t, id, &n) : NULL,
               *special = t ? mf_tokenizer_special(t, id) : NULL;
    if (special) return mf_arena_strf(x->arena, "%s", special);
    if (!text) return mf_arena_strf(x->arena, "%d", (int)id);
    return mf_arena_strf(x->arena, "%.*s", (int)n, text);
}

static int describe(sampler *x, const mf_sample_take *t)
{
    const mf_train_config *c = &t->session->config->train;
    const size_t n = (size_t)x->n + 1;
    const char **tokens = mf_arena_alloc(x->arena, n * sizeof *tokens);
    int32_t *labels = mf_arena_alloc(x->arena, n * sizeof *labels);
    const char **names = mf_arena_alloc(x->arena, 256 * sizeof *names);
    const int n_labels = t->session->model->dims.labels;
    if (!tokens || !labels || !names) return MF_ENOMEM;
    for (int i = 0; i < x->n; i++) {
        tokens[i] = piece(x, t->session->tokenizer, x->batch->tokens[x->place[i]]);
        labels[i] = x->batch->labels[x->place[i]];
        if (!tokens[i]) return MF_ENOMEM;
    }
    for (int i = 0; i < n_labels && i < 256; i++)
        names[i] = mf_arena_strdup(x->arena, t->session->corpus->label_names[i]);
    x->sample =
        (mf_sample){.step = t->step,
                    .evaluation = mf_evaluation_at(t->session->steps, c->eval_every, t->step),
                    .evaluations = mf_evaluations(t->session->steps, c->eval_every),
                    .n_tokens = x->n,
                    .n_labels = n_labels,
                    .n_layers = t->session->model->n_moe,
                    .tokens = tokens,
                    .token_labels = n_labels ? labels : NULL,
                    .labels = n_labels ? names : NULL};
    return MF_OK;
}

/* ---- routing ---- */

/* Copies the rows of the shown tokens from a tensor [T, width] of 32-bit elements. Returns NULL
 * if t is NULL, or after an error (*rc). */
static void *rows_of(sampler *x, const mf_tensor *t, int width, int *rc)
{
    const char *from = t ? mf_tensor_host(t) : NULL;
    const size_t bytes = (size_t)width * 4;
    if (!from || *rc != MF_OK) return NULL;
    char *to = mf_arena_alloc(x->arena, ((size_t)x->n + 1) * bytes);
    if (!to) *rc = MF_ENOMEM;
    for (int i = 0; to && i < x->n; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)x->place[i] * bytes, bytes);
    return to;
}

static int describe_layers(sampler *x, const mf_sample_take *t, const mf_model_graph *mg,
                           bool last)
{
    const mf_model *m = t->session->model;
    mf_sample_layer *layers = mf_arena_alloc(x->arena, ((size_t)m->n_moe + 1) * sizeof *layers);
    int rc = layers ? MF_OK : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        const mf_moe_tally *tally = mf_evaluator_tally(t->evaluator, i);
        const bool by_token = !r->token && r->rows % r->tokens == 0;
        const int k = by_token ? r->rows / r->tokens : 0;
        layers[i] =
            (mf_sample_layer){.layer = r->layer,
                              .experts = r->experts,
                              .top_k = k,
                              .prob = rows_of(x, r->prob, r->experts, &rc),
                              .chosen = by_token ? rows_of(x, r->chosen, k, &rc) : NULL,
                              .gate = by_token ? rows_of(x, mg->moe[i].gate, k, &rc) : NULL,
                              .by_label = last ? tally->joint : NULL,
                              .nmi = last ? t->nmi[i] : (double)NAN,
                              .nmi_random = last ? t->nmi_random[i] : (double)NAN};
    }
    x->sample.layers = layers;
    return rc;
}

/* ---- attention ---- */

/* Returns the i-th of `most` evenly spaced numbers below n; i itself if n <= most or most
 * < 2. */
static int32_t spread(int32_t n, int32_t most, int32_t i)
{
    return n <= most || most < 2 ? i : i * (n - 1) / (most - 1);
}

static int32_t at_most(int32_t n, int32_t most)
{
    return n < most ? n : most;
}

/* Lists the blocks whose attention weights the graph keeps; returns their number. */
static int32_t attending(const mf_model_graph *mg, int32_t *out)
{
    int32_t n = 0;
    for (int32_t l = 0; l < mg->n_layers; l++)
        if (mg->heads[l].weights && mg->heads[l].plan->active > 0) out[n++] = l;
    return n;
}

/* Describes heads of up to four layers, evenly spaced; within each layer, heads are evenly
 * spaced too. */
static int describe_heads(sampler *x, const mf_model_graph *mg)
{
    const int n = x->seen;
    mf_sample_head *heads = mf_arena_alloc(x->arena, 2 * SAMPLE_HEADS * sizeof *heads);
    int32_t *layer = mf_arena_alloc(x->arena, ((size_t)mg->n_layers + 1) * sizeof *layer);
    if (!heads || !layer) return MF_ENOMEM;
    x->sample.heads = heads;
    x->sample.n_seen = n;
    const int32_t all = attending(mg, layer), layers = at_most(all, 4);
    for (int32_t i = 0; n > 0 && i < layers; i++) {
        const mf_model_heads *h = &mg->heads[layer[spread(all, 4, i)]];
        const float *prob = mf_tensor_host(h->weights);
        const int32_t room = SAMPLE_HEADS / layers, shown = at_most(h->plan->active, room);
        for (int32_t k = 0; prob && k < shown; k++) {
            const int32_t at = spread(h->plan->active, room, k);
            heads[x->sample.n_heads++] = (mf_sample_head){
                layer[spread(all, 4, i)], h->plan->q[at], -1, prob + (int64_t)at * n * n};
        }
    }
    return MF_OK;
}

/* Computes the attention weights of assignment `row` of expert e: softmax over all keys. The
 * weights of keys that belong to the first n tokens are written to out [n]; tokens without a
 * key get 0. score: scratch memory, one element per key. */
static void expert_row(const mf_moe_attention *a, const mf_batch *b, int32_t e, int32_t head,
                       int64_t row, int n, double *score, float *out)
{
    const int32_t t = a->at[row];
    const int64_t hd = a->width / a->heads,
                  ldk = a->own ? 2 * a->width : a->experts * 2 * a->width;
    const int64_t keys = a->own ? a->offset[e + 1] - a->offset[e] : b->seq;
    const float *q = a->q + row * a->width + head * hd;
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        const int64_t at = a->own ? a->offset[e] + j : j;
        const float *k = a->kv + at * ldk + (a->own ? 0 : e * 2 * a->width) + head * hd;
        double s = 0;
        for (int64_t c = 0; c < hd; c++)
            s += (double)(q[c] * k[c]);
        const bool hidden = !a->own && ((a->masked && b->mask[j] == 0) || (a->causal && j > t));
        score[j] = hidden ? -INFINITY : s * a->scale;
        top = fmax(top, score[j]);
    }
    for (int64_t j = 0; j < keys; j++)
        sum += score[j] = exp(score[j] - top);
    for (int j = 0; j < n; j++)
        out[j] = 0;
    for (int64_t j = 0; j < keys; j++) {
        const int64_t u = a->own ? a->at[a->offset[e] + j] : j;
        if (u < n) out[u] = (float)(score[j] / sum);
    }
}

static int expert_head(sampler *x, const mf_moe_attention *a, int32_t layer, int32_t e,
                       int32_t head)
{
    const int n = x->seen;
    const size_t keys = (size_t)(a->own ? a->offset[a->experts] : x->batch->seq) + 1;
    float *prob = mf_arena_alloc(x->arena, (size_t)(n * n) * sizeof *prob);
    double *score = mf_alloc(keys, sizeof *score);
    if (!prob || !score) {
        mf_free(score);
        return MF_ENOMEM;
    }
    for (int i = 0; i < n * n; i++)
        prob[i] = NAN;
    for (int64_t row = a->offset[e]; row < a->offset[e + 1] && a->at[row] < n; row++)
        expert_row(a, x->batch, e, head, row, n, score, prob + (int64_t)a->at[row] * n);
    mf_free(score);
    mf_sample_head *heads = (mf_sample_head *)x->sample.heads;
    heads[x->sample.n_heads++] = (mf_sample_head){layer, head, e, prob};
    return MF_OK;
}

/* Describes up to four experts in each of the first and the last MoE layer, if these
 * use attention. */
static int describe_experts(sampler *x, const mf_sample_take *t, const mf_model_graph *mg)
{
    const int32_t all = t->session->model->n_moe, layers = at_most(all, 2);
    for (int32_t i = 0; x->seen > 0 && i < layers; i++) {
        const mf_moe_out *out = &mg->moe[spread(all, 2, i)];
        mf_moe_attention a;
        if (!mf_moe_attention_of(out, &a)) continue;
        const int32_t experts = at_most(a.experts, 4), room = SAMPLE_HEADS / (layers * experts),
                      heads = at_most(a.heads, room);
        for (int32_t e = 0; e < experts; e++)
            for (int32_t h = 0; h < heads; h++) {
                int rc = expert_head(x, &a, out->routing.layer, spread(a.experts, 4, e),
                                     spread(a.heads, room, h));
                if (rc != MF_OK) return rc;
            }
    }
    return MF_OK;
}

/* ---- a run of the graph ---- */

static int run_sample(const mf_sample_take *t, sampler *x, mf_model_graph *mg, const char *path,
                      bool last)
{
    const mf_run run = {.seed = (uint64_t)t->session->config->train.seed,
                        .step = (uint64_t)t->step,
                        .forward_only = true};
    mf_batch_feed(x->batch, mg);
    int rc = mf_graph_run(mg->g, &run);
    if (rc == MF_OK) rc = describe(x, t);
    if (rc == MF_OK) rc = describe_layers(x, t, mg, last);
    if (rc == MF_OK && last) rc = describe_heads(x, mg);
    if (rc == MF_OK && last) rc = describe_experts(x, t, mg);
    return rc == MF_OK ? mf_sample_write(path, &x->sample) : rc;
}

/* Counts how often the topic changes within the tokens of the batch that would be shown. */
static int topic_changes(const mf_batch *b)
{
    const int32_t n = b->rows * b->seq < SAMPLE_TOKENS ? b->rows * b->seq : SAMPLE_TOKENS;
    int changes = 0;
    for (int32_t i = 1; i < n; i++)
        changes +=
            b->labels[i - 1] >= 0 && b->labels[i] >= 0 && b->labels[i] != b->labels[i - 1];
    return changes;
}

/* Fills the batch with the window in which the topic changes most often; of several such
 * windows, with the first. If topics are unknown, the first window is used. */
static void fill_window(mf_batcher *from, mf_batch *out)
{
    const int64_t count = mf_batcher_count(from);
    int64_t best = 0;
    int most = 0;
    for (int64_t i = 0; i < count && i < SAMPLE_SEARCH; i++) {
        mf_batcher_fill(from, i, out);
        const int changes = topic_changes(out);
        if (changes <= most) continue;
        most = changes;
        best = i;
    }
    mf_batcher_fill(from, best, out);
}

static int fill_batch(const mf_session *s, sampler *x)
{
    const bool sentences = s->corpus->spans != NULL;
    const int64_t rows = s->config->train.batch;
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    mf_session_batch_spec(s, MF_SPLIT_VAL, &spec);
    spec.order = MF_ORDER_SEQUENTIAL;
    spec.rows = !sentences ? 1 : rows < SAMPLE_ROWS ? (int32_t)rows : SAMPLE_ROWS;
    int rc = mf_batcher_new(s->corpus, &spec, &batcher);
    if (rc == MF_OK) rc = mf_batch_new(spec.rows, spec.seq, &x->batch);
    if (rc == MF_OK && sentences) mf_batcher_fill(batcher, 0, x->batch);
    if (rc == MF_OK && !sentences) fill_window(batcher, x->batch);
    mf_batcher_free(batcher);
    return rc == MF_OK ? find_tokens(x) : rc;
}

int mf_sample_take_to(const mf_sample_take *t, const char *path)
{
    const bool last = t->last;
    sampler x = {.arena = mf_arena_new()};
    mf_model_graph *mg = NULL;
    int rc = x.arena ? fill_batch(t->session, &x) : MF_ENOMEM;
    if (rc == MF_OK) {
        const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                      .batch = x.batch->rows,
                                      .seq = x.batch->seq,
                                      .masked = true,
                                      .want_prob = true,
                                      .want_attention = last ? x.seen : 0,
                                      .arena_of = t->arena_of};
        rc = mf_model_graph_new(t->session->model, &shape, &mg);
    }
    if (rc == MF_OK) rc = run_sample(t, &x, mg, path, last);
    mf_model_graph_free(mg);
    mf_batch_free(x.batch);
    mf_arena_free(x.arena);
    return rc;
}
