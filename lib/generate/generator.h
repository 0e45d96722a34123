/* generate/generator.h: a model that continues a text.
 *
 * Keys and values of past tokens are cached: a prompt runs as one batch, then each token runs
 * alone. When the text is longer than model.seq, the model forgets the older part. The newest
 * (model.seq + 1) / 2 tokens then run again from position 0.
 *
 * On a device, decoding is recorded once for all lengths. The token, its position and the
 * length of the cache are in memory of the device, and attention stops at that length. Length
 * buckets are not needed. A token costs two copies, a replay and a wait; the cache stays on
 * the device. */
#ifndef MF_GENERATE_GENERATOR_H
#define MF_GENERATE_GENERATOR_H

#include "generate/sampler.h"
#include "model/model.h"

typedef struct mf_generator mf_generator;

/* Creates a generator. If use_cache is false, or if mf_model_sees_sequences holds for the
 * model, there is no cache, and the last model.seq tokens run again for each token (tests
 * compare the cache with this). The model must outlive the generator. The caller frees it with
 * mf_generator_free. MF_ECONFIG if model.task is classify or regress. */
int mf_generator_new(mf_model *m, bool use_cache, mf_generator **ret);
void mf_generator_free(mf_generator *g);
void mf_generator_reset(mf_generator *g); /* begins a new, empty text */

/* Packs the weights into the layout that a gemm reads without copying. For models in bf16 it
 * also releases the f32 values that generation does not read. Call this if only generators read
 * the model from now on. */
int mf_generator_pack_weights(mf_generator *g);

/* Frees the graphs, makes a new cache, and keeps the text, which runs again at the next
 * mf_generator_feed. Call this after heads or skips of the model changed. */
int mf_generator_refresh(mf_generator *g);
/* From now on graphs have the inputs of probes (mf_moe_out.route_bias), and `fill` sets them
 * before each run; an error of fill ends the run. NULL: no longer. Then does the same as
 * mf_generator_refresh, so call this also after the changes of routing are others. */
int mf_generator_steer(mf_generator *g, int (*fill)(void *arg, mf_model_graph *mg), void *arg);
/* Runs the text so far, at most its last model.seq tokens, without the cache. *ret_graph keeps
 * the routing of these tokens; *ret_first is the index of the first of these tokens in the
 * text. Both are valid until the next call of this function or of mf_generator_refresh.
 * MF_EINPUT if there is no text. */
int mf_generator_review(mf_generator *g, const mf_model_graph **ret_graph, int64_t *ret_first);

/* Appends n tokens and returns the logits [vocab] of the next token, valid until the next call.
 * MF_EINPUT if n < 1, or if an id is outside the vocabulary; then nothing is appended. */
int mf_generator_feed(mf_generator *g, const int32_t *ids, int64_t n, const float **ret_logits);
/* Returns all *ret_n tokens so far, including the tokens that the model has forgotten. The
 * array is valid until the next mf_generator_feed. */
const int32_t *mf_generator_cached(const mf_generator *g, int64_t *ret_n);
/* The graph of the last feed, which keeps prob, chosen and gate of each MoE layer. NULL before
 * the first feed, and after mf_generator_refresh. */
const mf_model_graph *mf_generator_graph(const mf_generator *g);

#endif
