/* data/topics_words.h: the words of builtin:topics, in order of frequency.
 *
 * Each word occurs once in all of these lists. Lower-case letters only, at most 10.
 */
#ifndef MF_DATA_TOPICS_WORDS_H
#define MF_DATA_TOPICS_WORDS_H

enum { MF_ENGLISH_TOPICS = 8, MF_NOUNS = 16, MF_VERBS = 8, MF_ADJECTIVES = 8 };

typedef struct mf_topic_words {
    const char *name;
    const char *nouns, *verbs, *adjectives; /* MF_NOUNS, MF_VERBS, MF_ADJECTIVES words */
} mf_topic_words;

static const mf_topic_words mf_english[MF_ENGLISH_TOPICS] = {
    {"sea", "ship wave crew sail tide whale reef port gull shark mast deck rope crab shore net",
     "sinks floats swims drifts steers dives rows hauls",
     "deep salty blue calm vast wet stormy tidal"},
    {"kitchen",
     "soup cook oven bread pan egg cake salt knife bowl stew dough spoon sauce pie broth",
     "boils stirs bakes tastes fries chops pours eats",
     "hot sweet fresh sour crisp spicy raw tasty"},
    {"forest", "tree fox leaf owl wolf deer root bird moss bear path nest fern bark vine seed",
     "grows hides climbs hunts blooms howls roams digs",
     "green wild dark tall mossy shady leafy damp"},
    {"music",
     "song drum choir flute band tune harp piano note voice bell chord horn beat opera duet",
     "sings plays hums strums chants rings claps taps",
     "loud soft slow mellow quiet tonal brisk shrill"},
    {"space",
     "star moon rocket comet sun probe orbit earth planet nova dust alien ray void lens dome",
     "glows spins lands shines flies falls burns scans",
     "bright cold far dim lunar round solar remote"},
    {"city",
     "bus street car bridge taxi shop tram park hotel cafe road lane bank mall crowd train",
     "stops drives turns waits walks honks rides sells",
     "busy noisy narrow urban modern broad paved gray"},
    {"castle",
     "king knight queen sword duke crown horse shield tower throne lord page lance moat axe "
     "fort",
     "rules fights guards bows reigns vows rebels kneels",
     "brave royal noble proud grim loyal fierce ancient"},
    {"sport",
     "team ball coach goal player race match score judge bat court fan medal track glove pitch",
     "runs wins kicks jumps scores throws loses leaps",
     "fast strong fit keen agile tough rapid sweaty"},
};

/* What topics share: all of it with overlap 1. */
static const mf_topic_words mf_common = {
    "common",
    "man child house day woman place thing hand story word part group name side year world",
    "sees finds makes likes takes gives needs holds", "big old new small good long nice bad"};

static const char mf_articles[] = "the this that each";
static const char mf_prepositions[] = "near under over with behind at from by";
static const char mf_conjunctions[] = "and but while so";

#endif
