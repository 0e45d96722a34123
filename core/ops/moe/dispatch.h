/* ops/moe/dispatch.h: typed wrappers of the ops that move tokens to experts and back.
 *
 * There are T tokens, E experts and R assignments. Each token has k assignments, so R = T k,
 * unless a list `token` names the token of each assignment. Index tensors are i32; -1 means
 * unused (padding, dropped). An index out of range ends the run (MF_EPLUGIN) with a message
 * that names its position and value, because indices come from plugins.
 * core/ops/moe/{route,capacity,dispatch}.c have the formulas. */
#ifndef MF_OPS_DISPATCH_H
#define MF_OPS_DISPATCH_H

#include "ops/ops.h"

/* Returns the k experts with the largest score [T,E] of each token, [T k]; of equal scores the
 * expert with the lower index is chosen. The result is -1 where mask [T] (f32, may be NULL)
 * is 0. */
mf_tensor *mf_route_select(mf_graph *g, mf_tensor *score, mf_tensor *mask, int k);

/* Returns the gates [T k] of assignments: scale * prob[t, target], prob [T,E]. With
 * renormalize, each gate is divided by the sum of prob over the targets of its token; it is 0
 * if that sum is below 1e-20. target[r] is admitted[r] if admitted[r] >= 0, else chosen[r];
 * admitted may be NULL. The gate of a target of -1 is 0. prob has a gradient. */
mf_tensor *mf_route_gates(mf_graph *g, mf_tensor *prob, mf_tensor *chosen, mf_tensor *admitted,
                          int k, bool renormalize, double scale);

/* Returns expert [R] with -1 where the token is padding. mask [T]; token [R]; token NULL:
 * assignment r belongs to token r / k. */
mf_tensor *mf_mask_rows(mf_graph *g, mf_tensor *expert, mf_tensor *mask, mf_tensor *token,
                        int k);

/* Returns the capacity of each expert, [E]: max(1, floor(factor x n x k / E)), where n is the
 * number of tokens that are not padding. factor is an f32 scalar tensor, so it can be live.
 * mask NULL: no token is padding. */
mf_tensor *mf_capacity_of(mf_graph *g, mf_tensor *factor, mf_tensor *mask, int tokens, int k,
                          int experts);

/* chosen [R] -> admitted [R]. Of each expert e at most cap[e] assignments are admitted, those
 * with the largest priority (f32 [R]); of equal priorities the lower r is admitted. priority
 * NULL: the order of r decides. cap [E]. */
mf_tensor *mf_capacity(mf_graph *g, mf_tensor *chosen, mf_tensor *priority, mf_tensor *cap);

/* Returns admitted [T k] with assignments over capacity reassigned to other experts. They are
 * processed in the order of the chosen expert, then by falling importance [T k] (NULL: in the
 * order of r). Each goes to the expert with the largest prob(t,j) / (1 + load_j) that has
 * capacity left and that the token has neither chosen nor been given. If no expert is left, the
 * assignment stays dropped. At most max_moved assignments are moved (0: no limit). *ret_moved:
 * f32 scalar, number of reassigned assignments. */
mf_tensor *mf_reassign(mf_graph *g, mf_tensor *chosen, mf_tensor *admitted, mf_tensor *prob,
                       mf_tensor *importance, mf_tensor *cap, int k, int max_moved,
                       mf_tensor **ret_moved);

typedef struct mf_row_groups {
    /* [R] assignment at each position of the grouped order; -1 from offset[E] on. */
    mf_tensor *order;
    mf_tensor *offset; /* [E+1] start of each expert's assignments */
    /* [R] token at each position of the grouped order; -1 from offset[E] on. */
    mf_tensor *token;
    /* [R] position of each assignment in the grouped order; -1: unused. */
    mf_tensor *place;
} mf_row_groups;
/* Groups assignments by expert, within an expert by token, within a token in source order.
 * token [R]; NULL: assignment r belongs to token r / k. An index outside -1 .. E-1 ends the
 * run (MF_EPLUGIN). */
mf_row_groups mf_group_rows(mf_graph *g, mf_tensor *expert, mf_tensor *token, int k,
                            int experts);

/* x [T,d] -> [R,d]: row p is x[token[p]], zeros from row offset[E] on. token_of_row is the
 * list that mf_group_rows got, or NULL; with NULL the gradient sums the k assignments of
 * each token. */
mf_tensor *mf_dispatch_rows(mf_graph *g, mf_tensor *x, const mf_row_groups *groups,
                            mf_tensor *token_of_row, int k);
/* Returns [T,d]: the sum of gate y over each token's assignments. y [R,d] in grouped order,
 * gate [R] in source order; gate NULL: 1. */
mf_tensor *mf_combine_rows(mf_graph *g, mf_tensor *y, mf_tensor *gate,
                           const mf_row_groups *groups, mf_tensor *token_of_row, int tokens,
                           int k);

/* Like mf_combine_rows, for rows that are already multiplied by their gates. Its gradient does
 * not read y. */
mf_tensor *mf_return_rows(mf_graph *g, mf_tensor *y, const mf_row_groups *groups,
                          mf_tensor *token_of_row, int tokens, int k);

typedef struct mf_routing_sums {
    mf_tensor *chosen;     /* [E] f32 assignments before capacity */
    mf_tensor *admitted;   /* [E] f32 assignments after capacity */
    mf_tensor *importance; /* [E] f32 sum of the gates of admitted assignments */
    mf_tensor *scalars;    /* [4] f32: tokens without padding, sum of entropies of prob
                            * (nats), sum over tokens of the mean chosen probability,
                            * chosen assignments */
} mf_routing_sums;
/* Statistics of a layer's routing, in one pass. prob, gate, mask, token may be NULL. Without
 * prob the second and third scalars are NaN; without gate every gate is 1. */
mf_routing_sums mf_routing_stats(mf_graph *g, mf_tensor *prob, mf_tensor *chosen,
                                 mf_tensor *admitted, mf_tensor *gate, mf_tensor *mask,
                                 mf_tensor *token, int k, int experts, int tokens);

/* Returns f32 [E,labels]: element [e,l] is the number of assignments to expert e whose token
 * has label l. expert [R], token [R] or NULL (r / k), labels [T]. */
mf_tensor *mf_joint_count(mf_graph *g, mf_tensor *expert, mf_tensor *token, mf_tensor *labels,
                          int k, int experts, int n_labels);

#endif
