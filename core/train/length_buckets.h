/* train/length_buckets.h: graphs for a few lengths, so that short batches run shorter graphs.
 *
 * The examples of a batch are padded to the longest example, rounded up to the length of a
 * bucket. Each bucket has its own graph over the same parameters. The longest graph is built at
 * once; the other graphs are built when a batch first needs them. The bucket depends on the
 * batch alone. If there is only one bucket, it has the full length. */
#ifndef MF_TRAIN_LENGTH_BUCKETS_H
#define MF_TRAIN_LENGTH_BUCKETS_H

#include "train/batch.h"

typedef struct mf_length_buckets mf_length_buckets;

/* Creates the buckets. shape.seq is the full length. Builds the longest graph, so errors of the
 * model are reported here. one: a single bucket. The model must outlive the buckets. */
int mf_length_buckets_new(mf_model *m, const mf_model_shape *shape, bool one,
                          mf_length_buckets **ret);
void mf_length_buckets_free(mf_length_buckets *l);
/* Call this after the structure changed. It frees all graphs and builds the longest one again.
 * Earlier pointers to graphs become invalid. */
int mf_length_buckets_rebuild(mf_length_buckets *l);

/* Returns batch `number` of the source for reading; it is valid until the next call. */
const mf_batch *mf_length_buckets_look(mf_length_buckets *l, mf_batch_source source,
                                       int64_t number);
/* Makes batch `number` of the source and copies it into the inputs of its graph. The buckets
 * own batch and graph: the batch is valid until the next call, the graph
 * until mf_length_buckets_rebuild. */
int mf_length_buckets_take(mf_length_buckets *l, mf_batch_source source, int64_t number,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
/* Like mf_length_buckets_take, with a batch of the caller, which becomes *ret_batch. The batch
 * must have shape.batch examples and the length of a bucket; otherwise this function fails with
 * MF_EINVAL. So does mf_length_buckets_judge, which only checks the batch. */
int mf_length_buckets_feed(mf_length_buckets *l, const mf_batch *own,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph);
int mf_length_buckets_judge(const mf_length_buckets *l, const mf_batch *own);
/* Returns the graph of the longest bucket. */
mf_model_graph *mf_length_buckets_graph(const mf_length_buckets *l);

#endif
