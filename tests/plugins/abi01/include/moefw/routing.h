/* moefw/routing.h: the routing record, and what routers, experts and controllers are given.
 *
 * T: tokens (rows) in the graph, batch x sequence. E: experts. k: experts per token.
 * R: rows that experts may see: T k for token choice, E C for expert choice.
 *
 * The record is the one thing that regularizers, metrics, traces, controllers and reports read.
 * A router fills the first part; core completes it. Three ways to route:
 *
 * 1. logits [T,E]. Core: prob = softmax(logits), top-k, gates.
 * 2. prob [T,E] (and logits, if there are any): probabilities that are not softmax(logits), as
 * a
 *    mixture or a sigmoid. They need not sum to 1.
 * 3. expert [R] (and gate [R]; token [R] for expert choice): the whole choice. Set prob as well
 *    when there is one: metrics and regularizers skip records without.
 *
 * In ways 1 and 2 the k experts with the largest score are taken, ties to the lower index;
 * score is prob unless the router sets it (selection by s + b, gates from s). When a controller
 * asked for it, core adds the layer's select_bias [E] to the score, for selection only.
 * gate = prob of the chosen, divided by their sum if renormalize, times gate_scale.
 */
#ifndef MOEFW_ROUTING_H
#define MOEFW_ROUTING_H

#include <moefw/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_router_in {
    uint32_t size;
    int32_t batch, seq;      /* T = batch * seq */
    int32_t experts, top_k;  /* E, k */
    mf_tensor *x;            /* [T,d] float: the router's input (after the norm) */
    mf_tensor *mask;         /* [T] f32: 1 a real token, 0 padding; NULL: all real */
    mf_tensor *token_ids;    /* [T] i32 */
    mf_tensor *positions;    /* [T] i32: place within the sequence */
    mf_tensor *sequence_ids; /* [T] i32: which sequence of the batch */
    mf_tensor *labels; /* [T] i32: the corpus's label of the token, -1 unknown; may be NULL */
} mf_router_in;

#define MF_ROUTING_MAX_LOSSES 4
typedef struct mf_routing {
    uint32_t size;
    int32_t layer; /* block index */
    int32_t experts, top_k;
    /* ---- filled by the router ---- */
    mf_tensor *logits;   /* [T,E] f32 or NULL */
    mf_tensor *prob;     /* [T,E] f32 or NULL: then softmax(logits) */
    mf_tensor *score;    /* [T,E] f32 or NULL: then prob */
    mf_tensor *expert;   /* [R] i32 or NULL: core selects. -1: row not used */
    mf_tensor *gate;     /* [R] f32, differentiable; NULL with expert set: 1 */
    mf_tensor *token;    /* [R] i32; NULL: row r belongs to token r / k */
    mf_tensor *priority; /* [T] f32 or NULL: under a capacity, larger is admitted first; wins
                             * over moe.priority */
    int32_t renormalize; /* 1 yes, 0 no, -1 as the INI says (the default). With a gate of its
                             * own, 1 promises that a token's gates sum to gate_scale */
    int32_t own_top_k;   /* rows per token when the router chose (expert set, token NULL) */
    double gate_scale;   /* multiplies gates; 1 by default */
    int32_t n_losses;    /* the router's own losses, added to the total as they are */
    int32_t reserved;
    mf_tensor *loss[MF_ROUTING_MAX_LOSSES]; /* scalars */
    const char *loss_name[MF_ROUTING_MAX_LOSSES];
    /* ---- completed by core before regularizers see it ---- */
    mf_tensor *mask;      /* [T] f32 or NULL */
    mf_tensor *chosen;    /* [R] i32: experts before capacity, -1 for padding */
    mf_tensor *admitted;  /* [R] i32: experts after capacity and reassignment, -1 dropped */
    mf_tensor *load;      /* [E] f32: admitted rows per expert / real tokens (sums to k) */
    mf_tensor *demand;    /* [E] f32: chosen rows per expert / real tokens */
    mf_tensor *labels;    /* [T] i32 or NULL */
    int32_t tokens, rows; /* T, R */
    /* ---- since 0.1: the graph's shape, which may be shorter than dims->seq ---- */
    int32_t batch, seq; /* T = batch * seq; token t is at t % seq of sequence t / seq, which may
                           be * padding altogether */
} mf_routing;

typedef struct mf_expert_in {
    uint32_t size;
    int32_t batch, seq;
    int32_t experts;
    mf_tensor *x;      /* [R,d]: rows grouped by expert; rows past offset[E] are undefined */
    mf_tensor *offset; /* [E+1] i32: rows of expert e are offset[e] .. offset[e+1]-1 */
    mf_tensor *token;  /* [R] i32: token of each grouped row, -1 past offset[E]; rising within
                        * an expert, also when the router listed its tokens in another order */
    mf_tensor *seq_x;  /* [T,d]: the whole batch, for experts that declare MF_EXPERT_SEQUENCE */
    mf_tensor *mask;   /* [T] f32 or NULL */
    mf_tensor *positions;    /* [T] i32 */
    mf_tensor *sequence_ids; /* [T] i32: which sequence of the batch; t / seq */
    mf_tensor *gate; /* [R,1] f32: of each grouped row, for experts that declare
                      * MF_EXPERT_GATES; NULL: core multiplies by it. Since 0.1, see size */
} mf_expert_in;

/* Measurements of one MoE layer over the last step's batch (padding not counted). */
typedef struct mf_layer_stats {
    uint32_t size;
    int32_t layer, experts, top_k;
    const float *load;       /* [E] share of admitted rows, sums to 1 (0 if there are none) */
    const float *demand;     /* [E] share of chosen rows before capacity */
    const float *importance; /* [E] sum of gates / sum of all gates */
    double entropy;          /* mean over tokens of -sum p ln p, nats */
    double load_entropy;     /* -sum load ln load */
    double top_prob;         /* mean over tokens of the mean chosen probability */
    double load_cv;          /* standard deviation / mean of load */
    double drop_rate;        /* dropped rows / chosen rows */
    double reassigned;       /* rows sent to another expert */
    double nmi;              /* NMI(expert, label), NaN without labels */
    int32_t empty;           /* experts without a row */
    int32_t reserved;
    double rows_per_token; /* chosen rows / real tokens: k, or less or more where k varies */
    double gate_entropy; /* mean over tokens of -sum g ln g, g the token's gates over their sum;
                              * NaN where experts choose tokens */
    const float *prob_sum; /* [E] sum of the expert's probability over the tokens; NULL: the
                              * router has no probabilities */
    double max_prob;       /* mean over tokens of the largest probability; NaN without */
    const double *count;   /* [E] admitted rows; NULL: not known */
} mf_layer_stats;

/* Measurements of the attention heads of one layer, where heads are gated (model.head_gates).
 * Per head; 0 for heads that are pruned. NULL: not measured. */
typedef struct mf_head_stats {
    uint32_t size;
    int32_t layer, heads;
    int32_t reserved;
    const float *gate;   /* [H] sigmoid of the logit */
    const float *active; /* [H] 1, or 0: pruned */
    const float *entropy;    /* [H] mean over tokens of -sum p ln p of its weights, nats */
    const float *grad_norm;  /* [H] over the head's part of the q, k, v, o weights and biases */
    const float *importance; /* [H] see mf_host.head_importance; NULL: nobody asked */
} mf_head_stats;

typedef struct mf_step {
    uint32_t size;
    int32_t n_layers;        /* MoE layers */
    int64_t step, max_steps; /* optimizer steps done, planned */
    double loss, task_loss, lr, grad_norm;
    double val_loss;              /* last evaluation, NaN before the first */
    int64_t tokens;               /* trained on so far */
    const mf_layer_stats *layers; /* [n_layers], each of size layers[0].size */
    const mf_head_stats *heads;   /* [n_head_layers], each of size heads[0].size */
    int32_t n_head_layers;        /* 0: heads are not gated */
    int32_t reserved;
} mf_step;

#ifdef __cplusplus
}
#endif
#endif
