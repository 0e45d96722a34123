/* generate/quality.h: measurements of generated texts: how much they repeat, and how likely
 * they are under a model.
 *
 * A word is a longest run of bytes without a blank (a space, or one of the bytes 9 to 13). An
 * n-gram is n consecutive words of one text.
 *
 *     rep(n)      1 - sum over texts of distinct n-grams / sum over texts of all n-grams
 *                 (Welleck et al. 2020, Neural Text Generation with Unlikelihood Training:
 *                 seq-rep-n; pooled over texts)
 *     diversity   (1 - rep(2)) (1 - rep(3)) (1 - rep(4)) (Su et al. 2022, A Contrastive
 *                 Framework for Neural Text Generation)
 *     distinct(n) distinct n-grams of all texts together / all n-grams (Li et al. 2016, A
 *                 Diversity-Promoting Objective Function for Neural Conversation Models)
 *     again       the share of words that occur again among the next 49 words of their text;
 *                 the last word of each text is not counted
 *     coherence   mean log-likelihood of the generated tokens, given the text before them,
 *                 under a model (Su, Xu 2022, An Empirical Study on Contrastive Search and
 *                 Contrastive Decoding) */
#ifndef MF_GENERATE_QUALITY_H
#define MF_GENERATE_QUALITY_H

#include <stddef.h>
#include "generate/generator.h"

enum { MF_QUALITY_ORDER = 4 }; /* largest n of n-grams */

typedef struct mf_piece_of_text {
    const char *text;
    size_t n;
} mf_piece_of_text;

/* The number of words, and shares. A share is NaN if there is nothing to count. The index of an
 * array is the n of its n-grams; entry 0 is not used. */
typedef struct mf_repetition {
    int64_t words;
    double rep[MF_QUALITY_ORDER + 1], distinct[MF_QUALITY_ORDER + 1];
    double diversity, again;
} mf_repetition;

int mf_repetition_of(int n_texts, const mf_piece_of_text *texts, mf_repetition *ret);

/* Computes the sum over i of ln p(ids[i] | prompt, ids before i) in nats, under the model's own
 * distribution, without temperature, top-k or top-p. Replaces the generator's text by the
 * prompt and all ids except the last. MF_EINPUT if an id of prompt or ids is not in the
 * vocabulary, or if n_prompt < 1. */
int mf_log_likelihood(mf_generator *g, int32_t vocab, const int32_t *prompt, int64_t n_prompt,
                      const int32_t *ids, int64_t n, double *ret);

#endif
