/* data/topics/topics.h: builtin:topics, a generated text whose topics and entropy are known.
 *
 * The language has K topics. Each topic has its own nouns and verbs and its own preferences for
 * sentences; adjectives, articles, prepositions and conjunctions are common to all. A sentence
 * is a random walk over a small graph of word classes ("the old king leads her queen near our
 * keep."). The next sentence keeps the topic with probability `stay`; otherwise another topic
 * is drawn. The text contains only letters a-z, space, period and newline. With overlap 1 all
 * topics are the same language, and no reader of the text can tell them apart (the
 * negative control).
 *
 * Words and sentences depend only on topics and overlap. The order of topics also depends on
 * stay and imbalance. The seed only draws the text, so another seed makes a new text of the
 * same language. All computations are integer arithmetic on Philox words: the same
 * specification generates the same bytes on every machine.
 *
 * Labels: one byte per byte of text, the topic (0..K-1) of its sentence. The blank or newline
 * after a period belongs to the sentence before it. */
#ifndef MF_DATA_TOPICS_H
#define MF_DATA_TOPICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_TOPICS_PREFIX "builtin:topics"
#define MF_TOPICS_MAX    64

typedef struct mf_topics_spec {
    /* K, 1..MF_TOPICS_MAX, default 8. The first 8 are English, the others invented */
    int32_t topics;
    /* 0..1, default 0: share of a topic's words and preferences that all topics share */
    double overlap;
    /* 0..1, default 0.95: probability that the next sentence keeps the topic */
    double stay;
    /* b in 0..1, default 0: the r-th topic is drawn with weight (1 - b) + b / r */
    double imbalance;
    int64_t bytes; /* 1..2^30, default 1 MiB. The last sentence may be cut */
    uint64_t seed; /* default 0 */
} mf_topics_spec;

typedef struct mf_topics_language mf_topics_language;

typedef struct mf_topics {
    mf_topics_spec spec;
    char *text;      /* [size], and a NUL after it */
    uint8_t *labels; /* [size] topic of each byte */
    size_t size;
    mf_topics_language *language;
} mf_topics;

void mf_topics_defaults(mf_topics_spec *ret);
bool mf_topics_is(const char *path); /* "builtin:topics" or "builtin:topics?..." */
/* Parses "builtin:topics?topics=4&overlap=0.5&seed=7"; the keys are the fields of the
 * specification. The only error is MF_ECONFIG. */
int mf_topics_parse(const char *path, mf_topics_spec *ret);
/* Sets one field by name from text. MF_ECONFIG if the key is unknown (the message names the
 * nearest key), or if the value is not a number or is out of bounds. */
int mf_topics_set(mf_topics_spec *spec, const char *key, const char *value);
int mf_topics_check(const mf_topics_spec *spec); /* Fails with MF_ECONFIG, which names the field
                                                  * and its bounds. */

int mf_topics_make(const mf_topics_spec *spec, mf_topics **ret);
void mf_topics_free(mf_topics *t);
/* Writes a readable name of a topic, "sea", "kitchen", ..., "topic 8", to out and
 * returns out. */
enum { MF_TOPICS_NAME = 24 };
const char *mf_topics_name(int32_t topic, char out[MF_TOPICS_NAME]);

/* The floor of a range of bytes: the mean over these bytes, in nats, of
 *
 *     -ln P(byte | what the predictor knows)
 *
 * where P is the exact probability under the language. No other predictor with the same
 * knowledge has a smaller expected loss over texts of the language; on one text it may differ
 * by chance (about 0.002 on 100 kB).
 *
 *   MF_FLOOR_PAST   knows all earlier bytes of the text. This is the entropy of the corpus, the
 *                   loss that a language model with unlimited context can reach: "the floor".
 *   MF_FLOOR_TOPIC  also knows the topic of this and all earlier sentences. It is a lower bound
 *                   of MF_FLOOR_PAST. If the words reveal the topic, MF_FLOOR_PAST is higher by
 *                   H(topic | topic before) per sentence.
 *   MF_FLOOR_WINDOW knows only the earlier bytes of its window, and that the window begins at a
 *                   random byte. This is the loss that a model with this context length can
 *                   reach. Windows are those of a sequential mf_batcher over begin .. end-1
 *                   (data/batch.h): each has `window` predictions, and its first byte is given.
 *                   Windows overlap by `context` predictions, which count in the first
 *                   window only. */
typedef enum mf_topics_floor_kind {
    MF_FLOOR_PAST,
    MF_FLOOR_TOPIC,
    MF_FLOOR_WINDOW
} mf_topics_floor_kind;

/* window and context: only for MF_FLOOR_WINDOW. MF_EINVAL if the range or the windows are not
 * valid; MF_ENOMEM. */
int mf_topics_floor(const mf_topics *t, mf_topics_floor_kind kind, size_t begin, size_t end,
                    int32_t window, int32_t context, double *ret_nats_per_byte);

#endif
