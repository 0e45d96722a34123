/* generate/sampler.h: draws the next token from logits.
 *
 * The order is: repetition penalty, temperature, top-k, top-p, draw. With temperature 0 the
 * likeliest token is taken; among equally likely tokens, the token with the lowest id. The draw
 * is a function of (seed, position), so the same settings give the same text. */
#ifndef MF_GENERATE_SAMPLER_H
#define MF_GENERATE_SAMPLER_H

#include <stdint.h>

typedef struct mf_sampler_options {
    double temperature; /* >= 0; 0: greedy */
    int64_t top_k;      /* only the k likeliest tokens stay; 0: all */
    /* Only the fewest likeliest tokens stay that reach this share of the probability left by
     * top_k (Holtzman et al. 2020). At least one token stays. 1: all stay. */
    double top_p;
    /* r; the logit of a token in the window becomes logit / r if positive, else logit x r
     * (Keskar et al. 2019, section 4.1); 1: off */
    double repeat_penalty;
    int64_t repeat_window; /* number of last tokens that the penalty counts; 0: all */
    uint64_t seed;
} mf_sampler_options;

typedef struct mf_sampler mf_sampler;

int mf_sampler_new(int32_t vocab, const mf_sampler_options *options, mf_sampler **ret);
void mf_sampler_free(mf_sampler *s);
mf_sampler_options *mf_sampler_settings(mf_sampler *s); /* Returns the settings, which may
                                                         * change between draws. */
/* Draws the next token. logits [vocab] are not changed. past: the tokens before it, oldest
 * first. position: number of tokens drawn before. Returns -1 if no logit is finite. */
int32_t mf_sampler_draw(mf_sampler *s, const float *logits, const int32_t *past, int64_t n_past,
                        int64_t position);

#endif
