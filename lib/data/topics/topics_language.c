/* data/topics/topics_language.c: makes the tables of the language from a specification. All
 * weights are integers, so the tables are the same on every machine. */
#include "data/topics/topics_language.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/topics/topics_words.h"

#include <stdio.h>
#include <string.h>

mf_word_class mf_node_class(mf_topics_node node)
{
    switch (node) {
    case MF_NODE_NOUN1:
    case MF_NODE_NOUN2:
    case MF_NODE_NOUN3:
        return MF_WORD_NOUN;
    case MF_NODE_VERB:
        return MF_WORD_VERB;
    case MF_NODE_ADJECTIVE1:
    case MF_NODE_ADJECTIVE2:
    case MF_NODE_ADJECTIVE3:
        return MF_WORD_ADJECTIVE;
    case MF_NODE_ARTICLE1:
    case MF_NODE_ARTICLE2:
    case MF_NODE_ARTICLE3:
        return MF_WORD_ARTICLE;
    case MF_NODE_PREPOSITION:
        return MF_WORD_PREPOSITION;
    case MF_NODE_CONJUNCTION:
    case MF_NODE_START:
    case MF_NODE_END:
    case MF_NODES:
        break;
    }
    return MF_WORD_CONJUNCTION;
}

/* One step of the walk: the nodes that may follow `from`, with weights in 32nds. If overlap is
 * below 1, a topic prefers one of the first `habits` nodes. The preferred node gets a larger
 * weight, the others smaller weights. */
typedef struct rule {
    mf_topics_node from;
    int32_t habits;
    struct {
        mf_topics_node node;
        int32_t part;
    } to[4];
} rule;

static const rule rules[] = {
    {MF_NODE_START, 3, {{MF_NODE_ARTICLE1, 8}, {MF_NODE_ADJECTIVE1, 14}, {MF_NODE_NOUN1, 10}}},
    {MF_NODE_ARTICLE1, 0, {{MF_NODE_ADJECTIVE1, 16}, {MF_NODE_NOUN1, 16}}},
    {MF_NODE_ADJECTIVE1, 0, {{MF_NODE_NOUN1, 32}}},
    {MF_NODE_NOUN1, 0, {{MF_NODE_VERB, 32}}},
    {MF_NODE_VERB,
     4,
     {{MF_NODE_ARTICLE2, 6},
      {MF_NODE_ADJECTIVE2, 12},
      {MF_NODE_NOUN2, 9},
      {MF_NODE_PREPOSITION, 5}}},
    {MF_NODE_ARTICLE2, 0, {{MF_NODE_ADJECTIVE2, 16}, {MF_NODE_NOUN2, 16}}},
    {MF_NODE_ADJECTIVE2, 0, {{MF_NODE_NOUN2, 32}}},
    {MF_NODE_NOUN2,
     3,
     {{MF_NODE_PREPOSITION, 10}, {MF_NODE_CONJUNCTION, 8}, {MF_NODE_END, 14}}},
    {MF_NODE_PREPOSITION,
     0,
     {{MF_NODE_ARTICLE3, 8}, {MF_NODE_ADJECTIVE3, 14}, {MF_NODE_NOUN3, 10}}},
    {MF_NODE_ARTICLE3, 0, {{MF_NODE_ADJECTIVE3, 16}, {MF_NODE_NOUN3, 16}}},
    {MF_NODE_ADJECTIVE3, 0, {{MF_NODE_NOUN3, 32}}},
    {MF_NODE_NOUN3, 2, {{MF_NODE_CONJUNCTION, 12}, {MF_NODE_END, 20}}},
    {MF_NODE_CONJUNCTION,
     0,
     {{MF_NODE_ARTICLE1, 8}, {MF_NODE_ADJECTIVE1, 14}, {MF_NODE_NOUN1, 10}}},
};
enum { RULES = sizeof rules / sizeof rules[0], PART = MF_TOPICS_ONE / 32 };

/* Scales weights with any sum > 0 to weights that sum to MF_TOPICS_ONE. A positive weight stays
 * positive, and the largest weight gets the rest after rounding. n is small compared
 * with MF_TOPICS_ONE. */
static void normalize(const uint64_t *weight, int32_t n, uint32_t *out)
{
    uint64_t sum = 0;
    int32_t largest = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += weight[i];
        if (weight[i] > weight[largest]) largest = i;
    }
    uint32_t given = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t share = weight[i] * MF_TOPICS_ONE / sum;
        out[i] = weight[i] > 0 && share == 0 ? 1 : (uint32_t)share;
        given += out[i];
    }
    out[largest] += MF_TOPICS_ONE - given;
}

/* Converts a share in 0..1 to parts of MF_TOPICS_ONE. The conversion multiplies once and adds
 * once in double, with the same result on every machine. */
static uint32_t parts(double share)
{
    return (uint32_t)(share * (double)MF_TOPICS_ONE + 0.5);
}

static void fill_next(mf_topics_language *l, int32_t topic, uint32_t overlap)
{
    for (int32_t r = 0; r < RULES; r++) {
        uint32_t *next = l->next[topic][rules[r].from];
        int32_t habits = rules[r].habits;
        for (int32_t i = 0; i < 4 && rules[r].to[i].part > 0; i++)
            next[rules[r].to[i].node] = (uint32_t)rules[r].to[i].part * PART;
        if (habits == 0) continue;
        /* Rule r uses the topic number after r steps of x -> 5 x + 1. Topics that share one
         * preference therefore do not share all of them. */
        uint32_t turn = (uint32_t)topic;
        for (int32_t i = 0; i < r; i++)
            turn = turn * 5 + 1;
        int32_t liked = (int32_t)(turn % (uint32_t)habits);
        uint32_t less = (uint32_t)(((uint64_t)PART * 2 * (MF_TOPICS_ONE - overlap)) >> 16);
        for (int32_t i = 0; i < habits; i++) {
            if (i == liked)
                next[rules[r].to[i].node] += less * (uint32_t)(habits - 1);
            else
                next[rules[r].to[i].node] -= less;
        }
    }
}

static int32_t add_word(mf_topics_language *l, const char *text, size_t n, mf_word_class class)
{
    mf_word *w = &l->words[l->n_words];
    memcpy(w->text, text, n);
    w->text[n] = 0;
    w->length = (uint8_t)n;
    w->class = (uint8_t) class;
    return l->n_words++;
}

static bool has_word(const mf_topics_language *l, const char *text)
{
    for (int32_t i = 0; i < l->n_words; i++)
        if (strcmp(l->words[i].text, text) == 0) return true;
    return false;
}

/* Adds the words of a list such as "one two three"; ids[i] is the id of the i-th word. */
static int32_t add_words(mf_topics_language *l, const char *words, mf_word_class class,
                         int32_t *ids)
{
    int32_t n = 0;
    while (*words) {
        size_t length = strcspn(words, " ");
        ids[n++] = add_word(l, words, length, class);
        words += length + (words[length] == ' ');
    }
    return n;
}

/* Invents the i-th word of a topic: draws letters by Philox until the word is new. The key is a
 * constant, because words belong to the language and not to the text. */
static int32_t invent_word(mf_topics_language *l, int32_t topic, mf_word_class class,
                           uint64_t i)
{
    static const char consonants[] = "bcdfghjklmnprstvwz", vowels[] = "aeiou";
    enum { CONSONANTS = sizeof consonants - 1, VOWELS = sizeof vowels - 1 };
    uint64_t stream = mf_rng_stream("topics.words");
    for (uint64_t attempt = 0;; attempt++) {
        uint32_t r[4];
        mf_rng_block(0, stream, (uint64_t)topic, i << 32 | attempt, r);
        char text[MF_WORD_MAX];
        size_t n = 0;
        size_t letters = 3 + r[0] % 3 + (attempt > 100);
        for (uint32_t bits = r[1]; n < letters; n++) {
            if (n == 3) bits = r[2];
            if (n % 2 == 0) {
                text[n] = consonants[bits % CONSONANTS];
                bits /= CONSONANTS;
            } else {
                text[n] = vowels[bits % VOWELS];
                bits /= VOWELS;
            }
        }
        if (class == MF_WORD_VERB) text[n++] = 's';
        text[n] = 0;
        if (!has_word(l, text)) return add_word(l, text, n, class);
    }
}

/* Fills a list with the topic's own words by rank. Common words replace the share `overlap`
 * of them. */
static void fill_list(mf_topics_language *l, int32_t topic, mf_word_class class,
                      const char *own, const int32_t *common, int32_t n, uint32_t overlap)
{
    mf_word_list *list = &l->lists[topic][class];
    uint64_t weight[MF_LIST_MAX];
    list->n = n;
    for (int32_t r = 0; r < n; r++) {
        uint32_t before = (uint32_t)r * overlap >> 16,
                 after = ((uint32_t)r + 1) * overlap >> 16;
        size_t length = own ? strcspn(own, " ") : 0;
        if (after > before)
            list->word[r] = common[r];
        else if (own)
            list->word[r] = add_word(l, own, length, class);
        else
            list->word[r] =
                invent_word(l, topic, class, (uint64_t) class * MF_LIST_MAX + (uint64_t)r);
        if (own) own += length + (own[length] == ' ');
        weight[r] = 1000000 / (uint64_t)(r + 5);
    }
    normalize(weight, n, list->weight);
}

/* Weights fall with the rank as 1 / (rank + flat). */
static void fill_function_words(mf_topics_language *l, mf_word_class class, const char *words,
                                int32_t flat)
{
    mf_word_list *list = &l->lists[0][class];
    uint64_t weight[MF_LIST_MAX];
    list->n = add_words(l, words, class, list->word);
    for (int32_t r = 0; r < list->n; r++)
        weight[r] = 1000000 / (uint64_t)(r + flat);
    normalize(weight, list->n, list->weight);
    for (int32_t z = 1; z < l->topics; z++)
        l->lists[z][class] = *list;
}

static void fill_chain(mf_topics_language *l, const mf_topics_spec *spec)
{
    int32_t k = spec->topics;
    uint32_t zipf = parts(spec->imbalance);
    uint64_t weight[MF_TOPICS_MAX] = {0};
    for (int32_t z = 0; z < k; z++)
        weight[z] = ((uint64_t)(MF_TOPICS_ONE - zipf) << 16) +
                    ((uint64_t)zipf << 16) / (uint64_t)(z + 1);
    normalize(weight, k, l->first);
    l->stay = k == 1 ? MF_TOPICS_ONE : parts(spec->stay);
    for (int32_t z = 0; z < k && k > 1; z++) {
        uint64_t kept = weight[z];
        weight[z] = 0;
        normalize(weight, k, l->change + (size_t)z * (size_t)k);
        weight[z] = kept;
    }
}

int mf_topics_language_new(const mf_topics_spec *spec, mf_topics_language **ret)
{
    *ret = NULL;
    int rc = mf_topics_check(spec);
    if (rc != MF_OK) return rc;
    size_t k = (size_t)spec->topics;
    mf_topics_language *l = mf_alloc(1, sizeof *l);
    if (!l) return MF_ENOMEM;
    l->topics = spec->topics;
    size_t words = (k + 1) * (MF_NOUNS + MF_VERBS) + 4 * MF_LIST_MAX;
    l->words = mf_alloc(words, sizeof *l->words);
    l->lists = mf_alloc(k, sizeof *l->lists);
    l->next = mf_alloc(k, sizeof *l->next);
    l->first = mf_alloc(k, sizeof *l->first);
    l->change = mf_alloc(k * k, sizeof *l->change);
    if (!l->words || !l->lists || !l->next || !l->first || !l->change) {
        mf_topics_language_free(l);
        return MF_ENOMEM;
    }
    static const int32_t sizes[MF_WORD_OWN] = {MF_NOUNS, MF_VERBS};
    const char *shared[MF_WORD_OWN] = {mf_common.nouns, mf_common.verbs};
    int32_t common[MF_WORD_OWN][MF_LIST_MAX] = {{0}};
    uint32_t overlap = parts(spec->overlap);
    fill_function_words(l, MF_WORD_ADJECTIVE, mf_adjectives, 8);
    fill_function_words(l, MF_WORD_ARTICLE, mf_articles, 3);
    fill_function_words(l, MF_WORD_PREPOSITION, mf_prepositions, 3);
    fill_function_words(l, MF_WORD_CONJUNCTION, mf_conjunctions, 3);
    for (int32_t c = 0; c < MF_WORD_OWN; c++)
        add_words(l, shared[c], (mf_word_class)c, common[c]);
    for (int32_t z = 0; z < spec->topics; z++) {
        const mf_topic_words *w = z < MF_ENGLISH_TOPICS ? &mf_english[z] : NULL;
        const char *own[MF_WORD_OWN] = {w ? w->nouns : NULL, w ? w->verbs : NULL};
        for (int32_t c = 0; c < MF_WORD_OWN; c++)
            fill_list(l, z, (mf_word_class)c, own[c], common[c], sizes[c], overlap);
        fill_next(l, z, overlap);
    }
    fill_chain(l, spec);
    *ret = l;
    return MF_OK;
}

void mf_topics_language_free(mf_topics_language *l)
{
    if (!l) return;
    mf_free(l->words);
    mf_free(l->lists);
    mf_free(l->next);
    mf_free(l->first);
    mf_free(l->change);
    mf_free(l);
}

const char *mf_topics_name(int32_t topic, char out[MF_TOPICS_NAME])
{
    const char *name = topic >= 0 && topic < MF_ENGLISH_TOPICS ? mf_english[topic].name : NULL;
    if (name)
        snprintf(out, MF_TOPICS_NAME, "%s", name);
    else
        snprintf(out, MF_TOPICS_NAME, "topic %d", (int)topic);
    return out;
}
