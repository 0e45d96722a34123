/* comm/expert_ranks.h: experts that several ranks share (parallel.expert).
 *
 * Rank r of n has experts r E/n .. (r+1) E/n - 1 of every MoE layer, for the tokens of these n
 * ranks. They run their graphs at the same time. Each sends its dispatched rows to the
 * ranks that have their experts, and gets the results back; the gradient of sending is
 * returning, and the other way round.
 *
 * The rows of each sender stay apart: the expert plugin is called once for each rank that
 * sends, with the same weights, so that every gemm has the rows that it has in a run of one
 * process, and the same bits. Gradients of the weights are added over the senders, in the tree
 * of the micro-batches.
 *
 * Sending rows and returning results are ops. The weights of the calls are views of one
 * parameter, forked in a binary tree, so that their gradients are leaves of the tree of
 * micro-batches; for this the ranks are a power of two and take turns with the micro-batches.
 * With several such groups, what a group adds in a turn is a leaf of the tree of turns and
 * groups, and ranks with the same experts exchange those leaves
 * (train/parallel/gradient_exchange.h) after the backward pass: nothing hides that exchange.
 * Offsets of the store stay those of one process, and the parts of other ranks are address
 * space that is never touched, so optimizer, norm, slices and checkpoints need no second order.
 * parallel.exact = no puts the rows of all senders into one batch (comm/expert_merge.h): one
 * call of the plugin, no copies of weights, and bits that depend on the number of ranks. */
#ifndef MF_COMM_EXPERT_RANKS_H
#define MF_COMM_EXPERT_RANKS_H

#include "graph/graph.h"

struct mf_world;

enum { MF_EXPERT_RANKS = 8 }; /* most ranks that share the experts: inputs of one op */

typedef struct mf_expert_ranks {
    struct mf_world *world; /* NULL: the ranks have not joined; then no graph may run */
    int rank, ranks;        /* ranks: a power of two; 0 or 1: all experts are here */
    /* rank of the first of these ranks in the world: others share experts among themselves */
    int first;
    bool merged; /* experts get the rows of all ranks at once (comm/expert_merge.h) */
    bool silent; /* this rank has no micro-batch now: it sends no rows */
} mf_expert_ranks;

static inline bool mf_experts_shared(const mf_expert_ranks *e)
{
    return e && e->ranks > 1;
}

/* The destination of rows: R rows in E groups, offset [E+1] i32. */
typedef struct mf_expert_routes {
    const mf_expert_ranks *to;
    mf_tensor *offset; /* [E+1] of the own rows */
    mf_tensor *counts; /* [ranks, E/ranks+1] i32: offsets of the rows that each rank sends */
} mf_expert_routes;

/* Tells these ranks how many rows go to each expert. */
mf_expert_routes mf_expert_routes_new(mf_graph *g, const mf_expert_ranks *e, mf_tensor *offset);
/* x [R,d], f32 or bf16 -> [ranks R, d]: rows r R .. are those that rank r has sent, grouped by
 * the experts of this rank; zeros behind them. */
mf_tensor *mf_expert_send(mf_graph *g, const mf_expert_routes *r, mf_tensor *x);
/* y [ranks R, d] -> [R,d]: the results of the own rows, zeros behind them. */
mf_tensor *mf_expert_return(mf_graph *g, const mf_expert_routes *r, mf_tensor *y);

/* x [ranks R, d] -> [R,d]: what `rank` has sent; and back: [ranks] of [R,d] -> [ranks R, d]. */
mf_tensor *mf_expert_rows_of(mf_graph *g, const mf_expert_ranks *e, mf_tensor *x, int rank);
mf_tensor *mf_expert_join(mf_graph *g, const mf_expert_ranks *e, mf_tensor *const *x);

/* The part of a parameter that this rank has, once for each of n calls of the expert (a power
 * of two): `of` [n] values with the same memory, whose gradients are added in a binary tree. */
void mf_expert_copies(mf_graph *g, const mf_expert_ranks *e, const mf_param *p, int n,
                      mf_tensor **of);

#endif
