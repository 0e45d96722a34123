/* data/topics.h: builtin:topics, a generated text whose topics and entropy are known.
 *
 * The language: K topics. Each has its own nouns, verbs and adjectives and its own habits of
 * building sentences; articles, prepositions and conjunctions are common to all. A sentence is
 * a walk over a small graph of word classes ("the old cook stirs soup near an oven."), a topic
 * stays for the next sentence with probability `stay`, otherwise another one is drawn. Letters
 * a-z, space, period and newline only. With overlap 1 all topics are the same language: nothing
 * that reads the text can tell them apart (the negative control).
 *
 * The language depends on topics and overlap alone; the seed only draws the text. So another
 * seed is fresh text of the same language. All of it is integer arithmetic on Philox words: the
 * same spec gives the same bytes on every machine.
 *
 * Labels: one byte per byte of text, the topic (0..K-1) of the sentence it belongs to. The
 * blank or newline behind a period belongs to the sentence before.
 */
#ifndef MF_DATA_TOPICS_H
#define MF_DATA_TOPICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_TOPICS_PREFIX "builtin:topics"
#define MF_TOPICS_MAX    64

typedef struct mf_topics_spec {
    int32_t topics;   /* K, 1..MF_TOPICS_MAX; 8. The first 8 are English, others made up */
    double overlap;   /* 0..1: share of a topic's words and habits common to all topics; 0 */
    double stay;      /* 0..1: probability that the next sentence keeps the topic; 0.95 */
    double imbalance; /* 0..1: weight of the r-th topic when one is drawn: (1 - b) + b / r; 0 */
    int64_t bytes;    /* 1..2^30; 1 MiB. The last sentence may be cut */
    uint64_t seed;    /* 0 */
} mf_topics_spec;

typedef struct mf_topics_language mf_topics_language;

typedef struct mf_topics {
    mf_topics_spec spec;
    char *text;      /* [size], NUL behind */
    uint8_t *labels; /* [size] */
    size_t size;
    mf_topics_language *language;
} mf_topics;

void mf_topics_defaults(mf_topics_spec *ret);
bool mf_topics_is(const char *path); /* "builtin:topics" or "builtin:topics?..." */
/* "builtin:topics?topics=4&overlap=0.5&seed=7": keys are those of the spec. MF_ECONFIG. */
int mf_topics_parse(const char *path, mf_topics_spec *ret);
/* One knob by name, as text. MF_ECONFIG: unknown key (with the nearest), not a number, bounds.
 */
int mf_topics_set(mf_topics_spec *spec, const char *key, const char *value);
int mf_topics_check(const mf_topics_spec *spec); /* MF_ECONFIG naming the knob and its bounds */

int mf_topics_make(const mf_topics_spec *spec, mf_topics **ret);
void mf_topics_free(mf_topics *t);
/* For people: "sea", "kitchen", ..., "topic 9". Returns out. */
enum { MF_TOPICS_NAME = 24 };
const char *mf_topics_name(int32_t topic, char out[MF_TOPICS_NAME]);

/* The floor of a range of bytes: the mean over these bytes, in nats, of
 *     -ln P(byte | what the predictor knows)
 * where P is the exact probability under the language. No other predictor that knows as much
 * has a smaller loss in expectation over texts of the language; on one text it may differ by
 * chance (about 0.002 on 100 kB).
 *
 *   MF_FLOOR_PAST   knows all earlier bytes of the text. The entropy of the corpus: what a
 *                   language model with unlimited context can reach. This is "the floor".
 *   MF_FLOOR_TOPIC  knows also the topic of this and all earlier sentences. A lower bound of
 *                   the former, which pays H(topic | topic before) per sentence more where the
 *                   words give the topic away.
 *   MF_FLOOR_WINDOW knows only the earlier bytes of its window, and that the window begins
 *                   anywhere: what a model with that context length can reach. Windows are
 *                   those of a sequential mf_batcher over begin .. end-1 (data/batch.h):
 *                   `window` predictions each, the first byte given; windows overlap by
 *                   `context` predictions, which count in the first window only.
 */
typedef enum mf_topics_floor_kind {
    MF_FLOOR_PAST,
    MF_FLOOR_TOPIC,
    MF_FLOOR_WINDOW
} mf_topics_floor_kind;

int mf_topics_floor(const mf_topics *t, mf_topics_floor_kind kind, size_t begin, size_t end,
                    int32_t window, int32_t context, double *ret_nats_per_byte);

#endif
