/* train/parallel/repeat.c: compares two runs. Loss, gradients and buffers decide whether the
 * runs are the same. Digests of all nodes only show where the runs begin to differ, because ops
 * may leave memory behind their last row unchanged. */
#include "train/parallel/repeat.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"

enum { RUNS = 2 };

typedef struct digest {
    char text[33];
} digest;

/* The results that ranks send to each other. */
typedef struct outcome {
    int64_t nodes;
    digest all; /* digest of loss, gradients and buffers */
} outcome;

typedef struct repeat {
    mf_world *world;
    const mf_train_job *job;
    mf_store *store;
    mf_model_graph *graph;
    int nodes;
    digest *list[RUNS]; /* [nodes] digests of each run */
    digest *one;        /* [nodes] digests of the run that continues */
    float *buffers;     /* values of the buffers before the runs */
} repeat;

static void note(void *arg, int node)
{
    repeat *r = arg;
    mf_graph_digest(r->graph->g, node, r->one[node].text);
}

/* Copies all buffers to r->buffers, or from r->buffers to the buffers if `back` is true. */
static int copy_buffers(repeat *r, bool back)
{
    int64_t at = 0;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_store_count(r->store); i++) {
        mf_param *p = mf_store_at(r->store, i);
        const size_t bytes = (size_t)p->count * sizeof(float);
        if (!p->buffer) continue;
        if (r->buffers && back) rc = mf_param_write(p, r->buffers + at, 0, bytes);
        if (r->buffers && !back) rc = mf_param_read(p, r->buffers + at, 0, bytes);
        at += p->count;
    }
    if (r->buffers || rc != MF_OK) return rc;
    r->buffers = mf_alloc_raw(((size_t)at + 1) * sizeof(float));
    return r->buffers ? copy_buffers(r, false) : MF_ENOMEM;
}

static void hash_on(digest *all, const void *data, size_t bytes)
{
    digest both[2] = {*all};
    mf_hash_bytes(data, bytes, both[1].text);
    mf_hash_bytes(both, sizeof both, all->text);
}

static int run_once(repeat *r, const mf_run *run, int turn, digest *ret)
{
    const float *loss;
    memset(ret, 0, sizeof *ret);
    r->one = r->list[turn];
    /* Gradients are set to zero, because those of parameters that no node reads
     * would differ. */
    for (int i = 0; i < mf_store_count(r->store); i++) {
        const mf_param *p = mf_store_at(r->store, i);
        if (p->grad && !p->stored && !p->held) memset(p->grad, 0, (size_t)p->count * 4);
    }
    int rc = mf_graph_run(r->graph->g, run);
    if (rc != MF_OK) return rc;
    if ((loss = mf_tensor_host(r->graph->loss))) hash_on(ret, loss, sizeof *loss);
    for (int i = 0; i < mf_store_count(r->store); i++) {
        const mf_param *p = mf_store_at(r->store, i);
        /* If ranks share the experts, each rank has different gradients of them. */
        const float *v = p->buffer ? mf_param_host(p) : p->stored || p->held ? NULL : p->grad;
        if (v) hash_on(ret, v, (size_t)p->count * sizeof *v);
    }
    return copy_buffers(r, true);
}

/* Returns the first node whose digests differ; -1: none. */
static int first_of(const digest *a, const digest *b, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0) return i;
    return -1;
}

#define REASON                                                                                 \
    "it may use rand, a clock or a file, or keep state outside of its buffers; 'moefw plugin " \
    "check' looks for this"

static int blame(const repeat *r, int node, const char *text)
{
    if (node >= 0) return mf_graph_blame(r->graph->g, node, MF_EPLUGIN, text);
    return mf_fail(MF_EPLUGIN, "a parameter or buffer %s", text);
}

static int judge_alone(const repeat *r, const digest of[RUNS])
{
    if (memcmp(&of[0], &of[1], sizeof *of) == 0) return MF_OK;
    return blame(r, first_of(r->list[0], r->list[1], r->nodes),
                 "has other values when the same micro-batch runs again: " REASON);
}

/* Compares this rank's results with rank 0. If they differ, finds the first node
 * that differs. */
static int judge_together(const repeat *r, const digest *mine, outcome *all, digest *lists)
{
    const int ranks = mf_world_ranks(r->world);
    char text[512];
    all[mf_world_rank(r->world)] = (outcome){r->nodes, *mine};
    int rc = mf_world_gather(r->world, "results of one micro-batch",
                             &all[mf_world_rank(r->world)], sizeof *all, all);
    int other = 1;
    while (rc == MF_OK && other < ranks && memcmp(&all[other], &all[0], sizeof *all) == 0)
        other++;
    if (rc != MF_OK || other == ranks) return rc;
    const char *host = mf_world_place(r->world, other)->host;
    if (all[other].nodes != all[0].nodes)
        return mf_fail(MF_EPLUGIN,
                       "rank %d (%s) has a graph of %lld nodes, and rank 0 of %lld: a plugin "
                       "builds something that is not the same everywhere",
                       other, host, (long long)all[other].nodes, (long long)all[0].nodes);
    rc = mf_world_gather(r->world, "results of ops", r->list[0],
                         r->nodes * (int64_t)sizeof *lists, lists);
    if (rc != MF_OK) return rc;
    snprintf(
        text, sizeof text,
        "has other values on rank %d (%s) than on rank 0 for the same micro-batch: " REASON,
        other, host);
    return blame(r, first_of(lists, lists + (size_t)other * (size_t)r->nodes, r->nodes), text);
}

static int judge(repeat *r, int64_t leaf)
{
    const size_t ranks = (size_t)mf_world_ranks(r->world), n = (size_t)r->nodes;
    const mf_run run = {.seed = (uint64_t)r->job->train->seed,
                        .step = (uint64_t)leaf,
                        .after_node = note,
                        .after_arg = r};
    digest of[RUNS], *lists = mf_alloc(n * ranks + 1, sizeof *lists);
    outcome *all = mf_alloc(ranks, sizeof *all);
    r->list[0] = mf_alloc(n + 1, sizeof *r->list[0]);
    r->list[1] = mf_alloc(n + 1, sizeof *r->list[1]);
    int rc = lists && all && r->list[0] && r->list[1] ? copy_buffers(r, false) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < RUNS; i++)
        rc = run_once(r, &run, i, &of[i]);
    if (rc == MF_OK) rc = judge_alone(r, of);
    rc = mf_world_agree(r->world, rc);
    if (rc == MF_OK) {
        rc = judge_together(r, &of[0], all, lists);
        if (rc == MF_EPLUGIN) rc = mf_world_agree(r->world, rc);
    }
    mf_free(lists);
    mf_free(all);
    mf_free(r->list[0]);
    mf_free(r->list[1]);
    mf_free(r->buffers);
    return rc;
}

int mf_repeat_judge(mf_world *w, const mf_train_job *job, mf_length_buckets *buckets,
                    int64_t leaf)
{
    repeat r = {.world = w, .job = job, .store = job->model->store};
    const mf_batch *batch;
    int rc = mf_length_buckets_take(buckets, job->source, leaf, &batch, &r.graph);
    rc = mf_world_agree(w, rc);
    if (rc != MF_OK) return rc;
    r.nodes = mf_graph_nodes(r.graph->g);
    return judge(&r, leaf);
}
