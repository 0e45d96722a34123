/* ops/dispatch.h: typed wrappers of the ops that move tokens to experts and back.
 *
 * T tokens, E experts, k rows per token, R rows (T k for token choice). Index tensors are i32;
 * -1 means "not used" (padding, dropped). An index out of range fails the run (MF_EPLUGIN),
 * naming row and value: indices come from plugins. Formulas:
 * core/ops/{route,capacity,dispatch}.c.
 */
#ifndef MF_OPS_DISPATCH_H
#define MF_OPS_DISPATCH_H

#include "ops/ops.h"

/* The k best experts of each token by score [T,E], ties to the lower index; -1 where mask [T]
 * (f32, may be NULL) is 0. -> [T k] */
mf_tensor *mf_route_select(mf_graph *g, mf_tensor *score, mf_tensor *mask, int k);

/* Gates of rows: prob [T,E] at target, over the sum of the token's k if renormalize, times
 * scale. target[r] = admitted[r] where that is >= 0, else chosen[r] (admitted may be NULL).
 * Rows with target -1 have gate 0. -> [T k]. Gradient to prob. */
mf_tensor *mf_route_gates(mf_graph *g, mf_tensor *prob, mf_tensor *chosen, mf_tensor *admitted,
                          int k, bool renormalize, double scale);

/* expert [R] with -1 where the row's token is padding. token [R] or NULL: r / k. */
mf_tensor *mf_mask_rows(mf_graph *g, mf_tensor *expert, mf_tensor *mask, mf_tensor *token,
                        int k);

/* Capacity of each expert, [E]: max(1, floor(factor x real tokens x k / E)); factor: f32 scalar
 * value, so that it can be live; mask NULL: all T tokens are real. */
mf_tensor *mf_capacity_of(mf_graph *g, mf_tensor *factor, mf_tensor *mask, int tokens, int k,
                          int experts);

/* chosen [R] -> admitted [R]: at most cap[e] [E] rows each; first those with larger priority
 * (f32 [R], ties to the lower row; NULL: in row order). */
mf_tensor *mf_capacity(mf_graph *g, mf_tensor *chosen, mf_tensor *priority, mf_tensor *cap);

/* Overflow rows to other experts with room (SEEDS: no token left behind): by source expert,
 * then falling importance [R] (NULL: row order); best prob(t,j) / (1 + load_j) among experts
 * with room that the token does not have yet. At most max_moved rows (0: no bound). *ret_moved:
 * f32 scalar, rows moved. */
mf_tensor *mf_reassign(mf_graph *g, mf_tensor *chosen, mf_tensor *admitted, mf_tensor *prob,
                       mf_tensor *importance, mf_tensor *cap, int k, int max_moved,
                       mf_tensor **ret_moved);

typedef struct mf_row_groups {
    mf_tensor *order;  /* [R] source row of each grouped place, -1 past the end */
    mf_tensor *offset; /* [E+1] */
    mf_tensor *token;  /* [R] token of each grouped place, -1 past the end */
    mf_tensor *place;  /* [R] grouped place of each source row, -1 if unused */
} mf_row_groups;
/* Rows by expert, within an expert by token, of one token in source order. token [R] or NULL:
 * r / k. An index outside -1 .. E-1 fails the run (MF_EPLUGIN), naming row and value. */
mf_row_groups mf_group_rows(mf_graph *g, mf_tensor *expert, mf_tensor *token, int k,
                            int experts);

/* x [T,d] -> [R,d]: row p is x[token[p]], zero past the end. token_of_row: the list given to
 * mf_group_rows, or NULL (then the gradient sums each token's k places). */
mf_tensor *mf_dispatch_rows(mf_graph *g, mf_tensor *x, const mf_row_groups *groups,
                            mf_tensor *token_of_row, int k);
/* y [R,d] grouped, gate [R] in source order -> [T,d]: sum over the token's rows of gate y. */
mf_tensor *mf_combine_rows(mf_graph *g, mf_tensor *y, mf_tensor *gate,
                           const mf_row_groups *groups, mf_tensor *token_of_row, int tokens,
                           int k);

/* The same for rows that have been multiplied by their gates: its gradient reads no y. */
mf_tensor *mf_return_rows(mf_graph *g, mf_tensor *y, const mf_row_groups *groups,
                          mf_tensor *token_of_row, int tokens, int k);

typedef struct mf_routing_sums {
    mf_tensor *chosen;     /* [E] f32 rows before capacity */
    mf_tensor *admitted;   /* [E] f32 rows after it */
    mf_tensor *importance; /* [E] f32 sum of gates of admitted rows */
    mf_tensor *scalars;    /* [4] f32: real tokens, sum of entropies of prob (nats), sum over
                            * tokens of the mean chosen probability, chosen rows */
} mf_routing_sums;
/* One pass over a layer's routing. prob, gate, mask, token may be NULL; without prob the second
 * and third scalar are NaN, without gate every gate is 1. */
mf_routing_sums mf_routing_stats(mf_graph *g, mf_tensor *prob, mf_tensor *chosen,
                                 mf_tensor *admitted, mf_tensor *gate, mf_tensor *mask,
                                 mf_tensor *token, int k, int experts, int tokens);

/* How often expert a meets label b: expert [R], token [R] or NULL, labels [T] -> f32
 * [E,labels]. */
mf_tensor *mf_joint_count(mf_graph *g, mf_tensor *expert, mf_tensor *token, mf_tensor *labels,
                          int k, int experts, int n_labels);

#endif
