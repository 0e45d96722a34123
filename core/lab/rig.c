#include "lab/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/layer.h"
#include "lab/standin.h"
#include "ops/ops.h"
#include "plugin/crash.h"

enum { SEED = 20240607 };

/* ---- instances ---- */

const char *mf_rig_required(const mf_option *o, char *out, size_t size)
{
    double v = 1;
    switch (o->type) {
    case MF_OPT_INT:
    case MF_OPT_REAL:
        v = v < o->lo ? o->lo : v > o->hi ? o->hi : v;
        snprintf(out, size, "%.15g", o->type == MF_OPT_INT ? ceil(v) : v);
        break;
    case MF_OPT_BOOL:
        snprintf(out, size, "no");
        break;
    case MF_OPT_ENUM:
        snprintf(out, size, "%s", o->choices[0]);
        break;
    default:
        snprintf(out, size, "train.lr");
        break; /* the name of something that can be turned */
    }
    return out;
}

/* The section of the plugin under check: required options, and the one that is asked for. */
static int write_section(mf_rig *rig)
{
    const mf_schema *s = &rig->spec.plugin->schema;
    char text[512], value[256];
    for (int i = 0; i < s->count; i++) {
        const mf_option *o = &s->options[i];
        const bool chosen = rig->spec.option != NULL && strcmp(rig->spec.option, o->name) == 0;
        if (!chosen && o->value != NULL) continue;
        snprintf(text, sizeof text, "check.%s=%s", o->name,
                 chosen ? rig->spec.value : mf_rig_required(o, value, sizeof value));
        int rc = mf_ini_set(rig->ini, text, i + 1);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static mf_dims dims_of(const mf_rig *rig, int32_t layer)
{
    const mf_rig_spec *s = &rig->spec;
    return (mf_dims){.size = sizeof(mf_dims),
                     .layer = layer,
                     .n_layers = s->layers,
                     .dim = s->dim,
                     .experts = s->experts,
                     .top_k = s->top_k,
                     .heads = MF_RIG_HEADS,
                     .kv_heads = MF_RIG_HEADS,
                     .vocab = MF_RIG_VOCAB,
                     .seq = s->seq,
                     .causal = 1,
                     .moe_layers = s->layers,
                     .labels = MF_RIG_LABELS,
                     .train_steps = 1000};
}

/* An instance of the plugin under check or of a stand-in. */
static int place(mf_rig *rig, const mf_loaded *plugin, const char *path, int32_t layer,
                 mf_ctx **ret)
{
    const mf_dims dims = dims_of(rig, layer);
    const bool checked = plugin == rig->spec.plugin;
    const char *live = layer < 0 ? path : plugin->kind == MF_ROUTER ? "router" : "expert";
    if (plugin == NULL) return MF_ENOMEM;
    return mf_instance_new(rig->host, plugin, path, rig->ini, checked ? "check" : "standin",
                           NULL, live, &dims, ret);
}

static int32_t history(void *arg, const char *metric, int32_t n, double *out)
{
    (void)arg;
    (void)metric;
    for (int32_t i = 0; i < n && i < 50; i++)
        out[i] = 1 + 0.01 * i; /* newest first: falling */
    return n < 50 ? n : 50;
}

static int register_knobs(mf_rig *rig)
{
    static const char *const names[] = {"train.lr", "train.weight_decay", "train.clip",
                                        "moe.capacity_factor"};
    mf_plughost_set_history(rig->host, rig, history);
    mf_plughost_set_importance(rig->host, rig, mf_rig_heads_importance);
    int rc = MF_OK;
    for (int i = 0; i < 4 && rc == MF_OK; i++) {
        rig->knobs[i] = 0.5;
        rc = mf_live_register_real(rig->host, names[i], &rig->knobs[i], 0, 1e6);
    }
    return rc;
}

static bool wants_bias(const mf_loaded *p)
{
    return p->kind == MF_CONTROLLER &&
           (p->table.controller.flags & MF_CONTROLLER_SELECT_BIAS) != 0;
}

static int make_instances(mf_rig *rig)
{
    const mf_loaded *p = rig->spec.plugin;
    int rc = write_section(rig);
    for (int32_t l = 0; l < rig->spec.layers && rc == MF_OK; l++) {
        char path[64];
        mf_moe_layer *layer = &rig->layer[l];
        layer->layer = l;
        snprintf(path, sizeof path, "layers.%d.router", (int)l);
        rc =
            place(rig, p->kind == MF_ROUTER ? p : mf_standin_router(), path, l, &layer->router);
        snprintf(path, sizeof path, "layers.%d.expert", (int)l);
        if (rc == MF_OK)
            rc = place(rig, p->kind == MF_EXPERT ? p : mf_standin_expert(), path, l,
                       &layer->expert);
        snprintf(path, sizeof path, "layers.%d.moe.select_bias", (int)l);
        if (rc == MF_OK && wants_bias(p))
            rc = mf_store_declare(rig->store, path, mf_shape1(rig->spec.experts), (mf_init){0},
                                  true, &layer->select_bias);
        if (rc == MF_OK)
            rc = mf_moe_tally_new(l, rig->spec.experts, rig->spec.top_k, MF_RIG_LABELS,
                                  &rig->tally[l]);
    }
    if (rc == MF_OK) rc = register_knobs(rig);
    if (rc == MF_OK && (p->kind == MF_REGULARIZER || p->kind == MF_CONTROLLER))
        rc = mf_rig_heads_declare(rig);
    if (rc == MF_OK && p->kind == MF_REGULARIZER)
        rc = place(rig, p, "regularizer.check", -1, &rig->regularizer);
    if (rc == MF_OK && p->kind == MF_CONTROLLER)
        rc = place(rig, p, "controller.check", -1, &rig->controller);
    return rc;
}

const char *mf_rig_path(const mf_rig *rig)
{
    switch (rig->spec.plugin->kind) {
    case MF_ROUTER:
        return "layers.*.router";
    case MF_EXPERT:
        return "layers.*.expert";
    case MF_REGULARIZER:
        return "regularizer.check";
    case MF_CONTROLLER:
        break;
    }
    return "controller.check";
}

/* ---- the graph ---- */

static void make_inputs(mf_rig *rig)
{
    const mf_rig_spec *s = &rig->spec;
    const mf_lab_layer layer = {.batch = s->batch,
                                .seq = s->seq,
                                .dim = s->dim,
                                .experts = s->experts,
                                .top_k = s->top_k,
                                .labels = MF_RIG_LABELS};
    rig->in = mf_lab_inputs(&layer, rig->g, s->masked);
    rig->x = rig->in.x;
    rig->weights = mf_graph_input(rig->g, "weights", MF_F32,
                                  mf_shape2((int64_t)s->batch * s->seq, s->dim));
    if (s->gradients || s->open) mf_graph_want_grad(rig->x);
}

static mf_tensor *add_losses(mf_rig *rig, mf_tensor *total)
{
    const mf_routing *records[MF_RIG_LAYERS];
    for (int32_t l = 0; l < rig->spec.layers; l++) {
        const mf_routing *r = records[l] = &rig->out[l].routing;
        for (int32_t i = 0; i < r->n_losses; i++) {
            mf_graph_keep(r->loss[i]);
            total = mf_add(rig->g, total, mf_reshape(rig->g, r->loss[i], mf_shape0()));
        }
    }
    if (rig->regularizer == NULL) return total;
    if (mf_instance_loss(rig->regularizer, rig->g, records, rig->spec.layers, &rig->penalty) !=
        MF_OK)
        return NULL;
    mf_graph_keep(rig->penalty);
    return mf_add(rig->g, total, mf_reshape(rig->g, rig->penalty, mf_shape0()));
}

static int build(mf_rig *rig)
{
    const mf_rig_spec *s = &rig->spec;
    const mf_graph_options options = {.training = s->training};
    rig->g = mf_graph_new(&options);
    if (rig->g == NULL) return MF_ENOMEM;
    make_inputs(rig);
    rig->config = (mf_moe_config){.experts = s->experts, .top_k = s->top_k, .gate_scale = 1};
    const mf_moe_settings settings = {
        .config = &rig->config, .labels = MF_RIG_LABELS, .keep = true};
    mf_tensor *x = rig->x;
    for (int32_t l = 0; l < s->layers; l++) {
        mf_router_in in = rig->in;
        in.x = x;
        mf_graph_push(rig->g, "layers.%d", (int)l);
        int rc = mf_moe_build(&rig->layer[l], &settings, rig->g, &in, &rig->out[l]);
        mf_graph_pop(rig->g);
        if (rc != MF_OK) return rc;
        x = mf_add(rig->g, x, rig->out[l].y);
    }
    rig->y = x;
    mf_graph_keep(rig->y);
    rig->loss = add_losses(rig, mf_sum(rig->g, mf_mul(rig->g, x, rig->weights), MF_ALL, false));
    mf_graph_keep(rig->loss);
    int rc = mf_graph_status(rig->g);
    if (rc == MF_OK && s->gradients) rc = mf_graph_backward(rig->g, rig->loss, 1, &rig->x);
    return rc == MF_OK && !s->open ? mf_graph_finish(rig->g) : rc;
}

void mf_rig_fill(mf_rig *rig, uint64_t seed)
{
    const mf_rig_spec *s = &rig->spec;
    const int64_t T = (int64_t)s->batch * s->seq, n = T * s->dim;
    float *x = mf_tensor_data(rig->x), *w = mf_tensor_data(rig->weights);
    int32_t *ids = mf_tensor_data(rig->in.token_ids), *labels = mf_tensor_data(rig->in.labels);
    float *mask = rig->in.mask != NULL ? mf_tensor_data(rig->in.mask) : NULL;
    if (seed == 0) seed = (uint64_t)(SEED + s->shaken);
    mf_lab_fill_places(&rig->in);
    for (int64_t i = 0; x != NULL && i < n; i++)
        x[i] = mf_rng_normal(seed, 1, 0, (uint64_t)i);
    for (int64_t i = 0; w != NULL && i < n; i++)
        w[i] = mf_rng_normal(seed, 2, 0, (uint64_t)i);
    for (int64_t t = 0; t < T; t++) {
        const int32_t at = (int32_t)(t % s->seq);
        const uint64_t id = mf_rng_below(seed, 3, 0, (uint64_t)t, MF_RIG_VOCAB);
        if (ids != NULL) ids[t] = (int32_t)id;
        if (labels != NULL) labels[t] = (int32_t)(id % MF_RIG_LABELS);
        if (mask != NULL) mask[t] = at < s->seq - s->seq / 3 ? 1.0f : 0.0f;
    }
}

static void shake(mf_rig *rig)
{
    int64_t n;
    float *values = mf_store_values(rig->store, &n);
    for (int64_t i = 0; i < n; i++)
        values[i] += 0.1f * mf_rng_normal(SEED, 4, (uint64_t)rig->spec.shaken, (uint64_t)i);
}

/* ---- life ---- */

int mf_rig_new(const mf_rig_spec *spec, mf_rig **ret)
{
    mf_rig *rig = mf_alloc(1, sizeof *rig);
    if (rig == NULL) return MF_ENOMEM;
    rig->spec = *spec;
    rig->store = mf_store_new();
    rig->host = rig->store != NULL ? mf_plughost_new(rig->store) : NULL;
    rig->ini = mf_ini_new();
    int rc = rig->host != NULL && rig->ini != NULL ? make_instances(rig) : MF_ENOMEM;
    if (rc == MF_OK && !spec->only_init) {
        rig->shares = mf_alloc((size_t)spec->experts * MF_MOE_SHARES * MF_RIG_LAYERS,
                               sizeof *rig->shares);
        rc = rig->shares != NULL ? mf_store_seal(rig->store, SEED, true) : MF_ENOMEM;
        if (rc == MF_OK && spec->shaken != 0) shake(rig);
        if (rc == MF_OK) rc = build(rig);
        if (rc == MF_OK) mf_rig_fill(rig, 0);
    }
    if (rc != MF_OK) {
        mf_rig_free(rig);
        return rc;
    }
    *ret = rig;
    return MF_OK;
}

void mf_rig_free(mf_rig *rig)
{
    if (rig == NULL) return;
    mf_graph_free(rig->g);
    mf_instance_free(rig->controller);
    mf_instance_free(rig->regularizer);
    for (int l = 0; l < MF_RIG_LAYERS; l++) {
        mf_instance_free(rig->layer[l].router);
        mf_instance_free(rig->layer[l].expert);
        mf_moe_tally_free(rig->tally[l]);
    }
    mf_plughost_free(rig->host);
    mf_store_free(rig->store);
    mf_ini_free(rig->ini);
    mf_free(rig->shares);
    mf_free(rig);
}

/* ---- running ---- */

int mf_rig_run(mf_rig *rig, const struct mf_kernels *kernels)
{
    const mf_run run = {
        .seed = SEED, .step = (uint64_t)rig->step, .kernels = kernels, .metrics = true};
    const mf_loaded *p = rig->spec.plugin;
    const mf_site site = {p->name, p->path, "an op while the graph runs", "the graph"};
    const mf_site *outer = mf_crash_site(&site);
    int rc = mf_graph_run(rig->g, &run);
    mf_crash_site(outer);
    return rc;
}

static double scalar(const mf_tensor *t)
{
    const float *v = t != NULL ? mf_tensor_data(t) : NULL;
    return v != NULL ? (double)*v : 0;
}

/* What the trainer tells after a step. stats: [MF_RIG_LAYERS]. */
static mf_step measurements(mf_rig *rig, mf_layer_stats *stats)
{
    const int64_t E = rig->spec.experts;
    for (int32_t l = 0; l < rig->spec.layers; l++) {
        float *shares = rig->shares + MF_MOE_SHARES * E * l;
        mf_moe_tally_reset(rig->tally[l]);
        mf_moe_tally_add(rig->tally[l], &rig->out[l]);
        mf_moe_tally_stats(rig->tally[l], shares, &stats[l]);
    }
    return (mf_step){.size = sizeof(mf_step),
                     .n_layers = rig->spec.layers,
                     .step = rig->step,
                     .max_steps = 1000,
                     .loss = scalar(rig->loss),
                     .task_loss = scalar(rig->loss),
                     .lr = rig->knobs[0],
                     .grad_norm = 1,
                     .val_loss = (double)NAN,
                     .tokens = rig->step * rig->spec.batch * rig->spec.seq,
                     .layers = stats};
}

int mf_rig_after(mf_rig *rig)
{
    mf_layer_stats stats[MF_RIG_LAYERS];
    mf_rig_heads heads;
    int rc = MF_OK;
    mf_step step = measurements(rig, stats);
    if (rig->controller != NULL) {
        mf_rig_heads_measure(rig, &heads);
        step.heads = heads.stats;
        step.n_head_layers = rig->spec.layers;
    }
    if (rig->controller != NULL) rc = mf_instance_on_step(rig->controller, &step);
    if (rig->regularizer != NULL) rc = mf_instance_after_step(rig->regularizer, &step);
    for (int32_t l = 0; l < rig->spec.layers && rc == MF_OK; l++) {
        rc = mf_instance_after_step(rig->layer[l].router, &step);
        if (rc == MF_OK) rc = mf_instance_after_step(rig->layer[l].expert, &step);
    }
    mf_turns_clear(rig->host);
    (void)mf_plughost_rebuild(rig->host);
    return rc;
}

int mf_rig_step(mf_rig *rig)
{
    int rc = mf_rig_run(rig, NULL);
    if (rc != MF_OK) return rc;
    int64_t n;
    float *values = mf_store_values(rig->store, &n);
    const float *grads = mf_store_grads(rig->store);
    for (int64_t i = 0; i < n; i++) /* bounded, so that no loss runs away */
        values[i] -= 1e-3f * grads[i] / (1 + fabsf(grads[i]));
    rig->step++;
    mf_plughost_set_step(rig->host, rig->step);
    return mf_rig_after(rig);
}

void mf_rig_copy_state(mf_rig *to, const mf_rig *from)
{
    for (int i = 0; i < mf_store_count(to->store); i++) {
        mf_param *a = mf_store_at(to->store, i);
        const mf_param *b = mf_store_find(from->store, a->name);
        if (b != NULL && b->count == a->count)
            memcpy(a->value, b->value, (size_t)a->count * sizeof *a->value);
    }
    double v;
    const char *name;
    for (int i = 0; (name = mf_live_name(from->host, i)) != NULL; i++)
        if (mf_live_get(from->host, name, &v) == MF_OK)
            (void)mf_live_set(to->host, name, v, "", "");
    mf_turns_clear(to->host);
    to->step = from->step;
    mf_plughost_set_step(to->host, to->step);
}

/* ---- what a run left ---- */

static void digest(char hash[33], const void *data, size_t n)
{
    char both[64];
    memcpy(both, hash, 32);
    mf_hash_bytes(data, n, hash);
    memcpy(both + 32, hash, 32);
    mf_hash_bytes(both, sizeof both, hash);
}

static void digest_tensor(char hash[33], const mf_tensor *t)
{
    const void *data = t != NULL ? mf_tensor_data(t) : NULL;
    if (data != NULL) digest(hash, data, (size_t)mf_shape_count(t->shape) * 4);
}

void mf_rig_digest(const mf_rig *rig, char out[33])
{
    memset(out, '0', 32);
    out[32] = '\0';
    digest_tensor(out, rig->y);
    digest_tensor(out, rig->loss);
    digest_tensor(out, rig->penalty);
    for (int32_t l = 0; l < rig->spec.layers; l++) {
        digest_tensor(out, rig->out[l].routing.prob);
        digest_tensor(out, rig->out[l].routing.chosen);
        digest_tensor(out, rig->out[l].gate);
    }
    if (rig->spec.gradients) {
        int64_t n;
        mf_store_values(rig->store, &n);
        digest(out, mf_store_grads(rig->store), (size_t)n * sizeof(float));
        digest_tensor(out, rig->x->grad);
    }
    double v;
    const char *name;
    for (int i = 0; (name = mf_live_name(rig->host, i)) != NULL; i++)
        if (mf_live_get(rig->host, name, &v) == MF_OK) digest(out, &v, sizeof v);
}

static int64_t count_not_finite(const mf_tensor *t)
{
    const float *v = t != NULL ? mf_tensor_data(t) : NULL;
    int64_t n = 0;
    for (int64_t i = 0; v != NULL && i < mf_shape_count(t->shape); i++)
        n += !isfinite(v[i]);
    return n;
}

int64_t mf_rig_not_finite(const mf_rig *rig)
{
    int64_t n =
        count_not_finite(rig->y) + count_not_finite(rig->loss) + count_not_finite(rig->penalty);
    for (int32_t l = 0; l < rig->spec.layers; l++)
        n += count_not_finite(rig->out[l].routing.prob) + count_not_finite(rig->out[l].gate);
    if (rig->spec.gradients) n += count_not_finite(rig->x->grad);
    return n;
}
