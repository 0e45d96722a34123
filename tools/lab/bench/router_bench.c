/* Measures routers on the same activations. All routers of a bench use the same seeds, so the
 * initial weights of shared parts and the inputs are equal bit for bit. */
#include "lab/bench/router_bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/text/ini.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/bench/router_bench_parts.h"
#include "lab/bench/router_list.h"
#include "plugin/load/open.h"

void mf_router_bench_defaults(mf_router_bench_spec *ret)
{
    *ret = (mf_router_bench_spec){.dim = 768,
                                  .experts = 8,
                                  .top_k = 2,
                                  .batch = 16,
                                  .seq = 128,
                                  .labels = 8,
                                  .seeds = 20,
                                  .how = {.repetitions = 21},
                                  .layer = true,
                                  .alpha = 0.01,
                                  .learn_lr = 0.001};
}

/* ---- building ---- */

/* Splits an entry into the plugin's name and its options. The options are added to the
 * section [router]. */
static int read_spec(mf_bench_layer *b, const char *text, const char **ret_name)
{
    mf_router_entry e;
    int rc = mf_router_entry_read(b->arena, text, &e);
    *ret_name = e.plugin;
    for (int i = 0; rc == MF_OK && i < e.n_options; i++) {
        rc = mf_ini_set(b->ini, e.assignments[i], i + 1);
        if (rc == MF_OK && strncmp(e.assignments[i], "router.", 7) != 0)
            rc = mf_fail(MF_EUSAGE,
                         "router '%s': expected options of the router alone, found '%s'", text,
                         e.assignments[i]);
    }
    return rc;
}

mf_lab_layer mf_bench_sizes(const mf_bench_layer *b, const char *router, int32_t batch,
                            int32_t seq)
{
    const mf_router_bench_spec *s = b->spec;
    return (mf_lab_layer){.batch = batch,
                          .seq = seq,
                          .dim = s->dim,
                          .experts = s->experts,
                          .top_k = s->top_k,
                          .labels = s->labels,
                          .router = router,
                          .expert = s->layer ? s->expert : NULL,
                          .hidden = s->hidden ? s->hidden : 4 * s->dim};
}

/* Loads the regularizers. Those with a required option cannot run with their defaults and
 * are skipped. */
static int load_regularizers(mf_bench_layer *b)
{
    static const char *const none[] = {NULL};
    const mf_lab_layer layer = mf_bench_sizes(b, NULL, b->spec->batch, b->spec->seq);
    const mf_dims dims = mf_lab_dims(&layer, -1);
    mf_found *found;
    int n;
    int rc = mf_find_all(b->arena, MF_REGULARIZER, &found, &n);
    for (int i = 0; rc == MF_OK && i < n && b->n_regularizers < MF_BENCH_LOSSES; i++) {
        const mf_loaded *plugin;
        if (!found[i].path || mf_plugin_load_found(&found[i], NULL, 0, &plugin) != MF_OK) {
            mf_error_clear();
            continue;
        }
        char *path = mf_arena_strf(b->arena, "regularizer.%s", plugin->name);
        if (!path) return MF_ENOMEM;
        if (mf_instance_new(b->host, plugin, path, b->ini, path, none, path, &dims,
                            &b->regularizers[b->n_regularizers]) == MF_OK)
            b->n_regularizers++;
        else
            mf_error_clear();
    }
    return rc;
}

static int make(mf_bench_layer *b, const char *router)
{
    const char *name;
    b->arena = mf_arena_new();
    b->ini = mf_ini_new();
    b->store = mf_store_new();
    b->host = b->store ? mf_plughost_new(b->store) : NULL;
    if (!b->arena || !b->ini || !b->host) return MF_ENOMEM;
    b->config = (mf_moe_config){.experts = b->spec->experts,
                                .top_k = b->spec->top_k,
                                .renormalize = 1,
                                .gate_scale = 1,
                                .force_causal = 1};
    int rc = read_spec(b, router, &name);
    if (rc == MF_OK) {
        const mf_lab_layer layer = mf_bench_sizes(b, name, b->spec->batch, b->spec->seq);
        if (b->spec->layer) rc = mf_bench_set_block(b);
        if (rc == MF_OK) rc = mf_lab_layer_new(&layer, b->host, b->ini, &b->layer);
    }
    if (rc == MF_OK) rc = load_regularizers(b);
    return rc == MF_OK ? mf_bench_seal(b) : rc;
}

static void unmake(mf_bench_layer *b)
{
    for (int i = 0; i < b->n_regularizers; i++)
        mf_instance_free(b->regularizers[i]);
    mf_lab_layer_free(&b->layer);
    mf_plughost_free(b->host);
    mf_store_free(b->store);
    mf_ini_free(b->ini);
    mf_arena_free(b->arena);
}

int mf_bench_regularize(const mf_bench_layer *b, int i, int32_t batch, int32_t seq,
                        const mf_bench_graph *bg, mf_tensor **ret)
{
    const mf_routing *record = &bg->out.routing;
    const mf_regularizer_in in = {.size = sizeof in,
                                  .n = 1,
                                  .routing = &record,
                                  .batch = batch,
                                  .seq = seq,
                                  .token_ids = bg->in.token_ids,
                                  .positions = bg->in.positions,
                                  .sequence_ids = bg->in.sequence_ids};
    return mf_instance_loss(b->regularizers[i], bg->g, &in, ret);
}

static int build(const mf_bench_layer *b, bool layer, bool measure, int32_t batch, int32_t seq,
                 mf_bench_graph *bg)
{
    const mf_graph_options options = {.training = false};
    const mf_lab_layer sizes = mf_bench_sizes(b, NULL, batch, seq);
    *bg = (mf_bench_graph){.g = mf_graph_new(&options)};
    mf_graph *g = bg->g;
    if (!g) return MF_ENOMEM;
    bg->in = mf_lab_inputs(&sizes, g, false);
    const mf_moe_settings settings = {.config = &b->config, .keep = true};
    int rc = layer ? mf_moe_build(&b->layer, &settings, g, &bg->in, &bg->out)
                   : mf_moe_choose(&b->layer, &settings, g, &bg->in, &bg->out);
    if (rc == MF_OK && layer) mf_graph_keep(bg->out.y);
    for (int i = 0; rc == MF_OK && measure && i < b->n_regularizers; i++) {
        rc = mf_bench_regularize(b, i, batch, seq, bg, &bg->losses[i]);
        if (rc == MF_OK) mf_graph_keep(bg->losses[i]);
    }
    if (rc == MF_OK) rc = mf_graph_status(g);
    return rc == MF_OK ? mf_graph_finish(g) : rc;
}

/* ---- filling ---- */

static void draw_weights(const mf_bench_layer *b, uint64_t seed)
{
    for (int i = 0; i < mf_store_count(b->store); i++) {
        mf_param *p = mf_store_at(b->store, i);
        float *value = mf_param_edit(p);
        if (value) mf_param_draw(p, seed, value);
    }
}

/* Draws the weights of a seed, copies the block, and lets the router learn. */
static int prepare(const mf_bench_layer *b, uint64_t seed)
{
    draw_weights(b, seed);
    const int rc = mf_bench_copy_block(b);
    return rc == MF_OK && b->spec->learn > 0 ? mf_bench_learn(b, seed) : rc;
}

static int64_t recorded_row(const mf_router_bench_spec *s, uint64_t seed, int64_t sequence,
                            int64_t position)
{
    const uint64_t start = mf_rng_below(seed, mf_rng_stream("bench.rows"), 0,
                                        (uint64_t)sequence, (uint64_t)s->rows);
    return (int64_t)((start + (uint64_t)position) % (uint64_t)s->rows);
}

void mf_bench_fill(const mf_bench_layer *b, const mf_bench_graph *bg, uint64_t seed)
{
    const mf_router_bench_spec *s = b->spec;
    const mf_router_in *in = &bg->in;
    const int64_t T = (int64_t)in->batch * in->seq;
    float *x = mf_tensor_input(in->x);
    int32_t *ids = mf_tensor_input(in->token_ids);
    int32_t *labels = in->labels ? mf_tensor_input(in->labels) : NULL;
    const uint64_t stream = mf_rng_stream("bench.tokens");
    if (x && !s->activations)
        mf_rng_fill_normal(seed, mf_rng_stream("bench.activations"), 0, x,
                           (size_t)(T * s->dim));
    mf_lab_fill_places(in);
    for (int64_t t = 0; t < T; t++) {
        if (ids) ids[t] = (int32_t)mf_rng_below(seed, stream, 0, (uint64_t)t, MF_LAB_VOCAB);
        if (labels) labels[t] = ids ? ids[t] % s->labels : (int32_t)(t % s->labels);
        if (!s->activations) continue;
        const int64_t row = recorded_row(s, seed, t / in->seq, t % in->seq);
        if (x)
            memcpy(x + t * s->dim, s->activations + row * s->dim, (size_t)s->dim * sizeof *x);
        if (ids && s->ids) ids[t] = s->ids[row];
        if (labels && s->row_labels) labels[t] = s->row_labels[row];
    }
}

/* ---- measuring ---- */

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void measure_prob(const mf_bench_layer *b, const float *p, int64_t T, mf_router_bench *r)
{
    const int32_t E = b->spec->experts, k = b->spec->top_k;
    double entropy = 0, top = 0, sum = 0, square = 0;
    float row[MF_BENCH_EXPERTS];
    for (int64_t t = 0; t < T; t++) {
        memcpy(row, p + t * E, (size_t)E * sizeof *row);
        for (int32_t e = 0; e < E; e++) {
            const double v = (double)row[e];
            if (v > 0) entropy -= v * log(v);
            sum += v;
            square += v * v;
        }
        qsort(row, (size_t)E, sizeof *row, descending);
        for (int32_t e = 0; e < k; e++)
            top += (double)row[e] / k;
    }
    const double n = (double)T * E;
    r->entropy_token = entropy / (double)T;
    r->top_prob = top / (double)T;
    r->score_var = square / n - sum / n * (sum / n);
}

/* Returns the mean entropy of a token's gates. */
static double gate_entropy(const float *gate, int64_t T, int64_t k)
{
    double all = 0;
    for (int64_t t = 0; t < T; t++) {
        double sum = 0, h = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (double)gate[t * k + j];
        for (int64_t j = 0; j < k; j++) {
            const double q = (double)gate[t * k + j] / sum;
            if (q > 0) h -= q * log(q);
        }
        all += h / (double)T;
    }
    return all;
}

static double deviation(const float *v, int64_t n)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)v[i];
        square += (double)v[i] * (double)v[i];
    }
    const double mean = sum / (double)n;
    return sqrt(square / (double)n - mean * mean);
}

/* Writes the measurements of the last run to *r. */
static void measure(const mf_bench_layer *b, const mf_bench_graph *bg, mf_router_bench *r)
{
    const mf_routing *rec = &bg->out.routing;
    const int64_t T = (int64_t)bg->in.batch * bg->in.seq;
    const int32_t E = b->spec->experts;
    const float *prob = rec->prob ? mf_tensor_host(rec->prob) : NULL;
    const int32_t *chosen = mf_tensor_host(rec->chosen);
    double rows = 0;
    r->entropy_token = r->top_prob = r->score_var = (double)NAN;
    if (prob) measure_prob(b, prob, T, r);
    const float *gate = bg->out.gate ? mf_tensor_host(bg->out.gate) : NULL;
    const bool each = gate && !rec->token && rec->rows % T == 0;
    r->entropy_gate = each ? gate_entropy(gate, T, rec->rows / T) : (double)NAN;
    memset(r->load, 0, sizeof r->load);
    for (int64_t i = 0; chosen && i < rec->rows; i++)
        if (chosen[i] >= 0) {
            r->load[chosen[i]] += 1;
            rows += 1;
        }
    r->entropy_load = 0;
    for (int32_t e = 0; e < E && rows > 0; e++) {
        r->load[e] = (float)(r->load[e] / rows);
        if (r->load[e] > 0) r->entropy_load -= (double)r->load[e] * log((double)r->load[e]);
    }
    const float *y = b->spec->layer ? mf_tensor_host(bg->out.y) : NULL;
    r->output_std = y ? deviation(y, T * b->spec->dim) : (double)NAN;
    for (int i = 0; i < b->n_regularizers; i++) {
        const float *v = mf_tensor_host(bg->losses[i]);
        r->losses[i].value = v ? b->spec->alpha * (double)*v : (double)NAN;
    }
}

/* Keeps values of the last run for figures of single tokens and of the output. */
static void keep(const mf_bench_layer *b, const mf_bench_graph *bg, mf_router_bench *r)
{
    const mf_routing *rec = &bg->out.routing;
    const int64_t T = (int64_t)bg->in.batch * bg->in.seq, E = b->spec->experts,
                  n = T * b->spec->dim;
    const float *prob = rec->prob ? mf_tensor_host(rec->prob) : NULL,
                *y = b->spec->layer ? mf_tensor_host(bg->out.y) : NULL;
    if (prob && E <= MF_BENCH_TOKEN_EXPERTS) {
        r->n_tokens = T < MF_BENCH_TOKENS ? (int32_t)T : MF_BENCH_TOKENS;
        memcpy(r->prob, prob, (size_t)(r->n_tokens * E) * sizeof *prob);
    }
    if (!y) return;
    const uint64_t stream = mf_rng_stream("bench.outputs");
    r->n_outputs = n < MF_BENCH_OUTPUTS ? (int32_t)n : MF_BENCH_OUTPUTS;
    for (int32_t i = 0; i < r->n_outputs; i++)
        r->outputs[i] = (double)y[mf_rng_below(1, stream, 0, (uint64_t)i, (uint64_t)n)];
}

static int over_seeds(const mf_bench_layer *b, mf_router_bench *ret)
{
    mf_bench_graph bg;
    const int32_t n = b->spec->seeds;
    double entropy = 0, entropy2 = 0, gate = 0, gate2 = 0, top = 0, top2 = 0;
    mf_router_bench *one = mf_alloc(1, sizeof *one);
    int rc =
        one ? build(b, b->spec->layer, true, b->spec->batch, b->spec->seq, &bg) : MF_ENOMEM;
    for (int32_t s = 0; rc == MF_OK && s < n; s++) {
        const mf_run run = {.seed = (uint64_t)s + 1, .forward_only = true};
        rc = prepare(b, (uint64_t)s + 1);
        if (rc != MF_OK) break;
        mf_bench_fill(b, &bg, (uint64_t)s + 1);
        rc = mf_graph_run(bg.g, &run);
        if (rc != MF_OK) break;
        measure(b, &bg, one);
        if (s == 0) keep(b, &bg, ret);
        ret->entropy_token += one->entropy_token / n;
        ret->entropy_load += one->entropy_load / n;
        ret->entropy_gate += one->entropy_gate / n;
        ret->top_prob += one->top_prob / n;
        ret->score_var += one->score_var / n;
        ret->output_std += one->output_std / n;
        entropy += one->entropy_token / n;
        entropy2 += one->entropy_token * one->entropy_token / n;
        gate += one->entropy_gate / n;
        gate2 += one->entropy_gate * one->entropy_gate / n;
        top += one->top_prob / n;
        top2 += one->top_prob * one->top_prob / n;
        for (int32_t e = 0; e < b->spec->experts; e++)
            ret->load[e] += one->load[e] / (float)n;
        for (int i = 0; i < b->n_regularizers; i++)
            ret->losses[i].value += one->losses[i].value / n;
        if (b->spec->tick) b->spec->tick(b->spec->tick_arg);
    }
    ret->entropy_sd = sqrt(fmax(0, entropy2 - entropy * entropy));
    ret->gate_sd = sqrt(fmax(0, gate2 - gate * gate));
    ret->top_prob_sd = sqrt(fmax(0, top2 - top * top));
    if (one) mf_graph_free(bg.g);
    mf_free(one);
    return rc;
}

enum { WARM_UP = 3 };

int64_t mf_router_bench_parts(const mf_router_bench_spec *spec)
{
    if (spec->how.turns_in || spec->how.repetitions == 0) return spec->seeds;
    return spec->seeds + (spec->layer ? 4 : 2) * (WARM_UP + (int64_t)spec->how.repetitions);
}

typedef struct {
    mf_graph *g;
    int64_t calls;
    const mf_router_bench_spec *spec;
} pass_job;

static int pass(void *arg, double *ret_ms)
{
    const pass_job *j = arg;
    const mf_run run = {.seed = 1, .forward_only = true};
    int rc = MF_OK;
    const double began = mf_clock();
    for (int64_t i = 0; rc == MF_OK && i < j->calls; i++)
        rc = mf_graph_run(j->g, &run);
    *ret_ms = 1e3 * (mf_clock() - began) / (double)j->calls;
    if (j->spec->tick) j->spec->tick(j->spec->tick_arg);
    return rc;
}

/* Measures the time per token. A repetition lasts at least about a millisecond, so that the
 * resolution of the clock suffices. */
static int time_graph(const mf_bench_layer *b, bool layer, int32_t batch, int32_t seq,
                      double *ret_ns)
{
    mf_bench_graph bg;
    mf_timing time;
    int rc = build(b, layer, false, batch, seq, &bg);
    pass_job j = {bg.g, 1, b->spec};
    if (rc == MF_OK) {
        draw_weights(b, 1);
        mf_bench_fill(b, &bg, 1);
        double ms = 0;
        for (int i = 0; rc == MF_OK && i < WARM_UP; i++) /* warms caches and pages */
            rc = pass(&j, &ms);
        if (ms > 0 && ms < 1) j.calls = (int64_t)ceil(1 / ms);
    }
    if (rc == MF_OK) rc = mf_timing_run(&b->spec->how, 0, pass, &j, &time);
    if (rc == MF_OK) *ret_ns = 1e6 * time.ms / ((double)batch * seq);
    mf_graph_free(bg.g);
    return rc;
}

int mf_router_bench_run(const mf_router_bench_spec *spec, const char *router,
                        mf_router_bench *ret)
{
    mf_bench_layer b = {.spec = spec};
    *ret = (mf_router_bench){.router = router,
                             .ns_router = (double)NAN,
                             .ns_router_1 = (double)NAN,
                             .ns_layer = (double)NAN,
                             .ns_layer_1 = (double)NAN};
    int rc = spec->experts <= MF_BENCH_EXPERTS && spec->top_k <= spec->experts
                 ? make(&b, router)
                 : mf_fail(MF_EUSAGE, "expected at most %d experts and top-k at most that many",
                           MF_BENCH_EXPERTS);
    for (int i = 0; rc == MF_OK && i < mf_store_count(b.store); i++) {
        const mf_param *p = mf_store_at(b.store, i);
        if (!p->buffer && strncmp(p->name, "layers.0.router.", 16) == 0)
            ret->params += p->count;
    }
    ret->n_losses = b.n_regularizers;
    for (int i = 0; rc == MF_OK && i < b.n_regularizers; i++)
        snprintf(ret->losses[i].name, sizeof ret->losses[i].name, "%s",
                 mf_instance_plugin(b.regularizers[i])->name);
    if (rc == MF_OK) rc = over_seeds(&b, ret);
    const bool turns = spec->how.turns_in != NULL;
    if (rc == MF_OK && (turns || spec->how.repetitions > 0))
        rc = time_graph(&b, false, spec->batch, spec->seq, &ret->ns_router);
    if (rc == MF_OK && !turns && spec->how.repetitions > 0) {
        rc = time_graph(&b, false, 1, 1, &ret->ns_router_1);
        if (rc == MF_OK && spec->layer)
            rc = time_graph(&b, true, spec->batch, spec->seq, &ret->ns_layer);
        if (rc == MF_OK && spec->layer) rc = time_graph(&b, true, 1, 1, &ret->ns_layer_1);
    }
    unmake(&b);
    return rc == MF_OK ? rc : mf_fail_context(rc, "router %s", router);
}
