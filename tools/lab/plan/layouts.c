/* lab/plan/layouts.c: computes the sizes of the model of a bare session, its memory, and
 * all layouts.
 *
 * For layouts that moefw runs, the memory is computed by run/cost.h and includes what the ranks
 * exchange. For other layouts, the parameters and the planned memory of a micro-batch are
 * divided by the number of ranks that share them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "lab/plan/plan.h"
#include "run/modules.h"
#include "train/parallel/gradient_bf16.h"

#define GIB 1073741824.0

static bool is_by_expert(const mf_session *s, const mf_param *p)
{
    return (p->init.flags & MF_PARAM_BY_EXPERT) &&
           p->shape.dim[0] == mf_model_experts_of(s->model, p);
}

/* Sets the numbers of experts and of experts per token: means over the MoE layers, and a number
 * that divides the experts of each layer. */
static void count_experts(const mf_model *m, mf_plan_model *ret)
{
    for (int32_t i = 0; i < m->n_moe; i++) {
        int64_t a = ret->common, b = m->moe[i].config.experts;
        ret->experts += (double)b;
        ret->top_k += (double)m->moe[i].config.top_k;
        ret->row_dim += (double)mf_model_dims_of(m, m->moe[i].layer).expert_dim;
        while (a > 0) { /* Euclid */
            const int64_t rest = b % a;
            b = a;
            a = rest;
        }
        ret->common = b;
    }
    ret->experts /= m->n_moe > 0 ? m->n_moe : 1;
    ret->top_k /= m->n_moe > 0 ? m->n_moe : 1;
    ret->row_dim /= m->n_moe > 0 ? m->n_moe : 1;
}

int mf_plan_describe(mf_session *s, mf_plan_model *ret)
{
    const mf_config *c = s->config;
    const mf_model *m = s->model;
    double embedding = 0;
    *ret = (mf_plan_model){.layers = (double)c->model.layers,
                           .moe_layers = m->n_moe,
                           .dim = (double)c->model.dim,
                           .attention = (double)(c->model.heads * mf_model_head_dim(&c->model)),
                           .seq = (double)c->model.seq};
    count_experts(m, ret);
    for (int i = 0; i < mf_store_count(m->store); i++) {
        const mf_param *p = mf_store_at(m->store, i);
        const mf_module module = mf_module_of(p->name);
        if (p->buffer) continue;
        if (module == MF_MODULE_EMBEDDING)
            embedding += strcmp(p->name, "embed.weight") == 0 ? (double)p->count : 0;
        else if (module == MF_MODULE_HEAD)
            ret->head += (double)p->count;
        else if (is_by_expert(s, p))
            ret->expert += (double)p->count;
        else
            ret->dense += (double)p->count;
    }
    if (c->model.tie_embeddings) ret->head += embedding;
    const mf_model_shape shape = {.mode = s->train ? MF_MODE_TRAIN : MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq};
    mf_model_graph *g = NULL;
    mf_graph_info info;
    int rc = mf_model_graph_new(s->model, &shape, &g);
    if (rc != MF_OK) return rc;
    mf_graph_get_info(g->g, &info);
    /* The backward pass of a gemm is two gemms. */
    ret->flops = info.flops / (double)c->train.batch * (s->train ? 1 : 3);
    mf_model_graph_free(g);
    return MF_OK;
}

/* ---- all layouts ---- */

typedef struct list {
    mf_session *s;
    const mf_cost *cost;
    const mf_plan_model *m;
    const mf_plan_cluster *c;
    const mf_meter *meter;
    mf_plan_step step;
    mf_plan_choice *choice;
    int n, room, rc;
    bool any;      /* moefw runs at least one layout */
    char why[256]; /* why moefw does not run a layout; the last reason */
} list;

/* Bytes of a rank: parameters with gradients and moments, and the values of all micro-batches
 * that a pipeline has begun. */
static double divided_memory(const list *a, const mf_plan_layout *l)
{
    const double all = a->m->dense + a->m->head + a->m->expert,
                 share = ((a->m->dense + a->m->head) / (double)(l->tensor * l->pipeline) +
                          a->m->expert / (double)(l->expert * l->pipeline)) /
                         all,
                 begun = (double)l->pipeline < a->step.batch / a->step.micro
                             ? (double)l->pipeline
                             : a->step.batch / a->step.micro,
                 beside = (double)(a->cost->memory - a->cost->sums - a->cost->values -
                                   a->cost->graphs);
    return beside + (double)(a->cost->values + a->cost->sums) * share +
           (double)a->cost->graphs / (double)(l->tensor * l->pipeline) * begun;
}

/* Bytes that a rank sends for a parameter, maximum over the ranks. Layouts that moefw cannot
 * run are assumed to send one part. */
static double bytes_of(const list *a, const mf_plan_layout *l, bool runs, bool shares)
{
    const mf_config *c = a->s->config;
    const bool bf16 = c->parallel.gradient == MF_PARALLEL_BF16;
    const int64_t leaves = c->train.accumulate, ranks = l->data;
    mf_piece piece[MF_TREE_PIECES];
    int64_t most = bf16 ? 2 : 4;
    if (runs && shares) most *= (leaves + ranks - 1) / ranks;
    for (int r = 0; runs && !shares && r < (int)ranks && ranks <= leaves; r++) {
        const mf_piece share = mf_tree_share(leaves, r, (int)ranks);
        const int n = mf_tree_pieces(leaves, share.first, share.end, piece);
        int64_t bytes = 0;
        for (int i = 0; i < n; i++)
            bytes += mf_piece_bytes(piece[i], 1, bf16);
        if (bytes > most) most = bytes;
    }
    return (double)most + sizeof(float);
}

/* Whether moefw trains with a layout whose ranks share the experts. The present configuration
 * may not set this. */
static bool can_share(const list *a, const mf_plan_layout *l)
{
    size_t bytes = 0;
    if (a->rc != MF_OK || l->tensor != 1 || l->pipeline != 1 ||
        (double)l->data > a->step.batch / a->step.micro)
        return false;
    const int rc = mf_cost_of_rank(a->s, a->cost, (int)l->data, (int)l->expert, &bytes);
    if (rc != MF_OK) mf_error_clear();
    return rc == MF_OK;
}

/* Replaces the time of one rank by the time of a device, whose kernels are counted. plan
 * --device prints the same time. */
static void take_meter(const list *a, mf_plan_choice *x)
{
    const mf_meter *m = a->meter;
    x->counted = true;
    x->time = (mf_plan_time){.step_s = m->sum.seconds,
                             .tokens_per_s = m->tokens / m->sum.seconds,
                             .compute = m->sum.seconds};
}

static void add(list *a, mf_plan_layout l)
{
    if (a->rc != MF_OK) return;
    if (a->n == a->room) {
        const int room = 2 * a->room + 16;
        mf_plan_choice *more =
            mf_realloc(a->choice, (size_t)a->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) {
            a->rc = MF_ENOMEM;
            return;
        }
        a->choice = more;
        a->room = room;
    }
    const int64_t most = a->s->config->parallel.expert;
    const int sharing = (int)(most < l.data ? most : l.data);
    mf_plan_choice *x = &a->choice[a->n++];
    *x = (mf_plan_choice){.layout = l,
                          .runs = l.tensor == 1 && l.pipeline == 1 && l.expert == sharing};
    size_t bytes = 0;
    if (x->runs) a->rc = mf_cost_of_rank(a->s, a->cost, (int)l.data, sharing, &bytes);
    if (a->rc == MF_ECONFIG) { /* these ranks cannot share the experts */
        snprintf(a->why, sizeof a->why, "%s", mf_error_message());
        mf_error_clear();
        a->rc = MF_OK;
        x->runs = false;
    }
    a->any = a->any || x->runs;
    x->trains = x->runs || can_share(a, &l);
    if (!x->runs && a->cost->memory > 0) bytes = (size_t)divided_memory(a, &l);
    x->memory_gib = (double)bytes / GIB;
    x->fits = a->c->cluster.memory_gib == 0 || x->memory_gib <= a->c->cluster.memory_gib;
    a->step.bytes = bytes_of(a, &l, x->runs, sharing > 1);
    a->step.row_bytes = x->runs ? sizeof(float) : 0;
    mf_plan_predict(a->m, a->c, &l, &a->step, &x->time);
    if (a->meter && x->runs && l.data == 1) take_meter(a, x);
}

/* Adds layouts with all possible numbers of ranks that share the experts, within one stage of
 * the pipeline. */
static void add_experts(list *a, int64_t tensor, int64_t pipeline)
{
    const int64_t group = a->c->cluster.ranks / pipeline, experts = a->m->common;
    mf_plan_layout l = {.data = group / tensor,
                        .tensor = tensor,
                        .pipeline = pipeline,
                        .context = 1,
                        .stages = 1,
                        .expert_tensor = 1};
    if ((double)l.data > a->step.batch / a->step.micro) return;
    for (l.expert = 1; l.expert == 1 || l.expert <= experts; l.expert++)
        if (group % l.expert == 0 && (l.expert == 1 || experts % l.expert == 0)) add(a, l);
}

/* Orders layouts: those that fit first, then by time. qsort is not stable, so layouts of the
 * same time need an order of their own: fewer stages first, then fewer slices of tensors, then
 * fewer slices of experts. */
static int by_time(const void *x, const void *y)
{
    const mf_plan_choice *a = x, *b = y;
    const mf_plan_layout *k = &a->layout, *l = &b->layout;
    if (a->fits != b->fits) return a->fits ? -1 : 1;
    if (a->time.step_s != b->time.step_s) return a->time.step_s < b->time.step_s ? -1 : 1;
    if (k->pipeline != l->pipeline) return k->pipeline < l->pipeline ? -1 : 1;
    if (k->tensor != l->tensor) return k->tensor < l->tensor ? -1 : 1;
    return (k->expert > l->expert) - (k->expert < l->expert);
}

int mf_plan_layouts(mf_session *s, const mf_cost *cost, const mf_plan_model *m,
                    const mf_plan_cluster *c, const mf_meter *meter, mf_plan_choice **ret,
                    int *ret_n)
{
    const mf_config *config = s->config;
    const int64_t n = c->cluster.ranks, leaves = config->train.accumulate;
    list a = {.s = s,
              .cost = cost,
              .m = m,
              .c = c,
              .meter = meter,
              .step = {.batch = (double)(config->train.batch * leaves),
                       .micro = (double)config->train.batch,
                       .sharded = config->parallel.optimizer == MF_PARALLEL_SHARDED}};
    for (int64_t p = 1; p <= n && p <= config->model.layers; p++)
        for (int64_t t = 1; n % p == 0 && t <= c->cluster.per_node && t <= config->model.heads;
             t++)
            if (n / p % t == 0 && config->model.heads % t == 0) add_experts(&a, t, p);
    if (n > leaves)
        add(&a, (mf_plan_layout){.data = leaves,
                                 .expert = 1,
                                 .tensor = 1,
                                 .pipeline = 1,
                                 .context = 1,
                                 .stages = 1,
                                 .expert_tensor = 1});
    if (a.rc == MF_OK && !a.any)
        a.rc = mf_fail(MF_ECONFIG, "%lld ranks: moefw train has no layout for them: %s",
                       (long long)n,
                       *a.why ? a.why
                              : "parallel.expert: expected a number that divides them and "
                                "moe.experts");
    if (a.rc == MF_OK) qsort(a.choice, (size_t)a.n, sizeof *a.choice, by_time);
    if (a.rc != MF_OK) mf_free(a.choice);
    *ret = a.rc == MF_OK ? a.choice : NULL;
    *ret_n = a.rc == MF_OK ? a.n : 0;
    return a.rc;
}
