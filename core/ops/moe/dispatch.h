/* ops/moe/dispatch.h: typed wrappers of the ops that move tokens to experts and back.
 *
 * T tokens, E experts, R assignments in all: k per token, R = T k, unless a list `token` says
 * to which token each belongs. Index tensors are i32; -1 means unused (padding, dropped). An
 * index out of range ends the run (MF_EPLUGIN) with a message that names its position and
 * value, because indices come from plugins. core/ops/moe/{route,capacity,dispatch}.c have
 * the formulas. */
#ifndef MF_OPS_DISPATCH_H
#define MF_OPS_DISPATCH_H

#include "ops/ops.h"

/* Returns the k experts with the largest score [T,E] of each token, [T k]; of equal scores the
 * lower index is taken. -1 where mask [T] (f32, may be NULL) is 0. */
mf_tensor *mf_route_select(mf_graph *g, mf_tensor *score, mf_tensor *mask, int k);

/* Gates [T k] of assignments: scale * prob[t, target], prob [T,E]. With renormalize, each is
 * divided by the sum of prob over the targets of its token; it is 0 if that sum is below 1e-20.
 * target[r] = admitted[r] if that is >= 0, else chosen[r]; admitted may be NULL. The gate of a
 * target of -1 is 0. prob has a gradient. */
mf_tensor *mf_route_gates(mf_graph *g, mf_tensor *prob, mf_tensor *chosen, mf_tensor *admitted,
                          int k, bool renormalize, double scale);

/* Returns expert [R] with -1 where the token is padding. mask [T]; token [R]; NULL: r / k. */
mf_tensor *mf_mask_rows(mf_graph *g, mf_tensor *expert, mf_tensor *mask, mf_tensor *token,
                        int k);

/* Capacity of each expert, [E]: max(1, floor(factor x real tokens x k / E)). factor is an f32
 * scalar tensor, so that it can be live. mask NULL: all T tokens are real. */
mf_tensor *mf_capacity_of(mf_graph *g, mf_tensor *factor, mf_tensor *mask, int tokens, int k,
                          int experts);

/* chosen [R] -> admitted [R]: of each expert e at most cap[e] assignments are admitted, those
 * with the largest priority (f32 [R]; of equal ones the lower r; NULL: in the order of r).
 * cap [E]. */
mf_tensor *mf_capacity(mf_graph *g, mf_tensor *chosen, mf_tensor *priority, mf_tensor *cap);

/* Returns admitted [T k] with assignments over capacity reassigned to other experts: ordered by
 * chosen expert, then by falling importance [T k] (NULL: in the order of r), each goes to the
 * expert with the best prob(t,j) / (1 + load_j) that has capacity left and that the token has
 * neither chosen nor been given. If there is none, it stays dropped. At most max_moved
 * assignments (0: no limit). *ret_moved: f32 scalar, how many were reassigned. */
mf_tensor *mf_reassign(mf_graph *g, mf_tensor *chosen, mf_tensor *admitted, mf_tensor *prob,
                       mf_tensor *importance, mf_tensor *cap, int k, int max_moved,
                       mf_tensor **ret_moved);

typedef struct mf_row_groups {
    mf_tensor *order;  /* [R] assignment at each grouped place; -1 from offset[E] on */
    mf_tensor *offset; /* [E+1] */
    mf_tensor *token;  /* [R] token of each grouped place; -1 from offset[E] on */
    mf_tensor *place;  /* [R] grouped place of each assignment; -1: unused */
} mf_row_groups;
/* Groups assignments by expert, within an expert by token, within a token in source order.
 * token [R]; NULL: r / k. An index outside -1 .. E-1 ends the run (MF_EPLUGIN). */
mf_row_groups mf_group_rows(mf_graph *g, mf_tensor *expert, mf_tensor *token, int k,
                            int experts);

/* x [T,d] -> [R,d]: row p is x[token[p]], zeros from row offset[E] on. token_of_row: the list
 * given to mf_group_rows, or NULL (then the gradient sums the k places of each token). */
mf_tensor *mf_dispatch_rows(mf_graph *g, mf_tensor *x, const mf_row_groups *groups,
                            mf_tensor *token_of_row, int k);
/* Returns [T,d]: the sum of gate y over each token's assignments. y [R,d] in grouped order,
 * gate [R] in source order; gate NULL: 1. */
mf_tensor *mf_combine_rows(mf_graph *g, mf_tensor *y, mf_tensor *gate,
                           const mf_row_groups *groups, mf_tensor *token_of_row, int tokens,
                           int k);

/* As mf_combine_rows, for rows that are already multiplied by their gates. Its gradient does
 * not read y. */
mf_tensor *mf_return_rows(mf_graph *g, mf_tensor *y, const mf_row_groups *groups,
                          mf_tensor *token_of_row, int tokens, int k);

typedef struct mf_routing_sums {
    mf_tensor *chosen;     /* [E] f32 assignments before capacity */
    mf_tensor *admitted;   /* [E] f32 assignments after capacity */
    mf_tensor *importance; /* [E] f32 sum of the gates of admitted assignments */
    mf_tensor *scalars;    /* [4] f32: real tokens, sum of entropies of prob (nats), sum over
                            * tokens of the mean chosen probability, chosen assignments */
} mf_routing_sums;
/* Statistics of a layer's routing, in one pass. prob, gate, mask, token may be NULL. Without
 * prob the second and third scalars are NaN; without gate every gate is 1. */
mf_routing_sums mf_routing_stats(mf_graph *g, mf_tensor *prob, mf_tensor *chosen,
                                 mf_tensor *admitted, mf_tensor *gate, mf_tensor *mask,
                                 mf_tensor *token, int k, int experts, int tokens);

/* Returns f32 [E,labels]: the number of assignments of each expert whose token has each label.
 * expert [R], token [R] or NULL (r / k), labels [T]. */
mf_tensor *mf_joint_count(mf_graph *g, mf_tensor *expert, mf_tensor *token, mf_tensor *labels,
                          int k, int experts, int n_labels);

#endif
