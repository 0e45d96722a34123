/* pretrained/quantize/measure.c: measures the effect of quantization: the loss of both models
 * on the same batches, how much their predictions differ, and which share of the routing
 * choices differs. */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "pretrained/quantize/quantize_parts.h"
#include "run/metrics/divergence.h"

typedef struct measure {
    mf_quantize_work *w;
    mf_model_graph *of[2]; /* graph before and after quantization */
    mf_batch *batch;
    bool *in[2]; /* [T,E] whether an expert is chosen */
    int64_t T, E;
    double tokens, targets;
} measure;

static int read_choice(const measure *m, int at, int32_t layer)
{
    const mf_moe_choice *c = &m->of[at]->moe[layer].own;
    const int32_t *chosen = mf_tensor_host(c->chosen),
                  *token = c->token ? mf_tensor_host(c->token) : NULL;
    if (!chosen || (c->token && !token)) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    memset(m->in[at], 0, (size_t)(m->T * m->E) * sizeof(bool));
    for (int64_t i = 0; i < c->rows; i++) {
        const int64_t t = token ? token[i] : i / (c->rows / m->T), e = chosen[i];
        if (t >= 0 && t < m->T && e >= 0 && e < m->E) m->in[at][t * m->E + e] = true;
    }
    return MF_OK;
}

static int add_layer(measure *m, int32_t layer)
{
    mf_quantize_layer *to = &m->w->report->layers[layer];
    int rc = read_choice(m, 0, layer);
    if (rc == MF_OK) rc = read_choice(m, 1, layer);
    for (int64_t t = 0; rc == MF_OK && t < m->T; t++) {
        const bool *a = m->in[0] + t * m->E, *b = m->in[1] + t * m->E;
        double both = 0, either = 0;
        if (m->batch->mask[t] == 0) continue;
        for (int64_t e = 0; e < m->E; e++) {
            both += a[e] && b[e];
            either += a[e] || b[e];
        }
        to->changed += both != either;
        to->overlap += either > 0 ? both / either : 1;
    }
    return rc;
}

static int run_batch(measure *m, mf_batcher *batcher, int64_t index)
{
    mf_quantize_report *r = m->w->report;
    const mf_run run = {.seed = (uint64_t)m->w->before->config->train.seed,
                        .step = (uint64_t)index,
                        .forward_only = true};
    mf_batcher_fill(batcher, index, m->batch);
    for (int i = 0; i < 2; i++) {
        mf_batch_feed(m->batch, m->of[i]);
        const int rc = mf_graph_run(m->of[i]->g, &run);
        const float *loss = rc == MF_OK ? mf_tensor_host(m->of[i]->task_loss) : NULL;
        if (rc != MF_OK || !loss) return rc != MF_OK ? rc : MF_ENOMEM;
        *(i == 0 ? &r->loss_before : &r->loss_after) +=
            (double)m->batch->n_targets * (double)*loss;
    }
    m->targets += (double)m->batch->n_targets;
    m->tokens += (double)m->batch->n_tokens;
    double kl = 0;
    int rc = mf_predictions_divergence(m->batch, m->of[0], m->of[1], &kl);
    r->kl_next_token += kl;
    for (int32_t l = 0; rc == MF_OK && l < r->n_layers; l++)
        rc = add_layer(m, l);
    return rc;
}

static int open(measure *m)
{
    const mf_config *c = m->w->before->config;
    const mf_model *model = m->w->before->model;
    mf_quantize_report *r = m->w->report;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = true,
                                  .want_trace = true,
                                  .want_logits = true};
    m->T = (int64_t)shape.batch * shape.seq;
    m->E = mf_model_most_experts(model->config);
    r->n_layers = model->n_moe;
    r->layers = mf_arena_alloc(r->arena, ((size_t)r->n_layers + 1) * sizeof *r->layers);
    for (int i = 0; i < 2; i++)
        m->in[i] = mf_alloc((size_t)(m->T * m->E) + 1, sizeof(bool));
    if (!r->layers || !m->in[0] || !m->in[1]) return MF_ENOMEM;
    for (int32_t l = 0; l < r->n_layers; l++)
        r->layers[l] = (mf_quantize_layer){.layer = model->moe[l].layer};
    int rc = mf_batch_new(shape.batch, shape.seq, &m->batch);
    if (rc == MF_OK) rc = mf_model_graph_new(m->w->before->model, &shape, &m->of[0]);
    if (rc == MF_OK) rc = mf_model_graph_new(m->w->x.session->model, &shape, &m->of[1]);
    return rc;
}

int mf_quantize_measure(mf_quantize_work *w)
{
    measure m = {.w = w};
    mf_quantize_report *r = w->report;
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    if (!w->before->corpus) {
        r->kl_next_token = r->loss_before = r->loss_after = NAN;
        return MF_OK;
    }
    mf_session_eval_spec(w->before, MF_SPLIT_VAL, &spec);
    int rc = mf_batcher_new(w->before->corpus, &spec, &batcher);
    if (rc == MF_OK) rc = open(&m);
    const int64_t all = rc == MF_OK ? mf_batcher_count(batcher) : 0,
                  asked = w->options->batches;
    r->batches = asked > 0 && asked < all ? asked : all;
    for (int64_t b = 0; rc == MF_OK && b < r->batches; b++)
        rc = run_batch(&m, batcher, b);
    for (int32_t l = 0; rc == MF_OK && l < r->n_layers; l++) {
        r->layers[l].changed /= fmax(m.tokens, 1);
        r->layers[l].overlap /= fmax(m.tokens, 1);
    }
    r->tokens = (int64_t)m.tokens;
    r->kl_next_token /= fmax(m.targets, 1);
    r->loss_before /= fmax(m.targets, 1);
    r->loss_after /= fmax(m.targets, 1);
    for (int i = 0; i < 2; i++) {
        mf_model_graph_free(m.of[i]);
        mf_free(m.in[i]);
    }
    mf_batch_free(m.batch);
    mf_batcher_free(batcher);
    return rc;
}
