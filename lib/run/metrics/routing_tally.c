/* run/metrics/routing_tally.c: sums measurements of one MoE layer over runs, and computes the
 * reported values from the sums. Padding is not counted. */
#include "run/metrics/routing_tally.h"

#include "base/mem.h"
#include "ops/moe/grouped_attention.h"

#include <math.h>
#include <string.h>

int mf_moe_tally_new(int32_t layer, int32_t experts, int32_t top_k, int32_t labels,
                     mf_moe_tally **ret)
{
    const size_t n = (size_t)experts * (MF_MOE_SHARES + (size_t)labels);
    mf_moe_tally *t = mf_alloc(1, sizeof *t + n * sizeof(double));
    if (!t) return MF_ENOMEM;
    *t = (mf_moe_tally){.experts = experts, .top_k = top_k, .labels = labels, .layer = layer};
    t->chosen = (double *)(t + 1);
    t->admitted = t->chosen + experts;
    t->importance = t->admitted + experts;
    t->prob_sum = t->importance + experts;
    t->joint = labels > 0 ? t->prob_sum + experts : NULL;
    *ret = t;
    return MF_OK;
}

void mf_moe_tally_free(mf_moe_tally *t)
{
    mf_free(t);
}

void mf_moe_tally_reset(mf_moe_tally *t)
{
    const size_t n = (size_t)t->experts * (MF_MOE_SHARES + (size_t)t->labels);
    memset(t->chosen, 0, n * sizeof(double));
    t->tokens = t->entropy = t->top_prob = t->rows = t->moved = t->gate_entropy = 0;
    t->max_prob = 0;
}

static void add(double *sum, const mf_tensor *t, int64_t n)
{
    const float *v = t ? mf_tensor_host(t) : NULL;
    for (int64_t i = 0; v && i < n; i++)
        sum[i] += (double)v[i];
}

void mf_moe_tally_add(mf_moe_tally *t, const mf_moe_out *out)
{
    double scalars[4] = {0};
    if (!out->routing.expert && !out->routing.dispatch) t->top_k = out->routing.top_k;
    add(t->chosen, out->sums.chosen, t->experts);
    add(t->admitted, out->sums.admitted, t->experts);
    add(t->importance, out->sums.importance, t->experts);
    add(scalars, out->sums.scalars, 4);
    if (t->joint) add(t->joint, out->joint, (int64_t)t->experts * t->labels);
    add(&t->moved, out->moved, 1);
    if (out->gate_entropy)
        add(&t->gate_entropy, out->gate_entropy, 1);
    else
        t->gate_entropy = (double)NAN;
    if (out->prob_sum) {
        add(t->prob_sum, out->prob_sum, t->experts);
        add(&t->max_prob, out->max_prob, 1);
    } else {
        t->prob_sum[0] = t->max_prob = (double)NAN;
    }
    t->tokens += scalars[0];
    t->entropy += scalars[1];
    t->top_prob += scalars[2];
    t->rows += scalars[3];
}

/* ---- as numbers: the arrays, which lie one after another, and the scalars ---- */

enum { SCALARS = 7 };

static int64_t in_arrays(const mf_moe_tally *t, int32_t labels)
{
    return (int64_t)t->experts * (MF_MOE_SHARES + labels);
}

int64_t mf_moe_tally_numbers(const mf_moe_tally *t)
{
    return in_arrays(t, t->labels) + SCALARS;
}

void mf_moe_tally_put(const mf_moe_tally *t, double *out)
{
    const double scalars[SCALARS] = {t->tokens, t->entropy,  t->top_prob,    t->rows,
                                     t->moved,  t->max_prob, t->gate_entropy};
    const int64_t n = in_arrays(t, t->labels);
    memcpy(out, t->chosen, (size_t)n * sizeof *out);
    memcpy(out + n, scalars, sizeof scalars);
}

void mf_moe_tally_take(mf_moe_tally *t, int32_t labels, const double *in)
{
    double *const scalars[SCALARS] = {&t->tokens, &t->entropy,  &t->top_prob,    &t->rows,
                                      &t->moved,  &t->max_prob, &t->gate_entropy};
    const int64_t n = in_arrays(t, t->labels < labels ? t->labels : labels);
    for (int64_t i = 0; i < n; i++)
        t->chosen[i] += in[i];
    for (int i = 0; i < SCALARS; i++)
        *scalars[i] += in[in_arrays(t, labels) + i];
}

bool mf_moe_attention_of(const mf_moe_out *out, mf_moe_attention *ret)
{
    const mf_node *n = out->attention;
    if (!n) return false;
    *ret = (mf_moe_attention){.experts = n->in[MF_ATTEND_OFFSET]->shape.dim[0] - 1,
                              .heads = n->attr.i[MF_ATTEND_HEADS],
                              .width = n->in[MF_ATTEND_Q]->shape.dim[1],
                              .causal = n->attr.i[MF_ATTEND_CAUSAL] != 0,
                              .masked = n->n_in > MF_ATTEND_MASK && n->in[MF_ATTEND_MASK],
                              .own = n->attr.i[MF_ATTEND_OWN] != 0,
                              .scale = n->attr.f[MF_ATTEND_SCALE],
                              .q = mf_tensor_host(n->in[MF_ATTEND_Q]),
                              .kv = mf_tensor_host(n->in[MF_ATTEND_KV]),
                              .offset = mf_tensor_host(n->in[MF_ATTEND_OFFSET]),
                              .at = mf_tensor_host(n->in[MF_ATTEND_TOKEN])};
    return ret->q && ret->kv && ret->offset && ret->at;
}

void mf_moe_overflow(const mf_moe_out *out, double *ret_dropped, double *ret_moved)
{
    const int32_t *chosen = out->limited ? mf_tensor_host(out->routing.chosen) : NULL,
                  *admitted = out->limited ? mf_tensor_host(out->routing.admitted) : NULL;
    const float *moved = out->limited && out->moved ? mf_tensor_host(out->moved) : NULL;
    int64_t dropped = 0;
    for (int32_t r = 0; chosen && admitted && r < out->routing.rows; r++)
        dropped += chosen[r] >= 0 && admitted[r] < 0;
    *ret_dropped = (double)dropped;
    *ret_moved = moved ? (double)*moved : 0;
}

static double total(const double *v, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

void mf_moe_tally_stats(const mf_moe_tally *t, float *shares, mf_layer_stats *ret)
{
    const int32_t E = t->experts;
    float *load = shares, *demand = load + E, *importance = demand + E,
          *prob_sum = importance + E;
    const double chosen = total(t->chosen, E), admitted = total(t->admitted, E);
    const double imp = total(t->importance, E);
    double square = 0, entropy = 0;
    int32_t empty = 0;
    for (int32_t e = 0; e < E; e++) {
        const double l = admitted > 0 ? t->admitted[e] / admitted : 0;
        load[e] = (float)l;
        demand[e] = (float)(chosen > 0 ? t->chosen[e] / chosen : 0);
        importance[e] = (float)(imp > 0 ? t->importance[e] / imp : 0);
        prob_sum[e] = (float)t->prob_sum[e];
        square += (l - 1.0 / E) * (l - 1.0 / E);
        if (l > 0) entropy -= l * log(l);
        empty += t->admitted[e] == 0;
    }
    *ret = (mf_layer_stats){.size = sizeof *ret,
                            .layer = t->layer,
                            .experts = E,
                            .top_k = t->top_k,
                            .load = load,
                            .count = t->admitted,
                            .demand = demand,
                            .importance = importance,
                            .entropy = t->tokens > 0 ? t->entropy / t->tokens : 0,
                            .gate_entropy = t->tokens > 0 ? t->gate_entropy / t->tokens : 0,
                            .load_entropy = entropy,
                            .top_prob = t->tokens > 0 ? t->top_prob / t->tokens : 0,
                            .load_cv = admitted > 0 ? sqrt(square / E) * E : 0,
                            .drop_rate = chosen > 0 ? (chosen - admitted) / chosen : 0,
                            .reassigned = t->moved,
                            .nmi = t->joint ? mf_nmi(t->joint, E, t->labels) : (double)NAN,
                            .empty = empty,
                            .rows_per_token = t->tokens > 0 ? chosen / t->tokens : 0,
                            .prob_sum = isnan(t->prob_sum[0]) ? NULL : prob_sum,
                            .max_prob = t->tokens > 0 ? t->max_prob / t->tokens : t->max_prob};
}

double mf_nmi(const double *counts, int32_t n, int32_t m)
{
    const double sum = total(counts, n * m);
    if (!(sum > 0)) return (double)NAN;
    double rows = 0, columns = 0, joint = 0;
    for (int32_t i = 0; i < n; i++) {
        const double p = total(counts + (int64_t)i * m, m) / sum;
        if (p > 0) rows -= p * log(p);
    }
    for (int32_t j = 0; j < m; j++) {
        double p = 0;
        for (int32_t i = 0; i < n; i++)
            p += counts[(int64_t)i * m + j] / sum;
        if (p > 0) columns -= p * log(p);
    }
    for (int32_t i = 0; i < n * m; i++)
        if (counts[i] > 0) joint -= counts[i] / sum * log(counts[i] / sum);
    if (rows <= 0 || columns <= 0) return 0;
    const double information = rows + columns - joint;
    return information > 0 ? 2 * information / (rows + columns) : 0;
}
