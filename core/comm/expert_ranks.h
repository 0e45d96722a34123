/* comm/expert_ranks.h: experts that several ranks share (parallel.expert).
 *
 * Rank r of n has experts r E/n .. (r+1) E/n - 1 of every MoE layer, for the tokens of these n
 * ranks. The ranks run their graphs at the same time. Each rank sends its dispatched rows to
 * the ranks that have their experts, and receives the results. The gradient of sending is
 * returning, and the reverse.
 *
 * The rows of each sender stay separate: the expert plugin is called once for each rank that
 * sends, with the same weights. So every gemm has the same rows as in a run of one process, and
 * the same bits. Gradients of the weights are added over the senders, in the tree of
 * the micro-batches.
 *
 * Sending rows and returning results are ops. The weights of the calls are views of one
 * parameter, forked in a binary tree, so their gradients are leaves of the tree of
 * micro-batches. For this the number of ranks must be a power of two, and the ranks must take
 * turns with the micro-batches. With several such groups, the sum of a group in a turn is a
 * leaf of the tree of turns and groups. Ranks with the same experts exchange those leaves
 * (train/parallel/gradient_exchange.h) after the backward pass; no computation overlaps
 * that exchange.
 *
 * Offsets of the store are the same as in one process, and the parts of other ranks are address
 * space that is never accessed. So optimizer, norm, slices and checkpoints need no second
 * order. parallel.exact = no puts the rows of all senders into one batch (comm/expert_merge.h).
 * The plugin is then called once, weights are not copied, and bits depend on the number
 * of ranks. */
#ifndef MF_COMM_EXPERT_RANKS_H
#define MF_COMM_EXPERT_RANKS_H

#include "graph/graph.h"

struct mf_world;

/* maximum number of ranks that share the experts; they are inputs of one op */
enum { MF_EXPERT_RANKS = 8 };

typedef struct mf_expert_ranks {
    struct mf_world *world; /* NULL: the ranks have not joined, so no graph may run */
    int rank, ranks;        /* ranks: a power of two; 0 or 1: this process has all experts */
    /* rank in the world of the first of these ranks; ranks outside of this group share experts
     * among themselves */
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
    mf_tensor *offset; /* [E+1] offsets of this rank's own rows */
    mf_tensor *counts; /* [ranks, E/ranks+1] i32: offsets of the rows that each rank sends */
} mf_expert_routes;

/* Sends to these ranks how many rows go to each expert. */
mf_expert_routes mf_expert_routes_new(mf_graph *g, const mf_expert_ranks *e, mf_tensor *offset);
/* x [R,d], f32 or bf16 -> [ranks R, d]. The rows from r R on are those that rank r has sent,
 * grouped by the experts of this rank, with zeros after them. */
mf_tensor *mf_expert_send(mf_graph *g, const mf_expert_routes *r, mf_tensor *x);
/* y [ranks R, d] -> [R,d]: the results of this rank's own rows, with zeros after them. */
mf_tensor *mf_expert_return(mf_graph *g, const mf_expert_routes *r, mf_tensor *y);

/* x [ranks R, d] -> [R,d]: the rows that `rank` has sent. The next function is the reverse:
 * [ranks] of [R,d] -> [ranks R, d]. */
mf_tensor *mf_expert_rows_of(mf_graph *g, const mf_expert_ranks *e, mf_tensor *x, int rank);
mf_tensor *mf_expert_join(mf_graph *g, const mf_expert_ranks *e, mf_tensor *const *x);

/* Adds to the graph the part of a parameter that this rank has, once for each of n calls of the
 * expert (n is a power of two). `of` [n] gets n values with the same memory, whose gradients
 * are added in a binary tree. */
void mf_expert_copies(mf_graph *g, const mf_expert_ranks *e, const mf_param *p, int n,
                      mf_tensor **of);

#endif
