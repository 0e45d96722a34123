/* generate/generator.h: a model that continues a text.
 *
 * Keys and values of past tokens are cached: a prompt runs as one batch, then each token runs
 * alone. When the text reaches the model's longest sequence, the older half is dropped and the
 * rest runs again from position 0. */
#ifndef MF_GENERATE_GENERATOR_H
#define MF_GENERATE_GENERATOR_H

#include "generate/sampler.h"
#include "model/model.h"

typedef struct mf_generator mf_generator;

/* use_cache false: every token runs the whole text again (tests compare the cache with this).
 * The model must outlive the generator. Free with mf_generator_free. */
int mf_generator_new(mf_model *m, bool use_cache, mf_generator **ret);
void mf_generator_free(mf_generator *g);
void mf_generator_reset(mf_generator *g);

/* To be called if only generators read the model from now on. Packs the weights into the layout
 * that a gemm reads without copying. For models in bf16 it also releases the f32 values that
 * generation does not read. */
int mf_generator_pack_weights(mf_generator *g);

/* To be called after heads or skips of the model changed: rebuilds graphs and cache, and keeps
 * the text. */
int mf_generator_refresh(mf_generator *g);
/* Runs the whole text so far without the cache. *ret_graph has the routing of its tokens from
 * *ret_first on (as many as the model's sequence holds). Valid until the next call. MF_EINPUT
 * if there is no text. */
int mf_generator_review(mf_generator *g, const mf_model_graph **ret_graph, int64_t *ret_first);

/* Appends n >= 1 tokens and returns the logits [vocab] of the next token, valid until the next
 * call. MF_EINPUT for ids outside the vocabulary. */
int mf_generator_feed(mf_generator *g, const int32_t *ids, int64_t n, const float **ret_logits);
/* All tokens so far, including those dropped from the model's context. */
const int32_t *mf_generator_cached(const mf_generator *g, int64_t *ret_n);
/* The graph of the last feed, which keeps prob, chosen and gate of each MoE layer. */
const mf_model_graph *mf_generator_graph(const mf_generator *g);

#endif
