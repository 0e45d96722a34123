/* lab/plan/meter.c: counts a training step with the kernels of a meter. The bytes are those of
 * a kernel's arguments, each read or written once. Data that stay in a cache for the next
 * kernel are not considered. The operations are those of gemms and attention, as the graph
 * counts them. */
#include "lab/plan/meter.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "graph/graph.h"
#include "lab/plan/launches.h"
#include "run/modules.h"
#include "train/optim/method.h"
#include "train/optim/optim.h"

/* Sources of the shares (bench/cuda/PREDICTED.md). The bf16 shares were measured in training
 * steps on an H100 (bench/cuda/MEASURED.md). The others are derived or assumed:
 *
 *   dense_bf16          cuBLASLt in a step of GPT-2; 805 TFLOP/s (.81) at 8192^3 alone
 *   grouped_bf16        wgmma in a step of a model of 8 experts
 *   dense_f32           cuBLASLt in f32: assumed to be .9
 *   grouped_f32         multiply-adds are 256 of 282 to 305 instructions of the main loop, and
 *                       2048 of about 2600 of a step of 32 inner indices; assumed to be .75
 *   attention           limited by loads of shared memory: 2 for each multiply-add in scores,
 *                       36 for 32 in values, at one load per clock, where the peak is
 *                       4 multiply-adds per clock
 *   attention_backward  the same for 4 gemms of scores and 3 of gradients; 5 are counted
 *   flash               attention of bf16 with heads of 64 columns and 1,024 positions;
 *                       FlashAttention-2 reaches the same share on that machine
 *   flash_backward      the same
 *   moved               assumed to be .85; rules.tsv requires enough bytes in flight for it */
const mf_meter_device mf_meter_devices[] = {{.name = "h100",
                                             .text = "H100 SXM",
                                             .bf16 = 989e12,
                                             .f32 = 67e12,
                                             .bandwidth = 3.35e12,
                                             .memory = 80e9,
                                             .shared = 227 << 10,
                                             .processors = 132,
                                             .launch = 1.5e-6,
                                             .dense_bf16 = 0.67,
                                             .dense_f32 = 0.9,
                                             .grouped_bf16 = 0.45,
                                             .grouped_f32 = 0.75,
                                             .attention = 0.16,
                                             .attention_backward = 0.11,
                                             .flash = 0.21,
                                             .flash_backward = 0.13,
                                             .moved = 0.85},
                                            {.name = NULL}};

int mf_meter_device_of(const char *name, const mf_meter_device **ret)
{
    const char *names[8] = {0};
    int n = 0;
    for (; mf_meter_devices[n].name; n++) {
        names[n] = mf_meter_devices[n].name;
        if (strcmp(names[n], name) != 0) continue;
        *ret = &mf_meter_devices[n];
        return MF_OK;
    }
    return mf_fail(MF_EUSAGE, "--device=%s: no figures are known of this device; expected %s",
                   name, names[0]);
}

const mf_meter_device *mf_meter_device_like(double tflops, double gb_per_s)
{
    for (const mf_meter_device *d = mf_meter_devices; d->name; d++)
        if (fabs(1e12 * tflops / d->bf16 - 1) < 0.01 &&
            fabs(1e9 * gb_per_s / d->bandwidth - 1) < 0.01)
            return d;
    return NULL;
}

void mf_meter_add(mf_meter *m, const char *name, int launches, double bytes, double flops,
                  double seconds)
{
    int i = 0;
    while (i < m->n && strcmp(m->row[i].name, name) != 0)
        i++;
    if (i == MF_METER_ROWS) return;
    mf_meter_row *row = &m->row[i];
    if (i == m->n) m->row[m->n++] = (mf_meter_row){.name = name};
    const double moved = bytes / (m->device->bandwidth * m->device->moved);
    const double longer = moved > seconds ? moved : seconds;
    const mf_meter_row call = {.calls = 1,
                               .launches = launches,
                               .bytes = bytes,
                               .flops = flops,
                               .seconds = longer + launches * m->device->launch};
    mf_meter_row *const both[2] = {row, &m->sum};
    for (int j = 0; j < 2; j++) {
        both[j]->calls += call.calls;
        both[j]->launches += call.launches;
        both[j]->bytes += call.bytes;
        both[j]->flops += call.flops;
        both[j]->seconds += call.seconds;
    }
}

/* ---- a step ---- */

static int count_graph(mf_session *s, mf_meter *m)
{
    const mf_config *c = s->config;
    const mf_model_shape shape = {.mode = MF_MODE_TRAIN,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = s->corpus && s->corpus->spans != NULL,
                                  .packed = mf_session_packed(s),
                                  .planned_for = &mf_meter_kernels};
    mf_model_graph *g = NULL;
    mf_graph_info info = {0};
    int rc = mf_model_graph_new(s->model, &shape, &g);
    if (rc == MF_OK) mf_graph_get_info(g->g, &info);
    for (int64_t i = 0; rc == MF_OK && i < c->train.accumulate; i++)
        rc = mf_graph_launches(g->g, &mf_meter_kernels, m, &m->hosted);
    m->memory = (double)info.arena_bytes;
    m->graph_flops = info.flops * (double)c->train.accumulate;
    mf_model_graph_free(g);
    return rc;
}

static int count_optimizer(mf_session *s, mf_meter *m)
{
    const mf_train_config *c = &s->config->train;
    const mf_kctx x = {.stream = m};
    const mf_kernels *k = &mf_meter_kernels;
    const bool lion = c->optimizer == MF_OPTIMIZER_LION;
    mf_bf16 *copy = c->dtype == MF_BF16 ? (mf_bf16 *)1 : NULL; /* only NULL or not matters */
    mf_optim *o;
    int n, rc;
    if (!lion && c->optimizer != MF_OPTIMIZER_ADAMW && c->optimizer != MF_OPTIMIZER_ADAM)
        return mf_fail(MF_EUSAGE,
                       "plan --device: expected train.optimizer adamw, adam or lion");
    if ((rc = mf_optim_new(s->model->store, c, &o)) != MF_OK) return rc;
    const mf_optim_range *r = mf_optim_ranges(o, &n);
    int64_t all = 0; /* elements that sumsq and adamw read, each in one call */
    for (int i = 0; i < n; i++) {
        if (r[i].frozen) continue;
        all += r[i].count;
        if (lion) MF_RUN(k, &x, lion, .count = r[i].count, .copy = copy);
    }
    if (all > 0) MF_RUN(k, &x, sumsq, .count = all);
    if (all > 0 && !lion) MF_RUN(k, &x, adamw, .count = all, .copy = copy);
    mf_optim_free(o);
    return MF_OK;
}

/* Counts the sums of gradients. Gradients of micro-batches are added in a tree: each gradient
 * except the first is added once. */
static void count_sums(mf_session *s, mf_meter *m)
{
    const mf_kctx x = {.stream = m};
    int64_t size;
    mf_store_values(s->model->store, &size);
    for (int64_t i = 1; i < s->config->train.accumulate; i++)
        MF_RUN(&mf_meter_kernels, &x, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32,
               .dim = {1, 1, 1, size}, .stride_a = {[3] = 1}, .stride_b = {[3] = 1});
}

static int by_time(const void *a, const void *b)
{
    const mf_meter_row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

int mf_meter_token(mf_session *s, const mf_meter_device *device, mf_meter *ret)
{
    const mf_model_config *c = &s->config->model;
    mf_cache *cache = NULL;
    mf_model_graph *g = NULL;
    *ret = (mf_meter){.device = device};
    if (c->task != MF_TASK_LM || mf_model_sees_sequences(s->model)) return MF_OK;
    int rc = mf_cache_new(s->model, 1, (int)(c->seq + c->cache_start), &cache);
    /* the shape with which mf_generator_feed runs a token */
    const mf_model_shape shape = {.mode = MF_MODE_GENERATE,
                                  .batch = 1,
                                  .seq = 1,
                                  .cache = cache,
                                  .want_prob = true,
                                  .planned_for = &mf_meter_kernels};
    if (rc == MF_OK) rc = mf_model_graph_new(s->model, &shape, &g);
    if (rc == MF_OK) rc = mf_graph_launches(g->g, &mf_meter_kernels, ret, &ret->hosted);
    mf_model_graph_free(g);
    mf_cache_free(cache);
    return rc;
}

int mf_meter_step(mf_session *s, const mf_meter_device *device, mf_meter *ret)
{
    const mf_config *c = s->config;
    int64_t all, active;
    *ret = (mf_meter){.device = device};
    int rc = count_graph(s, ret);
    if (rc == MF_OK) rc = count_optimizer(s, ret);
    if (rc != MF_OK) return rc;
    count_sums(s, ret);
    qsort(ret->row, (size_t)ret->n, sizeof *ret->row, by_time);
    mf_model_count(s->model, &all, &active);
    ret->params_active = (double)active;
    ret->tokens = (double)(c->train.batch * c->train.accumulate * c->model.seq);
    return MF_OK;
}
