/* train/parallel/gradient_exchange.h: sums gradients over the ranks, while the last backward
 * pass still runs.
 *
 * Each rank sends the sums of its pieces (train/parallel/tree.h) to the owners of the slices
 * (train/parallel/partition.h), bucket by bucket, as soon as a bucket is final. The owner adds
 * a slice in the tree of micro-batches, in the order in which one process adds it. Then the
 * owners send the sums to all ranks, or, with parallel.optimizer = sharded, the values that
 * they have updated. The engine only moves bytes, so the bits are the same for any number
 * of ranks. */
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

/* For gradients of `leaves` micro-batches, which this rank sums in s, between the members, this
 * rank among them; the owners of p are their numbers. The store must be in memory of the host.
 * p must live as long as the result. apart: member i has leaves i, i + n, .., and s keeps each
 * of them as a piece of its own. */
int mf_gradient_exchange_new(mf_world *w, mf_members members, mf_store *store, int64_t leaves,
                             mf_gradient_sum *s, const mf_partition *p, bool apart,
                             mf_gradient_exchange **ret);
void mf_gradient_exchange_free(mf_gradient_exchange *x); /* NULL is allowed */

/* Before the last micro-batch of this rank, which graph g runs. NULL: it does not run, as the
 * step has failed. */
void mf_gradient_exchange_begin(mf_gradient_exchange *x, const mf_graph *g);
/* For mf_run.after_node in that run; x is the argument. */
void mf_gradient_exchange_after(void *x, int node);
/* After that run: begins with all buckets that were not begun. All ranks must call this before
 * other messages, also those whose step has failed. */
void mf_gradient_exchange_rest(mf_gradient_exchange *x);
/* Leaves the sum over all micro-batches in the own slices of the store's gradients. Errors:
 * those of mf_world_finish. */
int mf_gradient_exchange_finish(mf_gradient_exchange *x);
/* Gives all ranks the slices of gradients or of values (and updates their bf16 copies) that
 * their owners have. */
int mf_gradient_exchange_give_sums(mf_gradient_exchange *x);
int mf_gradient_exchange_give_values(mf_gradient_exchange *x);

#endif
