/* data/topics/topics_language.h: the language of builtin:topics as tables of integers.
 *
 * A sentence is a walk from MF_NODE_START to MF_NODE_END over nodes. Each node represents one
 * word of a class. Every distribution is a list of weights that sum to MF_TOPICS_ONE, so a draw
 * needs 16 bits. Two properties make the text unambiguous and therefore the filter of
 * topics_floor.c exact: a word belongs to one class in every topic, and the successors of a
 * node have distinct classes. */
#ifndef MF_DATA_TOPICS_LANGUAGE_H
#define MF_DATA_TOPICS_LANGUAGE_H

#include "data/topics/topics.h"

#define MF_TOPICS_ONE 65536u
/* weight of a newline after a period; otherwise a blank follows */
#define MF_TOPICS_NEWLINE (MF_TOPICS_ONE / 4)

typedef enum mf_word_class {
    MF_WORD_NOUN,
    MF_WORD_VERB,
    MF_WORD_OWN, /* the words of the classes before this one differ by topic */
    MF_WORD_ADJECTIVE = MF_WORD_OWN,
    MF_WORD_ARTICLE,
    MF_WORD_PREPOSITION,
    MF_WORD_CONJUNCTION,
    MF_WORD_CLASSES
} mf_word_class;

typedef enum mf_topics_node {
    MF_NODE_START,
    MF_NODE_ARTICLE1,
    MF_NODE_ADJECTIVE1,
    MF_NODE_NOUN1,
    MF_NODE_VERB,
    MF_NODE_ARTICLE2,
    MF_NODE_ADJECTIVE2,
    MF_NODE_NOUN2,
    MF_NODE_PREPOSITION,
    MF_NODE_ARTICLE3,
    MF_NODE_ADJECTIVE3,
    MF_NODE_NOUN3,
    MF_NODE_CONJUNCTION,
    MF_NODE_END,
    MF_NODES
} mf_topics_node;

enum { MF_LIST_MAX = 16, MF_WORD_MAX = 12 };

typedef struct mf_word {
    char text[MF_WORD_MAX];
    uint8_t length;
    uint8_t class;
} mf_word;

/* The words of a class in a topic, most frequent first. */
typedef struct mf_word_list {
    int32_t n;
    int32_t word[MF_LIST_MAX]; /* index into mf_topics_language.words */
    uint32_t weight[MF_LIST_MAX];
} mf_word_list;

struct mf_topics_language {
    int32_t topics;
    mf_word *words; /* all distinct words of the language */
    int32_t n_words;
    mf_word_list (*lists)[MF_WORD_CLASSES]; /* [topics] */
    uint32_t (*next)[MF_NODES][MF_NODES];   /* [topics][from][to] */
    /* Probabilities in parts of MF_TOPICS_ONE. first [topics]: the first sentence has this
     * topic. stay: the next sentence keeps the topic. change [from][to]: the sentence after a
     * sentence of topic `from` has topic `to`, if it does not keep the topic. */
    uint32_t *first;
    uint32_t stay;
    uint32_t *change;
};

int mf_topics_language_new(const mf_topics_spec *spec, mf_topics_language **ret);
void mf_topics_language_free(mf_topics_language *l);
mf_word_class mf_node_class(mf_topics_node node); /* class of a node between START and END */

#endif
