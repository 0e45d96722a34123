/* lab/plan/predict.c: the time of a step from the sizes of a model, of a cluster and a layout.
 *
 *     step  = (GA + (PP - 1) / stages) [smooth max(compute, host) + exposed exchanges] + update
 *     gemms = flops / (efficiency x peak) x (rows + half) / rows
 *     rows of an expert = tokens of a rank x expert ranks x top_k / experts
 *
 * Blocks also move memory: block_bytes elements of bf16 for each token and channel, token_bytes
 * more for each copy of a token that an expert gets. A token goes once to each node and there
 * to each of its experts. The defaults of [fit] were found by random search over published
 * runs, with a penalty for leaving the neighbourhood of plausible values. */
#include "lab/plan/plan.h"
#include <math.h>

enum { BF16 = 2, PASSES = 3, SMOOTH = 4 };

typedef struct parts {
    double compute, host, node, network; /* seconds of a micro-batch on a rank */
} parts;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Attention is causal: half of the scores. */
static double attention_flops(const mf_plan_model *m, double tokens)
{
    return 6 * m->seq * m->attention * m->layers * tokens;
}

static double gemm_seconds(double flops, double rate, double rows, double half)
{
    return flops / rate * (rows + half) / rows;
}

static void add_blocks(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                       const mf_plan_layout *l, double group, double own)
{
    const double peak = 1e12 * c->rank.tflops, rate = peak * c->fit.efficiency,
                 memory = 1e9 * c->rank.memory_gb_per_s, pp = (double)l->pipeline,
                 other = c->rank.attention_tflops > 0 ? 1e12 * c->rank.attention_tflops : peak;
    p->compute += gemm_seconds(6 * (m->dense + m->head) / pp * own, rate, group,
                               c->fit.half_rows) +
                  attention_flops(m, own) / pp / (other * c->fit.attention) +
                  c->fit.block_bytes * own * m->dim * m->layers / pp * BF16 / memory;
    p->host += m->layers / pp * c->fit.host_us * 1e-6 * PASSES;
}

static void add_experts(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                        const mf_plan_layout *l, double own)
{
    const double rate = 1e12 * c->rank.tflops * c->fit.efficiency, ep = (double)l->expert,
                 memory = 1e9 * c->rank.memory_gb_per_s, pp = (double)l->pipeline;
    const double rows = own * ep * m->top_k / m->experts, layers = m->moe_layers / pp;
    p->compute += gemm_seconds(6 * m->expert / pp * m->top_k / m->experts * own, rate, rows,
                               c->fit.half_expert_rows) +
                  c->fit.token_bytes * own * m->dim * m->top_k * layers * BF16 / memory;
    p->host += layers * c->fit.host_expert_us * 1e-6 * PASSES * m->experts / ep;
}

/* Dispatch and combine, forward and backward. */
static void add_all_to_all(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                           const mf_plan_layout *l, double own)
{
    const double ep = (double)l->expert, per_node = (double)c->cluster.per_node,
                 inside = ep < per_node ? ep : per_node, nodes = ep / per_node,
                 layers = m->moe_layers / (double)l->pipeline;
    if (l->expert == 1) return;
    p->node += 4 * layers *
               (own * m->top_k * m->dim * BF16 * (inside - 1) / inside /
                    (1e9 * c->node.gb_per_s) +
                1e-6 * c->node.us * (inside - 1));
    if (nodes <= 1) return;
    double hit = (nodes - 1) * (1 - pow(1 - 1 / nodes, m->top_k));
    if (m->nodes > 0 && hit > m->nodes) hit = m->nodes;
    p->network += 4 * layers *
                  (own * m->dim * BF16 * hit / (1e9 * c->network.gb_per_s) +
                   1e-6 * c->network.us * (nodes - 1));
}

/* What tensor, context and pipeline ranks tell each other. */
static void add_links(parts *p, const mf_plan_model *m, const mf_plan_cluster *c,
                      const mf_plan_layout *l, double group, double own)
{
    const double tp = (double)l->tensor, cp = (double)l->context, pp = (double)l->pipeline,
                 layers = m->layers / pp, node = 1e9 * c->node.gb_per_s;
    const double divided = m->experts > 0 ? 1 : 2; /* attention, dense block */
    p->node += layers * divided * 4 * group * m->dim * BF16 * (tp - 1) / tp / node;
    p->node += layers * 3 * BF16 * own * m->dim * 0.25 * (cp - 1) / node;
    if (l->pipeline == 1) return;
    const double bytes = 2 * BF16 * (double)l->stages * own * m->dim * BF16;
    if (c->cluster.ranks > c->cluster.per_node)
        p->network += bytes / (1e9 * c->network.gb_per_s);
    else
        p->node += bytes / node;
}

static double reduced(double params, double ranks, double bytes)
{
    return ranks > 1 ? params * bytes * (ranks - 1) / ranks : 0;
}

/* Gradients, optimizer, values. */
static double update_seconds(const mf_plan_model *m, const mf_plan_cluster *c,
                             const mf_plan_layout *l, const mf_plan_step *s)
{
    const double pp = (double)l->pipeline, tp = (double)l->tensor,
                 dp = (double)(l->data * l->context), ep = (double)l->expert,
                 edp = larger(dp * tp / ep, 1);
    const bool far = c->cluster.ranks > c->cluster.per_node;
    const double own = (m->dense + 2 * m->head) / pp / tp, expert = m->expert / pp / ep,
                 bytes = s->bytes > 0 ? s->bytes : 6,
                 bandwidth = far ? c->network.gb_per_s : c->node.gb_per_s,
                 us = far ? c->network.us : c->node.us,
                 moved = reduced(own, dp, bytes) + reduced(expert, edp, bytes),
                 seconds = moved / (1e9 * bandwidth) + 2e-6 * us * (dp - 1),
                 touched = s->sharded ? own / dp + expert / edp : own + expert,
                 /* Of ours, only gradients travel during the backward pass. */
                 hidden = s->bytes > 0 ? (far ? c->fit.overlap_network / 2 : 0)
                                 : c->fit.overlap_network;
    return c->fit.optimizer_bytes * touched / (1e9 * c->rank.memory_gb_per_s) +
           (1 - hidden) * seconds;
}

void mf_plan_predict(const mf_plan_model *m, const mf_plan_cluster *c, const mf_plan_layout *l,
                     const mf_plan_step *s, mf_plan_time *ret)
{
    const double group = s->micro * m->seq / (double)l->context,
                 own = group / (double)l->tensor, pp = (double)l->pipeline,
                 runs = s->batch / ((double)l->data * s->micro);
    parts p = {0};
    if (c->rank.measured_gflops > 0) {
        p.compute = m->flops * s->micro / (pp * (double)(l->tensor * l->context)) /
                    (1e9 * c->rank.measured_gflops);
    } else {
        add_blocks(&p, m, c, l, group, own);
        if (m->experts > 0) add_experts(&p, m, c, l, own);
    }
    if (m->experts > 0) add_all_to_all(&p, m, c, l, own);
    add_links(&p, m, c, l, group, own);
    const double busy = pow(pow(p.compute, SMOOTH) + pow(p.host, SMOOTH), 1.0 / SMOOTH),
                 exposed = (1 - c->fit.overlap_node) * p.node +
                           (1 - c->fit.overlap_network) * p.network;
    const double turns = ceil(runs), waits = (pp - 1) / (double)l->stages;
    *ret = (mf_plan_time){.compute = turns * p.compute,
                          .host = turns * (busy - p.compute),
                          .exchange = turns * exposed,
                          .bubble = waits * (busy + exposed),
                          .update = update_seconds(m, c, l, s)};
    ret->step_s = ret->compute + ret->host + ret->exchange + ret->bubble + ret->update;
    ret->tokens_per_s = s->batch * m->seq / ret->step_s;
}
