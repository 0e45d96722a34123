/* model/moe.h: one Mixture-of-Experts layer.
 *
 *     x [T,d] -> router -> routing record -> capacity -> rows grouped by expert -> experts ->
 *     weighted sum back -> y [T,d]   (+ shared experts, which every token visits with gate 1)
 *
 * This file knows plugins only through mf_ctx. What a router may leave to core, and how gates are
 * made, is said in moefw/routing.h.
 */
#ifndef MF_MODEL_MOE_H
#define MF_MODEL_MOE_H

#include "model/config.h"
#include "ops/dispatch.h"
#include "plugin/instance.h"

typedef struct mf_moe_layer {
    int32_t layer;          /* block index */
    mf_ctx *router, *expert;
    mf_ctx *shared;         /* NULL without shared experts */
    mf_param *select_bias;  /* [E], NULL unless a controller wants it */
} mf_moe_layer;

/* Settings that all layers share. */
typedef struct mf_moe_settings {
    const mf_moe_config *config;
    const double *capacity_factor; /* live; NULL or config 0: dropless */
    int32_t labels;                /* label values, 0: none */
    bool keep;                     /* keep prob, chosen and gate readable */
} mf_moe_settings;

typedef struct mf_moe_out {
    mf_routing routing;     /* complete */
    mf_routing_sums sums;   /* kept; metric nodes */
    mf_tensor *moved;       /* f32 scalar, kept; NULL unless overflow = reassign */
    mf_tensor *joint;       /* [E,labels] counts, kept; NULL without labels */
    mf_tensor *gate;        /* [R] */
    mf_tensor *y;           /* [T,d] */
} mf_moe_out;

/* Adds the layer to the graph. The status is the graph's. */
int mf_moe_build(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                 const mf_router_in *in, mf_moe_out *out);

/* The choice alone, without experts: the record up to `chosen`, and the gates. */
int mf_moe_choose(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                  const mf_router_in *in, mf_moe_out *out);

/* Numbers of one layer over one or more runs, from the kept sums. */
typedef struct mf_moe_tally {
    int32_t experts, top_k, labels, layer;
    double *chosen, *admitted, *importance; /* [E] */
    double *joint;                          /* [E,labels] or NULL */
    double tokens, entropy, top_prob, rows, moved;
} mf_moe_tally;
int mf_moe_tally_new(int32_t layer, int32_t experts, int32_t top_k, int32_t labels,
                     mf_moe_tally **ret);
void mf_moe_tally_free(mf_moe_tally *t);
void mf_moe_tally_reset(mf_moe_tally *t);
void mf_moe_tally_add(mf_moe_tally *t, const mf_moe_out *out); /* after a run with metrics */
/* load, demand, importance: [E] floats that the stats will point to. */
void mf_moe_tally_stats(const mf_moe_tally *t, float *load, float *demand, float *importance,
                        mf_layer_stats *ret);

/* Normalised mutual information of a table of counts [n,m], 2 I / (H_rows + H_columns); NaN for
 * an empty table; 0 when either side is constant. */
double mf_nmi(const double *counts, int32_t n, int32_t m);

#endif
