/* moefw/routing.h: the routing record, and the arguments of routers, experts and controllers.
 *
 * T: tokens in the graph, batch x sequence. E: experts. k: experts per token. R: assignments,
 * that is (token, expert) pairs: T k for token choice, E C for expert choice, where each expert
 * chooses C tokens.
 *
 * Regularizers, metrics, traces, controllers and reports all read this record and nothing else.
 * A router fills the first part; core completes it. There are four ways to route:
 *
 * 1. logits [T,E]. Core computes prob = softmax(logits), top-k, gates.
 * 2. prob [T,E] (and logits, if there are any): probabilities that are not softmax(logits), for
 *    example a mixture or a sigmoid. They need not sum to 1.
 * 3. expert [R] (and gate [R]; token [R] for expert choice): the complete choice. Set prob as
 *    well if there is one: metrics and regularizers skip records without prob.
 * 4. dispatch and combine [T,S] (since 0.2): soft routing, in which no token is assigned
 *    (Puigcerver et al. 2023). Each sequence has S = slots E slots, the same number for each
 *    expert, in the order of the experts. The input of a slot is the sum of the sequence's
 *    tokens, each times its dispatch weight. The output of a token is the sum of the slots'
 *    outputs, each times its combine weight. There is no capacity, and gates are not applied.
 *    Core sets chosen to every expert for every real token. Unless the router has set prob,
 *    core sets prob to the sum of an expert's combine weights.
 *
 * In ways 1 and 2 core chooses the k experts with the largest score; of equal scores, the lower
 * index. The score is prob unless the router sets score (selection by s + b, gates from s). If
 * a controller requests the layer's select_bias [E], core adds it to the score, for selection
 * only. A gate is the prob of the chosen expert times gate_scale and moe.gate_scale. If the
 * record's renormalize or the INI says so, it is first divided by the sum over the
 * chosen experts. */
#ifndef MOEFW_ROUTING_H
#define MOEFW_ROUTING_H

#include <moefw/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_router_in {
    uint32_t size;
    int32_t batch, seq;      /* T = batch * seq */
    int32_t experts, top_k;  /* E: number of experts; k: experts per token */
    mf_tensor *x;            /* [T,d] f32: the router's input (after the norm) */
    mf_tensor *mask;         /* [T] f32: 1 a real token, 0 padding; NULL: all real */
    mf_tensor *token_ids;    /* [T] i32 */
    mf_tensor *positions;    /* [T] i32: position within the sequence */
    mf_tensor *sequence_ids; /* [T] i32: index of the sequence in the batch */
    mf_tensor *labels; /* [T] i32: label of the token in the corpus, -1 unknown; may be NULL */
    /* ---- since 0.2; MF_HAS tells whether the field exists ---- */
    /* The record of the previous MoE layer; NULL in the first MoE layer. It is for routers that
     * continue from the logits of the previous layer. */
    const struct mf_routing *previous;
} mf_router_in;

#define MF_ROUTING_MAX_LOSSES 4
typedef struct mf_routing {
    uint32_t size;
    int32_t layer; /* block index */
    int32_t experts, top_k;
    /* ---- filled by the router ---- */
    mf_tensor *logits; /* [T,E] f32 or NULL */
    mf_tensor *prob;   /* [T,E] f32; NULL: softmax(logits) */
    mf_tensor *score;  /* [T,E] f32; NULL: prob */
    mf_tensor *expert; /* [R] i32, -1: assignment not used; NULL: core chooses */
    mf_tensor *gate;   /* [R] f32, differentiable; NULL with expert set: all 1 */
    mf_tensor *token;  /* [R] i32; NULL: assignment r belongs to token r / k */
    /* [T] f32 or NULL: under a capacity, tokens with larger values are admitted first, and
     * moe.priority is not used */
    mf_tensor *priority;
    /* 1: gates are divided by the sum over the chosen experts, 0: they are not divided, -1: the
     * INI decides (the default). If the router sets gate, 1 promises that a token's gates sum
     * to gate_scale */
    int32_t renormalize;
    /* assignments per token if the router chose them (expert set, token NULL) */
    int32_t own_top_k;
    double gate_scale; /* factor on the gates; 1 by default */
    int32_t n_losses;  /* number of the router's own losses; core adds them to the total loss */
    int32_t reserved;
    mf_tensor *loss[MF_ROUTING_MAX_LOSSES]; /* the router's own losses, scalars */
    const char *loss_name[MF_ROUTING_MAX_LOSSES];
    /* ---- completed by core before regularizers see it ---- */
    mf_tensor *mask;     /* [T] f32 or NULL */
    mf_tensor *chosen;   /* [R] i32: experts before capacity, -1: padding or unused */
    mf_tensor *admitted; /* [R] i32: experts after capacity and reassignment, -1: dropped */
    /* [E] f32: admitted assignments per expert / real tokens (sums to k if none is dropped) */
    mf_tensor *load;
    mf_tensor *demand;    /* [E] f32: chosen assignments per expert / real tokens */
    mf_tensor *labels;    /* [T] i32 or NULL */
    int32_t tokens, rows; /* T: number of tokens; R: number of assignments */
    /* ---- since 0.1: the graph's shape, which may be shorter than dims->seq ---- */
    /* T = batch * seq; token t is at position t % seq of sequence t / seq. A sequence may be
     * all padding */
    int32_t batch, seq;
    /* ---- since 0.2 ---- */
    mf_tensor *token_ids; /* [T] i32; core sets it before route is called */
    /* Soft routing, filled by the router: [T, experts slots] f32, both or neither. The weights
     * of padding are 0. */
    mf_tensor *dispatch, *combine;
    int32_t slots; /* number of slots per expert and sequence, from 1 */
    int32_t reserved2;
    /* ---- since 0.3 ---- */
    /* [R] f32, filled by a router that sets expert and gate and no token, in graphs that train.
     * 1: the assignment is silent. Its expert computes it only so that the gate gets a
     * gradient, and it is not counted (chosen and admitted are -1 for it). The value of its
     * gate must be 0; no gradient reaches the expert or x through it. 0: the assignment counts.
     * NULL: all count. */
    mf_tensor *silent;
    /* Completed by core for regularizers with MF_REGULARIZER_OUTPUTS, else NULL; all are NULL
     * with soft routing. They have a row for each admitted assignment, grouped by expert as in
     * mf_expert_in. Rows past offset[E] are 0. Silent assignments have no row. Gradients may
     * flow into all that are not i32. */
    mf_tensor *x; /* [T,d]: input of the layer, f32 or bf16 */
    /* [R,d], or [R,l] with moe.latent = l: outputs of the experts before the gates, f32 or
     * bf16 */
    mf_tensor *expert_out;
    mf_tensor *offset;    /* [E+1] i32: expert e has rows offset[e] .. offset[e+1]-1 */
    mf_tensor *row_token; /* [R] i32: token of each row, -1 past offset[E] */
    mf_tensor *row_gate;  /* [R,1] f32: gate of each row */
} mf_routing;

typedef struct mf_expert_in {
    uint32_t size;
    int32_t batch, seq;
    int32_t experts;
    /* [R,d]: inputs of the assignments, grouped by expert; undefined past offset[E] */
    mf_tensor *x;
    mf_tensor *offset; /* [E+1] i32: expert e has assignments offset[e] .. offset[e+1]-1 */
    /* [R] i32: token of each grouped assignment, -1 past offset[E]; increasing within an
     * expert, even if the router listed its tokens in another order. With soft routing the rows
     * of x are slots, and the token of a slot is the first token of its sequence */
    mf_tensor *token;
    mf_tensor *seq_x; /* [T,d]: all tokens of the batch, for experts with MF_EXPERT_SEQUENCE */
    mf_tensor *mask;  /* [T] f32 or NULL */
    mf_tensor *positions;    /* [T] i32: position within the sequence */
    mf_tensor *sequence_ids; /* [T] i32: index of the sequence in the batch, t / seq */
    /* [R,1] f32: gate of each grouped assignment, for experts that declare MF_EXPERT_GATES;
     * NULL: core multiplies by the gate. Since 0.1: MF_HAS tells whether the field exists */
    mf_tensor *gate;
    /* Since 0.3: the router's probabilities and logits of all tokens, [T,E] f32, for experts
     * that declare MF_EXPERT_PROB. NULL if the router has none, and for shared experts. */
    mf_tensor *prob, *logits;
} mf_expert_in;

/* Measurements of one MoE layer over the batch of a step. Padding is not counted. */
typedef struct mf_layer_stats {
    uint32_t size;
    int32_t layer, experts, top_k;
    /* [E] share of admitted assignments, sums to 1 (0 if there are none) */
    const float *load;
    const float *demand;     /* [E] share of chosen assignments, before capacity */
    const float *importance; /* [E] sum of gates / sum of all gates */
    double entropy;          /* mean over tokens of -sum p ln p, nats */
    double load_entropy;     /* -sum load ln load */
    double top_prob;         /* mean over tokens of the mean chosen probability */
    double load_cv;          /* standard deviation / mean of load */
    double drop_rate;        /* dropped assignments / chosen assignments */
    double reassigned;       /* number of assignments given to another expert */
    double nmi;              /* NMI(expert, label), NaN without labels */
    int32_t empty;           /* number of experts without an assignment */
    int32_t reserved;
    /* chosen assignments / real tokens: k, or another number if k varies */
    double rows_per_token;
    /* mean over tokens of -sum g ln g, where g is a token's gates divided by their sum; NaN if
     * experts choose tokens */
    double gate_entropy;
    /* [E] sum of the expert's probability over tokens; NULL: the router has no probabilities */
    const float *prob_sum;
    /* mean over tokens of the largest probability; NaN without probabilities */
    double max_prob;
    const double *count; /* [E] number of admitted assignments; NULL: not known */
} mf_layer_stats;

/* Measurements of the attention heads of one layer whose heads can be switched off. Arrays have
 * one value per head (H heads), 0 for pruned heads; an array is NULL if it was not measured. */
typedef struct mf_head_stats {
    uint32_t size;
    int32_t layer, heads;
    int32_t reserved;
    const float *gate;   /* [H] the gate; if logits are stored, their sigmoid */
    const float *active; /* [H] 1: active, 0: pruned */
    /* [H] mean over tokens of -sum p ln p of the attention weights, nats */
    const float *entropy;
    /* [H] norm over the head's part of the q, k, v, o weights and biases */
    const float *grad_norm;
    const float *importance; /* [H] see mf_host.head_importance; NULL: not requested */
} mf_head_stats;

typedef struct mf_step {
    uint32_t size;
    int32_t n_layers;        /* number of MoE layers */
    int64_t step, max_steps; /* optimizer steps done; steps planned */
    double loss, task_loss, lr, grad_norm;
    double val_loss; /* loss of the last evaluation; NaN before the first evaluation */
    int64_t tokens;  /* number of tokens trained on so far */
    /* [n_layers], each of size layers[0].size. They were measured in this step if this is a
     * call of on_step without MF_CONTROLLER_BLIND, or if routers declare MF_ROUTER_STATS;
     * otherwise the numbers may be older. */
    const mf_layer_stats *layers;
    const mf_head_stats *heads; /* [n_head_layers], each of size heads[0].size; measured in the
                                 * same cases as layers */
    int32_t n_head_layers;      /* 0: heads cannot be switched off (MF_ADAPTER_HEADS) */
    int32_t reserved;
    /* ---- since 0.3 ---- */
    /* 1: the optimizer step was not taken, because a value was not finite */
    int32_t skipped;
    int32_t accumulate;  /* number of micro-batches of the step, over all ranks */
    int64_t step_tokens; /* number of real tokens of the step */
} mf_step;

/* ---- counts of scores, since 0.3 (mf_host.count_scores) ---- */

typedef enum mf_score_of {
    MF_SCORE_LOGIT = 1,  /* the router's logits */
    MF_SCORE_PROB = 2,   /* the router's probability prob */
    MF_SCORE_SELECT = 3, /* the value that selects: score, or prob, plus moe.select_bias */
    /* a - s, where s is the value that selects without moe.select_bias, and a the (k+1)-th
     * largest of s + moe.select_bias. With a larger bias than this, the expert would have been
     * among the token's k experts. Nothing is counted if k = E. */
    MF_SCORE_REQUIRED = 4
} mf_score_of;

/* The values that count_scores counts over the real tokens of training steps. The result is
 * [E,bins] integers. Bin i counts the values v with lo + i w <= v < lo + (i+1) w, w = (hi - lo)
 * / bins. Smaller values and NaN are counted in bin 0, larger values in the last bin. */
typedef struct mf_score_count {
    uint32_t size;
    int32_t of;        /* mf_score_of; in a layer whose router does not set this value, nothing
                        * is counted */
    int32_t bins;      /* 2 .. 8192 */
    int32_t with_bias; /* 1: lo is added to the smallest, hi to the largest moe.select_bias */
    double lo, hi;     /* lo < hi */
} mf_score_count;

/* Returns the number below which the share q (0 .. 1) of the values counted in `bins` bins
 * lies. The values of a bin count as evenly distributed in it. Returns lo if nothing
 * was counted. */
static inline double mf_bins_quantile(const double *count, int32_t bins, double lo, double hi,
                                      double q)
{
    double all = 0, below = 0;
    int32_t i = 0;
    for (int32_t j = 0; j < bins; j++)
        all += count[j];
    while (i < bins - 1 && below + count[i] < q * all)
        below += count[i++];
    return lo + (hi - lo) / bins * (i + (count[i] > 0 ? (q * all - below) / count[i] : 0));
}

/* The arguments of mf_regularizer.loss_of, since 0.3. */
typedef struct mf_regularizer_in {
    uint32_t size;
    int32_t n; /* records of all MoE layers, in order */
    const mf_routing *const *routing;
    int32_t batch, seq; /* T = batch * seq */
    /* With MF_REGULARIZER_TOKEN_LOSS, else NULL: [T] f32 loss of the token's prediction, 0 if
     * there is no target or its weight is 0. For classifiers it is the loss of the token's
     * example. It is also NULL if the task has neither. No gradient. */
    mf_tensor *token_loss;
    mf_tensor *targets; /* [T] i32, -1: none; NULL: the task has no targets for tokens */
    mf_tensor *mask;    /* these four fields have the meaning that they have
                         * in mf_router_in */
    mf_tensor *token_ids;
    mf_tensor *positions;
    mf_tensor *sequence_ids;
} mf_regularizer_in;

#ifdef __cplusplus
}
#endif
#endif
