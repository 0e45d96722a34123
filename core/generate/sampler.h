/* generate/sampler.h: from logits to the next token.
 *
 * In this order: repetition penalty, temperature, top-k, top-p; then one draw. Temperature 0
 * takes the likeliest token, ties to the lower id. The draw is a function of (seed, position),
 * so the same settings give the same text.
 */
#ifndef MF_GENERATE_SAMPLER_H
#define MF_GENERATE_SAMPLER_H

#include <stdint.h>

typedef struct mf_sampler_options {
    double temperature;    /* >= 0; 0: greedy */
    int64_t top_k;         /* keep the k likeliest; 0: all */
    double top_p;          /* keep the likeliest whose probabilities reach p (Holtzman et al.
                              2020); * 1: all */
    double repeat_penalty; /* of tokens in the window: logit / r if positive, else x r (Keskar
                              et * al. 2019, section 4.1); 1: off */
    int64_t repeat_window; /* last tokens that count; 0: all */
    uint64_t seed;
} mf_sampler_options;

typedef struct mf_sampler mf_sampler;

int mf_sampler_new(int32_t vocab, const mf_sampler_options *options, mf_sampler **ret);
void mf_sampler_free(mf_sampler *s);
mf_sampler_options *mf_sampler_settings(mf_sampler *s); /* may be changed between draws */
/* logits [vocab] are not changed. past: the tokens before, oldest first. position: how many
 * tokens were drawn before. -1 if no logit is finite. */
int32_t mf_sampler_draw(mf_sampler *s, const float *logits, const int32_t *past, int64_t n_past,
                        int64_t position);

#endif
