/* data/topics_words.h: the words of builtin:topics, in order of frequency.
 *
 * Each word occurs once in all of these lists. Lower-case letters only, at most 10.
 */
#ifndef MF_DATA_TOPICS_WORDS_H
#define MF_DATA_TOPICS_WORDS_H

enum { MF_ENGLISH_TOPICS = 8, MF_NOUNS = 12, MF_VERBS = 6, MF_ADJECTIVES = 6 };

typedef struct mf_topic_words {
    const char *name;
    const char *nouns, *verbs, *adjectives; /* MF_NOUNS, MF_VERBS, MF_ADJECTIVES words */
} mf_topic_words;

static const mf_topic_words mf_english[MF_ENGLISH_TOPICS] = {
    {"sea", "ship wave crew sail tide reef gull net deck rope crab cod",
     "sinks rows dives tows bobs docks", "wet deep blue calm salty gray"},
    {"kitchen", "soup cook pot pan egg cake pie jam stew fork ham tea",
     "boils fries eats cuts bakes mixes", "hot raw sour ripe rich mild"},
    {"forest", "tree fox owl leaf wolf deer root moss bear nest fern elk",
     "grows digs hides roams feeds naps", "wild tall dark damp lush green"},
    {"music", "song drum harp tune band lute bell horn duet choir hymn solo",
     "hums sings plays rings taps sways", "loud soft slow sad pure shrill"},
    {"space", "star moon sun ray void nova mars dust lens dome pod probe",
     "glows spins lands beams fades burns", "dim far cold vast lunar solar"},
    {"city", "bus car taxi tram shop cafe road park mall bank lane cab",
     "stops turns waits honks rides sells", "busy paved urban drab posh neat"},
    {"castle", "king duke lord page axe moat fort earl queen crown sword heir",
     "rules bows vows slays reigns guards", "royal bold grim loyal proud brave"},
    {"sport", "team ball goal race bat fan puck bike cup gym coach medal",
     "runs wins kicks jumps leads loses", "fast fit keen agile tough lean"},
};

/* What topics share: all of it with overlap 1. */
static const mf_topic_words mf_common = {
    "common", "man boy day home girl hand word year room box name side",
    "sees likes gets finds needs keeps", "big old new good bad long"};

static const char mf_articles[] = "the my his our";
static const char mf_prepositions[] = "by on in at near under";
static const char mf_conjunctions[] = "and but so or";

#endif
