/* run/metrics/routing_tally.h: what the last runs of an MoE layer did. These are sums of its
 * measurements, the values that are reported, and the inputs of its experts' attention. */
#ifndef MF_RUN_METRICS_ROUTING_TALLY_H
#define MF_RUN_METRICS_ROUTING_TALLY_H

#include "model/moe.h"

/* Returns the numbers of assignments dropped and reassigned in the last run; both are 0 without
 * a capacity. It needs no metric nodes, so it works after every step. */
void mf_moe_overflow(const mf_moe_out *out, double *ret_dropped, double *ret_moved);

/* Inputs of the attention of experts in the last run (ops/moe/grouped_attention.c). */
typedef struct mf_moe_attention {
    int64_t experts, heads, width; /* width: sum over all heads */
    bool causal, masked;
    /* Assignments attend to assignments of the same expert. false: they attend to the tokens of
     * their sequence. */
    bool own;
    double scale;
    const float *q, *kv;   /* q: [R, width]; kv: [T, experts 2 width], or with `own` [R,
                            * 2 width] */
    const int32_t *offset; /* [experts + 1] offsets of each expert's assignments */
    const int32_t *at;     /* [R] token of each assignment */
} mf_moe_attention;
/* Fills in *ret. Returns false if the graph does not keep these inputs, if the experts do not
 * use attention, or if the inputs cannot be read. */
bool mf_moe_attention_of(const mf_moe_out *out, mf_moe_attention *ret);

/* Sums over one or more runs of one layer, computed from its kept values. */
typedef struct mf_moe_tally {
    int32_t experts, top_k, labels, layer;
    double *chosen, *admitted, *importance, *prob_sum; /* [E] */
    double *joint;                                     /* [E,labels] or NULL */
    double tokens, entropy, top_prob, rows, moved;
    double max_prob;     /* NaN, like prob_sum[0], if the router has no probabilities */
    double gate_entropy; /* NaN if assignments list their tokens */
} mf_moe_tally;
int mf_moe_tally_new(int32_t layer, int32_t experts, int32_t top_k, int32_t labels,
                     mf_moe_tally **ret);
void mf_moe_tally_free(mf_moe_tally *t);
void mf_moe_tally_reset(mf_moe_tally *t);
/* Adds the values of the last run, which must have been a run with metrics. */
void mf_moe_tally_add(mf_moe_tally *t, const mf_moe_out *out);
/* Converts the sums to numbers. mf_moe_tally_put writes them to out [mf_moe_tally_numbers].
 * mf_moe_tally_take adds such numbers to the sums; `labels` is the number of labels of the
 * tally that has written them. So the runs of several processes are added in one order, as if
 * one process had made them. */
int64_t mf_moe_tally_numbers(const mf_moe_tally *t);
void mf_moe_tally_put(const mf_moe_tally *t, double *out);
void mf_moe_tally_take(mf_moe_tally *t, int32_t labels, const double *in);
/* Computes the statistics. The caller owns shares [MF_MOE_SHARES, E]; *ret points into shares
 * and into the tally. */
#define MF_MOE_SHARES 4
void mf_moe_tally_stats(const mf_moe_tally *t, float *shares, mf_layer_stats *ret);

/* Returns the normalised mutual information of a table of counts [n,m],
 * 2 I / (H_rows + H_columns). The result is NaN for an empty table, and 0 if either side
 * is constant. */
double mf_nmi(const double *counts, int32_t n, int32_t m);

#endif
