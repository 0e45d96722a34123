/* train/parallel/shares.h: the weight of each micro-batch in a step (train.accumulate).
 *
 * The loss of a step is the sum over all its tokens (examples, for tasks of whole examples)
 * divided by their number, whatever micro-batches and ranks the step is cut into. A graph
 * computes the mean of its own micro-batch, so this mean is multiplied by the share
 *
 *     accumulate x (weight of the micro-batch) / (weight of all micro-batches of the step)
 *
 * and the mean over the micro-batches is that of the step. If all weights are equal, each share
 * is exactly 1. Regularizers and losses of routers are means over a micro-batch of its own
 * statistics; the share of its tokens weighs them. */
#ifndef MF_TRAIN_PARALLEL_SHARES_H
#define MF_TRAIN_PARALLEL_SHARES_H

#include "train/job.h"
#include "train/length_buckets.h"

typedef struct mf_shares mf_shares;

/* *ret is NULL, which the other functions take, if a step has one micro-batch. MF_ENOMEM. The
 * job must outlive it. */
int mf_shares_new(const mf_train_job *job, mf_shares **ret);
void mf_shares_free(mf_shares *s);
/* Weighs all micro-batches of a step: `own` [accumulate], or, if NULL, those of the
 * source. Uses the batch of the longest bucket. Every rank finds the same. */
void mf_shares_measure(mf_shares *s, mf_length_buckets *buckets, int64_t step,
                       const mf_batch *const *own);
/* Sets the shares of micro-batch j for the next run of its graph. */
void mf_shares_use(const mf_shares *s, int64_t j);
/* From now on graphs run outside of steps: each share is 1. */
void mf_shares_rest(const mf_shares *s);
/* The share of micro-batch j in regularizers. */
double mf_shares_of_tokens(const mf_shares *s, int64_t j);

#endif
