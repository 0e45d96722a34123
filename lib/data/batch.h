/* data/batch.h: batches as a function of (corpus, spec, step) alone.
 *
 * There is no cursor: fill(step) makes the same batch whenever it is called, so a run resumes
 * exactly from its step number. Filling allocates nothing. B is the number of examples in a
 * batch, T the number of positions in each.
 *
 * Language model on a stream. A window is T inputs and T targets; the target of a position is
 * the token after it.
 *   random      the start of each window is drawn by Philox (seed, step, example) from all
 *               starts of the split whose T+1 tokens are in it. With stride > 0 windows begin
 *               at every stride-th token, each once per epoch in the order of a permutation;
 *               the last windows of an epoch are not used if they do not fill a batch.
 *               With `epochs` the order is mf_rng_shuffled of (seed, epoch), all windows are
 *               used, and the last batch of an epoch is filled from the next one.
 *   sequential  windows follow one another through the split: window w predicts the T tokens
 *               from begin + 1 + w T on; the last window is padded. With context > 0 windows
 *               begin T - context apart, and the first `context` targets of every window
 *               except the first are -1: each token except the first of the split is predicted
 *               once, and has at least `context` tokens before it in every window except the
 *               first one.
 *   deal > 0    the windows at every stride-th token are distributed to train and val by a
 *               permutation, and train gets the share `deal`. Windows overlap, so val is not
 *               unseen text; some published results were measured this way.
 * Documents and examples. Each example of a batch has one document, padded at the end, in the
 * order of a permutation drawn per epoch (random) or in the order of the file (sequential). lm
 * and mlm cut a document longer than T into pieces, so no text is lost.
 *   lm          the target is the next token; a document of n tokens has n-1 targets.
 *   mlm         a share of the tokens is chosen by Philox and masked (80 % the mask token, 10 %
 *               a random one, 10 % unchanged; Devlin et al. 2019, section 3.1); they are the
 *               targets, all others are -1. On a stream: windows of T tokens.
 *   classify    <cls> A <sep> (B <sep>) if the tokenizer has these tokens, and one class per
 *               example. A pair that is too long loses tokens of its longer sentence first,
 *               then of both.
 *   regress     the same with one number per example.
 *
 * The mask is 0 at padding; with pad_counts only in examples without a document. Examples after
 * the end of the data (last batch of a sequential pass) are all padding. With gradient
 * accumulation the m-th part of step s is batch s * parts + m; it has the examples that one
 * batch of rows * parts examples has there. */
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
    int64_t parts;   /* batches of an optimizer step; 0 as 1 */
    int32_t context; /* for sequential windows of a stream: 0 <= context < seq */
    /* for a stream, random or with deal: distance of windows in tokens; 0: they
     * begin anywhere */
    int64_t stride;
    /* random windows of a stream, at every stride-th token (0: every seq-th): each once per
     * epoch, without a list of them */
    bool epochs;
    /* with stride: share of windows for train; 0: each split has its own text */
    double deal;
    /* lm: an example holds several documents, whose positions begin at 0, and the last token of
     * each has no target. Documents are packed (data/batch_pack.h); windows of a stream are cut
     * behind each token document_end */
    bool packed;
    int32_t document_end; /* of a stream; -1: none */
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
/* Number of batches in one pass: an epoch of training; for windows that begin anywhere, the
 * smallest number with at least as many targets as the split. */
int64_t mf_batcher_count(const mf_batcher *b);
/* The floor of the first n targets of a pass (data/topics/topics.h), in nats per token: the
 * lowest expected loss of a model that sees only the window before each target. *ret is NaN
 * unless the batches are sequential windows of builtin:topics with one token per byte.
 * MF_ENOMEM. */
int mf_batcher_floor(const mf_batcher *b, int64_t n, double *ret);
/* Fills *out with the batch of any step >= 0; sequential batches repeat after `count` steps.
 * out must come from mf_batch_new with the same rows and the same seq; for documents and
 * examples its seq may be smaller, but not below `longest` of mf_batcher_source. */
void mf_batcher_fill(mf_batcher *b, int64_t step, mf_batch *out);

/* The batches of a batcher, as the training loop takes them. If the batcher is NULL, the result
 * is {0}. The longest example of a stream has seq tokens. */
mf_batch_source mf_batcher_source(mf_batcher *b);

#endif
