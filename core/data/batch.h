/* data/batch.h: batches as a pure function of (corpus, spec, step).
 *
 * There is no cursor: fill(step) gives the same batch whenever it is called, so a run goes on
 * exactly with nothing but the step number. Filling allocates nothing.
 *
 * Language model on a stream. A window is T inputs and the T targets one place further on.
 *   random      the start of each window is drawn by Philox (seed, step, row) from all starts
 *               of the split whose T+1 tokens lie within it.
 *               With stride > 0 windows begin at every stride-th token, each once an epoch in
 *               the order of a permutation; what does not fill a batch waits for the next
 *               epoch's.
 *   sequential  windows follow one another through the split: window w predicts the tokens
 *               begin + 1 + w T ... ; what is left over at the end is padded. With context > 0
 *               windows begin T - context apart and the first `context` targets of every
 *               window but the first are -1: each token but the very first of the split is
 *               predicted once, with at least `context` tokens before it.
 *   dealt       deal > 0: the windows of train and val together, at every stride-th token, are
 *               dealt to the two by a permutation, train getting the share `deal`. They
 *               overlap, so that val is no text unseen: some published figures are made so.
 * Documents and examples. One a row, padded behind; rows in the order of a permutation drawn
 * per epoch (random) or as they lie (sequential). lm and mlm cut a document that is longer than
 * a row into pieces, so that none of it is lost.
 *   lm          targets are the tokens one place further on; a document of n tokens has n-1.
 *   mlm         a share of the tokens is chosen by Philox and hidden (80 % the mask token, 10 %
 *               a random one, 10 % left; Devlin et al. 2019, section 3.1); targets there, else
 *               -1. On a stream: windows of T tokens.
 *   classify    <cls> A <sep> (B <sep>) where the tokenizer has these tokens, and a class a
 *               row. Too long a pair loses tokens from the longer sentence.
 *   regress     the same with a number a row.
 * The mask is 0 at padding; with pad_counts only in rows without a document.
 * Rows past the end of the data (last batch of a sequential pass) are all padding. With
 * gradient accumulation the m-th part of step s is batch s * parts + m.
 */
#ifndef MF_DATA_BATCH_H
#define MF_DATA_BATCH_H

#include "data/corpus.h"

/* All arrays lie in one block. N = rows * seq; padding: token = the tokenizer's <pad> or 0,
 * target -1, mask 0. */
typedef struct mf_batch {
    int32_t rows, seq;                   /* B, T */
    int32_t *tokens;                     /* [N] */
    int32_t *targets;                    /* [N], -1: nothing to predict here */
    float *mask;                         /* [N] 1: a real token (input), 0: padding */
    int32_t *positions;                  /* [N] place within the row, from 0 */
    int32_t *sequence;                   /* [N] row */
    int32_t *labels;                     /* [N] topic of the input token; -1 unknown */
    int32_t *classes;                    /* [B] class of the row; -1: none (a row of padding) */
    float *values;                       /* [B] number of the row; NaN: none */
    int32_t *more_classes[MF_TASKS_MAX]; /* the same of further columns (corpus.h) */
    float *more_values[MF_TASKS_MAX];
    int64_t n_targets; /* targets >= 0; for classify, regress: rows with a document */
    int64_t n_tokens;  /* real tokens */
    int64_t n_bytes;   /* text bytes of the targets; 0: unknown */
} mf_batch;

typedef enum mf_batch_order { MF_ORDER_RANDOM, MF_ORDER_SEQUENTIAL } mf_batch_order;

typedef struct mf_batch_spec {
    mf_split split;
    mf_task task;
    mf_batch_order order;
    int32_t rows, seq;
    int32_t context;  /* sequential windows of a stream: 0 <= context < seq */
    int64_t stride;   /* of a stream; 0: windows anywhere */
    double deal;      /* with stride: share of train, 0: each split has its own text */
    bool pad_counts;  /* rows with a document: padding counts as tokens in the mask */
    double mlm_share; /* 0.15 */
    uint64_t seed;
} mf_batch_spec;

typedef struct mf_batcher mf_batcher;

void mf_batch_defaults(mf_batch_spec *ret);
/* MF_ECONFIG when the split is too small for one window, the tokenizer lacks what the task
 * needs, or the corpus has no classes. The corpus must outlive the batcher. */
int mf_batcher_new(const mf_corpus *c, const mf_batch_spec *spec, mf_batcher **ret);
void mf_batcher_free(mf_batcher *b);
/* Batches in one pass: an epoch of training; for random windows, the number whose targets add
 * up to the split at least once. */
int64_t mf_batcher_count(const mf_batcher *b);
/* Any step >= 0. Sequential: step modulo count. out comes from mf_batch_new with the same rows
 * and seq, or, of documents and examples, with a seq no less than mf_batcher_longest. */
void mf_batcher_fill(mf_batcher *b, int64_t step, mf_batch *out);
/* Tokens of the longest row of this batch, at least 1; seq for a stream. */
int32_t mf_batcher_longest(mf_batcher *b, int64_t step);

int mf_batch_new(int32_t rows, int32_t seq, mf_batch **ret);
void mf_batch_free(mf_batch *b);

#endif
