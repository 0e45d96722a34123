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

typedef struct mf_gradient_sum mf_gradient_sum;

/* For leaves share.first .. share.end-1 of n. Allocates the copies on the store's device. */
int mf_gradient_sum_new(mf_store *store, int64_t n, mf_piece share, mf_gradient_sum **ret);
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
 * They are overwritten by whoever adds them further. */
int mf_gradient_sum_pieces(const mf_gradient_sum *s, float *ret[MF_TREE_PIECES]);
/* Bytes of the copies that such sums need. */
size_t mf_gradient_sum_bytes(const mf_store *store, int64_t n, mf_piece share);

#endif
