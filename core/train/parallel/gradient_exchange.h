/* train/parallel/gradient_exchange.h: sums gradients over the ranks, while the last backward
 * pass is still running.
 *
 * Each rank sends the sums of its pieces (train/parallel/tree.h) to the owners of the slices
 * (train/parallel/partition.h), bucket by bucket, as soon as a bucket is final. The owner adds
 * a slice in the tree of micro-batches, in the order in which one process adds it. Then the
 * owners send the sums to all ranks. With parallel.optimizer = sharded they instead send the
 * values that they have updated. The communicator module only moves bytes, so the bits are the
 * same for any number of ranks. */
#ifndef MF_TRAIN_GRADIENT_EXCHANGE_H
#define MF_TRAIN_GRADIENT_EXCHANGE_H

#include "comm/world.h"
#include "train/parallel/gradient_sum.h"
#include "train/parallel/partition.h"

typedef struct mf_gradient_exchange mf_gradient_exchange;

/* The ranks that take part: member i is rank first + i step. */
typedef struct mf_members {
    int first, step, n;
} mf_members;

/* Creates an exchange of the gradients of `leaves` micro-batches between the members, to which
 * this rank must belong. This rank sums its gradients in s; the owners of p are numbers of
 * members. The store must be in memory of the host. p must stay valid as long as the result.
 * apart: member i has leaves i, i + n, .., and s keeps each of them as a separate piece. */
int mf_gradient_exchange_new(mf_world *w, mf_members members, mf_store *store, int64_t leaves,
                             mf_gradient_sum *s, const mf_partition *p, bool apart,
                             mf_gradient_exchange **ret);
void mf_gradient_exchange_free(mf_gradient_exchange *x); /* NULL is allowed */

/* Call this before the last micro-batch of this rank, which graph g runs. NULL: the micro-batch
 * does not run, because the step has failed. */
void mf_gradient_exchange_begin(mf_gradient_exchange *x, const mf_graph *g);
/* The function for mf_run.after_node in that run; x is its argument. */
void mf_gradient_exchange_after(void *x, int node);
/* Call this after that run. It begins the exchange of all buckets whose exchange has not
 * begun yet. All ranks must call this before other messages, including ranks whose step
 * has failed. */
void mf_gradient_exchange_rest(mf_gradient_exchange *x);
/* Waits, and leaves the sum over all micro-batches in this rank's slices of the store's
 * gradients. Errors: those of mf_world_finish. */
int mf_gradient_exchange_finish(mf_gradient_exchange *x);
/* mf_gradient_exchange_give_sums sends the owners' slices of the gradients to all ranks. The
 * next function does the same for values, and updates their bf16 copies. */
int mf_gradient_exchange_give_sums(mf_gradient_exchange *x);
int mf_gradient_exchange_give_values(mf_gradient_exchange *x);

#endif
