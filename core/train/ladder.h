/* train/ladder.h: one kind of graph at several widths, with the batch that fits each.
 *
 * Examples and documents are padded to the longest of their batch, rounded up to a rung; each
 * rung is a graph of its own over the same parameters, built when a batch first needs it. Which
 * rung a batch takes is a function of the batch alone. A ladder of one rung always has the full
 * width.
 */
#ifndef MF_TRAIN_LADDER_H
#define MF_TRAIN_LADDER_H

#include "train/session.h"

typedef struct mf_ladder mf_ladder;

/* shape.seq: the full width. Builds the widest graph, so that what is wrong with the model is
 * said here. One rung unless the configuration pads by the batch and the corpus has rows to
 * pad. */
int mf_ladder_new(mf_session *s, const mf_model_shape *shape, bool one_rung, mf_ladder **ret);
void mf_ladder_free(mf_ladder *l);
/* The structure changed: graphs are built anew. */
int mf_ladder_rebuild(mf_ladder *l);

/* Batch `step` of the batcher, filled and fed; valid until the next call. */
int mf_ladder_take(mf_ladder *l, mf_batcher *batcher, int64_t step, mf_batch **ret_batch,
                   mf_model_graph **ret_graph);
/* The widest rung's. */
mf_batch *mf_ladder_batch(const mf_ladder *l);
mf_model_graph *mf_ladder_graph(const mf_ladder *l);

#endif
