/* run/cost.c: estimates the memory of a run, without pages of program and libraries. The
 * process has read the same data as the run. Its memory, the planned memory of the run's
 * graphs, and the memory of the parameters are added. Neither graphs nor parameters
 * are allocated. */
#include "run/cost.h"

#include <stdio.h>
#include <string.h>
#include "base/thread/parallel.h"
#include "base/resident.h"
#include "train/optim/optim.h"
#include "train/parallel/gradient_bf16.h"
#include "train/parallel/gradient_sum.h"
#include "train/parallel/partition.h"
#include "graph/store/stored.h"
#include "kernels/kernel.h"
#include "run/folder/stored_files.h"

/* Memory outside of the plan, in bytes: operands that gemms pack on the stack of each thread
 * (0.2 to 2 MB, depending on their shapes), and memory for files and reports. The value was
 * measured with small models. */
#define BYTES_PER_THREAD ((size_t)5 << 17)
#define BYTES_OF_THREAD  ((size_t)3 << 15) /* stack and private memory of a thread */
#define BYTES_BESIDE     ((size_t)17 << 17)
/* Memory of each of several ranks for buffers and pages of MPI, measured with Open MPI. */
#define BYTES_OF_MPI ((size_t)16 << 20)

static int plan(mf_session *s, const mf_model_shape *shape, mf_model_graph **ret,
                size_t *ret_bytes)
{
    mf_graph_info info;
    int rc = mf_model_graph_new(s->model, shape, ret);
    if (rc != MF_OK) return rc;
    mf_graph_get_info((*ret)->g, &info);
    *ret_bytes = info.arena_bytes;
    return MF_OK;
}

/* What decides, of the kernels of a GPU, about the memory of a graph. */
static const mf_kernels gpu = {.name = "gpu", .most_logits = MF_GPU_LOGITS, .fuses = true};

/* Computes the memory of one graph of training and one of evaluation, both of the full length.
 * As in the trainer, evaluation reuses the arena of training if this arena is large enough. */
static int plan_both(mf_session *s, size_t *ret_bytes)
{
    const mf_config *c = s->config;
    const bool training = s->train != NULL, host = strcmp(c->train.device, "cpu") == 0;
    const mf_model_shape train = {.mode = MF_MODE_TRAIN,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = s->corpus && s->corpus->spans != NULL,
                                  .packed = mf_session_packed(s),
                                  .planned_for = host ? NULL : &gpu};
    mf_model_shape eval = {.mode = MF_MODE_EVAL,
                           .batch = train.batch,
                           .seq = train.seq,
                           .masked = true,
                           .planned_for = train.planned_for,
                           .want_logits = mf_task_by_row(c->model.task)};
    mf_model_graph *t = NULL, *e = NULL;
    size_t of_train = 0, of_eval = 0;
    int rc = training ? plan(s, &train, &t, &of_train) : MF_OK;
    if (t) eval.arena_of = t->g;
    if (rc == MF_OK) rc = plan(s, &eval, &e, &of_eval);
    *ret_bytes = of_train + (of_eval > of_train ? of_eval : 0);
    mf_model_graph_free(e);
    mf_model_graph_free(t);
    return rc;
}

void mf_cost_put_modules(mf_jw *w, int n, const mf_model_module *module)
{
    mf_jw_key(w, "modules");
    mf_jw_array(w);
    for (int i = 0; i < n; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "module", module[i].name);
        mf_jw_kv_int(w, "loaded", module[i].params);
        mf_jw_kv_int(w, "inference", module[i].active);
        mf_jw_kv_int(w, "bytes_loaded", module[i].params * (int64_t)sizeof(float));
        mf_jw_kv_int(w, "bytes_inference", module[i].active * (int64_t)sizeof(float));
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

int mf_cost_of(mf_session *s, mf_cost *ret)
{
    mf_resident_trim();
    const mf_resident before = mf_resident_read();
    size_t graphs;
    mf_model_count(s->model, &ret->params, &ret->params_active);
    ret->n_modules = mf_model_modules(s->model, ret->module);
    ret->stored = mf_store_bound(s->model->store);
    ret->stored_bytes = mf_stored_files_bytes(s->stored, s->model->store);
    mf_stored_files_types(s->stored, s->model->store, ret->stored_types,
                          sizeof ret->stored_types);
    int rc = plan_both(s, &graphs);
    if (rc != MF_OK) return rc;
    const mf_resident after = mf_resident_read();
    const size_t own = after.own > before.own ? after.own : before.own;
    const size_t files = after.now - after.own;
    ret->graphs = graphs;
    ret->values = mf_store_bytes(s->model->store) +
                  mf_optim_work_bytes(&s->config->train, s->model->store);
    const int64_t leaves = s->config->train.accumulate;
    const mf_sum_plan all = {.leaves = leaves, .share = {0, leaves}, .stride = 1};
    ret->sums = mf_gradient_sum_bytes(s->model->store, &all);
    /* A thread packs parts of the data that a graph reads, so a small graph needs little memory
     * for this. */
    const size_t packed = graphs / 8 < BYTES_PER_THREAD ? graphs / 8 : BYTES_PER_THREAD;
    ret->memory = own + ret->graphs + ret->values + ret->sums + (size_t)ret->stored_bytes +
                  BYTES_BESIDE + (BYTES_OF_THREAD + packed) * (size_t)mf_parallel_threads();
    if (ret->memory + files < after.peak) ret->memory = after.peak - files;
    if (s->train && strcmp(s->config->train.device, "cpu") != 0)
        ret->device = graphs + ret->values + ret->sums + mf_store_stored_bytes(s->model->store);
    if (s->train == NULL) ret->memory = 0; /* the graphs were planned only to find errors */
    return MF_OK;
}

/* ---- several ranks ---- */

/* With more ranks than this, each rank is assumed to own an equal part. */
enum { COUNTED = 64 };

/* Number of bytes of the moments that a rank keeps. */
static double moments_of(const mf_session *s, const mf_partition *p, int rank, int ranks)
{
    const mf_store *store = s->model->store;
    const bool sharded = ranks > 1 && s->config->parallel.optimizer == MF_PARALLEL_SHARDED;
    int64_t size, all = 0;
    mf_store_values(store, &size);
    for (int which = 0; which < 2; which++)
        all += mf_store_moment_at(store, which, size);
    const double own = sharded && p->slices ? (double)mf_partition_moments(p, store, rank)
                       : sharded            ? (double)all / ranks
                                            : (double)all;
    return own * sizeof(float);
}

/* Number of elements in the slices that a rank sums for other ranks. */
static int64_t summed(const mf_partition *p, int rank)
{
    int64_t n = 0;
    for (int i = 0; i < p->buckets * p->ranks; i++)
        if (p->slices[i].owner == rank) n += p->slices[i].end - p->slices[i].first;
    return n;
}

/* Number of bytes that a rank receives for its experts from other ranks with the
 * same experts. */
static double received_of_experts(const mf_store *store, const mf_sum_plan *plan, int groups)
{
    int64_t held = 0;
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (!p->buffer && !p->stored) held += p->held;
    }
    const int64_t own = (plan->share.end - plan->share.first + groups - 1) / groups;
    return plan->apart ? (double)(plan->leaves - own) * (double)held / groups * sizeof(float)
                       : 0;
}

/* Number of bytes of the sums of gradients, and of the data received from other ranks. */
static double sums_of(const mf_session *s, const mf_partition *p, int rank, int ranks)
{
    const int64_t leaves = s->config->train.accumulate;
    const mf_store *store = s->model->store;
    mf_piece piece[MF_TREE_PIECES];
    mf_sum_plan own = {
        .leaves = leaves, .share = mf_tree_share(leaves, rank, ranks), .stride = 1};
    int64_t size;
    const bool bf16 = s->config->parallel.gradient == MF_PARALLEL_BF16;
    int64_t bytes = 0; /* number of bytes received for each element of a slice */
    double held = 0;
    mf_store_values(store, &size);
    for (int r = 0; r < ranks; r++) {
        const mf_piece share = mf_tree_share(leaves, r, ranks);
        const int n = mf_tree_pieces(leaves, share.first, share.end, piece);
        for (int i = 0; r != rank && i < n; i++)
            bytes += mf_piece_bytes(piece[i], 1, bf16);
    }
    if (mf_experts_shared(&s->model->expert_ranks)) {
        mf_sum_plan experts;
        const int sharing = s->model->expert_ranks.ranks;
        mf_turns(leaves, rank, ranks, sharing, MF_ROUND_NONE, &own, &experts);
        held = (double)mf_gradient_sum_bytes(store, &experts) +
               received_of_experts(store, &experts, ranks / sharing);
        bytes = (leaves - (own.share.end - own.share.first + ranks - 1) / ranks) *
                mf_piece_bytes((mf_piece){0, 1}, 1, bf16);
    }
    const double slice = p->slices ? (double)summed(p, rank) : (double)size / ranks;
    return (double)mf_gradient_sum_bytes(store, &own) + held + (double)bytes * slice;
}

/* Number of bytes of values and gradients of experts that are on other ranks. */
static double elsewhere(const mf_session *s)
{
    const mf_store *store = s->model->store;
    const size_t each = 2 * sizeof(float) + (mf_store_bf16(store) ? sizeof(uint16_t) : 0);
    int64_t n = 0;
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (p->held && !p->buffer && !p->stored) n += p->count - p->held;
    }
    return (double)n * (double)each;
}

static int memory_of_ranks(mf_session *s, const mf_cost *c, int ranks, size_t *ret)
{
    const mf_config *config = s->config;
    mf_partition p = {0};
    size_t graphs = c->graphs;
    double most = 0;
    const double all = moments_of(s, &p, 0, 1);
    int rc = mf_experts_shared(&s->model->expert_ranks) ? plan_both(s, &graphs) : MF_OK;
    if (rc == MF_OK && ranks <= COUNTED)
        rc = mf_partition_new(s->model->store, &config->train, ranks,
                              mf_config_bucket(&config->parallel), NULL, &p);
    for (int r = 0; rc == MF_OK && r < ranks; r++) {
        const double bytes = moments_of(s, &p, r, ranks) + sums_of(s, &p, r, ranks);
        if (bytes > most) most = bytes;
    }
    *ret = c->memory - c->sums - c->graphs - (size_t)all + graphs + (size_t)most +
           BYTES_OF_MPI - (size_t)elsewhere(s);
    mf_partition_free(&p);
    return rc;
}

int mf_cost_of_rank(mf_session *s, const mf_cost *c, int ranks, int sharing, size_t *ret)
{
    int rc = MF_OK;
    *ret = c->memory;
    if (c->memory == 0 || ranks == 1) return MF_OK;
    if (sharing > 1) rc = mf_model_share_experts(s->model, 0, sharing);
    if (rc == MF_OK) rc = memory_of_ranks(s, c, ranks, ret);
    if (sharing > 1 && rc == MF_OK) rc = mf_model_share_experts(s->model, 0, 1);
    return rc;
}

bool mf_cost_exceeds(const mf_cost *c, char *out, size_t size)
{
    const double machine = mf_resident_machine(), mib = 1048576;
    if ((double)c->memory <= machine) return false;
    snprintf(out, size, "training needs %.0f MiB, and this machine has %.0f MiB of memory; %s",
             (double)c->memory / mib, machine / mib,
             c->values > c->graphs
                 ? "fewer or smaller weights need less: moe.experts, expert.hidden, model.dim, "
                   "model.layers"
                 : "smaller batches need less: train.batch, model.seq; so does "
                   "train.recompute = block");
    return true;
}
