/* data/batch.h: batches as a function of (corpus, spec, step) alone.
 *
 * There is no cursor: fill(step) makes the same batch whenever it is called, so a run resumes
 * exactly from its step number. Filling allocates nothing. B is the number of examples in a
 * batch, T the number of positions in each example.
 *
 * Language model on a stream. A window is T inputs and T targets; the target of a position is
 * the token after it.
 *   random      the start of each window is drawn by Philox (seed, step, example) from all
 *               starts of the split whose T+1 tokens are in the split. With stride > 0, windows
 *               begin at every stride-th token, and each window occurs once per epoch in the
 *               order of a permutation. The last windows of an epoch are not used if they do
 *               not fill a batch. With `epochs` the order is mf_rng_shuffled of (seed, epoch),
 *               all windows are used, and the first windows of the next epoch fill the last
 *               batch of an epoch.
 *   sequential  windows follow one another through the split: window w predicts the T tokens
 *               from begin + 1 + w T on; the last window is padded. With context > 0, windows
 *               begin T - context apart, and the first `context` targets of every window
 *               except the first are -1. Each token except the first of the split is predicted
 *               once, and has at least `context` tokens before it in every window except the
 *               first one.
 *   deal > 0    the windows at every stride-th token are distributed to train and val by a
 *               permutation, and train gets the share `deal`. Windows overlap, so val is not
 *               unseen text. Some published results were measured this way.
 * Documents and examples. Each example of a batch has one document (with `packed` several),
 * padded at the end, in the order of a permutation drawn per epoch (random) or in the order of
 * the file (sequential). lm and mlm cut a document longer than T into pieces, so that no text
 * is lost.
 *   lm          the target is the next token; a document of n tokens has n-1 targets.
 *   mlm         a share of the tokens is chosen by Philox and masked (80 % the mask token, 10 %
 *               a random one, 10 % unchanged; Devlin et al. 2019, section 3.1). The chosen
 *               tokens are the targets; all other targets are -1. On a stream, an example is a
 *               window of T tokens.
 *   classify    <cls> A <sep> (B <sep>) if the tokenizer has these tokens, and one class per
 *               example. A pair that is too long loses tokens of its longer sentence first,
 *               then of both sentences.
 *   regress     the same with one number per example.
 *
 * The mask is 0 at padding; with pad_counts it is 0 only in examples without a document.
 * Examples after the end of the data (last batch of a sequential pass) are all padding. With
 * gradient accumulation, part m of step s is batch s * parts + m. It has the same examples that
 * this part has in one batch of rows * parts examples. */
#ifndef MF_DATA_BATCH_H
#define MF_DATA_BATCH_H

#include "data/corpus.h"
#include "train/batch.h"

typedef enum mf_batch_order { MF_ORDER_RANDOM, MF_ORDER_SEQUENTIAL } mf_batch_order;

typedef struct mf_batch_spec {
    mf_split split;
    mf_task task;
    mf_batch_order order;
    int32_t rows, seq;
    int64_t parts;   /* number of batches of an optimizer step; 0 means 1 */
    int32_t context; /* for sequential windows of a stream: 0 <= context < seq */
    /* for a stream, random or with deal: distance of windows in tokens; 0: windows
     * begin anywhere */
    int64_t stride;
    /* for random windows of a stream that begin at every stride-th token (stride 0: every
     * seq-th). Each window occurs once per epoch. No list of the windows is stored. */
    bool epochs;
    /* with stride > 0: share of the windows for train; 0: each split has its own text */
    double deal;
    /* lm: an example contains several documents. The positions of each begin at 0, and the last
     * token of each has no target. Documents are packed (data/batch_pack.h). Windows of a
     * stream are cut after each token document_end. */
    bool packed;
    int32_t document_end; /* id that ends a document of a stream; -1: none */
    bool pad_counts;      /* in examples with a document, the mask is 1 at padding too */
    double mlm_share;     /* share of masked tokens, for example 0.15 */
    uint64_t seed;
} mf_batch_spec;

typedef struct mf_batcher mf_batcher;

void mf_batch_defaults(mf_batch_spec *ret);
/* Fails with MF_ECONFIG if the split is too small for one window, the tokenizer lacks a token
 * that the task needs, or the corpus lacks the classes or numbers of the task; MF_ENOMEM if no
 * memory is left. The corpus must outlive the batcher. */
int mf_batcher_new(const mf_corpus *c, const mf_batch_spec *spec, mf_batcher **ret);
void mf_batcher_free(mf_batcher *b);
/* Number of batches in one pass, which is an epoch of training. If windows begin anywhere, it
 * is the smallest number of batches with at least as many targets as the split. */
int64_t mf_batcher_count(const mf_batcher *b);
/* The floor of the first n targets of a pass (data/topics/topics.h), in nats per token:
 * the lowest expected loss of a model that sees only the window before each target. *ret
 * is NaN unless the batches are sequential windows of builtin:topics with one token per
 * byte. MF_ENOMEM. */
int mf_batcher_floor(const mf_batcher *b, int64_t n, double *ret);
/* Fills *out with the batch of any step >= 0; sequential batches repeat after `count` steps.
 * out must come from mf_batch_new with the same rows and the same seq. For documents and
 * examples, the seq of out may be smaller, but not below `longest` of mf_batcher_source. */
void mf_batcher_fill(mf_batcher *b, int64_t step, mf_batch *out);

/* Returns the number, in the order of the file, of the document or example of which example
 * `row` of a sequential batch is a part; MF_BATCH_STREAM for windows of a stream, -1 after the
 * end of the data. Packed batches have several documents in an example: the first one. */
#define MF_BATCH_STREAM (-2)
int64_t mf_batcher_document(const mf_batcher *b, int64_t step, int32_t row);

/* Returns the batches of a batcher in the form that the training loop reads. If the batcher is
 * NULL, the result is {0}. The longest example of a stream has seq tokens. */
mf_batch_source mf_batcher_source(mf_batcher *b);

#endif
