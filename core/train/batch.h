/* train/batch.h: the examples of one micro-batch, and the source of batches. */
#ifndef MF_TRAIN_BATCH_H
#define MF_TRAIN_BATCH_H

#include "model/model.h"

/* All arrays are in one block. N = rows * seq. At padding the token is the tokenizer's <pad> or
 * 0, the target is -1, and the mask is 0. With pad_counts the mask is 1 at padding of examples
 * with a document. */
typedef struct mf_batch {
    int32_t rows, seq;  /* number of examples B, and of their positions T */
    int32_t *tokens;    /* [N] */
    int32_t *targets;   /* [N], -1: no target at this position */
    float *mask;        /* [N] 1: a token of a document, 0: padding */
    int32_t *positions; /* [N] position within the sequence, from 0 */
    int32_t *sequence;  /* [N] index of the example in the batch */
    int32_t *segments;  /* [N] segments set by mf_batch_segments; else 0 */
    /* [N] position in the example at which the token's document begins; always 0 with
     * one document */
    int32_t *since;
    int32_t *labels; /* [N] topic of the input token; -1: unknown */
    /* [B] class of the example; -1: no class, or padding. */
    int32_t *classes;
    float *values; /* [B] number of the example; NaN: no number */
    /* Classes of further label columns (corpus.h). */
    int32_t *more_classes[MF_TASKS_MAX];
    float *more_values[MF_TASKS_MAX];
    /* number of targets >= 0; for classify and regress: examples with a document */
    int64_t n_targets;
    int64_t n_tokens; /* number of tokens without padding */
    /* number of bytes of text that the targets represent; 0: the tokenizer cannot tell; -1:
     * unknown, because a target is <unk> */
    int64_t n_bytes;
} mf_batch;

int mf_batch_new(int32_t rows, int32_t seq, mf_batch **ret);
void mf_batch_free(mf_batch *b);
/* Sets `segments`: the number of separators before each token in its example. So a separator
 * belongs to the segment that it ends. The segment is 0 at padding, and everywhere if separator
 * is negative. */
void mf_batch_segments(mf_batch *b, int32_t separator);
/* Copies a batch into the inputs of a graph of the same shape. */
void mf_batch_feed(const mf_batch *b, mf_model_graph *mg);
/* Returns how many items of a batch task i of the model counts: the sum of the mask (masked)
 * over positions with a target, or the number of examples that have a label. */
double mf_batch_weight(const mf_batch *b, const mf_model *m, bool masked, int task);

/* A source of batches. A batch depends only on its number. */
typedef struct mf_batch_source {
    void *self;
    /* Fills *out. Its examples may be shorter than the batch, but not shorter
     * than `longest`. */
    void (*fill)(void *self, int64_t number, mf_batch *out); /* NULL: there are no batches */
    /* Returns the number of tokens of the longest example. */
    int32_t (*longest)(void *self, int64_t number);
} mf_batch_source;

#endif
