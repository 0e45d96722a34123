/* train/length_buckets.h: graphs for a few lengths, so that short batches run shorter graphs.
 *
 * Examples and documents are padded to the longest of their batch, rounded up to a bucket's
 * length; each bucket has a graph of its own over the same parameters, built when a batch
 * first needs it. Which bucket a batch goes into is a function of the batch alone. A single
 * bucket has the full length.
 */
#ifndef MF_TRAIN_LENGTH_BUCKETS_H
#define MF_TRAIN_LENGTH_BUCKETS_H

#include "train/run/session.h"

typedef struct mf_length_buckets mf_length_buckets;

/* shape.seq: the full length. Builds the longest graph, so that what is wrong with the model is
 * said here. One bucket if `one`, and unless the configuration pads by the batch and the corpus
 * has examples to pad. */
int mf_length_buckets_new(mf_session *s, const mf_model_shape *shape, bool one,
                          mf_length_buckets **ret);
void mf_length_buckets_free(mf_length_buckets *l);
/* The structure changed: graphs are rebuilt. */
int mf_length_buckets_rebuild(mf_length_buckets *l);

/* Batch `step` of the batcher, filled, and copied into the inputs of its graph. Both are valid
 * until the next call. */
int mf_length_buckets_take(mf_length_buckets *l, mf_batcher *batcher, int64_t step,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
/* The same with a batch of the caller, which must have as many examples as shape.batch and the
 * length of a bucket; judge says whether it does (MF_EINVAL). */
int mf_length_buckets_feed(mf_length_buckets *l, const mf_batch *own,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
int mf_length_buckets_judge(const mf_length_buckets *l, const mf_batch *own);
/* Of the longest bucket. */
mf_model_graph *mf_length_buckets_graph(const mf_length_buckets *l);

#endif
