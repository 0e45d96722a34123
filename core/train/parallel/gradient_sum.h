/* train/parallel/gradient_sum.h: sums the gradients of a step's micro-batches in their tree
 * (train/parallel/tree.h).
 *
 * Each run of the graph overwrites the gradients of the store. mf_gradient_sum_add, which is
 * called after each run, keeps a copy of them until the sum to which they belong can be
 * computed, so that there are at most as many copies as the tree of these leaves has levels.
 * After the last leaf the pieces are in order: first the copies, then the store's gradients,
 * which are the last piece. */
#ifndef MF_TRAIN_GRADIENT_SUM_H
#define MF_TRAIN_GRADIENT_SUM_H

#include "graph/graph.h"
#include "train/parallel/tree.h"
#include "train/train_config.h"

typedef struct mf_gradient_sum mf_gradient_sum;

/* Which gradients are summed, if ranks share the experts (mf_store_hold). */
typedef enum mf_sum_of {
    MF_SUM_ALL,   /* all of the store */
    MF_SUM_HELD,  /* those of parameters of which this process has a part: its part */
    MF_SUM_COMMON /* the others */
} mf_sum_of;

/* Which gradients are rounded to bf16 before they are added (gradient_bf16.h). */
typedef enum mf_sum_rounds {
    MF_ROUND_NONE,
    MF_ROUND_ALL,
    MF_ROUND_SHARED /* all but those of experts, which need not travel where ranks share them */
} mf_sum_rounds;

typedef struct mf_sum_plan {
    mf_sum_of of;
    mf_sum_rounds rounds;
    int64_t leaves; /* of the tree */
    bool apart;     /* nothing is added, each leaf is a piece of its own */
    mf_piece share; /* of this process; apart: leaves share.first, share.first + stride, .. */
    int64_t stride; /* 1, except apart */
    bool runs_on;   /* apart: the graph runs once more after the last leaf, for others */
} mf_sum_plan;

/* How gradients are rounded, by parallel.gradient and parallel.expert. */
mf_sum_rounds mf_sum_rounds_of(const mf_parallel_config *c);
/* Where ranks share the experts, they take turns with the micro-batches: rank r runs leaves r,
 * r + ranks, .. Those that `sharing` neighbours run at the same time have one gradient of their
 * experts, and these are the leaves of its tree: leaf j of the tree of all is part of leaf
 * j / sharing. Writes the plans of a rank: one for the parameters that all ranks have, one for
 * its experts. */
void mf_turns(int64_t leaves, int rank, int ranks, int sharing, mf_sum_rounds rounds,
              mf_sum_plan *ret_own, mf_sum_plan *ret_experts);
/* Allocates the copies on the store's device. */
int mf_gradient_sum_new(mf_store *store, const mf_sum_plan *plan, mf_gradient_sum **ret);
void mf_gradient_sum_free(mf_gradient_sum *s);  /* NULL is allowed */
void mf_gradient_sum_begin(mf_gradient_sum *s); /* before the first leaf of a step */
/* Queues the sums that are complete with leaf `leaf`; recorded: a recording does that. */
void mf_gradient_sum_add(mf_gradient_sum *s, int64_t leaf, bool recorded);
/* In place of mf_gradient_sum_add for the last leaf, where its gradients are added bit by bit:
 * mf_gradient_sum_last before it runs, or when it will not; then mf_gradient_sum_part for
 * elements first .. end-1 of the gradient, each once, when they are final. On the host. */
void mf_gradient_sum_last(mf_gradient_sum *s);
void mf_gradient_sum_part(const mf_gradient_sum *s, int64_t first, int64_t end);
/* After the last leaf: the sums of the pieces of this share, in order; returns their number.
 * The next addition overwrites them. */
int mf_gradient_sum_pieces(const mf_gradient_sum *s, float *ret[MF_TREE_PIECES]);
/* Whether gradients are rounded to bf16; then x[n], which a piece of one leaf has, can be
 * written as bf16 to the first half of its own memory. */
bool mf_gradient_sum_rounds(const mf_gradient_sum *s);
void mf_gradient_sum_pack(const mf_gradient_sum *s, float *x, int64_t n);
/* Bytes of the copies that such sums need. */
size_t mf_gradient_sum_bytes(const mf_store *store, const mf_sum_plan *plan);

#endif
