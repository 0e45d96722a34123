/* lab/plan/predict.c: the time of a step from the sizes of a model, cluster and layout.
 *
 *     step   = turns x slowest stage + (PP - 1) / stages x mean stage + update
 *     stage  = sqrt(compute^2 + host^2) + exchanges that nothing hides + head on the last stage
 *     gemms  = flops / (efficiency x peak), of experts x (rows + half) / rows
 *     rows of an expert = tokens of a rank x expert ranks x its parts x top_k / experts
 *
 * Blocks also move memory: block_bytes elements for each token and channel, and token_bytes for
 * each channel and hidden value of each copy of a token that an expert receives. One copy is
 * sent to each expert. A dispatcher that sends once per node sends one copy to each node, and
 * the experts of the node receive theirs from there. If the schedule hides these exchanges
 * behind another micro-batch, the longer of both times counts, and gemms reach a smaller rate.
 * [fit] contains the constants. moefw-parallel(7) says which of them are fitted, and lists the
 * sources of the others. */
#include "lab/plan/plan.h"
#include <math.h>

enum { BF16 = 2, PASSES = 3, SENDS = 4 /* dispatch and combine, forward and backward */ };

typedef struct parts {
    double compute, host;           /* seconds of a micro-batch on a rank, without the head */
    double head;                    /* seconds of the head, on the last stage */
    double rows_node, rows_network; /* seconds in which rows are exchanged with experts */
    double node, network;           /* seconds of other exchanges that are not hidden */
} parts;

/* The rates that a rank reaches, in flops and bytes per second. */
typedef struct rates {
    double gemm, plain /* for the head, in bf16 */, attention, memory, node, network;
    double quantize; /* number of additional elements that blocks move if gemms are in FP8 */
} rates;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool measured(const mf_plan_cluster *c)
{
    return c->rank.measured_gflops > 0;
}

static rates rates_of(const mf_plan_cluster *c)
{
    const bool fp8 = c->rank.attention_tflops > 0;
    const double peak = 1e12 * c->rank.tflops,
                 bf16 = fp8 ? 1e12 * c->rank.attention_tflops : peak;
    /* The measured bandwidths of a cluster are reached values, so no efficiency is applied
     * to them. */
    return (rates){.gemm = peak * (fp8 ? c->fit.efficiency_fp8 : c->fit.efficiency),
                   .plain = bf16 * c->fit.efficiency,
                   .attention = bf16 * c->fit.attention,
                   .memory = 1e9 * c->rank.memory_gb_per_s,
                   .node = 1e9 * c->node.gb_per_s * (measured(c) ? 1 : c->fit.node_share),
                   .network =
                       1e9 * c->network.gb_per_s * (measured(c) ? 1 : c->fit.network_share),
                   .quantize = fp8 ? c->fit.quantize : 1};
}

/* Operations of attention, forward and backward. Attention is causal, so half of the scores
 * are computed. */
static double attention_flops(const mf_plan_model *m, double tokens)
{
    return 6 * m->seq * m->attention * m->layers * tokens;
}

/* Factor by which recomputation increases the operations. The forward pass is one of three
 * passes, and a share of it is recomputed. */
static double repeated(const mf_plan_cluster *c)
{
    return 1 + c->software.recompute / PASSES;
}

static void add_blocks(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                       const mf_plan_layout *l, const rates *r, double own)
{
    const double pp = (double)l->pipeline, layers = m->layers / pp;
    p->compute +=
        repeated(c) *
            (6 * m->dense / pp * own / r->gemm + attention_flops(m, own) / pp / r->attention +
             r->quantize * c->fit.block_bytes * own * m->dim * layers * BF16 / r->memory) +
        /* Scores and their softmax are written and read in twelve passes. */
        12 * BF16 * m->stored_scores * m->seq * own * layers / r->memory;
    p->head = 6 * m->head * own / r->plain;
    p->host += layers * c->fit.host_us * 1e-6 * PASSES;
}

/* Width of the rows that experts get and give. */
static double row_dim(const mf_plan_model *m)
{
    return m->row_dim > 0 ? m->row_dim : m->dim;
}

static void add_experts(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                        const mf_plan_layout *l, const rates *r, double own)
{
    const double ep = (double)l->expert, etp = (double)l->expert_tensor,
                 layers = m->moe_layers / (double)l->pipeline,
                 weights = m->expert / m->moe_layers / m->experts, /* size of one expert */
        hidden = weights / (3 * row_dim(m)), rows = own * ep * etp * m->top_k / m->experts,
                 loaded = repeated(c) * c->software.imbalance;
    p->compute +=
        loaded * (6 * weights * m->top_k * own * layers / r->gemm *
                      (rows + c->fit.half_expert_rows) / rows +
                  r->quantize * c->fit.token_bytes * own * (row_dim(m) * etp + hidden) *
                      m->top_k * layers * BF16 / r->memory);
    p->host += layers * c->fit.host_expert_us * 1e-6 * PASSES * m->experts / ep;
}

/* Adds dispatch and combine, forward and backward. Ranks that divide an expert are neighbours,
 * and each of them receives the rows of all these ranks. */
static void add_rows(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                     const mf_plan_layout *l, const mf_plan_step *s, const rates *r, double own)
{
    const double ep = (double)l->expert, etp = (double)l->expert_tensor,
                 bytes = (s->row_bytes > 0 ? s->row_bytes : BF16) * row_dim(m),
                 nodes = larger(1, ep * etp / (double)c->cluster.per_node), inside = ep / nodes,
                 sends = SENDS * m->moe_layers / (double)l->pipeline,
                 copies = own * m->top_k * bytes * c->software.imbalance;
    p->rows_node += sends * copies * (etp - 1) / r->node;
    if (l->expert == 1) return;
    if (c->software.once_per_node) {
        double hit = (nodes - 1) * (1 - pow(1 - 1 / nodes, m->top_k));
        if (m->nodes > 0 && hit > m->nodes * (nodes - 1) / nodes)
            hit = m->nodes * (nodes - 1) / nodes;
        p->rows_network += sends * own * bytes * hit / r->network;
        p->rows_node += sends * larger(0, copies * (inside - 1) / inside) / r->node;
    } else {
        p->rows_network += sends * copies * (nodes - 1) / nodes / r->network;
        p->rows_node += sends * copies * larger(0, inside - 1) / ep / r->node;
    }
    p->rows_node += sends * 1e-6 * c->node.us * larger(0, inside - 1);
    p->rows_network += sends * 1e-6 * c->network.us * (nodes - 1);
}

/* Adds the exchanges between tensor, context and pipeline ranks. */
static void add_links(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                      const mf_plan_layout *l, const rates *r, double group, double own)
{
    const double tp = (double)l->tensor, cp = (double)l->context, pp = (double)l->pipeline,
                 layers = m->layers / pp;
    const double divided = m->experts > 0 ? 1 : 2; /* number of exchanges: attention, and a
                                                    * dense block */
    p->node +=
        (1 - c->fit.overlap_tensor) * layers * BF16 *
        (divided * 4 * group * m->dim * (tp - 1) / tp + 3 * own * m->dim * 0.25 * (cp - 1)) /
        r->node;
    if (l->pipeline == 1) return;
    const double bytes = 2 * BF16 * (double)l->stages * own * m->dim * BF16;
    p->network += (1 - c->fit.overlap_stages) * bytes /
                  (c->cluster.ranks > c->cluster.per_node ? r->network : r->node);
}

static double reduced(double params, double ranks, double bytes)
{
    return ranks > 1 ? params * bytes * (ranks - 1) / ranks : 0;
}

/* Seconds for sending gradients, for the optimizer, and for sending values. */
static double update_seconds(const mf_plan_model *m, const mf_plan_cluster *c,
                             const mf_plan_layout *l, const mf_plan_step *s, const rates *r)
{
    const double pp = (double)l->pipeline, tp = (double)l->tensor,
                 dp = (double)(l->data * l->context),
                 ep = (double)(l->expert * l->expert_tensor), edp = larger(dp * tp / ep, 1);
    const bool far = c->cluster.ranks > c->cluster.per_node;
    const double own = (m->dense + 2 * m->head) / pp / tp, expert = m->expert / pp / ep,
                 bytes = s->bytes > 0 ? s->bytes : 6, us = far ? c->network.us : c->node.us,
                 moved = reduced(own, dp, bytes) + reduced(expert, edp, bytes),
                 seconds = moved / (far ? r->network : r->node) + 2e-6 * us * (dp - 1),
                 touched = s->sharded ? own / dp + expert / edp : own + expert,
                 /* In moefw, only gradients are sent during the backward pass, so only their
                  * exchange can be hidden. */
        hidden =
            s->bytes > 0 ? (far ? c->fit.overlap_gradients / 2 : 0) : c->fit.overlap_gradients;
    return c->fit.optimizer_bytes * touched / r->memory + (1 - hidden) * seconds;
}

/* Seconds by which the slowest stage takes longer than a stage without head. */
static double longer(const mf_plan_model *m, const mf_plan_layout *l, double stage, double head)
{
    const double pp = (double)l->pipeline, even = m->layers / pp;
    if (l->pipeline == 1) return head;
    if (l->balanced) return head / pp;
    const double last = l->last > 0 ? l->last : even, other = (m->layers - last) / (pp - 1);
    return larger(other / even * stage, last / even * stage + head) - stage;
}

void mf_plan_predict(const mf_plan_model *m, const mf_plan_cluster *c, const mf_plan_layout *l,
                     const mf_plan_step *s, mf_plan_time *ret)
{
    const rates r = rates_of(c);
    const double group = s->micro * m->seq / (double)l->context,
                 own = group / (double)l->tensor, pp = (double)l->pipeline,
                 runs = s->batch / ((double)l->data * s->micro);
    parts p = {0};
    if (measured(c)) {
        p.compute = m->flops * s->micro / (pp * (double)(l->tensor * l->context)) /
                    (1e9 * c->rank.measured_gflops);
    } else {
        add_blocks(&p, m, c, l, &r, own);
        if (m->experts > 0) add_experts(&p, m, c, l, &r, own);
    }
    if (m->experts > 0) add_rows(&p, m, c, l, s, &r, own);
    add_links(&p, m, c, l, &r, group, own);
    const double rows = p.rows_node + p.rows_network,
                 busy = sqrt(p.compute * p.compute + p.host * p.host),
                 exposed = p.node + p.network +
                           (c->software.overlap
                                ? larger(p.compute * c->fit.reserved, rows) - p.compute
                                : rows),
                 head = longer(m, l, busy + exposed, p.head);
    const double turns = ceil(runs), waits = (pp - 1) / (double)l->stages;
    *ret = (mf_plan_time){.compute = turns * (p.compute + head),
                          .host = turns * (busy - p.compute),
                          .exchange = turns * exposed,
                          .bubble = waits * (busy + exposed + p.head / pp),
                          .update = update_seconds(m, c, l, s, &r)};
    ret->step_s = ret->compute + ret->host + ret->exchange + ret->bubble + ret->update;
    ret->tokens_per_s = s->batch * m->seq / ret->step_s;
}
