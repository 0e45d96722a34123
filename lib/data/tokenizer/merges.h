/* data/tokenizer/merges.h: learns merges. Words, with their frequencies, are divided into
 * symbols. The best pair of neighbours becomes one symbol everywhere, and this step repeats.
 *
 * Pair counts are updated while symbols merge, so a merge visits only the words that contain
 * the pair or contained it earlier. The best pair is one of
 *
 *   the most frequent   (Sennrich, Haddow and Birch 2016); or
 *   the most likely     the pair whose merge raises the likelihood of the text the most under a
 *                       unigram model of symbols (Schuster and Nakajima 2012), in the estimate
 *                       n(ab) log(n(ab) N / (n(a) n(b))), N symbols in all.
 *
 * Among equal pairs, the pair with the earlier left symbol wins, then the pair with the earlier
 * right symbol. A pair that is rarer than the rule's minimum is not merged. The result depends
 * only on the words and their order.
 *
 * rule.keeps_counts is the rule of --trainer=vocab_dict. Among equal pairs, the pair that
 * occurs first in the order of the words wins. A pair that appears again after it was merged is
 * merged again. The vocabulary is the set of symbols whose count is not 0. The counts are kept
 * as follows: a new symbol gets the count of its pair, and the same count is subtracted from
 * both halves, twice if they are the same symbol. Pairs overlap in "aaa", and a symbol can be
 * made in more than one way. Therefore some symbols stay that are in no word, and some
 * disappear that are in words. (That trainer examines the new symbol again before it continues;
 * this changes nothing, because a symbol is never its own left half.) */
#ifndef MF_DATA_MERGES_H
#define MF_DATA_MERGES_H

#include "data/strings.h"

typedef struct mf_merge {
    int32_t left, right, made; /* symbols: left and right become made */
} mf_merge;

typedef struct mf_learner {
    mf_strings symbols; /* given symbols first, then the symbols made by merges */
    mf_strings words;   /* the words as text, for look-ups */
    mf_merge *merges;   /* in the order of learning */
    int32_t n_merges, cap_merges;
    /* with rule.keeps_counts: [symbols.n] whether a symbol is in the vocabulary; else NULL */
    bool *listed;
    int32_t n_listed;
    /* ---- inner state ---- */
    struct mf_learner_word *word; /* [words.n] */
    size_t cap_word;
    struct mf_learner_pairs *pairs;
} mf_learner; /* an empty learner is {0} */

void mf_learner_free(mf_learner *l);
/* Counts a word. If the word is new (*ret_new), the caller must then set its symbols
 * with mf_learner_cut. */
int mf_learner_word(mf_learner *l, const char *text, size_t n, bool *ret_new);
/* Sets the symbols, n > 0, of the word that was added last. */
int mf_learner_cut(mf_learner *l, const int32_t *symbol, int32_t n);

typedef struct mf_learner_rule {
    bool likely; /* the best pair is the most likely one, else the most frequent */
    /* symbols inside a word begin with ##, which is removed when they merge */
    bool hashes;
    int32_t min_count;   /* least count of a pair that is merged; 0: 2 (with keeps_counts: 1) */
    int32_t max_merges;  /* stop after this many merges */
    int32_t max_symbols; /* stop before there are more symbols than this */
    /* see above; max_symbols then counts only listed symbols; cannot be used with likely */
    bool keeps_counts;
} mf_learner_rule;
int mf_learner_run(mf_learner *l, const mf_learner_rule *rule);

#endif
