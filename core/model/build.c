/* model/build.c: builds the graph of a model for one shape. The order of nodes depends only on
 * the model and the shape, so equal models have equal graphs. */
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/adapters.h"
#include "model/block.h"
#include "model/delta/delta.h"
#include "model/heads.h"
#include "model/tasks.h"
#include "ops/layers/linear_cross_entropy.h"
#include "plugin/load/open.h"

/* Returns the record that the next MoE layer's router reads. With a history this is the record
 * of all positions. */
static const mf_routing *routed(const mf_moe_out *out)
{
    return out->whole.size > 0 ? &out->whole : &out->routing;
}

static mf_tensor *second_half(mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *in,
                              const mf_moe_settings *settings)
{
    const int32_t at = m->moe_of_layer[layer];
    if (at < 0) return mf_block_dense(m, mg->g, layer, in);
    const mf_router_in rin = {.size = sizeof rin,
                              .batch = mg->shape.batch,
                              .seq = mg->shape.seq,
                              .experts = (int32_t)m->moe[at].config.experts,
                              .top_k = (int32_t)*m->moe[at].top_k,
                              .x = in,
                              .mask = mg->mask,
                              .token_ids = mg->tokens,
                              .positions = mg->positions,
                              .sequence_ids = mg->sequence_ids,
                              .labels = mg->labels,
                              .previous = at > 0 ? routed(&mg->moe[at - 1]) : NULL};
    mf_moe_settings own = *settings;
    own.config = &m->moe[at].config;
    own.capacity_factor = m->moe[at].capacity_factor;
    if (mg->shape.forced) own.forced = &mg->shape.forced[at];
    mf_moe_build(&m->moe[at], &own, mg->g, &rin, &mg->moe[at]);
    return mg->moe[at].y;
}

/* Returns the output of a half block in the form that is added to the residual stream. */
static mf_tensor *half_output(mf_model *m, mf_graph *g, const char *norm, mf_tensor *y)
{
    const mf_model_config *c = &m->config->model;
    const bool both = c->norm_place == MF_NORM_BOTH;
    char name[64];
    snprintf(name, sizeof name, both ? "%.48s_out" : "%.48s", norm);
    if (both || c->norm_place == MF_NORM_OUTPUT) y = mf_block_norm(m, g, name, y, false);
    return c->residual_scale == 1 ? y : mf_scale(g, y, c->residual_scale);
}

static mf_tensor *block(mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *x,
                        const mf_moe_settings *settings)
{
    const mf_model_config *c = &m->config->model;
    const double p = m->options.dropout;
    const bool post = c->norm_place == MF_NORM_POST,
               pre = c->norm_place == MF_NORM_PRE || c->norm_place == MF_NORM_BOTH;
    /* The backward pass begins with the last block, so recomputing the values of that block
     * saves no memory. */
    const bool recompute = layer + 1 < c->layers;
    mf_graph *g = mg->g;
    char norm1[64], norm2[64];
    snprintf(norm1, sizeof norm1, "layers.%d.norm1", (int)layer);
    snprintf(norm2, sizeof norm2, "layers.%d.norm2", (int)layer);

    mf_graph_push(g, "layers.%d", (int)layer);
    x = mf_adapt(m->env, MF_AT_BLOCK_IN, x, NULL);
    if (c->attention) {
        mf_graph_set_recompute(g, recompute);
        mf_tensor *in = pre ? mf_block_norm(m, g, norm1, x, true) : x;
        mf_tensor *a =
            (mf_delta_has(c, layer) ? mf_delta_build : mf_block_attention)(m, mg, layer, in);
        if (a) a = mf_adapt(m->env, MF_AT_ATTENTION, a, NULL);
        if (p > 0 && a && a->shape.rank == 2) a = mf_dropout(g, a, p); /* not a bias alone */
        mf_graph_set_recompute(g, false);
        if (a || mf_graph_status(g) != MF_OK) x = mf_add(g, x, half_output(m, g, norm1, a));
        if (post) x = mf_block_norm(m, g, norm1, x, false);
    }
    x = mf_adapt(m->env, MF_AT_BLOCK_MID, x, NULL);
    mf_graph_set_recompute(g, recompute);
    mf_tensor *in = pre ? mf_block_norm(m, g, norm2, x, true) : x;
    mf_tensor *y = second_half(m, mg, layer, in, settings);
    y = mf_adapt(m->env, MF_AT_FFN, y, NULL);
    if (p > 0) y = mf_dropout(g, y, p);
    mf_graph_set_recompute(g, false);
    x = mf_add(g, x, half_output(m, g, norm2, y));
    if (post) x = mf_block_norm(m, g, norm2, x, false);
    x = mf_adapt(m->env, MF_AT_BLOCK_OUT, x, NULL);
    mf_graph_pop(g);
    return x;
}

static bool has_regularizer_with(const mf_model *m, uint32_t flag)
{
    for (int i = 0; i < m->config->n_regularizers; i++) {
        const mf_regularizer *r = mf_loaded_vtable(mf_instance_plugin(m->regularizers[i]));
        if (mf_model_has_regularizer(m, i) && r->flags & flag) return true;
    }
    return false;
}

static mf_tensor *blocks(mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    const mf_model_config *c = &m->config->model;
    const mf_cache *cache = mg->shape.cache;
    const mf_history history = {.store = cache ? cache->store : NULL,
                                .pos = mg->cache_pos,
                                .len = mg->kv_len,
                                .places = cache ? cache->max_seq : 0,
                                .start = (int32_t)c->cache_start};
    const mf_moe_settings settings = {
        .env = m->env,
        .ranks = &m->expert_ranks,
        .plugins = m->plugins,
        .adaptive_capacity = &m->adaptive_capacity,
        .labels = m->dims.labels,
        .history = cache ? &history : NULL,
        .keep = mg->shape.want_prob || mg->shape.probe,
        .probe = mg->shape.probe,
        .given = mg->shape.given != NULL,
        .attention = mg->shape.want_attention > 0,
        .outputs = mg->shape.want_outputs || (mg->shape.mode != MF_MODE_GENERATE &&
                                              has_regularizer_with(m, MF_REGULARIZER_OUTPUTS)),
        .trace = mg->shape.want_trace};
    for (int32_t l = 0; l < c->layers && mf_graph_status(mg->g) == MF_OK; l++) {
        m->env->layer = l;
        m->env->adapters = &m->adapters[l];
        x = block(m, mg, l, x, &settings);
        if (mg->shape.want_hidden && l == 0) mf_graph_keep(mg->hidden[0] = x);
        if (mg->shape.want_hidden && l + 1 == c->layers) mf_graph_keep(mg->hidden[1] = x);
    }
    m->env->layer = -1;
    m->env->adapters = &m->adapters[c->layers];
    return x;
}

static void inputs(const mf_model *m, mf_model_graph *mg)
{
    const mf_model_shape *s = &mg->shape;
    const mf_shape rows = mf_shape1((int64_t)s->batch * s->seq), batch = mf_shape1(s->batch);
    mf_graph *g = mg->g;
    mg->tokens = mf_graph_input(g, "tokens", MF_I32, rows);
    mg->positions = mf_graph_input(g, "positions", MF_I32, rows);
    mg->sequence_ids = mf_graph_input(g, "sequence_ids", MF_I32, rows);
    if (m->config->model.token_types > 0)
        mg->segments = mf_graph_input(g, "segments", MF_I32, rows);
    if (s->masked) mg->mask = mf_graph_input(g, "mask", MF_F32, rows);
    if (s->packed) mg->since = mf_graph_input(g, "since", MF_I32, rows);
    if (m->dims.labels > 0) mg->labels = mf_graph_input(g, "labels", MF_I32, rows);
    mg->by_row = mf_task_by_row(m->config->model.task);
    if (mg->by_row)
        mf_tasks_inputs(m, mg);
    else if (s->mode != MF_MODE_GENERATE)
        mg->targets = mf_graph_input(g, "targets", MF_I32, rows);
    if (s->mode == MF_MODE_GENERATE && !s->want_logits)
        mg->last = mf_graph_input(g, "last", MF_I32, batch);
    if (s->try_heads)
        mg->head_mask =
            mf_graph_input(g, "head_mask", MF_F32,
                           mf_shape2(m->config->model.layers * m->config->model.heads, 1));
    if (s->cache) {
        mg->cache_pos = mf_graph_input(g, "cache_pos", MF_I32, batch);
        mg->kv_len = mf_graph_input(g, "kv_len", MF_I32, batch);
    }
}

/* Whether a plugin reads the losses of tokens. */
static bool wants_token_losses(const mf_model *m, const mf_model_graph *mg)
{
    return has_regularizer_with(m, MF_REGULARIZER_TOKEN_LOSS) ||
           (m->token_tallies && mg->shape.mode == MF_MODE_TRAIN);
}

static mf_tensor *above_0(mf_graph *g, mf_tensor *x)
{
    const float zero = 0;
    return mf_greater(g, x, mf_graph_const(g, MF_F32, mf_shape1(1), &zero));
}

/* Returns the losses of tokens [T] without a gradient, 0 where no loss counts. *ret_counts [T]:
 * 1 where a loss counts, else 0. NULL: the task has no such losses. */
static mf_tensor *token_losses(const mf_model_graph *mg, mf_tensor **ret_counts)
{
    mf_graph *g = mg->g;
    if (!mg->row_loss) return NULL;
    mf_tensor *rows = mf_stop_gradient(g, mg->row_loss);
    mf_tensor *counts = above_0(g, mf_affine(g, mf_cast(g, mg->targets, MF_F32), 1, 1));
    if (mg->by_row) { /* each token gets the loss of its example */
        const mf_shape column = mf_shape2(mg->shape.batch, 1);
        const mf_shape tokens = mf_shape1((int64_t)mg->shape.batch * mg->shape.seq);
        mf_tensor *both[2] = {mf_reshape(g, rows, column), mf_reshape(g, counts, column)};
        mf_tensor *of = mf_gather_rows(g, mf_concat(g, 2, both, 1), mg->sequence_ids);
        rows = mf_reshape(g, mf_slice(g, of, 1, 0, 1), tokens);
        counts = mf_reshape(g, mf_slice(g, of, 1, 1, 1), tokens);
    }
    if (mg->mask) counts = mf_mul(g, counts, above_0(g, mg->mask));
    *ret_counts = counts;
    return mf_mul(g, rows, counts);
}

/* loss = task loss + sum of weight x regularizer + losses that routers add. In a micro-batch
 * the regularizers and router losses are multiplied by its share of the tokens. */
static void add_losses(mf_model *m, mf_model_graph *mg)
{
    mf_graph *g = mg->g;
    const double *share = &m->token_share;
    const int n = m->config->n_regularizers;
    mf_tensor *total = mg->task_loss;
    const mf_routing **records = mf_alloc((size_t)m->n_moe + 1, sizeof *records);
    if (!records) {
        mf_graph_fail(g, MF_ENOMEM, "no memory for %d routing records", (int)m->n_moe);
        return;
    }
    const bool was_bf16 = mf_graph_set_bf16(g, false); /* losses are computed in f32 */
    for (int32_t i = 0; i < m->n_moe; i++)
        records[i] = &mg->moe[i].routing;
    mf_tensor *counts = NULL, *losses = mg->wants_rows ? token_losses(mg, &counts) : NULL;
    const mf_regularizer_in in = {.size = sizeof in,
                                  .n = m->n_moe,
                                  .routing = records,
                                  .batch = mg->shape.batch,
                                  .seq = mg->shape.seq,
                                  .targets = mg->by_row ? NULL : mg->targets,
                                  .mask = mg->mask,
                                  .token_ids = mg->tokens,
                                  .positions = mg->positions,
                                  .sequence_ids = mg->sequence_ids};
    for (int i = 0; i < n; i++) {
        if (!mf_model_has_regularizer(m, i)) continue;
        const mf_regularizer *table = mf_loaded_vtable(mf_instance_plugin(m->regularizers[i]));
        mf_regularizer_in own = in;
        if (table->flags & MF_REGULARIZER_TOKEN_LOSS) own.token_loss = losses;
        if (mf_instance_loss(m->regularizers[i], g, &own, &mg->regularizers[i])) break;
        mf_tensor *value = mg->regularizers[i];
        mf_graph_keep(value);
        mf_tensor *weight = mf_graph_live(g, &m->regularizer_weights[i], "weight");
        total = mf_add(g, total, mf_tasks_share(m, mg, mf_mul(g, value, weight), share));
    }
    for (int32_t i = 0; losses && m->token_tallies && i < m->n_moe; i++)
        mf_moe_losses_count(m->plugins, g, records[i], losses, counts);
    for (int32_t i = 0; i < m->n_moe; i++)
        for (int32_t j = 0; j < records[i]->n_losses; j++)
            total = mf_add(g, total, mf_tasks_share(m, mg, records[i]->loss[j], share));
    mf_graph_set_bf16(g, was_bf16);
    mf_free(records);
    mg->loss = total;
}

/* An output head with adapters needs logits, so the head and the loss are two ops instead
 * of one. */
static bool head_is_adapted(const mf_model *m)
{
    return m->adapters[m->config->model.layers].n > 0;
}

static void keep_outputs(const mf_model *m, mf_model_graph *mg)
{
    for (int32_t i = 0; i < m->n_moe; i++) {
        mf_routing *r = &mg->moe[i].routing;
        mf_graph_keep(r->expert_out);
        mf_graph_keep(r->offset);
        mf_graph_keep(r->row_token);
        mf_graph_keep(r->row_gate);
    }
}

static void build(mf_model *m, mf_model_graph *mg)
{
    const mf_model_shape *s = &mg->shape;
    mf_graph *g = mg->g;
    inputs(m, mg);
    mg->wants_rows = wants_token_losses(m, mg) || s->probe;
    mf_tensor *x = mf_block_embed(m, mg);
    if (m->options.dropout > 0 && m->options.dropout_embedding)
        x = mf_dropout(g, x, m->options.dropout);
    m->env->mask = mg->mask;
    m->env->positions = mg->positions;
    m->env->sequence_ids = mg->sequence_ids;
    x = blocks(m, mg, x);
    if (m->config->model.norm_place != MF_NORM_POST) x = mf_block_norm(m, g, "norm", x, true);
    if (mg->last) x = mf_gather_rows(g, x, mg->last);
    if (mg->by_row) x = mf_block_pool(m, mg, x);
    if (m->config->model.head_dropout > 0) x = mf_dropout(g, x, m->config->model.head_dropout);
    if (mg->by_row) {
        mf_tasks_build(m, mg, x);
    } else if (s->mode == MF_MODE_GENERATE || s->want_logits || head_is_adapted(m) ||
               (mg->wants_rows && mf_store_find(m->store, "head.bias"))) {
        mg->logits = mf_block_head(m, g, x);
        if (s->mode == MF_MODE_GENERATE || s->want_logits) mf_graph_keep(mg->logits);
        if (s->mode == MF_MODE_GENERATE) return;
        mg->task_loss = mg->wants_rows ? mf_cross_entropy_rows(g, mg->logits, mg->targets,
                                                               mg->mask, &mg->row_loss)
                                       : mf_cross_entropy(g, mg->logits, mg->targets, mg->mask);
    } else {
        mg->task_loss = mf_block_head_loss(m, mg, x);
    }
    if (!mg->by_row) mg->task_loss = mf_tasks_share(m, mg, mg->task_loss, m->task_shares);
    add_losses(m, mg);
    mf_graph_keep(mg->task_loss);
    mf_graph_keep(mg->loss);
    if (s->probe) mf_graph_keep(mg->row_loss);
    if (s->want_outputs) keep_outputs(m, mg);
    if (s->mode == MF_MODE_TRAIN) mf_graph_backward(g, mg->loss, 0, NULL);
    if (!s->want_logits) mg->logits = NULL;
}

/* Builds the graph with an environment that holds the values built so far, because adapters may
 * read them. */
static void build_adapted(mf_model *m, mf_model_graph *mg)
{
    const size_t places = (size_t)m->config->model.layers * MF_AT_POINTS;
    mf_adapt_env env = {.g = mg->g,
                        .layer = -1,
                        .batch = mg->shape.batch,
                        .seq = mg->shape.seq,
                        .values = mf_alloc(places, sizeof(mf_tensor *))};
    if (!env.values) {
        mf_graph_fail(mg->g, MF_ENOMEM, "no memory for the values of %lld blocks",
                      (long long)m->config->model.layers);
        return;
    }
    m->env = &env;
    mf_plughost_set_linear(m->plugins, mf_adapt_hook, &env);
    build(m, mg);
    mf_plughost_set_linear(m->plugins, NULL, NULL);
    m->env = NULL;
    mf_free(env.values);
}

/* Keeps the inputs of the gemms with parameters in the forward pass: the inputs themselves, and
 * the offsets of their groups. */
static void keep_inputs(mf_graph *g)
{
    for (int i = 0; i < mf_graph_nodes(g); i++) {
        const mf_node *node = mf_graph_node_at(g, i);
        if (!mf_node_weight(node)) continue;
        mf_graph_keep(node->in[0]);
        if (node->n_in > 2 && node->in[2] && node->in[2]->dtype == MF_I32)
            mf_graph_keep(node->in[2]);
    }
}

/* Warns, once per model, about MoE layers whose routers get no gradient of the task. */
static void warn_of_gates(mf_model *m, const mf_model_graph *mg)
{
    if (mg->shape.mode != MF_MODE_TRAIN || mg->shape.forced) return;
    for (int32_t i = 0; i < m->n_moe && !m->warned; i++) {
        const mf_moe_out *o = &mg->moe[i];
        const mf_moe_layer *layer = &m->moe[i];
        if (o->gates_ignored)
            mf_log(
                MF_LOG_WARN,
                "expert %s declares MF_EXPERT_GATES and does not read in->gate: its outputs do "
                "not depend on the gates, so router %s learns nothing of the task",
                mf_instance_plugin(layer->expert)->name,
                mf_instance_plugin(layer->router)->name);
        else if (o->gates_are_1)
            mf_log(MF_LOG_WARN,
                   "router %s: with one expert a token (moe.top_k = 1) and %s every "
                   "gate is p / p = 1, so the router learns nothing of the task; expected "
                   "renormalize = %s",
                   mf_instance_plugin(layer->router)->name,
                   o->routing.renormalize >= 0 ? "gates that the router has renormalised,"
                                               : "moe.renormalize = yes",
                   o->routing.renormalize >= 0 ? "no, where it has this option" : "no or auto");
        m->warned = o->gates_ignored || o->gates_are_1;
    }
}

int mf_model_graph_new(mf_model *m, const mf_model_shape *shape, mf_model_graph **ret)
{
    const mf_graph_options options = {.training = shape->mode == MF_MODE_TRAIN,
                                      .recompute = m->options.recompute,
                                      .bare = m->dims.bare,
                                      .no_reuse = shape->no_reuse,
                                      .arena_of = shape->arena_of,
                                      .bf16 = m->options.bf16,
                                      .planned_for = m->dims.bare ? shape->planned_for : NULL,
                                      .device = m->dims.bare ? NULL : m->options.device,
                                      .payload = shape->payload};
    if (shape->cache && mf_model_sees_sequences(m))
        return mf_fail(MF_ECONFIG,
                       "a model that looks at whole sequences decodes without a cache");
    mf_model_graph *mg = mf_alloc(1, sizeof *mg);
    if (!mg) return MF_ENOMEM;
    mg->shape = *shape;
    mg->g = mf_graph_new(&options);
    if (mg->g) mf_plughost_forget(m->plugins, mg->g);
    mg->moe = mf_alloc((size_t)m->n_moe + 1, sizeof *mg->moe);
    mg->regularizers =
        mf_alloc((size_t)m->config->n_regularizers + 1, sizeof *mg->regularizers);
    mg->heads = mf_alloc((size_t)m->config->model.layers, sizeof *mg->heads);
    int rc = mg->g && mg->moe && mg->regularizers && mg->heads ? MF_OK : MF_ENOMEM;
    mg->n_layers = (int32_t)m->config->model.layers;
    if (rc == MF_OK) {
        build_adapted(m, mg);
        rc = mf_graph_status(mg->g);
    }
    if (rc == MF_OK) rc = mf_adapters_all_met(m);
    if (rc == MF_OK && shape->want_inputs) keep_inputs(mg->g);
    if (rc == MF_OK) rc = mf_graph_finish(mg->g);
    if (rc != MF_OK) {
        mf_model_graph_free(mg);
        return rc;
    }
    warn_of_gates(m, mg);
    *ret = mg;
    return MF_OK;
}

void mf_model_graph_free(mf_model_graph *mg)
{
    if (!mg) return;
    mf_graph_free(mg->g);
    mf_free(mg->moe);
    mf_free(mg->regularizers);
    for (int32_t l = 0; mg->heads && l < mg->n_layers; l++)
        mf_free(mg->heads[l].plan);
    mf_free(mg->heads);
    mf_free(mg);
}

bool mf_model_limited(const mf_model *m, const mf_model_graph *mg)
{
    for (int32_t i = 0; i < m->n_moe; i++)
        if (mg->moe[i].limited) return true;
    return false;
}
