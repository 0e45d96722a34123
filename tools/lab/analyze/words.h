/* lab/analyze/words.h: which token ids each expert gets.
 *
 * The share of an id is the part of its tokens that chose the expert. An id that occurs once
 * has shares of 0 and 1 by arithmetic alone, so only ids that are frequent enough are listed,
 * and means are over tokens, not over ids. */
#ifndef MF_LAB_ANALYZE_WORDS_H
#define MF_LAB_ANALYZE_WORDS_H

#include "lab/analyze/analysis.h"

/* id: [N] token ids. Arrays are in the arena. MF_ENOMEM. */
int mf_words_of(const mf_routes *r, const int32_t *id, mf_arena *arena, mf_expert_words *ret);

#endif
