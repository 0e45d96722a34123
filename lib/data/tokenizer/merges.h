/* data/tokenizer/merges.h: learns merges. Words, with their frequencies, are divided into
 * symbols; the best pair of neighbours becomes one symbol everywhere, and this repeats.
 *
 * Pair counts are updated while symbols merge, so a merge visits only the words that hold the
 * pair, or did so earlier. The best pair is one of
 *
 *   the most frequent   (Sennrich, Haddow and Birch 2016); or
 *   the most likely     the one whose merge raises the likelihood of the text under a unigram
 *                       model of symbols the most (Schuster and Nakajima 2012), in the estimate
 *                       n(ab) log(n(ab) N / (n(a) n(b))), N symbols in all.
 *
 * Among equals, the pair with the earlier left symbol wins, then the one with the earlier right
 * symbol. A pair that is rarer than the rule's minimum is not merged. The result depends on the
 * words and their order only.
 *
 * rule.keeps_counts is the rule of --trainer=vocab_dict. Among equals, the pair that occurs
 * first wins, in the order of the words; a pair that appears again after it was merged is
 * merged again. Its vocabulary is the set of symbols whose count is not 0, and it counts as
 * follows: a new symbol gets the count of its pair, and the same count is subtracted from both
 * halves, twice if they are the same symbol. Pairs overlap in "aaa", and a symbol can be made
 * in more than one way; so some symbols stay that are in no word, and some disappear that are
 * in words. (That trainer examines the new symbol again before it continues; this changes
 * nothing, because a symbol is never its own left half.) */
#ifndef MF_DATA_MERGES_H
#define MF_DATA_MERGES_H

#include "data/strings.h"

typedef struct mf_merge {
    int32_t left, right, made; /* symbols: left and right become made */
} mf_merge;

typedef struct mf_learner {
    mf_strings symbols; /* given symbols first, then those that merges made */
    mf_strings words;   /* the words as text, to find them again */
    mf_merge *merges;   /* in the order of learning */
    int32_t n_merges, cap_merges;
    /* with rule.keeps_counts: [symbols.n] whether a symbol is in its vocabulary; else NULL */
    bool *listed;
    int32_t n_listed;
    /* ---- inner state ---- */
    struct mf_learner_word *word; /* [words.n] */
    size_t cap_word;
    struct mf_learner_pairs *pairs;
} mf_learner; /* an empty learner is {0} */

void mf_learner_free(mf_learner *l);
/* Counts a word. If it is new (*ret_new), mf_learner_cut must follow and give its symbols. */
int mf_learner_word(mf_learner *l, const char *text, size_t n, bool *ret_new);
/* Sets the symbols, n > 0, of the word that was added last. */
int mf_learner_cut(mf_learner *l, const int32_t *symbol, int32_t n);

typedef struct mf_learner_rule {
    bool likely; /* the best pair is the most likely one, else the most frequent */
    /* symbols inside a word begin with ##, which is removed when they merge */
    bool hashes;
    int32_t min_count;   /* least count of a pair that is merged; 0: 2, with keeps_counts 1 */
    int32_t max_merges;  /* stop after this many merges */
    int32_t max_symbols; /* stop before there are more symbols than this */
    /* see above; max_symbols then counts listed symbols; not together with likely */
    bool keeps_counts;
} mf_learner_rule;
int mf_learner_run(mf_learner *l, const mf_learner_rule *rule);

#endif
