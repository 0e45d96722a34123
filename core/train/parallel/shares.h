/* train/parallel/shares.h: the weight of each micro-batch in a step (train.accumulate).
 *
 * The loss of a step is the sum over all its tokens (or examples, for tasks of whole examples)
 * divided by their number. It does not depend on how the step is divided into micro-batches and
 * ranks. A graph computes the mean of its own micro-batch, so this mean is multiplied by
 * the share
 *
 *     accumulate x (weight of the micro-batch) / (weight of all micro-batches of the step)
 *
 * and the mean over the micro-batches is the loss of the step. If all weights are equal, each
 * share is exactly 1. Regularizers and losses of routers are means over the statistics of their
 * micro-batch; they are multiplied by the share of its tokens. */
#ifndef MF_TRAIN_PARALLEL_SHARES_H
#define MF_TRAIN_PARALLEL_SHARES_H

#include "train/job.h"
#include "train/length_buckets.h"

typedef struct mf_shares mf_shares;

/* *ret is NULL if a step has one micro-batch; the other functions accept NULL. MF_ENOMEM. The
 * job must outlive *ret. */
int mf_shares_new(const mf_train_job *job, mf_shares **ret);
void mf_shares_free(mf_shares *s);
/* Computes the weights of all micro-batches of a step: of `own` [accumulate], or, if NULL, of
 * the micro-batches of the source. Uses the batch of the longest bucket. Every rank computes
 * the same weights. */
void mf_shares_measure(mf_shares *s, mf_length_buckets *buckets, int64_t step,
                       const mf_batch *const *own);
/* Sets the shares of micro-batch j for the next run of its graph. */
void mf_shares_use(const mf_shares *s, int64_t j);
/* Sets each share to 1, because graphs run outside of steps from now on. */
void mf_shares_rest(const mf_shares *s);
/* Returns the factor of micro-batch j on regularizers, its share of the tokens. */
double mf_shares_of_tokens(const mf_shares *s, int64_t j);

#endif
