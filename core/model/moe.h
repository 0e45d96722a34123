/* model/moe.h: one Mixture-of-Experts layer.
 *
 *     x [T,d] -> router -> routing record -> capacity -> rows grouped by expert -> experts ->
 *     weighted sum back -> y [T,d]   (+ shared experts, which every token visits with gate 1)
 *
 * This file knows plugins only through mf_ctx. What a router may leave to core, and how gates
 * are made, is said in moefw/routing.h.
 */
#ifndef MF_MODEL_MOE_H
#define MF_MODEL_MOE_H

#include "model/config.h"
#include "ops/dispatch.h"
#include "plugin/instance.h"

typedef struct mf_moe_layer {
    int32_t layer; /* block index */
    mf_ctx *router, *expert;
    mf_ctx *shared;        /* NULL without shared experts */
    mf_param *select_bias; /* [E], NULL unless a controller wants it */
    mf_param *film_weight, *film_bias; /* [E,2d,d], [E,2d]; shared: [2d,d], [2d]; NULL: off */
} mf_moe_layer;

/* Settings that all layers share. */
typedef struct mf_moe_settings {
    const mf_moe_config *config;
    const double *capacity_factor;      /* live; NULL or config 0: dropless */
    const double *adaptive_capacity;    /* live; NULL or config 0: the same for all experts */
    int32_t labels;                     /* label values, 0: none */
    double film_from;                   /* what scales of FiLM are counted from: 1 or 0 */
    bool keep;                          /* keep prob, chosen and gate readable */
    bool attention;                     /* keep what experts that attend see */
    bool trace;                         /* also x, logits, score and the router's own choice */
    const struct mf_moe_forced *forced; /* of this layer; NULL: the router's choice counts */
} mf_moe_settings;

/* The choice comes from outside: it is fed before each run through mf_moe_out.forced. The
 * router is asked all the same, and what it would have chosen is in mf_moe_out.own; capacity is
 * not applied again. */
typedef struct mf_moe_forced {
    int32_t rows; /* R */
    bool listed;  /* rows say which token they belong to; else R = T k */
} mf_moe_forced;

/* Who goes where with which weight, one entry a row. */
typedef struct mf_moe_choice {
    int32_t rows;        /* R */
    mf_tensor *chosen;   /* [R] i32 before capacity */
    mf_tensor *admitted; /* [R] i32 after it; may be the same tensor */
    mf_tensor *gate;     /* [R] f32 */
    mf_tensor *token;    /* [R] i32 or NULL: r / k */
} mf_moe_choice;

typedef struct mf_moe_out {
    mf_routing routing;   /* complete */
    mf_routing_sums sums; /* kept; metric nodes */
    mf_tensor *gate_entropy; /* f32 scalar, kept; metric node; NULL where rows list tokens */
    mf_tensor *prob_sum;     /* [E] f32, sum of prob over real tokens, kept; metric node; NULL
                              * without prob */
    mf_tensor *max_prob;     /* f32 scalar, sum over real tokens of their largest prob;
                                likewise */
    mf_tensor *moved;     /* f32 scalar, kept; NULL unless overflow = reassign */
    bool limited;         /* there is a capacity: chosen and admitted are kept */
    mf_tensor *joint;     /* [E,labels] counts, kept; NULL without labels */
    mf_tensor *gate;      /* [R] */
    mf_tensor *y;         /* [T,d] */
    mf_moe_choice own;    /* the router's; admitted NULL when another one was forced */
    mf_moe_choice forced; /* inputs; chosen NULL unless forced */
    mf_tensor *score;     /* [T,E] what core selected by; NULL: prob, or the router selected */
    mf_tensor *x;         /* [T,d] f32 router's input, kept; NULL unless traced */
    const mf_node *attention; /* of experts that attend, its inputs kept; NULL: none, or not
                                 asked */
} mf_moe_out;

/* Adds the layer to the graph. The status is the graph's. */
int mf_moe_build(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                 const mf_router_in *in, mf_moe_out *out);

/* The choice alone, without experts: the record up to `chosen`, and the gates. */
int mf_moe_choose(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                  const mf_router_in *in, mf_moe_out *out);

/* What the last run did under a capacity: rows dropped, rows reassigned; 0 without one. Wants
 * no metric nodes, so that every step can be counted. */
void mf_moe_overflow(const mf_moe_out *out, double *ret_dropped, double *ret_moved);

/* What experts that attend computed from in the last run (ops/grouped_attention.c). */
typedef struct mf_moe_attention {
    int64_t experts, heads, width; /* width: of all heads */
    bool causal, masked;
    bool own;              /* rows of an expert see one another, not the tokens of their
                              sequence */
    double scale;
    const float *q, *kv;   /* [R, width]; [T, experts 2 width], or own: [R, 2 width] */
    const int32_t *offset; /* [experts + 1] rows of each expert */
    const int32_t *at;     /* [R] the token of a row */
} mf_moe_attention;
/* False when the graph was not asked to keep it, or the experts do not attend. */
bool mf_moe_attention_of(const mf_moe_out *out, mf_moe_attention *ret);

/* Numbers of one layer over one or more runs, from the kept sums. */
typedef struct mf_moe_tally {
    int32_t experts, top_k, labels, layer;
    double *chosen, *admitted, *importance, *prob_sum; /* [E] */
    double *joint;                                     /* [E,labels] or NULL */
    double tokens, entropy, top_prob, rows, moved;
    double max_prob;     /* NaN, as prob_sum[0], where the router has no probabilities */
    double gate_entropy; /* NaN where rows list their tokens */
} mf_moe_tally;
int mf_moe_tally_new(int32_t layer, int32_t experts, int32_t top_k, int32_t labels,
                     mf_moe_tally **ret);
void mf_moe_tally_free(mf_moe_tally *t);
void mf_moe_tally_reset(mf_moe_tally *t);
void mf_moe_tally_add(mf_moe_tally *t, const mf_moe_out *out); /* after a run with metrics */
/* shares: [MF_MOE_SHARES, E] floats that the stats will point to; their count is in the
 * tally. */
#define MF_MOE_SHARES 4
void mf_moe_tally_stats(const mf_moe_tally *t, float *shares, mf_layer_stats *ret);

/* Normalised mutual information of a table of counts [n,m], 2 I / (H_rows + H_columns); NaN for
 * an empty table; 0 when either side is constant. */
double mf_nmi(const double *counts, int32_t n, int32_t m);

#endif
