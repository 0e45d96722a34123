/* What the trainer measures of attention heads, and how fast each of them learns. */
#include <math.h>
#include <string.h>
#include "base/mem.h"
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
    return t->probe ? MF_OK : mf_model_graph_new(t->session->model, &shape, &t->probe);
}

static int probe_loss(mf_trainer *t, double *ret)
{
    const mf_run run = {.seed = (uint64_t)t->session->config->train.seed,
                        .step = (uint64_t)t->step,
                        .forward_only = true};
    const int rc = mf_graph_run(t->probe->g, &run);
    const float *loss = mf_tensor_data(t->probe->task_loss);
    *ret = rc == MF_OK && loss ? (double)*loss : 0;
    return rc;
}

/* Raw values, relu(loss without the head - loss), into the record. */
static int probe_heads(mf_trainer *t, float *largest)
{
    const mf_head_record *r = t->head_record;
    const int64_t n = (int64_t)r->layers * r->heads;
    float *mask = mf_tensor_data(t->probe->head_mask);
    double whole = 0;
    for (int64_t i = 0; i < n; i++)
        mask[i] = 1;
    mf_session_feed(t->batch, t->probe);
    int rc = probe_loss(t, &whole);
    for (int32_t l = 0; rc == MF_OK && l < r->layers; l++)
        for (int32_t h = 0; rc == MF_OK && h < r->heads; h++) {
            double without = whole;
            float *out = mf_head_record_importance(r, l);
            if (r->stats[l].active[h] != 0) {
                mask[(int64_t)l * r->heads + h] = 0;
                rc = probe_loss(t, &without);
                mask[(int64_t)l * r->heads + h] = 1;
            }
            out[h] = without > whole ? (float)(without - whole) : 0;
            if (out[h] > *largest) *largest = out[h];
        }
    return rc;
}

/* mf_host.head_importance, by way of the plugin host. */
int mf_trainer_importance(void *arg, int32_t n, float *out, int32_t *ret_n)
{
    mf_trainer *t = arg;
    mf_head_record *r = t->head_record;
    float largest = 0;
    *ret_n = 0;
    if (!r) return MF_OK;
    if (!t->importance_known) {
        int rc = probe_graph(t);
        if (rc == MF_OK) rc = probe_heads(t, &largest);
        if (rc != MF_OK) return rc;
        for (int32_t l = 0; l < r->layers; l++) {
            float *v = mf_head_record_importance(r, l);
            for (int32_t h = 0; largest > 0 && h < r->heads; h++)
                v[h] /= largest;
            r->stats[l].importance = v;
        }
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
    t->probe = NULL;
}
