/* train/length_buckets.h: graphs for a few lengths, so that short batches run shorter graphs.
 *
 * The examples of a batch are padded to the longest of them, rounded up to the length of a
 * bucket. Each bucket has its own graph over the same parameters, built when a batch first
 * needs it. The bucket depends on the batch alone. A single bucket has the full length. */
#ifndef MF_TRAIN_LENGTH_BUCKETS_H
#define MF_TRAIN_LENGTH_BUCKETS_H

#include "train/run/session.h"

typedef struct mf_length_buckets mf_length_buckets;

/* shape.seq is the full length. Builds the longest graph, so errors of the model are reported
 * here. Makes a single bucket if `one` is true, or if the configuration does not pad by the
 * batch, or if the corpus has no examples to pad. */
int mf_length_buckets_new(mf_session *s, const mf_model_shape *shape, bool one,
                          mf_length_buckets **ret);
void mf_length_buckets_free(mf_length_buckets *l);
/* Rebuilds the graphs after the structure changed. */
int mf_length_buckets_rebuild(mf_length_buckets *l);

/* Makes batch number `step` of the batcher and copies it into the inputs of its graph. Both are
 * valid until the next call. */
int mf_length_buckets_take(mf_length_buckets *l, mf_batcher *batcher, int64_t step,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
/* The same with a batch of the caller. It must have shape.batch examples and the length of a
 * bucket; mf_length_buckets_judge returns MF_EINVAL if it does not. */
int mf_length_buckets_feed(mf_length_buckets *l, const mf_batch *own,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
int mf_length_buckets_judge(const mf_length_buckets *l, const mf_batch *own);
/* The graph of the longest bucket. */
mf_model_graph *mf_length_buckets_graph(const mf_length_buckets *l);

#endif
