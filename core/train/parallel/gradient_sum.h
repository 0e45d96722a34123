/* train/parallel/gradient_sum.h: sums the gradients of a step's micro-batches in their
 * tree (train/parallel/tree.h).
 *
 * Each run of the graph overwrites the gradients of the store. mf_gradient_sum_add, which is
 * called after each run, keeps a copy of them until the sum to which they belong can be
 * computed. So the number of copies is at most the number of levels of the tree of these
 * leaves. After the last leaf the pieces are in order: first the copies, then the store's
 * gradients, which are the last piece. */
#ifndef MF_TRAIN_GRADIENT_SUM_H
#define MF_TRAIN_GRADIENT_SUM_H

#include "graph/graph.h"
#include "train/parallel/tree.h"
#include "train/train_config.h"

typedef struct mf_gradient_sum mf_gradient_sum;

/* Selects the gradients that are summed, if ranks share the experts (mf_store_hold). */
typedef enum mf_sum_of {
    MF_SUM_ALL,   /* all gradients of the store */
    MF_SUM_HELD,  /* for parameters of which this process has a part: the gradients of
                   * its part */
    MF_SUM_COMMON /* the gradients of all other parameters */
} mf_sum_of;

/* Selects the gradients that are rounded to bf16 before they are added (gradient_bf16.h). */
typedef enum mf_sum_rounds {
    MF_ROUND_NONE,
    MF_ROUND_ALL,
    MF_ROUND_SHARED /* all except gradients of experts; they are not sent if ranks share
                     * the experts */
} mf_sum_rounds;

typedef struct mf_sum_plan {
    mf_sum_of of;
    mf_sum_rounds rounds;
    int64_t leaves; /* number of leaves of the tree */
    bool apart;     /* no gradients are added; each leaf is a separate piece */
    mf_piece share; /* leaves of this process; apart: share.first and every stride-th leaf
                     * after it */
    int64_t stride; /* 1, unless apart is set */
    bool runs_on;   /* apart: the graph runs once more after the last leaf, for other ranks */
} mf_sum_plan;

/* Returns how gradients are rounded, by parallel.gradient and parallel.expert. */
mf_sum_rounds mf_sum_rounds_of(const mf_parallel_config *c);
/* Writes the two plans of a rank: one for the parameters that all ranks have, one for its
 * experts. If ranks share the experts, they take turns with the micro-batches: rank r runs
 * leaves r, r + ranks, .. The `sharing` neighbouring leaves that run at the same time have one
 * common gradient of their experts. These gradients are the leaves of the tree of experts: leaf
 * j of the whole tree is part of leaf j / sharing. */
void mf_turns(int64_t leaves, int rank, int ranks, int sharing, mf_sum_rounds rounds,
              mf_sum_plan *ret_own, mf_sum_plan *ret_experts);
/* Allocates the copies on the store's device. */
int mf_gradient_sum_new(mf_store *store, const mf_sum_plan *plan, mf_gradient_sum **ret);
void mf_gradient_sum_free(mf_gradient_sum *s);  /* NULL is allowed */
void mf_gradient_sum_begin(mf_gradient_sum *s); /* call this before the first leaf of a step */
/* Queues the sums that are complete with leaf `leaf`. recorded: a recording queues them, so
 * this function does not. */
void mf_gradient_sum_add(mf_gradient_sum *s, int64_t leaf, bool recorded);
/* Replaces mf_gradient_sum_add for the last leaf if its gradients are added in parts. Call
 * mf_gradient_sum_last before the leaf runs, or when it will not run. Then call
 * mf_gradient_sum_part for elements first .. end-1 of the gradient when they are final, once
 * for each element. Only on the host. */
void mf_gradient_sum_last(mf_gradient_sum *s);
void mf_gradient_sum_part(const mf_gradient_sum *s, int64_t first, int64_t end);
/* Call this after the last leaf: returns the number of pieces of this share, and writes their
 * sums in order. The next addition overwrites them. */
int mf_gradient_sum_pieces(const mf_gradient_sum *s, float *ret[MF_TREE_PIECES]);
/* Whether gradients are rounded to bf16. A piece of one leaf, x[n], can then be written as bf16
 * to the first half of its own memory. */
bool mf_gradient_sum_rounds(const mf_gradient_sum *s);
void mf_gradient_sum_pack(const mf_gradient_sum *s, float *x, int64_t n);
/* Returns the bytes of the copies that such a sum needs. */
size_t mf_gradient_sum_bytes(const mf_store *store, const mf_sum_plan *plan);

#endif
