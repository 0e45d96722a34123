/* generate/generator.h: a model that continues a text.
 *
 * Keys and values of past tokens are cached: a prompt is run as one batch, then one token at a
 * time. When the model's longest sequence is full, the older half is forgotten and the rest run
 * again from position 0.
 */
#ifndef MF_GENERATE_GENERATOR_H
#define MF_GENERATE_GENERATOR_H

#include "generate/sampler.h"
#include "model/model.h"

typedef struct mf_generator mf_generator;

/* use_cache false: every token runs the whole text again (to test the cache against). */
int mf_generator_new(mf_model *m, bool use_cache, mf_generator **ret);
void mf_generator_free(mf_generator *g);
void mf_generator_reset(mf_generator *g);

/* For models that are only read from now on, by generators: weights are turned into what
 * products read without copying, and of models in bf16 the f32 values that generating does not
 * read are given back. */
int mf_generator_settle(mf_generator *g);

/* The model was changed (heads, skips): graphs and cache anew, the text is kept. */
int mf_generator_refresh(mf_generator *g);
/* Runs the text so far in one piece, without the cache: *ret_graph holds the routing of its
 * tokens from *ret_first on (as many as the model's sequence holds). Valid until the next call.
 * MF_EINPUT when there is no text. */
int mf_generator_review(mf_generator *g, const mf_model_graph **ret_graph, int64_t *ret_first);

/* Appends tokens (n >= 1) and gives the logits [vocab] of what follows; valid until the next
 * call. MF_EINPUT for ids outside the vocabulary. */
int mf_generator_feed(mf_generator *g, const int32_t *ids, int64_t n, const float **ret_logits);
/* All tokens so far, forgotten ones too. */
const int32_t *mf_generator_past(const mf_generator *g, int64_t *ret_n);
/* Graph of the last feed: its MoE records, when built with want_prob. */
const mf_model_graph *mf_generator_graph(const mf_generator *g);

#endif
