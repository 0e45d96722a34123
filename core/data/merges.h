/* data/merges.h: learning by merging: words, with how often each occurs, are cut into symbols;
 * the best pair of neighbours becomes one symbol everywhere, again and again.
 *
 * Pair counts are kept while symbols merge: a merge costs what the words cost that hold the
 * pair. The best pair is, as asked for,
 *
 *   the most frequent   (Sennrich, Haddow and Birch 2016); or
 *   the most likely     the one whose merge raises the likelihood of the text under a unigram
 *                       model of symbols the most (Schuster and Nakajima 2012), in the estimate
 *                       n(ab) log(n(ab) N / (n(a) n(b))), N symbols in all.
 *
 * Among equals, that of the earlier left symbol, then of the earlier right one. A pair that
 * occurs less often than the rule says is not merged. The result depends on the words and their
 * order only.
 *
 * rule.lamoe does as the trainer of LaMoE does (github.com/harishhirthi/LaMoE): among equals,
 * the pair that stands first, by words in the order in which they came; a pair that is back
 * after it was merged is merged again. Its vocabulary are the symbols whose count is not 0, and
 * it keeps counts so: what a merge makes gets the count of the pair, which is taken off both
 * halves, twice off one that is both. Pairs overlap in "aaa", and a symbol can be made in more
 * than one way, so that some stay that are in no word, and some that are in words go. (That it
 * looks at what it has just made again, before it goes on, changes nothing: a symbol is never
 * its own left half.)
 */
#ifndef MF_DATA_MERGES_H
#define MF_DATA_MERGES_H

#include "data/strings.h"

typedef struct mf_merge {
    int32_t left, right, made; /* symbols */
} mf_merge;

typedef struct mf_learner {
    mf_strings symbols; /* given ones first, then those that merges made */
    mf_strings words;   /* as text, to find them again */
    mf_merge *merges;   /* in the order made */
    int32_t n_merges, cap_merges;
    bool *listed; /* rule.lamoe: [symbols.n] in its vocabulary? NULL else */
    int32_t n_listed;
    /* inside */
    struct mf_learner_word *word; /* [words.n] */
    size_t cap_word;
    struct mf_learner_pairs *pairs;
} mf_learner; /* {0} is empty */

void mf_learner_free(mf_learner *l);
/* Counts a word; new ones (*ret_new) want their symbols: mf_learner_cut, at once. */
int mf_learner_word(mf_learner *l, const char *text, size_t n, bool *ret_new);
/* The symbols, n > 0, of the word that was added last. */
int mf_learner_cut(mf_learner *l, const int32_t *symbol, int32_t n);

typedef struct mf_learner_rule {
    bool likely;         /* the best pair is the most likely one, else the most frequent */
    bool hashes;         /* symbols within a word begin with ##, which goes when they merge */
    int32_t min_count;   /* of a pair that is merged; 0: 2 */
    int32_t max_merges;  /* stop after so many */
    int32_t max_symbols; /* or when a further symbol would be more than these */
    bool lamoe;          /* see above; max_symbols: stop when so many are listed; not with
                            likely */
} mf_learner_rule;
int mf_learner_run(mf_learner *l, const mf_learner_rule *rule);

#endif
