/* generate/score.h: the probabilities that a language model gives to the tokens of a text.
 *
 * A text runs as one batch where the result is that of each prefix alone: in causal models
 * without a capacity, whose routers, experts and adapters read no other tokens. Other models
 * run each prefix, which costs n runs for n tokens. */
#ifndef MF_GENERATE_SCORE_H
#define MF_GENERATE_SCORE_H

#include "model/model.h"

typedef struct mf_scorer mf_scorer;

/* Makes a scorer of a model, which must outlive it. The weights may be packed for generators
 * (mf_generator_pack_weights). MF_ECONFIG if the model is no language model; MF_ENOMEM. */
int mf_scorer_new(mf_model *m, mf_scorer **ret);
void mf_scorer_free(mf_scorer *s); /* NULL is allowed */

/* Runs n tokens, 1 <= n <= model.seq, and calls `row` for each i = 0 .. n-1 with the logits
 * [vocab] of the token after ids[0..i]. A result of `row` other than MF_OK ends the call and is
 * returned. MF_EINPUT if n or an id is out of range; MF_ENOMEM. */
int mf_score(mf_scorer *s, const int32_t *ids, int64_t n,
             int (*row)(void *arg, int64_t i, const float *logits), void *arg);

/* The two parts of ln sum exp(logits): the greatest logit, and the logarithm of the sum of
 * exp(logit - most). */
typedef struct mf_log_sum {
    double most, rest;
} mf_log_sum;
mf_log_sum mf_log_sum_of(const float *logits, int32_t vocab);
/* ln p of a token with this logit, in nats. */
double mf_log_share(mf_log_sum sum, float logit);

#endif
