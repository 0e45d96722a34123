/* model/moe.h: one Mixture-of-Experts layer.
 *
 *     x [T,d] -> router -> routing record -> capacity -> assignments grouped by expert ->
 *     experts -> weighted sum -> y [T,d]   (+ shared experts for every token, with gate 1 or
 *     sigmoid(w x))
 *
 * model/moe.c calls plugins only through plugin/instance.h. moefw/routing.h describes what a
 * router may leave to core, and how gates are computed.
 *
 * Shapes are static: there are T k assignments, sorted by expert, with offsets computed at run
 * time. A router that chooses experts itself (hash, expert choice, ReLU gates) returns
 * assignments; all later steps are the same. The gradient of expert weights reads dispatched
 * rows in the layer's input, without a copy.
 *
 * An expert may apply its gates to the hidden values before the last gemm, because W (g h) = g
 * (W h). The gradient of a gate then comes from the hidden values, and outputs of experts are
 * not kept (MF_EXPERT_GATES). */
#ifndef MF_MODEL_MOE_H
#define MF_MODEL_MOE_H

#include "comm/expert_ranks.h"
#include "model/adapters.h"
#include "model/history.h"
#include "model/model_config.h"
#include "ops/moe/dispatch.h"
#include "plugin/instance.h"

typedef struct mf_moe_layer {
    int32_t layer;        /* index of the block */
    mf_moe_config config; /* [moe] of the block (mf_model_moe) */
    /* live options of the block, which several layers may share */
    const double *top_k, *capacity_factor;
    mf_ctx *router, *expert;
    mf_ctx *shared;        /* shared experts; NULL: the layer has none */
    mf_param *shared_gate; /* [shared_experts, d]; NULL: gates are 1 */
    /* with moe.latent: [l,d], [d,l], and [l] or NULL */
    mf_param *down, *up, *latent_norm;
    mf_param *select_bias;       /* [E], NULL unless a controller requests it */
    const mf_adapters *adapters; /* adapters of the block; NULL: none */
} mf_moe_layer;

/* Settings that all layers share, except `forced`, which belongs to one layer. */
typedef struct mf_moe_settings {
    const mf_moe_config *config;
    const double *capacity_factor; /* live option; NULL or configured 0: no capacity */
    /* live option; NULL or configured 0: all experts have the same capacity */
    const double *adaptive_capacity;
    int32_t labels;               /* number of distinct labels; 0: no labels */
    mf_adapt_env *env;            /* adapter environment of the graph; NULL without adapters */
    const mf_expert_ranks *ranks; /* the ranks that share the experts */
    /* The plugins that may request counts of scores; NULL: none. */
    mf_plughost *plugins;
    bool keep;      /* keep prob, chosen, admitted and gate */
    bool attention; /* keep the inputs of the experts' attention */
    bool outputs;   /* the record has the inputs and outputs of the experts */
    /* keep everything that `keep` keeps, and x, logits, score and the router's own choice */
    bool trace;
    /* routers with MF_ROUTER_SEQUENCE read these positions; NULL: the tokens of the graph */
    const mf_history *history;
    /* routing that the caller sets for this layer; NULL: the router decides */
    const struct mf_moe_forced *forced;
    bool given; /* adds the input mf_moe_out.given */
    bool probe; /* adds the inputs mf_moe_out.route_bias and mf_moe_out.expert_map */
} mf_moe_settings;

/* Routing that the caller sets: it fills mf_moe_out.forced before each run. The router is still
 * part of the graph, and its own choice is in mf_moe_out.own. Capacity is not applied. */
typedef struct mf_moe_forced {
    int32_t rows; /* R, the number of assignments */
    bool listed;  /* each assignment names its token; false: R = T k */
} mf_moe_forced;

/* Expert and gate of each assignment. */
typedef struct mf_moe_choice {
    int32_t rows;        /* R, the number of assignments */
    mf_tensor *chosen;   /* [R] i32, before capacity */
    mf_tensor *admitted; /* [R] i32, after capacity; may be the same tensor */
    mf_tensor *gate;     /* [R] f32 */
    mf_tensor *token;    /* [R] i32; NULL: assignment r belongs to token r / k */
} mf_moe_choice;

typedef struct mf_moe_out {
    mf_routing routing; /* the record after core has completed it */
    /* The record that the router returned for all positions of the history; its size is 0
     * without a history. */
    mf_routing whole;
    mf_routing_sums sums; /* kept values of metric nodes */
    /* f32 scalar, kept; metric node; NULL if assignments list their tokens */
    mf_tensor *gate_entropy;
    /* [E] f32, sum of prob over real tokens, kept; metric node; NULL without prob */
    mf_tensor *prob_sum;
    /* f32 scalar, sum of real tokens' largest prob, kept; metric node; NULL without prob */
    mf_tensor *max_prob;
    /* f32 scalar, number of reassigned assignments, kept; NULL: the layer does not
     * reassign assignments */
    mf_tensor *moved;
    /* No gradient of the task can reach the router. gates_are_1: each gate is p / p.
     * gates_ignored: the expert has declared MF_EXPERT_GATES and does not read the gates. */
    bool gates_are_1, gates_ignored;
    bool limited;     /* the layer has a capacity: chosen and admitted are kept */
    mf_tensor *joint; /* [E,labels] counts, kept; NULL without labels */
    mf_tensor *gate;  /* [R] */
    /* [R] i32, experts of silent assignments, -1 for all other assignments; NULL: there
     * are none */
    mf_tensor *silent;
    mf_tensor *y; /* [T,d] */
    /* the router's own choice; admitted is NULL with forced routing or after mf_moe_choose */
    mf_moe_choice own;
    mf_moe_choice forced; /* inputs of forced routing; chosen is NULL without it */
    mf_tensor *score;     /* [T,E] scores for selection; NULL: prob was used, or the
                           * router selected */
    mf_tensor *x;         /* [T,d] f32 input of the router, kept; NULL unless traced */
    /* [T,E] f32 input: 0 where the token may choose the expert, else -inf. At least k experts
     * of a token are 0. Gates and probabilities are those of the router. NULL unless requested.
     * wished: [R] i32, what the router would choose without it, kept; metric node. */
    mf_tensor *given, *wished;
    /* Inputs of probes, which the caller fills before each run; NULL without `probe`.
     * route_bias [T,E] f32 is added to the scores for selection only. An expert with -inf does
     * not exist for the token: a softmax of logits by core leaves it out, too. NULL also if the
     * router selects by itself. expert_map [E,1] f32: assignments to expert e are computed by
     * expert expert_map[e] - 1, and by none if this is -1. */
    mf_tensor *route_bias, *expert_map;
    /* attention node of the experts, with its inputs kept; NULL: none, or not requested */
    const mf_node *attention;
} mf_moe_out;

/* Adds the layer to the graph. Returns the graph's status. */
int mf_moe_build(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                 const mf_router_in *in, mf_moe_out *out);

/* A latent width around the experts (moe.latent; Elango et al. 2026, LatentMoE):
 *
 *     x [T,d] -> x' = norm(x down^T) [T,l] -> dispatch, experts of width l, sum by gates
 *             -> y = y' up^T [T,d]
 *
 * The router, shared experts and what dropped assignments add read x.
 *
 * mf_moe_latent_declare declares the parameters of a layer with names of block `from`. The
 * other functions add the nodes before dispatch and after the sum. */
int mf_moe_latent_declare(mf_store *store, mf_moe_layer *layer, int from,
                          const mf_model_settings *c);
mf_tensor *mf_moe_down(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                       mf_tensor *x);
mf_tensor *mf_moe_up(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                     mf_tensor *y);

/* Adds mf_moe_out.given and wished. score: the scores for selection, [T,E]. Returns scores by
 * which the given experts of a token are chosen, best first. A score of -inf, by which a router
 * excludes an expert, excludes no given one. score NULL: the graph fails, because the router
 * chose itself. */
mf_tensor *mf_moe_given(mf_graph *g, const mf_router_in *in, mf_tensor *score, mf_moe_out *out);

/* Adds only the router and its choice, not capacity and experts. Returns the graph's status. */
int mf_moe_choose(const mf_moe_layer *layer, const mf_moe_settings *settings, mf_graph *g,
                  const mf_router_in *in, mf_moe_out *out);

/* Tallies of core.
 *
 * mf_moe_tallies_declare declares the tallies of a layer with `experts` experts: counts of
 * scores that plugins have requested (mf_host.count_scores), and losses by expert
 * (MF_CONTROLLER_TOKEN_LOSS). MF_ECONFIG, MF_ENOMEM; MF_EPLUGIN if another tally has the
 * same name.
 *
 * mf_moe_scores_count adds the counts to a training graph, after the router's choice. selects:
 * [T,E] the values that decide the selection, including the layer's select_bias; NULL: the
 * router has selected by itself.
 *
 * mf_moe_losses_count adds losses [T] and counts [T]. An element of counts is 1 where the token
 * has a loss, else 0. */
int mf_moe_tallies_declare(mf_plughost *h, int32_t layer, int32_t experts, bool losses);
void mf_moe_losses_count(mf_plughost *h, mf_graph *g, const mf_routing *r, mf_tensor *loss,
                         mf_tensor *counts);
void mf_moe_scores_count(const mf_moe_layer *layer, mf_plughost *h, mf_graph *g,
                         const mf_router_in *in, const mf_routing *r, mf_tensor *selects);

/* Like mf_instance_expert, for the rows of all ranks that share the experts; each rank has a
 * part of the experts (model/moe_ranks.c). The rows of one rank are processed after the rows of
 * another, so each gemm has the same rows as in one process. With e->merged the rows of all
 * ranks are processed at once. Returns the results for this rank's own rows, or NULL with the
 * reason in mf_graph_status. */
mf_tensor *mf_moe_shared_experts(const mf_moe_layer *layer, const mf_expert_ranks *e,
                                 mf_graph *g, const mf_expert_in *in);

#endif
