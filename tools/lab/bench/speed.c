/* Measures the speed of training, layers, generation and inference. Before timing starts, every
 * measurement runs its graph, so that all graphs are built and their pages are mapped. */
#include "lab/bench/speed.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/resident.h"
#include "base/rng.h"
#include "generate/generator.h"
#include "graph/device/device.h"
#include "graph/device/recorder.h"
#include "graph/shape.h"
#include "kernels/kernel.h"
#include "lab/bench/layer.h"
#include "run/backend.h"
#include "run/modules.h"
#include "train/length_buckets.h"
#include "train/optim/optim.h"

#define WARM_UP   3
#define PEAK_SIDE 1024

/* Times fn, which runs g, and writes the times to *ret. */
static int repeat(const mf_timing_how *how, mf_graph *g, mf_timed_fn *fn, void *arg,
                  mf_speed *ret)
{
    double ms;
    int rc = MF_OK;
    if (!how->profile) return mf_timing_run(how, WARM_UP, fn, arg, &ret->time);
    for (int i = 0; i < WARM_UP && rc == MF_OK; i++)
        /* This run comes before the profile begins, so the profile contains only
         * timed calls. */
        rc = fn(arg, &ms);
    if (rc != MF_OK) return rc;
    mf_graph_profile(g, true);
    rc = mf_timing_run(how, 0, fn, arg, &ret->time);
    if (rc == MF_OK) mf_graph_profile_print(g, how->profile);
    mf_graph_profile(g, false);
    return rc;
}

/* The best rate of a gemm in GFLOP/s, with f32 or bf16 operands. For bf16 it is the higher of
 * both rates, since a processor without bf16 instructions is slower with bf16. */
static double measure_peak(bool bf16)
{
    const int64_t n = PEAK_SIDE;
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = {.parallel = mf_parallel};
    float *a = mf_alloc((size_t)(3 * n * n), sizeof *a);
    double best = bf16 ? measure_peak(false) : 0;
    if (!a) return (double)NAN;
    const mf_cast_type type = bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    const mf_gemm g = {.m = n,
                       .n = n,
                       .k = n,
                       .a = {.data = a, .type = type, .ld = n},
                       .b = {.data = a + n * n, .type = type, .ld = n},
                       .c = {.data = a + 2 * n * n, .ld = n},
                       .alpha = 1};
    /* The memory is also read as bf16. Its values are then other finite numbers, and half of
     * them are 0. */
    for (int64_t i = 0; i < 2 * n * n; i++)
        a[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 6; i++) {
        const double began = mf_clock();
        k->gemm(&x, &g);
        const double rate = 2e-9 * (double)(n * n * n) / (mf_clock() - began);
        if (i > 0 && rate > best) best = rate; /* the first run also wakes the threads */
    }
    mf_free(a);
    return best;
}

static double since_start_of_process(void)
{
    struct timespec cpu;
    double up = 0, began = 0;
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (f) {
        const size_t n = fread(text, 1, sizeof text - 1, f);
        text[n] = 0;
        fclose(f);
        const char *p = strrchr(text, ')'); /* field 22: start time in clock ticks since boot */
        long long ticks = 0;
        for (int field = 2; p && field < 22; field++)
            p = strchr(p + 1, ' ');
        if (p && sscanf(p, " %lld", &ticks) == 1) began = (double)ticks / 100.0;
    }
    clock_gettime(CLOCK_BOOTTIME, &cpu);
    up = (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec;
    return up - began;
}

static void describe_device(mf_speed *r, mf_device *d)
{
    size_t used, total;
    const double peak = mf_device_peak(d, strcmp(r->dtype, "bf16") == 0);
    snprintf(r->backend, sizeof r->backend, "%s", mf_device_name(d));
    r->peak_gflops = peak > 0 ? 1e-9 * peak : (double)NAN;
    if (mf_device_used(d, &used, &total)) r->device_mib = (double)used / 1048576;
    r->host_ops = d->fallbacks;
}

static void describe(mf_speed *r, const char *what, mf_device *device)
{
    struct rusage usage;
    r->what = what;
    const char *set = mf_backend_kernels()->name;
    if (device)
        describe_device(r, device);
    else if (strcmp(set, "cpu") == 0)
        snprintf(r->backend, sizeof r->backend, "cpu %s", mf_kernels_isa());
    else
        snprintf(r->backend, sizeof r->backend, "%s", set);
    r->threads = mf_parallel_threads();
    getrusage(RUSAGE_SELF, &usage);
    const mf_resident resident = mf_resident_read();
    r->rss_mib = (double)resident.now / 1048576;
    r->peak_rss_mib = fmax((double)usage.ru_maxrss / 1024, (double)resident.peak / 1048576);
    /* the two values are read at different times */
    r->peak_rss_mib = fmax(r->peak_rss_mib, r->rss_mib);
    if (!device) r->peak_gflops = measure_peak(strcmp(r->dtype, "bf16") == 0);
}

static void describe_model(mf_speed *r, const mf_session *s)
{
    const mf_config *c = s->config;
    r->dim = (int32_t)c->model.dim;
    r->layers = (int32_t)c->model.layers;
    r->experts = mf_model_most_experts(s->model->config);
    r->top_k = (int32_t)mf_model_moe(s->model->config, -1).top_k;
    r->vocab = s->model->dims.vocab;
    r->dtype = mf_dtype_text(c->train.dtype);
    mf_model_count(s->model, &r->params, &r->params_active);
}

/* ---- training ---- */

typedef struct {
    mf_session *s;
    mf_model_graph *graph;
    mf_batch *batch;
    mf_optim *optim;
    mf_recorder *recorder; /* only for a device */
    int64_t step;
} train_job;

/* Runs the rest of a training step on a device. Its launches are recorded as in training: the
 * launches of the optimizer follow those of the graph, and the optimizer's numbers are copied
 * with the inputs. */
static int finish_on_device(train_job *j, const mf_optim_step *o)
{
    mf_graph *g = j->graph->g;
    int rc = MF_OK;
    if (mf_recorder_replays(j->recorder))
        mf_store_changed(j->s->model->store);
    else {
        rc = mf_optim_measure(j->optim);
        if (rc == MF_OK) rc = mf_optim_update(j->optim, o);
    }
    if (rc == MF_OK) rc = mf_recorder_end(j->recorder);
    if (rc == MF_OK) rc = mf_graph_fetch(g, 0);
    return rc == MF_OK ? mf_graph_collect(g, 0) : rc;
}

static int train_step(void *arg, double *ret_ms)
{
    (void)ret_ms; /* not set: the whole call is timed */
    train_job *j = arg;
    const mf_train_config *c = &j->s->config->train;
    static const mf_capture capture;
    const bool queued = j->s->device != NULL;
    const mf_run run = {.seed = 1,
                        .step = (uint64_t)j->step,
                        .queued = queued,
                        .recorder = j->recorder,
                        .capture = &capture};
    mf_batcher_fill(j->s->train, j->step, j->batch);
    mf_batch_feed(j->batch, j->graph);
    mf_optim_step o = {.step = j->step++,
                       .lr = c->lr,
                       .weight_decay = c->weight_decay,
                       .clip = c->clip,
                       .grad_scale = 1};
    if (queued) {
        mf_optim_now(j->optim, &o, mf_graph_sent(j->graph->g));
        mf_optim_exchange(j->optim, mf_graph_sent_at(j->graph->g),
                          mf_graph_returned_at(j->graph->g));
    }
    int rc = mf_graph_run(j->graph->g, &run);
    if (queued) return rc == MF_OK ? finish_on_device(j, &o) : rc;
    if (rc == MF_OK) rc = mf_optim_measure(j->optim);
    return rc == MF_OK ? mf_optim_update(j->optim, &o) : rc;
}

int mf_speed_train(mf_session *s, const mf_timing_how *how, mf_speed *ret)
{
    const mf_config *c = s->config;
    const mf_model_shape shape = {
        .mode = MF_MODE_TRAIN,
        .batch = (int32_t)c->train.batch,
        .seq = (int32_t)c->model.seq,
        .masked = s->corpus->spans != NULL,
        .packed = mf_session_packed(s),
        .payload = {.in = sizeof(mf_update_now), .out = sizeof(double)}};
    train_job j = {.s = s};
    mf_graph_info info;
    *ret = (mf_speed){.batch = shape.batch, .seq = shape.seq};
    int rc = mf_batch_new(shape.batch, shape.seq, &j.batch);
    if (rc == MF_OK) rc = mf_model_graph_new(s->model, &shape, &j.graph);
    if (rc == MF_OK) rc = mf_optim_new(s->model->store, &c->train, &j.optim);
    if (rc == MF_OK && s->config->device.record) rc = mf_recorder_new(s->device, &j.recorder);
    if (rc == MF_OK) rc = train_step(&j, NULL);
    ret->first_step_s = since_start_of_process();
    if (rc == MF_OK) rc = repeat(how, j.graph->g, train_step, &j, ret);
    if (rc == MF_OK) {
        mf_graph_get_info(j.graph->g, &info);
        ret->flops = info.flops;
        ret->arena_mib = (double)info.arena_bytes / 1048576;
        ret->tokens_per_s = 1e3 * shape.batch * shape.seq / ret->time.ms;
        describe_model(ret, s);
        describe(ret, "train", s->device);
    }
    mf_recorder_cancel(j.recorder); /* ends a capture that is still open after an error */
    mf_recorder_free(j.recorder);
    mf_optim_free(j.optim);
    mf_model_graph_free(j.graph);
    mf_batch_free(j.batch);
    return rc;
}

/* ---- generation ---- */

typedef struct {
    mf_generator *g;
    int32_t vocab, prompt, tokens;
    int32_t ids[4096];
} text_job;

static int read_prompt(void *arg, double *ret_ms)
{
    text_job *j = arg;
    const float *logits;
    (void)ret_ms; /* not set: the whole call is timed */
    mf_generator_reset(j->g);
    return mf_generator_feed(j->g, j->ids, j->prompt, &logits);
}

/* Generates like moefw generate: reads the prompt, then one token at a time. *ret_ms: time per
 * token, without the prompt. */
static int write_text(void *arg, double *ret_ms)
{
    text_job *j = arg;
    const float *logits;
    int rc = read_prompt(j, NULL);
    const double began = mf_clock();
    for (int32_t i = 0; rc == MF_OK && i < j->tokens; i++)
        rc = mf_generator_feed(j->g, &j->ids[i % j->prompt], 1, &logits);
    *ret_ms = 1e3 * (mf_clock() - began) / j->tokens;
    return rc;
}

static mf_graph *graph_of(const text_job *j)
{
    return mf_generator_graph(j->g)->g;
}

static double flops_of(const mf_graph *g)
{
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    return info.flops;
}

static int text_begin(mf_session *s, int prompt, text_job *j)
{
    const int64_t room = s->config->model.seq;
    if (prompt < 1 || prompt > 4096 || prompt > room)
        return mf_fail(MF_EUSAGE, "a prompt of %d tokens; expected 1 to %lld", prompt,
                       (long long)(room < 4096 ? room : 4096));
    *j = (text_job){.vocab = s->model->dims.vocab, .prompt = prompt};
    for (int i = 0; i < prompt; i++)
        j->ids[i] = (int32_t)mf_rng_below(1, mf_rng_stream("bench.prompt"), 0, (uint64_t)i,
                                          (uint64_t)j->vocab);
    int rc = mf_generator_new(s->model, true, &j->g);
    return rc == MF_OK ? mf_generator_pack_weights(j->g) : rc;
}

int mf_speed_generate(mf_session *s, int prompt, int tokens, const mf_timing_how *how,
                      mf_speed *ret)
{
    text_job *j = mf_alloc(1, sizeof *j);
    double ms;
    int rc = j ? text_begin(s, prompt, j) : MF_ENOMEM;
    *ret = (mf_speed){.batch = 1, .seq = prompt + tokens};
    if (rc == MF_OK) {
        j->tokens = tokens;
        rc = write_text(j, &ms); /* this run builds the graphs */
    }
    if (rc == MF_OK) rc = repeat(how, graph_of(j), write_text, j, ret);
    if (rc == MF_OK) {
        ret->tokens_per_s = 1e3 / ret->time.ms;
        describe_model(ret, s);
        ret->flops = flops_of(graph_of(j));
        describe(ret, "generate", s->device);
    }
    if (j) mf_generator_free(j->g);
    mf_free(j);
    return rc;
}

int mf_speed_prompt(mf_session *s, int prompt, const mf_timing_how *how, mf_speed *ret)
{
    text_job *j = mf_alloc(1, sizeof *j);
    int rc = j ? text_begin(s, prompt, j) : MF_ENOMEM;
    *ret = (mf_speed){.batch = 1, .seq = prompt};
    if (rc == MF_OK) rc = read_prompt(j, NULL); /* this run builds the graph */
    if (rc == MF_OK) rc = repeat(how, graph_of(j), read_prompt, j, ret);
    if (rc == MF_OK) {
        ret->tokens_per_s = 1e3 * prompt / ret->time.ms;
        describe_model(ret, s);
        ret->flops = flops_of(graph_of(j));
        describe(ret, "prompt", s->device);
    }
    if (j) mf_generator_free(j->g);
    mf_free(j);
    return rc;
}

/* ---- a batch of examples ---- */

typedef struct {
    mf_session *s;
    mf_batcher *batcher; /* NULL if there are no data; then the members batch and graph
                          * are used */
    mf_length_buckets *buckets;
    const mf_batch *batch;
    mf_batch *own; /* a batch of random tokens if there are no data; else NULL */
    mf_model_graph *graph;
    int64_t n, at;        /* number of batches, and index of the next batch */
    int64_t runs, tokens; /* number of batches that ran, and of their real tokens */
    double flops;         /* mean over the batches */
} infer_job;

static int infer_batch(void *arg, double *ret_ms)
{
    infer_job *j = arg;
    const mf_run run = {.seed = 1, .forward_only = true};
    (void)ret_ms; /* not set: the whole call is timed */
    int rc = MF_OK;
    if (j->buckets)
        rc = mf_length_buckets_take(j->buckets, mf_batcher_source(j->batcher), j->at++ % j->n,
                                    &j->batch, &j->graph);
    else
        mf_batch_feed(j->batch, j->graph);
    if (rc != MF_OK) return rc;
    j->runs++;
    j->tokens += j->batch->n_tokens;
    return mf_graph_run(j->graph->g, &run);
}

static void draw_tokens(mf_batch *b, int32_t vocab)
{
    const uint64_t stream = mf_rng_stream("bench.infer");
    const int64_t n = (int64_t)b->rows * b->seq;
    for (int64_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)mf_rng_below(1, stream, 0, (uint64_t)i, (uint64_t)vocab);
        b->targets[i] = b->tokens[i];
        b->mask[i] = 1;
        b->positions[i] = (int32_t)(i % b->seq);
        b->sequence[i] = (int32_t)(i / b->seq);
    }
    b->n_tokens = n;
}

static int infer_begin(infer_job *j, const mf_model_shape *shape, const mf_timing_how *how)
{
    mf_session *s = j->s;
    mf_batch_spec spec;
    mf_split split = MF_SPLIT_VAL;
    mf_graph_info info;
    if (!s->corpus) {
        int rc = mf_batch_new(shape->batch, shape->seq, &j->own);
        if (rc == MF_OK) rc = mf_model_graph_new(s->model, shape, &j->graph);
        if (rc != MF_OK) return rc;
        draw_tokens(j->own, s->model->dims.vocab);
        j->batch = j->own;
        mf_graph_get_info(j->graph->g, &info);
        j->flops = info.flops;
        return MF_OK;
    }
    if (s->corpus->split[split].tokens == 0) split = MF_SPLIT_TRAIN;
    mf_session_batch_spec(s, split, &spec);
    spec.order = MF_ORDER_SEQUENTIAL;
    spec.rows = shape->batch;
    spec.seq = shape->seq;
    int rc = mf_batcher_new(s->corpus, &spec, &j->batcher);
    if (rc == MF_OK)
        rc = mf_length_buckets_new(s->model, shape, !mf_session_by_length(s), &j->buckets);
    if (rc != MF_OK) return rc;
    j->n = mf_batcher_count(j->batcher);
    /* At most as many batches are used as are timed. The last batch may be short, so it is used
     * only if there is no other. */
    if (!how->turns_in && j->n > how->repetitions) j->n = how->repetitions;
    if (j->n > 1 && j->n == mf_batcher_count(j->batcher)) j->n--;
    for (int64_t i = 0; i < j->n; i++) {
        rc = infer_batch(j, NULL); /* this run builds the graphs and maps their memory */
        if (rc != MF_OK) return rc;
        mf_graph_get_info(j->graph->g, &info);
        j->flops += info.flops / (double)j->n;
    }
    mf_resident_trim(); /* frees memory that was needed only to read the run */
    j->at = j->runs = j->tokens = 0;
    return rc;
}

int mf_speed_infer(mf_session *s, int32_t batch, int32_t seq, const mf_timing_how *how,
                   mf_speed *ret)
{
    const mf_config *c = s->config;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = batch,
                                  .seq = seq,
                                  .masked = true,
                                  .want_logits = mf_task_by_row(c->model.task)};
    infer_job j = {.s = s};
    mf_graph_info info;
    *ret = (mf_speed){.batch = batch, .seq = seq, .real_data = s->corpus != NULL};
    if (seq > c->model.seq)
        return mf_fail(MF_EUSAGE, "--seq=%d: the model takes at most %lld tokens", (int)seq,
                       (long long)c->model.seq);
    int rc = infer_begin(&j, &shape, how);
    if (rc == MF_OK)
        rc = repeat(how, (j.buckets ? mf_length_buckets_graph(j.buckets) : j.graph)->g,
                    infer_batch, &j, ret);
    if (rc == MF_OK) {
        mf_graph_get_info((j.buckets ? mf_length_buckets_graph(j.buckets) : j.graph)->g, &info);
        ret->flops = j.flops;
        ret->arena_mib = (double)info.arena_bytes / 1048576;
        ret->params_mib = (double)mf_store_bytes(s->model->store) / 1048576;
        ret->tokens_per_s = 1e3 * (double)j.tokens / (double)j.runs / ret->time.ms;
        describe_model(ret, s);
        describe(ret, "infer", s->device);
    }
    if (!j.buckets) mf_model_graph_free(j.graph);
    mf_batch_free(j.own);
    mf_length_buckets_free(j.buckets);
    mf_batcher_free(j.batcher);
    return rc;
}

/* ---- one layer ---- */

typedef struct {
    mf_graph *g;
    int64_t step;
} layer_job;

static int layer_pass(void *arg, double *ret_ms)
{
    (void)ret_ms; /* not set: the whole call is timed */
    layer_job *j = arg;
    const mf_run run = {.seed = 1, .step = (uint64_t)j->step++};
    return mf_graph_run(j->g, &run);
}

/* Builds y = layer(x) and fills the inputs. With spec->backward also adds loss = <y, w> and its
 * gradients with respect to x and all parameters. */
static int layer_graph(const mf_speed_layer_spec *spec, const mf_lab_layer *sizes,
                       const mf_moe_layer *layer, const mf_moe_config *config, mf_graph *g)
{
    const int64_t T = spec->tokens;
    const mf_moe_settings settings = {.config = config};
    mf_moe_out out;
    const mf_router_in in = mf_lab_inputs(sizes, g, false);
    mf_tensor *x = in.x, *w = mf_graph_input(g, "w", MF_F32, mf_shape2(T, spec->dim));
    mf_graph_keep(x);
    mf_graph_keep(w);
    /* In a model, x is already on the device, because the layer before has computed
     * it there. */
    mf_graph_still(x);
    mf_graph_still(w);
    if (spec->backward) mf_graph_want_grad(x);
    int rc = mf_moe_build(layer, &settings, g, &in, &out);
    if (rc != MF_OK) return rc;
    mf_graph_keep(out.y);
    if (spec->backward) {
        mf_tensor *loss = mf_sum(g, mf_mul(g, out.y, w), MF_ALL, false);
        mf_graph_keep(loss);
        mf_graph_backward(g, loss, 1, &x);
    }
    rc = mf_graph_finish(g);
    if (rc != MF_OK) return rc;
    float *data[2] = {mf_tensor_input(x), mf_tensor_input(w)};
    for (int i = 0; i < 2; i++)
        if (data[i])
            mf_rng_fill_normal(1, (uint64_t)i + 1, 0, data[i], (size_t)(T * spec->dim));
    mf_lab_fill_places(&in);
    int32_t *id = mf_tensor_input(in.token_ids), *label = mf_tensor_input(in.labels);
    for (int64_t t = 0; t < T; t++) {
        if (id) id[t] = (int32_t)(t * 7919 % MF_LAB_VOCAB);
        if (label) label[t] = (int32_t)(t % 8);
    }
    return MF_OK;
}

int mf_speed_layer(const mf_speed_layer_spec *spec, const mf_timing_how *how, mf_speed *ret)
{
    mf_graph_options options = {.training = spec->backward, .bf16 = spec->bf16};
    const mf_moe_config config = {.experts = spec->experts,
                                  .top_k = spec->top_k,
                                  .renormalize = 1,
                                  .gate_scale = 1,
                                  .force_causal = 1};
    const mf_lab_layer sizes = {.batch = 1,
                                .seq = spec->tokens,
                                .dim = spec->dim,
                                .experts = spec->experts,
                                .top_k = spec->top_k,
                                .labels = 8,
                                .router = spec->router,
                                .expert = spec->expert,
                                .hidden = spec->hidden};
    mf_moe_layer layer = {0};
    layer_job j = {0};
    mf_ini *ini = mf_ini_new();
    mf_store *store = mf_store_new();
    mf_plughost *host = store ? mf_plughost_new(store) : NULL;
    *ret = (mf_speed){.batch = 1,
                      .seq = spec->tokens,
                      .dim = spec->dim,
                      .layers = 1,
                      .experts = spec->experts,
                      .top_k = spec->top_k,
                      .hidden = spec->hidden,
                      .dtype = mf_dtype_text(spec->bf16 ? MF_BF16 : MF_F32)};
    mf_device *device = NULL;
    int rc = mf_backend_open(spec->device ? spec->device : "cpu", &device);
    if (rc != MF_OK) rc = mf_fail_context(rc, "train.device = %s", spec->device);
    if (device) device->host_ops_refused = spec->strict;
    options.device = device;
    if (store) mf_store_put_on(store, device);
    if (rc == MF_OK) rc = ini && host ? mf_lab_layer_new(&sizes, host, ini, &layer) : MF_ENOMEM;
    if (rc == MF_OK && spec->bf16) mf_store_want_bf16(store);
    if (rc == MF_OK) rc = mf_store_seal(store, 1, spec->backward);
    if (rc == MF_OK) rc = (j.g = mf_graph_new(&options)) ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = layer_graph(spec, &sizes, &layer, &config, j.g);
    if (rc == MF_OK) rc = repeat(how, j.g, layer_pass, &j, ret);
    if (rc == MF_OK) {
        mf_graph_info info;
        mf_graph_get_info(j.g, &info);
        ret->flops = info.flops;
        ret->arena_mib = (double)info.arena_bytes / 1048576;
        ret->tokens_per_s = 1e3 * spec->tokens / ret->time.ms;
        ret->params = mf_store_trained(store);
        describe(ret, "layer", device);
    }
    mf_graph_free(j.g);
    mf_lab_layer_free(&layer);
    mf_plughost_free(host);
    mf_store_free(store);
    mf_ini_free(ini);
    mf_device_close(device);
    return rc;
}
