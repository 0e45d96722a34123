/* Compares two models batch by batch: choices, probabilities and gates of each layer on the
 * inputs of the old router, then predictions and losses of the whole models. If all values are
 * equal, the result is exactly 0, because each term of a sum is then exactly 0. */
#include "lab/swap/swap_parts.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "run/metrics/divergence.h"

/* The decisions of one router for a batch, token by token. */
typedef struct choice {
    double *gate; /* [T,E] */
    bool *in;     /* [T,E] whether the expert is chosen */
} choice;

typedef struct measure {
    mf_swap_pair *pair;
    mf_swap_routers *routers;
    mf_model_graph *now; /* graph of the new model */
    mf_swap_report *out;
    choice before, after;
    int64_t T, E;
    double tokens, targets; /* numbers of real tokens and targets so far */
} measure;

static int read_choice(const measure *m, const mf_moe_choice *c, choice *to)
{
    const int32_t *chosen = mf_tensor_host(c->chosen),
                  *token = c->token ? mf_tensor_host(c->token) : NULL;
    const float *gate = c->gate ? mf_tensor_host(c->gate) : NULL;
    const int64_t k = c->token ? 1 : c->rows / m->T;
    memset(to->gate, 0, (size_t)(m->T * m->E) * sizeof *to->gate);
    memset(to->in, 0, (size_t)(m->T * m->E) * sizeof *to->in);
    if (!chosen || (c->token && !token) || (c->gate && !gate))
        return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    for (int64_t i = 0; i < c->rows; i++) {
        const int64_t t = token ? token[i] : i / k, e = chosen[i];
        if (t < 0 || t >= m->T || e < 0 || e >= m->E) continue;
        to->in[t * m->E + e] = true;
        to->gate[t * m->E + e] += gate ? (double)gate[i] : 1;
    }
    return MF_OK;
}

static double sum(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i];
    return s;
}

/* Adds the contribution of token t to overlap, moved gates and load. */
static void add_choice(const measure *m, int64_t t, mf_swap_layer *to)
{
    const double *g = m->before.gate + t * m->E, *h = m->after.gate + t * m->E;
    const bool *a = m->before.in + t * m->E, *b = m->after.in + t * m->E;
    const double of_g = sum(g, m->E), of_h = sum(h, m->E);
    double both = 0, either = 0, moved = 0;
    for (int64_t e = 0; e < m->E; e++) {
        both += a[e] && b[e];
        either += a[e] || b[e];
        to->load_before[e] += a[e];
        to->load_after[e] += b[e];
        moved += fabs((of_g > 0 ? g[e] / of_g : 0) - (of_h > 0 ? h[e] / of_h : 0));
    }
    to->overlap += either > 0 ? both / either : 1;
    to->mass_moved += (of_g > 0) == (of_h > 0) ? moved / 2 : 1;
}

/* sum p ln(p / q) - p + q. A q below 1e-30 counts as 1e-30. */
static double divergence(const float *p, const float *q, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = fmax((double)p[i], 0), b = fmax((double)q[i], 1e-30);
        s += (a > 0 ? a * log(a / b) : 0) - a + (a == 0 && q[i] <= 0 ? 0 : b);
    }
    return s;
}

static int add_layer(measure *m, int32_t i, bool whole)
{
    const mf_moe_out *old = &m->pair->old->moe[i], *new = &m->routers->out[i];
    const float *mask = m->pair->batch->mask;
    mf_swap_layer *to = &m->out->layers[i];
    const bool compared = old->routing.prob && new->routing.prob;
    const float *p = compared ? mf_tensor_host(old->routing.prob) : NULL,
                *q = compared ? mf_tensor_host(new->routing.prob) : NULL;
    double *kl = whole ? &to->kl : &to->kl_start;
    int rc = compared && (!p || !q) ? MF_ENOMEM : MF_OK;
    if (rc == MF_OK && whole) rc = read_choice(m, &old->own, &m->before);
    if (rc == MF_OK && whole) rc = read_choice(m, &new->own, &m->after);
    for (int64_t t = 0; rc == MF_OK && t < m->T; t++) {
        if (mask[t] == 0) continue;
        *kl += compared ? divergence(p + t * m->E, q + t * m->E, m->E) : NAN;
        if (whole) add_choice(m, t, to);
    }
    return rc;
}

/* ---- predictions ---- */

static int add_predictions(measure *m)
{
    const mf_batch *b = m->pair->batch;
    const float *loss = mf_tensor_host(m->pair->old->task_loss),
                *after = mf_tensor_host(m->now->task_loss);
    double kl = 0;
    if (!loss || !after) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    const int rc = mf_predictions_divergence(b, m->pair->old, m->now, &kl);
    m->out->kl_next_token += kl;
    m->out->loss_before += (double)b->n_targets * (double)*loss;
    m->out->loss_after += (double)b->n_targets * (double)*after;
    m->targets += (double)b->n_targets;
    m->tokens += (double)b->n_tokens;
    return rc;
}

/* ---- batches ---- */

static int run_batch(measure *m, int64_t index, bool whole)
{
    const mf_swap_pair *pair = m->pair;
    const mf_run run = {.seed = (uint64_t)pair->before->config->train.seed,
                        .step = (uint64_t)index,
                        .forward_only = true};
    int rc = mf_swap_run_old(pair, m->routers, index);
    if (rc == MF_OK) rc = mf_graph_run(m->routers->g, &run);
    for (int32_t i = 0; rc == MF_OK && i < m->routers->n; i++)
        rc = add_layer(m, i, whole);
    if (rc != MF_OK) return rc;
    if (!whole) {
        m->tokens += (double)pair->batch->n_tokens;
        return MF_OK;
    }
    mf_batch_feed(pair->batch, m->now);
    rc = mf_graph_run(m->now->g, &run);
    return rc == MF_OK ? add_predictions(m) : rc;
}

/* Divides the sums by their numbers of terms. */
static void finish(const measure *m, bool whole)
{
    mf_swap_report *r = m->out;
    const double tokens = fmax(m->tokens, 1), targets = fmax(m->targets, 1);
    for (int32_t i = 0; i < r->n_layers; i++) {
        mf_swap_layer *l = &r->layers[i];
        *(whole ? &l->kl : &l->kl_start) /= tokens;
        if (!whole) continue;
        l->overlap /= tokens;
        l->mass_moved /= tokens;
        const double before = sum(l->load_before, l->experts),
                     after = sum(l->load_after, l->experts);
        for (int32_t e = 0; e < l->experts; e++) {
            l->load_before[e] /= fmax(before, 1);
            l->load_after[e] /= fmax(after, 1);
        }
    }
    if (!whole) return;
    r->tokens = (int64_t)m->tokens;
    r->kl_next_token /= targets;
    r->loss_before /= targets;
    r->loss_after /= targets;
}

static int open(measure *m, bool whole)
{
    mf_swap_pair *pair = m->pair;
    const size_t n = (size_t)(m->T * m->E);
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = pair->batch->rows,
                                  .seq = pair->batch->seq,
                                  .masked = true,
                                  .want_logits = true};
    int rc = mf_swap_routers_new(pair, false, &m->routers);
    if (rc != MF_OK || !whole) return rc;
    m->before = (choice){mf_alloc(n, sizeof(double)), mf_alloc(n, sizeof(bool))};
    m->after = (choice){mf_alloc(n, sizeof(double)), mf_alloc(n, sizeof(bool))};
    if (!m->before.gate || !m->before.in || !m->after.gate || !m->after.in) return MF_ENOMEM;
    return mf_model_graph_new(pair->after->model, &shape, &m->now);
}

int mf_swap_measure(mf_swap_pair *pair, int64_t batches, bool whole, mf_swap_report *r)
{
    measure m = {.pair = pair,
                 .out = r,
                 .T = (int64_t)pair->batch->rows * pair->batch->seq,
                 .E = pair->after->config->moe.experts};
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    mf_session_eval_spec(pair->before, MF_SPLIT_VAL, &spec);
    int rc = mf_batcher_new(pair->before->corpus, &spec, &batcher);
    if (rc == MF_OK) rc = open(&m, whole);
    const int64_t all = rc == MF_OK ? mf_batcher_count(batcher) : 0,
                  n = batches > 0 && batches < all ? batches : all;
    for (int64_t b = 0; rc == MF_OK && b < n; b++) {
        mf_batcher_fill(batcher, b, pair->batch);
        rc = run_batch(&m, b, whole);
    }
    if (rc == MF_OK) finish(&m, whole);
    r->batches = n;
    mf_free(m.before.gate);
    mf_free(m.before.in);
    mf_free(m.after.gate);
    mf_free(m.after.in);
    mf_model_graph_free(m.now);
    mf_swap_routers_free(m.routers);
    mf_batcher_free(batcher);
    return rc;
}
