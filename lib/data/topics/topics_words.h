/* data/topics/topics_words.h: the words of builtin:topics, in order of frequency.
 *
 * Each word occurs once in all of these lists, and has at most 10 letters, all lower-case. */
#ifndef MF_DATA_TOPICS_WORDS_H
#define MF_DATA_TOPICS_WORDS_H

enum { MF_ENGLISH_TOPICS = 8, MF_NOUNS = 8, MF_VERBS = 4 };

typedef struct mf_topic_words {
    const char *name;
    const char *nouns, *verbs; /* MF_NOUNS nouns, MF_VERBS verbs */
} mf_topic_words;

static const mf_topic_words mf_english[MF_ENGLISH_TOPICS] = {
    {"sea", "ship wave sail whale sand squid wind seal", "sinks swims washes soaks"},
    {"kitchen", "pan egg pot pie plate pear pasta plum", "peels eats pours packs"},
    {"forest", "fox owl fern oak frog fir fawn otter", "feeds falls opens flees"},
    {"music", "drum harp duet horn hymn disc hall diva", "hums drones hears dances"},
    {"space", "moon ray mars ring robot rock mist rover", "moves rises rolls melts"},
    {"city", "bus taxi bank tram town bar train bench", "turns beeps brakes tows"},
    {"castle", "king lord queen lance knight lady keep land", "leads kneels lives kills"},
    {"sport", "goal cup game club judge coach gym jersey", "jumps gains climbs cheers"},
};

/* The nouns and verbs that all topics share. With overlap 1 there are no other nouns
 * and verbs. */
static const mf_topic_words mf_common = {"common", "man year van aunt uncle name yard vine",
                                         "needs asks votes unites"};

/* The words of the other classes. They are the same in all topics. */
static const char mf_adjectives[] =
    "big old new red good bad long wet hot cold odd shy wild calm dark fast";
static const char mf_articles[] = "the my his our her any";
static const char mf_prepositions[] = "by on in at near under";
static const char mf_conjunctions[] = "and but so or";

#endif
