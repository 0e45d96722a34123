/* What the trainer measures of attention heads, and how fast each of them learns. */
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "train/head_measure.h"
#include "train/trainer_parts.h"

/* ---- importance: the loss with one head left out ---- */

static int probe_graph(mf_trainer *t)
{
    const mf_config *c = t->session->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = t->session->corpus->spans != NULL,
                                  .try_heads = true};
    if (t->probe) return MF_OK;
    if (!t->worse)
        t->worse = mf_alloc((size_t)c->model.layers * (size_t)c->model.heads, sizeof *t->worse);
    return !t->worse ? MF_ENOMEM : mf_model_graph_new(t->session->model, &shape, &t->probe);
}

/* Of the batch of this step. */
static int try_heads(mf_trainer *t)
{
    mf_head_record *r = t->head_record;
    const mf_run run = {.seed = (uint64_t)t->session->config->train.seed,
                        .step = (uint64_t)t->step,
                        .forward_only = true};
    memset(t->worse, 0, (size_t)r->layers * (size_t)r->heads * sizeof *t->worse);
    mf_session_feed(t->batch, t->probe);
    int rc = mf_heads_try(t->probe, &run, r, 1, t->worse);
    if (rc == MF_OK) mf_heads_importance(r, t->worse);
    return rc;
}

/* mf_host.head_importance, by way of the plugin host. */
int mf_trainer_importance(void *arg, int32_t n, float *out, int32_t *ret_n)
{
    mf_trainer *t = arg;
    mf_head_record *r = t->head_record;
    *ret_n = 0;
    if (!r) return MF_OK;
    if (!t->importance_known) {
        int rc = probe_graph(t);
        if (rc == MF_OK) rc = try_heads(t);
        if (rc != MF_OK) return rc;
        t->importance_known = true;
    }
    for (int32_t l = 0; l < r->layers; l++)
        for (int32_t h = 0; h < r->heads && *ret_n < n; h++)
            out[(*ret_n)++] = r->stats[l].importance[h];
    return MF_OK;
}

/* ---- each step ---- */

void mf_trainer_head_stats(mf_trainer *t)
{
    mf_head_record *r = t->head_record;
    if (!r) return;
    const mf_model *m = t->session->model;
    mf_head_record_fill(r, m, t->head_tally);
    for (int32_t l = 0; l < r->layers; l++) {
        float *norm = mf_head_record_gradients(r, l);
        mf_head_gradients(m, l, 1.0 / (double)m->config->train.accumulate, norm);
        r->stats[l].grad_norm = norm;
    }
}

int mf_trainer_head_rates(mf_trainer *t)
{
    return mf_heads_set_parts(t->session->model) ? mf_optim_refresh(t->optim) : MF_OK;
}

void mf_trainer_forget_probe(mf_trainer *t)
{
    mf_model_graph_free(t->probe);
    mf_free(t->worse);
    t->probe = NULL;
    t->worse = NULL;
}
