/* train/batch.h: the examples of one micro-batch, and where they come from. */
#ifndef MF_TRAIN_BATCH_H
#define MF_TRAIN_BATCH_H

#include "model/model.h"

/* All arrays are in one block. N = rows * seq. At padding the token is the tokenizer's <pad> or
 * 0, the target is -1, the mask 0 (with pad_counts 1 in examples with a document). */
typedef struct mf_batch {
    int32_t rows, seq;                   /* B examples of T positions */
    int32_t *tokens;                     /* [N] */
    int32_t *targets;                    /* [N], -1: no target at this position */
    float *mask;                         /* [N] 1: a real token, 0: padding */
    int32_t *positions;                  /* [N] position within the sequence, from 0 */
    int32_t *sequence;                   /* [N] index of the example in the batch */
    int32_t *segments;                   /* [N] from mf_batch_segments; else 0 */
    int32_t *since;                      /* [N] where its document begins in the example: 0, or
                                          * with several documents in one, their positions */
    int32_t *labels;                     /* [N] topic of the input token; -1 unknown */
    int32_t *classes;                    /* [B] class of the example; -1: none, or padding */
    float *values;                       /* [B] number of the example; NaN: none */
    int32_t *more_classes[MF_TASKS_MAX]; /* classes of further label columns (corpus.h) */
    float *more_values[MF_TASKS_MAX];
    /* number of targets >= 0; for classify and regress: examples with a document */
    int64_t n_targets;
    int64_t n_tokens; /* tokens without padding */
    /* bytes of text that the targets stand for; 0: the tokenizer does not know; -1: a target is
     * <unk>, so they are unknown */
    int64_t n_bytes;
} mf_batch;

int mf_batch_new(int32_t rows, int32_t seq, mf_batch **ret);
void mf_batch_free(mf_batch *b);
/* Sets `segments`: the number of separators before each real token in its example, so that a
 * separator belongs to the segment that it ends; 0 at padding, and everywhere if separator
 * < 0. */
void mf_batch_segments(mf_batch *b, int32_t separator);
/* Copies a batch into the inputs of a graph of the same shape. */
void mf_batch_feed(const mf_batch *b, mf_model_graph *mg);
/* How many items of a batch task i of the model counts: the sum of the mask (masked) over
 * positions with a target, or the number of examples that have a label. */
double mf_batch_weight(const mf_batch *b, const mf_model *m, bool masked, int task);

/* Batches as a function of their number alone. */
typedef struct mf_batch_source {
    void *self;
    /* Fills *out, which may have shorter examples, but not below `longest`. */
    void (*fill)(void *self, int64_t number, mf_batch *out); /* NULL: there are none */
    /* Tokens of the longest example. */
    int32_t (*longest)(void *self, int64_t number);
} mf_batch_source;

#endif
