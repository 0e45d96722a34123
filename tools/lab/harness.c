/* A plugin of any kind in a very small model. Random values depend only on constants and on
 * spec.shaken. So two harnesses with equal specs compute the same bits. */
#include "lab/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/bench/layer.h"
#include "lab/bench/stub.h"
#include "ops/ops.h"
#include "plugin/crash.h"
#include "plugin/tallies.h"

enum { SEED = 20240607 };

/* ---- instances ---- */

static const char *required(const mf_option *o, char *out, size_t size)
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
        break; /* the option is the name of a live option */
    }
    return out;
}

/* The last value of an option in a list of "option=value"; NULL: the option is not in
 * the list. */
static const char *in_list(const char *const *list, const char *option)
{
    const size_t n = strlen(option);
    const char *value = NULL;
    for (int i = 0; list && list[i]; i++)
        if (strncmp(list[i], option, n) == 0 && list[i][n] == '=') value = list[i] + n + 1;
    return value;
}

/* The value that the user has chosen for an option, or else the drawn value; NULL: none. */
static const char *given(const mf_harness_spec *s, const char *option)
{
    const char *value = in_list(s->given, option);
    return value ? value : in_list(s->drawn, option);
}

/* Writes the section of the plugin under check: required options, options that the user has
 * chosen or whose values were drawn, and the option under test. */
static int write_section(mf_harness *harness)
{
    const mf_schema *s = &harness->spec.plugin->schema;
    char text[512], value[256];
    for (int i = 0; i < s->count; i++) {
        const mf_option *o = &s->options[i];
        const bool chosen = harness->spec.option && strcmp(harness->spec.option, o->name) == 0;
        const char *own = given(&harness->spec, o->name);
        if (!chosen && !own && o->value) continue;
        snprintf(text, sizeof text, "check.%s=%s", o->name,
                 chosen ? harness->spec.value
                 : own  ? own
                        : required(o, value, sizeof value));
        int rc = mf_ini_set(harness->ini, text, i + 1);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static int32_t labels_of(const mf_harness_spec *s)
{
    return s->unlabelled ? 0 : MF_HARNESS_LABELS;
}

static mf_dims dims_of(const mf_harness *harness, int32_t layer)
{
    const mf_harness_spec *s = &harness->spec;
    return (mf_dims){.size = sizeof(mf_dims),
                     .layer = layer,
                     .n_layers = s->of_layers > 0 ? s->of_layers : s->layers,
                     .dim = s->dim,
                     .expert_dim = s->dim,
                     .model_dim = s->dim,
                     .experts = s->experts,
                     .top_k = s->top_k,
                     .heads = MF_HARNESS_HEADS,
                     .kv_heads = MF_HARNESS_HEADS,
                     .vocab = MF_HARNESS_VOCAB,
                     .seq = s->longest > 0 ? s->longest : s->seq,
                     .causal = !s->any_order,
                     .moe_layers = s->of_layers > 0 ? s->of_layers : s->layers,
                     .labels = labels_of(s),
                     .train_steps = 1000};
}

/* mf_host.layer_dims */
static int layer_dims(const void *arg, int32_t layer, mf_dims *ret)
{
    const mf_harness *harness = arg;
    if (layer < 0 || layer >= dims_of(harness, -1).n_layers) return MF_ENOTFOUND;
    *ret = dims_of(harness, layer);
    return MF_OK;
}

/* Creates an instance of the plugin under check or of a stub. */
static int place(mf_harness *harness, const mf_loaded *plugin, const char *path, int32_t layer,
                 mf_ctx **ret)
{
    const mf_dims dims = dims_of(harness, layer);
    const bool checked = plugin == harness->spec.plugin;
    const char *live = layer < 0 ? path : plugin->kind == MF_ROUTER ? "router" : "expert";
    if (!plugin) return MF_ENOMEM;
    return mf_instance_new(harness->host, plugin, path, harness->ini,
                           checked ? "check" : "stub", NULL, live, &dims, ret);
}

static int32_t history(void *arg, const char *metric, int32_t n, double *out)
{
    (void)arg;
    (void)metric;
    for (int32_t i = 0; i < n && i < 50; i++)
        out[i] = 1 + 0.01 * i; /* newest value first, so a falling sequence */
    return n < 50 ? n : 50;
}

static int register_options(mf_harness *harness)
{
    static const char *const names[] = {"train.lr", "train.weight_decay", "train.clip",
                                        "moe.capacity_factor"};
    mf_plughost_set_history(harness->host, harness, history);
    mf_plughost_set_importance(harness->host, harness, mf_harness_heads_importance);
    int rc = MF_OK;
    for (int i = 0; i < 4 && rc == MF_OK; i++) {
        harness->saved_options[i] = 0.5;
        rc = mf_live_register_real(harness->host, names[i], &harness->saved_options[i], 0, 1e6);
    }
    harness->top_k = harness->spec.top_k;
    if (rc == MF_OK)
        rc = mf_live_register_count(harness->host, "moe.top_k", &harness->top_k, 1,
                                    harness->spec.experts);
    return rc;
}

static bool wants_bias(const mf_loaded *p)
{
    return p->kind == MF_CONTROLLER &&
           (p->table.controller.flags & MF_CONTROLLER_SELECT_BIAS) != 0;
}

/* Declares the parameters that a whole model has around the layer, unless they exist. A plugin
 * that looks for such a parameter by its full name then finds it. This comes last, so that the
 * offsets of all other parameters do not change. */
static int declare_beside(mf_harness *harness)
{
    const int32_t d = harness->spec.dim, E = harness->spec.experts;
    const struct {
        const char *name;
        mf_shape shape;
    } all[] = {{".norm1.weight", mf_shape1(d)},
               {".norm2.weight", mf_shape1(d)},
               {".attention.qkv.weight", mf_shape2(3 * d, d)},
               {".attention.out.weight", mf_shape2(d, d)},
               {".expert.w1", mf_shape3(E, d, d)},
               {".expert.w13", mf_shape3(E, 2 * d, d)},
               {".expert.w2", mf_shape3(E, d, d)},
               {"embed.weight", mf_shape2(MF_HARNESS_VOCAB, d)},
               {"norm.weight", mf_shape1(d)},
               {"head.weight", mf_shape2(MF_HARNESS_VOCAB, d)}};
    static const mf_init one = {MF_INIT_CONST, 0, 1};
    int rc = MF_OK;
    for (int32_t l = 0; l < harness->spec.layers; l++)
        for (size_t i = 0; i < sizeof all / sizeof *all && rc == MF_OK; i++) {
            char name[64];
            mf_param *p;
            const bool expert = strncmp(all[i].name, ".expert", 7) == 0;
            if (expert && harness->spec.plugin->kind == MF_EXPERT) continue;
            if (all[i].name[0] == '.')
                snprintf(name, sizeof name, "layers.%d%s", (int)l, all[i].name);
            else
                snprintf(name, sizeof name, "%s", all[i].name);
            if (!mf_store_find(harness->store, name))
                rc = mf_store_declare(harness->store, name, all[i].shape, one, false, &p);
        }
    return rc;
}

static int make_instances(mf_harness *harness)
{
    const mf_loaded *p = harness->spec.plugin;
    int rc = write_section(harness);
    for (int32_t l = 0; l < harness->spec.layers && rc == MF_OK; l++) {
        char path[64];
        mf_moe_layer *layer = &harness->layer[l];
        layer->layer = l;
        snprintf(path, sizeof path, "layers.%d.router", (int)l);
        const mf_loaded *beside =
            harness->spec.router ? harness->spec.router : mf_stub_router();
        rc = place(harness, p->kind == MF_ROUTER ? p : beside, path, l, &layer->router);
        snprintf(path, sizeof path, "layers.%d.expert", (int)l);
        if (rc == MF_OK)
            rc = place(harness, p->kind == MF_EXPERT ? p : mf_stub_expert(), path, l,
                       &layer->expert);
        snprintf(path, sizeof path, "layers.%d.moe.select_bias", (int)l);
        if (rc == MF_OK && wants_bias(p))
            rc = mf_store_declare(harness->store, path, mf_shape1(harness->spec.experts),
                                  (mf_init){0}, true, &layer->select_bias);
        if (rc == MF_OK)
            rc = mf_moe_tally_new(l, harness->spec.experts, harness->spec.top_k,
                                  labels_of(&harness->spec), &harness->tally[l]);
    }
    for (int32_t l = 0; l < harness->spec.layers && rc == MF_OK && p->kind == MF_ADAPTER; l++) {
        const mf_dims dims = dims_of(harness, l);
        rc = mf_harness_adapter_new(harness, l, &dims);
    }
    if (rc == MF_OK) rc = register_options(harness);
    if (rc == MF_OK && (p->kind == MF_REGULARIZER || p->kind == MF_CONTROLLER))
        rc = mf_harness_heads_declare(harness);
    if (rc == MF_OK && p->kind == MF_REGULARIZER)
        rc = place(harness, p, "regularizer.check", -1, &harness->regularizer);
    if (rc == MF_OK && p->kind == MF_CONTROLLER)
        rc = place(harness, p, "controller.check", -1, &harness->controller);
    for (int32_t l = 0; l < harness->spec.layers && rc == MF_OK; l++)
        rc = mf_moe_tallies_declare(harness->host, l, harness->spec.experts,
                                    p->kind == MF_CONTROLLER && mf_harness_reads_losses(p));
    return rc == MF_OK && harness->spec.beside ? declare_beside(harness) : rc;
}

void mf_harness_live_name(const mf_loaded *plugin, const char *option, char *out, size_t size)
{
    static const char *const path[] = {[MF_ROUTER] = "router",
                                       [MF_EXPERT] = "expert",
                                       [MF_REGULARIZER] = "regularizer.check",
                                       [MF_CONTROLLER] = "controller.check",
                                       [MF_ADAPTER] = "adapter.check"};
    snprintf(out, size, "%s.%s", path[plugin->kind], option);
}

const char *mf_harness_path(const mf_harness *harness)
{
    switch (harness->spec.plugin->kind) {
    case MF_ROUTER:
        return "layers.*.router";
    case MF_EXPERT:
        return "layers.*.expert";
    case MF_REGULARIZER:
        return "regularizer.check";
    case MF_ADAPTER:
        return harness->adapter_path;
    case MF_CONTROLLER:
        break;
    }
    return "controller.check";
}

/* ---- the graph ---- */

static void make_inputs(mf_harness *harness)
{
    const mf_harness_spec *s = &harness->spec;
    const mf_lab_layer layer = {.batch = s->batch,
                                .seq = s->seq,
                                .dim = s->dim,
                                .experts = s->experts,
                                .top_k = s->top_k,
                                .labels = labels_of(s)};
    harness->in = mf_lab_inputs(&layer, harness->g, s->masked || s->lengths != 0);
    harness->x = harness->in.x;
    harness->weights = mf_graph_input(harness->g, "weights", MF_F32,
                                      mf_shape2((int64_t)s->batch * s->seq, s->dim));
    if (s->gradients || s->open) mf_graph_want_grad(harness->x);
}

/* Makes the cache of a decoding step and the inputs pos and len. Does nothing if spec.places
 * is 0. */
static int make_history(mf_harness *harness)
{
    const mf_harness_spec *s = &harness->spec;
    const mf_shape batch = mf_shape1(s->batch);
    mf_history *h = &harness->history;
    if (s->places == 0) return MF_OK;
    *h = (mf_history){.store = mf_store_new(),
                      .pos = mf_graph_input(harness->g, "pos", MF_I32, batch),
                      .len = mf_graph_input(harness->g, "len", MF_I32, batch),
                      .places = s->places};
    int rc = h->store ? MF_OK : MF_ENOMEM;
    for (int32_t l = 0; l < s->layers && rc == MF_OK; l++)
        rc = mf_history_declare(h->store, l, (int64_t)s->batch * s->places, s->dim);
    return rc == MF_OK ? mf_store_seal(h->store, 0, false) : rc;
}

/* The record of a layer that the next layer's router receives. With a history it covers all
 * tokens of the cache. */
static const mf_routing *routed(const mf_moe_out *out)
{
    return out->whole.size > 0 ? &out->whole : &out->routing;
}

static int build(mf_harness *harness)
{
    const mf_harness_spec *s = &harness->spec;
    const mf_graph_options options = {.training = s->training};
    harness->g = mf_graph_new(&options);
    if (!harness->g) return MF_ENOMEM;
    make_inputs(harness);
    int rc = make_history(harness);
    if (rc != MF_OK) return rc;
    harness->config = (mf_moe_config){.experts = s->experts,
                                      .top_k = s->top_k,
                                      .capacity_factor = s->capacity,
                                      .gate_scale = 1};
    const mf_moe_settings settings = {
        .config = &harness->config,
        .capacity_factor = &harness->config.capacity_factor,
        .labels = labels_of(s),
        .plugins = harness->host,
        .keep = true,
        .outputs = s->plugin->kind == MF_REGULARIZER &&
                   (s->plugin->table.regularizer.flags & MF_REGULARIZER_OUTPUTS) != 0,
        .history = s->places > 0 ? &harness->history : NULL};
    mf_tensor *x = harness->x;
    for (int32_t l = 0; l < s->layers; l++) {
        mf_router_in in = harness->in;
        in.x = x;
        in.previous = l > 0 ? routed(&harness->out[l - 1]) : NULL;
        if (s->plugin->kind == MF_ADAPTER) {
            x = mf_harness_block(harness, l, x, &settings);
            mf_graph_keep(harness->between[l] = x);
            continue;
        }
        mf_graph_push(harness->g, "layers.%d", (int)l);
        rc = mf_moe_build(&harness->layer[l], &settings, harness->g, &in, &harness->out[l]);
        mf_graph_pop(harness->g);
        if (rc != MF_OK) return rc;
        x = mf_add(harness->g, x, harness->out[l].y);
        mf_graph_keep(harness->between[l] = x);
    }
    harness->y = x;
    mf_graph_keep(harness->y);
    harness->loss = mf_harness_add_losses(
        harness, x, mf_sum(harness->g, mf_mul(harness->g, x, harness->weights), MF_ALL, false));
    mf_graph_keep(harness->loss);
    rc = mf_graph_status(harness->g);
    if (rc == MF_OK && s->gradients)
        rc = mf_graph_backward(harness->g, harness->loss, 1, &harness->x);
    return rc == MF_OK && !s->open ? mf_graph_finish(harness->g) : rc;
}

void mf_harness_fill(mf_harness *harness, uint64_t seed)
{
    const mf_harness_spec *s = &harness->spec;
    const int64_t T = (int64_t)s->batch * s->seq, n = T * s->dim;
    float *x = mf_tensor_input(harness->x), *w = mf_tensor_input(harness->weights);
    int32_t *ids = mf_tensor_input(harness->in.token_ids),
            *labels = mf_tensor_input(harness->in.labels);
    float *mask = harness->in.mask ? mf_tensor_input(harness->in.mask) : NULL;
    if (seed == 0) seed = (uint64_t)SEED + (uint64_t)s->shaken;
    mf_lab_fill_places(&harness->in);
    if (x) mf_rng_fill_normal(seed, 1, 0, x, (size_t)n);
    for (int64_t i = 0; x && s->scale != 0 && i < n; i++)
        x[i] *= s->scale;
    if (w) mf_rng_fill_normal(seed, 2, 0, w, (size_t)n);
    for (int64_t t = 0; t < T; t++) {
        const int32_t at = (int32_t)(t % s->seq);
        const uint64_t id = mf_rng_below(seed, 3, 0, (uint64_t)t, MF_HARNESS_VOCAB);
        if (ids) ids[t] = (int32_t)id;
        if (labels) labels[t] = (int32_t)(id % MF_HARNESS_LABELS);
        int32_t length = s->seq - s->seq / 3;
        if (s->lengths != 0)
            length = (int32_t)mf_rng_below(s->lengths, 5, 0, (uint64_t)(t / s->seq),
                                           (uint64_t)s->seq + 1);
        if (mask) mask[t] = at < length ? 1.0f : 0.0f;
    }
}

static void shake(mf_harness *harness)
{
    enum { RUN = 256 }; /* a call generates 4 numbers even if only one is needed */
    int64_t n;
    float *values = mf_store_values(harness->store, &n), moved[RUN];
    for (int64_t i = 0; i < n; i++) {
        if (i % RUN == 0)
            mf_rng_normals(SEED, 4, (uint64_t)harness->spec.shaken, (uint64_t)i, moved, RUN);
        values[i] += 0.1f * moved[i % RUN];
    }
}

/* ---- construction ---- */

int mf_harness_new(const mf_harness_spec *spec, mf_harness **ret)
{
    mf_harness *harness = mf_alloc(1, sizeof *harness);
    if (!harness) return MF_ENOMEM;
    harness->spec = *spec;
    harness->store = mf_store_new();
    harness->host = harness->store ? mf_plughost_new(harness->store) : NULL;
    if (harness->host) mf_plughost_set_dims(harness->host, layer_dims, harness);
    harness->ini = mf_ini_new();
    harness->arena = mf_arena_new();
    int rc =
        harness->host && harness->ini && harness->arena ? make_instances(harness) : MF_ENOMEM;
    if (rc == MF_OK && !spec->only_init) {
        harness->shares = mf_alloc((size_t)spec->experts * MF_MOE_SHARES * MF_HARNESS_LAYERS,
                                   sizeof *harness->shares);
        rc = harness->shares ? mf_store_seal(harness->store, SEED, true) : MF_ENOMEM;
        for (int32_t l = 0; l < spec->layers && rc == MF_OK; l++)
            if (harness->use[l].ctx) rc = mf_instance_start(harness->use[l].ctx);
        if (rc == MF_OK && spec->shaken != 0) shake(harness);
        if (rc == MF_OK) rc = build(harness);
        if (rc == MF_OK) mf_harness_fill(harness, 0);
    }
    if (rc != MF_OK) {
        mf_harness_free(harness);
        return rc;
    }
    *ret = harness;
    return MF_OK;
}

void mf_harness_free(mf_harness *harness)
{
    if (!harness) return;
    mf_graph_free(harness->g);
    mf_instance_free(harness->controller);
    mf_instance_free(harness->regularizer);
    for (int l = 0; l < MF_HARNESS_LAYERS; l++)
        mf_instance_free(harness->use[l].ctx);
    for (int l = 0; l < MF_HARNESS_LAYERS; l++) {
        mf_instance_free(harness->layer[l].router);
        mf_instance_free(harness->layer[l].expert);
        mf_moe_tally_free(harness->tally[l]);
    }
    mf_plughost_free(harness->host);
    mf_store_free(harness->history.store);
    mf_store_free(harness->store);
    mf_ini_free(harness->ini);
    mf_arena_free(harness->arena);
    mf_free(harness->shares);
    mf_free(harness);
}

/* ---- runs ---- */

int mf_harness_run(mf_harness *harness, const struct mf_kernels *kernels)
{
    const mf_run run = {
        .seed = SEED, .step = (uint64_t)harness->step, .kernels = kernels, .metrics = true};
    const mf_loaded *p = harness->spec.plugin;
    const mf_site site = {p->name, p->path, "an op while the graph runs", "the graph"};
    const mf_site *outer = mf_crash_site(&site);
    int rc = mf_graph_run(harness->g, &run);
    mf_crash_site(outer);
    return rc;
}

static double scalar(const mf_tensor *t)
{
    const float *v = t ? mf_tensor_host(t) : NULL;
    return v ? (double)*v : 0;
}

void mf_harness_count(mf_harness *harness)
{
    const mf_harness_spec *s = &harness->spec;
    const mf_tally_sums sums = mf_tallies_sums(harness->host);
    const float *mask = harness->in.mask ? mf_tensor_host(harness->in.mask) : NULL;
    if (harness->micro++ == 0) {
        harness->tokens = 0;
        mf_tallies_clear(harness->host);
        for (int32_t l = 0; l < s->layers; l++)
            mf_moe_tally_reset(harness->tally[l]);
    }
    for (int32_t l = 0; l < s->layers; l++)
        mf_moe_tally_add(harness->tally[l], &harness->out[l]);
    mf_tallies_read(harness->host, harness->g, 0, sums.whole, sums.real);
    for (int32_t t = 0; t < s->batch * s->seq; t++)
        harness->tokens += !mask || mask[t] > 0;
}

/* Fills stats [MF_HARNESS_LAYERS]. Returns the measurements that a trainer passes after
 * a step. */
static mf_step measurements(mf_harness *harness, mf_layer_stats *stats)
{
    const int64_t E = harness->spec.experts;
    for (int32_t l = 0; l < harness->spec.layers; l++)
        mf_moe_tally_stats(harness->tally[l], harness->shares + MF_MOE_SHARES * E * l,
                           &stats[l]);
    return (mf_step){.size = sizeof(mf_step),
                     .n_layers = harness->spec.layers,
                     .step = harness->step,
                     .max_steps = 1000,
                     .loss = scalar(harness->loss),
                     .task_loss = scalar(harness->loss),
                     .lr = harness->saved_options[0],
                     .grad_norm = 1,
                     .val_loss = (double)NAN,
                     .tokens = harness->step * harness->spec.batch * harness->spec.seq,
                     .layers = stats,
                     .skipped = !isfinite(scalar(harness->loss)),
                     .accumulate = (int32_t)harness->micro,
                     .step_tokens = harness->tokens};
}

/* Replaces the measurements by other possible numbers. */
static void make_odd(mf_harness *harness, mf_layer_stats *stats)
{
    const int64_t n = harness->spec.experts * MF_MOE_SHARES;
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        float *shares = harness->shares + n * l;
        for (int64_t i = 0; i < n / 2; i++) {
            const float t = shares[i];
            shares[i] = 0.5f * shares[n - 1 - i] + 0.03125f;
            shares[n - 1 - i] = 0.5f * t + 0.0625f;
        }
        mf_layer_stats *s = &stats[l];
        s->entropy = 0.5 + s->entropy / 2;
        s->load_entropy = 0.25 + s->load_entropy / 2;
        s->top_prob = 0.5 + s->top_prob / 4;
        s->load_cv = 1 + s->load_cv;
        s->drop_rate = 0.25;
        s->nmi = 0.5;
        s->empty = 1;
        s->rows_per_token += 0.5;
        s->gate_entropy = 0.75;
        s->max_prob = 0.9;
    }
}

int mf_harness_after(mf_harness *harness)
{
    mf_layer_stats stats[MF_HARNESS_LAYERS];
    mf_harness_heads heads;
    if (harness->micro == 0) mf_harness_count(harness);
    mf_step step = measurements(harness, stats);
    harness->micro = 0;
    if (step.skipped) mf_tallies_clear(harness->host);
    int rc = mf_tallies_judge(harness->host);
    if (rc != MF_OK) return rc;
    if (harness->odd_stats) make_odd(harness, stats);
    if (harness->controller) {
        mf_harness_heads_measure(harness, &heads);
        step.heads = heads.stats;
        step.n_head_layers = harness->spec.layers;
        if (harness->odd_stats) mf_harness_heads_turn(harness, &heads);
    }
    if (harness->controller) rc = mf_instance_on_step(harness->controller, &step);
    if (harness->regularizer) rc = mf_instance_after_step(harness->regularizer, &step);
    for (int32_t l = 0; l < harness->spec.layers && rc == MF_OK; l++) {
        rc = mf_instance_after_step(harness->layer[l].router, &step);
        if (rc == MF_OK) rc = mf_instance_after_step(harness->layer[l].expert, &step);
        if (rc == MF_OK && harness->use[l].ctx)
            rc = mf_instance_after_step(harness->use[l].ctx, &step);
    }
    mf_changes_clear(harness->host);
    (void)mf_plughost_rebuild(harness->host);
    return rc;
}

int mf_harness_step(mf_harness *harness)
{
    int rc = mf_harness_run(harness, NULL);
    if (rc != MF_OK) return rc;
    int64_t n;
    float *values = mf_store_values(harness->store, &n);
    const float *grads = mf_store_grads(harness->store);
    /* changes by less than 1e-3, so that the loss cannot diverge */
    for (int64_t i = 0; i < n; i++)
        values[i] -= 1e-3f * grads[i] / (1 + fabsf(grads[i]));
    harness->step++;
    mf_plughost_set_step(harness->host, harness->step);
    return mf_harness_after(harness);
}

void mf_harness_copy_state(mf_harness *to, const mf_harness *from)
{
    for (int i = 0; i < mf_store_count(to->store); i++) {
        mf_param *a = mf_store_at(to->store, i);
        const mf_param *b = mf_store_find(from->store, a->name);
        const float *value = b && b->count == a->count ? mf_param_host(b) : NULL;
        if (value) mf_param_write(a, value, 0, (size_t)a->count * sizeof *value);
    }
    double v;
    const char *name;
    for (int i = 0; (name = mf_live_name(from->host, i)) != NULL; i++)
        if (mf_live_get(from->host, name, &v) == MF_OK)
            (void)mf_live_set(to->host, name, v, "", "");
    mf_changes_clear(to->host);
    to->step = from->step;
    mf_plughost_set_step(to->host, to->step);
}

/* ---- results of a run ---- */

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
    const void *data = t ? mf_tensor_host(t) : NULL;
    if (data) digest(hash, data, (size_t)mf_shape_count(t->shape) * 4);
}

void mf_harness_digest(const mf_harness *harness, char out[33])
{
    memset(out, '0', 32);
    out[32] = '\0';
    digest_tensor(out, harness->y);
    digest_tensor(out, harness->loss);
    digest_tensor(out, harness->penalty);
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        digest_tensor(out, harness->out[l].routing.prob);
        digest_tensor(out, harness->out[l].routing.chosen);
        digest_tensor(out, harness->out[l].gate);
    }
    if (harness->spec.gradients) {
        int64_t n;
        mf_store_values(harness->store, &n);
        digest(out, mf_store_grads(harness->store), (size_t)n * sizeof(float));
        digest_tensor(out, harness->x->grad);
    }
    double v;
    const char *name;
    for (int i = 0; (name = mf_live_name(harness->host, i)) != NULL; i++)
        if (mf_live_get(harness->host, name, &v) == MF_OK) digest(out, &v, sizeof v);
}

static int64_t count_not_finite(const mf_tensor *t)
{
    const float *v = t ? mf_tensor_host(t) : NULL;
    int64_t n = 0;
    for (int64_t i = 0; v && i < mf_shape_count(t->shape); i++)
        n += !isfinite(v[i]);
    return n;
}

int64_t mf_harness_not_finite(const mf_harness *harness)
{
    int64_t n = count_not_finite(harness->y) + count_not_finite(harness->loss) +
                count_not_finite(harness->penalty);
    for (int32_t l = 0; l < harness->spec.layers; l++)
        n += count_not_finite(harness->out[l].routing.prob) +
             count_not_finite(harness->out[l].gate);
    if (!harness->spec.gradients) return n;
    int64_t count;
    mf_store_values(harness->store, &count);
    const float *grads = mf_store_grads(harness->store);
    for (int64_t i = 0; grads && i < count; i++)
        n += !isfinite(grads[i]);
    return n + count_not_finite(harness->x->grad);
}
