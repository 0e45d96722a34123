/* train/parallel/gradient_exchange.h: sums gradients over the ranks.
 *
 * Each rank sends the sums of its pieces (train/parallel/tree.h) in slices: slice r of all
 * pieces goes to rank r, which adds them in the tree of micro-batches, in the order in which
 * one process adds them. Then the ranks give each other their slices of the sum. The engine
 * only moves bytes, so the sum has the same bits for any number of ranks. */
#ifndef MF_TRAIN_GRADIENT_EXCHANGE_H
#define MF_TRAIN_GRADIENT_EXCHANGE_H

#include "comm/world.h"
#include "train/parallel/gradient_sum.h"

typedef struct mf_gradient_exchange mf_gradient_exchange;

/* For gradients of `leaves` micro-batches. The store must be in memory of the host. */
int mf_gradient_exchange_new(mf_world *w, mf_store *store, int64_t leaves,
                             mf_gradient_exchange **ret);
void mf_gradient_exchange_free(mf_gradient_exchange *x); /* NULL is allowed */
/* Leaves the sum over all micro-batches in the gradients of the store. s: this rank's sums,
 * after its last micro-batch. Errors: those of mf_world_exchange. */
int mf_gradient_exchange_run(mf_gradient_exchange *x, const mf_gradient_sum *s);

#endif
