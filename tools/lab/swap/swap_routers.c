/* The routers of a model as a graph of their own: inputs, choice, and for a fit the divergence
 * of the old probabilities and the new ones. The same function as in the whole model
 * (mf_moe_choose) builds the nodes of plugins, so they are the same. */
#include "lab/swap/swap_parts.h"

#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include <moefw/ops.h>

bool mf_swap_has(const mf_swap_pair *pair, const mf_param *p)
{
    const mf_model *m = pair->after->model;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const char *path = mf_instance_path(m->moe[i].router);
        const size_t n = strlen(path);
        if (pair->swapped[i] && strncmp(p->name, path, n) == 0 && p->name[n] == '.')
            return true;
    }
    return false;
}

static void inputs(const mf_swap_pair *pair, mf_swap_routers *r)
{
    const mf_model *m = pair->after->model;
    const int32_t B = pair->batch->rows, S = pair->batch->seq;
    const mf_shape rows = mf_shape1((int64_t)B * S);
    r->in = (mf_router_in){.size = sizeof r->in,
                           .batch = B,
                           .seq = S,
                           .experts = (int32_t)m->config->moe.experts,
                           .top_k = (int32_t)m->top_k,
                           .mask = mf_graph_input(r->g, "mask", MF_F32, rows),
                           .token_ids = mf_graph_input(r->g, "tokens", MF_I32, rows),
                           .positions = mf_graph_input(r->g, "positions", MF_I32, rows),
                           .sequence_ids = mf_graph_input(r->g, "sequence_ids", MF_I32, rows)};
    if (m->dims.labels > 0) r->in.labels = mf_graph_input(r->g, "labels", MF_I32, rows);
}

/* sum over real tokens and experts of q - p ln q, divided by T. It is the divergence without
 * the part that depends only on p. */
static mf_tensor *divergence(mf_swap_routers *r, int32_t i)
{
    mf_graph *g = r->g;
    mf_tensor *q = r->out[i].routing.prob;
    const int64_t T = (int64_t)r->in.batch * r->in.seq;
    r->prob[i] = mf_graph_input(g, "prob", MF_F32, mf_shape2(T, r->in.experts));
    mf_tensor *ln = mf_ln(g, mf_clamp(g, q, 1e-20, 1e30));
    mf_tensor *each = mf_sub(g, q, mf_mul(g, r->prob[i], ln));
    each = mf_mul(g, each, mf_reshape(g, r->in.mask, mf_shape2(T, 1)));
    return mf_scale(g, mf_sum(g, each, MF_ALL, false), 1.0 / (double)T);
}

static int build(const mf_swap_pair *pair, bool fit, mf_swap_routers *r)
{
    const mf_model *m = pair->after->model;
    const mf_moe_settings settings = {
        .config = &m->config->moe, .labels = m->dims.labels, .keep = true};
    const int64_t T = (int64_t)pair->batch->rows * pair->batch->seq;
    inputs(pair, r);
    for (int32_t i = 0; i < r->n; i++) {
        mf_router_in in = r->in;
        r->x[i] = in.x = mf_graph_input(r->g, "x", MF_F32, mf_shape2(T, m->config->model.dim));
        in.previous = i > 0 ? &r->out[i - 1].routing : NULL;
        mf_graph_push(r->g, "layers.%d", (int)m->moe[i].layer);
        const int rc = mf_moe_choose(&m->moe[i], &settings, r->g, &in, &r->out[i]);
        mf_graph_pop(r->g);
        if (rc != MF_OK) return rc;
        mf_graph_keep(r->out[i].own.chosen);
        mf_graph_keep(r->out[i].own.gate);
        mf_graph_keep(r->out[i].own.token);
        if (!fit || !pair->swapped[i]) continue;
        if (!r->out[i].routing.prob || !pair->old->moe[i].routing.prob)
            return mf_fail(MF_EUSAGE,
                           "layer %d: the %s router has no probabilities, so nothing can "
                           "be fitted",
                           (int)m->moe[i].layer, r->out[i].routing.prob ? "old" : "new");
        mf_tensor *loss = divergence(r, i);
        r->loss = r->loss ? mf_add(r->g, r->loss, loss) : loss;
    }
    mf_graph_keep(r->loss);
    int rc = mf_graph_status(r->g);
    if (rc == MF_OK && r->loss) rc = mf_graph_backward(r->g, r->loss, 0, NULL);
    return rc == MF_OK ? mf_graph_finish(r->g) : rc;
}

int mf_swap_routers_new(const mf_swap_pair *pair, bool fit, mf_swap_routers **ret)
{
    mf_model *m = pair->after->model;
    const size_t n = (size_t)m->n_moe + 1;
    const mf_graph_options options = {.training = fit, .device = m->options.device};
    mf_swap_routers *r = mf_alloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->n = m->n_moe;
    r->g = mf_graph_new(&options);
    r->x = mf_alloc(n, sizeof *r->x);
    r->prob = mf_alloc(n, sizeof *r->prob);
    r->out = mf_alloc(n, sizeof *r->out);
    int rc = r->g && r->x && r->prob && r->out ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) mf_plughost_forget(m->plugins, r->g);
    if (rc == MF_OK) rc = build(pair, fit, r);
    if (rc != MF_OK) {
        mf_swap_routers_free(r);
        return rc;
    }
    *ret = r;
    return MF_OK;
}

void mf_swap_routers_free(mf_swap_routers *r)
{
    if (!r) return;
    mf_graph_free(r->g);
    mf_free(r->x);
    mf_free(r->prob);
    mf_free(r->out);
    mf_free(r);
}

/* Copies n values of 4 bytes to an input, which may be NULL. */
static int copy(mf_tensor *to, const void *from, int64_t n)
{
    void *data = to ? mf_tensor_input(to) : NULL;
    if (!to) return MF_OK;
    if (!data || !from) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    memcpy(data, from, (size_t)n * 4);
    return MF_OK;
}

int mf_swap_run_old(const mf_swap_pair *pair, mf_swap_routers *r, int64_t step)
{
    const mf_batch *b = pair->batch;
    const int64_t T = (int64_t)b->rows * b->seq;
    const mf_config *c = pair->before->config;
    const mf_run run = {
        .seed = (uint64_t)c->train.seed, .step = (uint64_t)step, .forward_only = true};
    mf_batch_feed(b, pair->old);
    int rc = mf_graph_run(pair->old->g, &run);
    if (rc == MF_OK) rc = copy(r->in.mask, b->mask, T);
    if (rc == MF_OK) rc = copy(r->in.token_ids, b->tokens, T);
    if (rc == MF_OK) rc = copy(r->in.positions, b->positions, T);
    if (rc == MF_OK) rc = copy(r->in.sequence_ids, b->sequence, T);
    if (rc == MF_OK) rc = copy(r->in.labels, b->labels, T);
    for (int32_t i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_moe_out *old = &pair->old->moe[i];
        rc = copy(r->x[i], mf_tensor_host(old->x), T * c->model.dim);
        if (rc == MF_OK && r->prob[i])
            rc = copy(r->prob[i], mf_tensor_host(old->routing.prob), T * r->in.experts);
    }
    return rc;
}
