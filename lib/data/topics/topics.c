/* data/topics/topics.c: parses the specification of builtin:topics and generates its text. The
 * same specification gives the same bytes on every machine. */
#include "data/topics/topics.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/rng.h"
#include "data/topics/topics_language.h"

#include <string.h>

void mf_topics_defaults(mf_topics_spec *ret)
{
    *ret = (mf_topics_spec){.topics = 8, .stay = 0.95, .bytes = 1 << 20};
}

bool mf_topics_is(const char *path)
{
    size_t n = strlen(MF_TOPICS_PREFIX);
    return strncmp(path, MF_TOPICS_PREFIX, n) == 0 && (path[n] == 0 || path[n] == '?');
}

static int check_share(const char *name, double value)
{
    if (value >= 0 && value <= 1) return MF_OK;
    return mf_fail(MF_ECONFIG, "%s: %s = %g: expected a number from 0 to 1", MF_TOPICS_PREFIX,
                   name, value);
}

int mf_topics_check(const mf_topics_spec *spec)
{
    if (spec->topics < 1 || spec->topics > MF_TOPICS_MAX)
        return mf_fail(MF_ECONFIG, "%s: topics = %d: expected 1 to %d", MF_TOPICS_PREFIX,
                       (int)spec->topics, MF_TOPICS_MAX);
    if (spec->bytes < 1 || spec->bytes > 1 << 30)
        return mf_fail(MF_ECONFIG, "%s: bytes = %lld: expected 1 to %d", MF_TOPICS_PREFIX,
                       (long long)spec->bytes, 1 << 30);
    int rc = check_share("overlap", spec->overlap);
    if (rc == MF_OK) rc = check_share("stay", spec->stay);
    if (rc == MF_OK) rc = check_share("imbalance", spec->imbalance);
    return rc;
}

static const char *const keys[] = {"topics", "overlap", "stay", "imbalance",
                                   "bytes",  "seed",    NULL};

int mf_topics_set(mf_topics_spec *spec, const char *key, const char *value)
{
    long long i = 0;
    double x = 0;
    bool whole = mf_parse_i64(value, &i), real = mf_parse_f64(value, &x);
    if (strcmp(key, "topics") == 0 && whole)
        spec->topics = i < 0 || i > MF_TOPICS_MAX ? -1 : (int32_t)i;
    else if (strcmp(key, "bytes") == 0 && whole)
        spec->bytes = i;
    else if (strcmp(key, "seed") == 0 && whole && i >= 0)
        spec->seed = (uint64_t)i;
    else if (strcmp(key, "overlap") == 0 && real)
        spec->overlap = x;
    else if (strcmp(key, "stay") == 0 && real)
        spec->stay = x;
    else if (strcmp(key, "imbalance") == 0 && real)
        spec->imbalance = x;
    else {
        for (int k = 0; keys[k] != NULL; k++)
            if (strcmp(key, keys[k]) == 0)
                return mf_fail(MF_ECONFIG, "%s: %s = %s: expected a %snumber", MF_TOPICS_PREFIX,
                               key, value, k == 0 || k > 3 ? "whole " : "");
        const char *nearest = mf_nearest(key, keys);
        return mf_fail(MF_ECONFIG,
                       "%s: unknown key %s%s%s%s; there are topics, overlap, stay, imbalance, "
                       "bytes, seed",
                       MF_TOPICS_PREFIX, key, nearest ? " (did you mean " : "",
                       nearest ? nearest : "", nearest ? "?)" : "");
    }
    return mf_topics_check(spec);
}

int mf_topics_parse(const char *path, mf_topics_spec *ret)
{
    mf_topics_defaults(ret);
    if (!mf_topics_is(path))
        return mf_fail(MF_ECONFIG, "%s: expected %s or %s?KEY=VALUE&KEY=VALUE...", path,
                       MF_TOPICS_PREFIX, MF_TOPICS_PREFIX);
    const char *at = path + strlen(MF_TOPICS_PREFIX);
    while (*at == '?' || *at == '&') {
        at++;
        char key[64], value[64];
        size_t n_key = strcspn(at, "=&"),
               n_value = at[n_key] == '=' ? strcspn(at + n_key + 1, "&") : 0;
        if (n_key == 0 || at[n_key] != '=' || n_key >= sizeof key || n_value >= sizeof value)
            return mf_fail(MF_ECONFIG, "%s: expected KEY=VALUE at \"%s\"", path, at);
        memcpy(key, at, n_key);
        key[n_key] = 0;
        memcpy(value, at + n_key + 1, n_value);
        value[n_value] = 0;
        int rc = mf_topics_set(ret, key, value);
        if (rc != MF_OK) return rc;
        at += n_key + 1 + n_value;
    }
    return MF_OK;
}

/* A sequence of 16-bit words from Philox blocks. */
typedef struct draws {
    uint64_t seed, stream, block;
    uint32_t word[4];
    int32_t left; /* 16-bit words of the block not yet used */
} draws;

static uint32_t draw(draws *d)
{
    if (d->left == 0) {
        mf_rng_block(d->seed, d->stream, 0, d->block++, d->word);
        d->left = 8;
    }
    d->left--;
    return d->word[d->left / 2] >> (d->left % 2 * 16) & 0xffffu;
}

/* Draws an index with weights that sum to MF_TOPICS_ONE. */
static int32_t choose(draws *d, const uint32_t *weight)
{
    uint32_t r = draw(d);
    int32_t i = 0;
    while (r >= weight[i])
        r -= weight[i++];
    return i;
}

typedef struct writer {
    mf_topics *t;
    size_t n;
    uint8_t topic;
} writer;

static void put(writer *w, const char *text, size_t n)
{
    size_t room = w->t->size - w->n;
    n = n < room ? n : room;
    memcpy(w->t->text + w->n, text, n);
    memset(w->t->labels + w->n, w->topic, n);
    w->n += n;
}

static void put_sentence(writer *w, const mf_topics_language *l, draws *d)
{
    int32_t node = choose(d, l->next[w->topic][MF_NODE_START]);
    while (node != MF_NODE_END) {
        const mf_word_list *list = &l->lists[w->topic][mf_node_class((mf_topics_node)node)];
        const mf_word *word = &l->words[list->word[choose(d, list->weight)]];
        put(w, word->text, word->length);
        node = choose(d, l->next[w->topic][node]);
        put(w, node == MF_NODE_END ? "." : " ", 1);
    }
    put(w, draw(d) < MF_TOPICS_NEWLINE ? "\n" : " ", 1);
}

static void put_text(mf_topics *t)
{
    const mf_topics_language *l = t->language;
    draws d = {.seed = t->spec.seed, .stream = mf_rng_stream("topics.text")};
    writer w = {.t = t};
    w.topic = (uint8_t)choose(&d, l->first);
    while (w.n < t->size) {
        put_sentence(&w, l, &d);
        if (draw(&d) >= l->stay) w.topic = (uint8_t)choose(&d, l->change + w.topic * l->topics);
    }
}

int mf_topics_make(const mf_topics_spec *spec, mf_topics **ret)
{
    *ret = NULL;
    mf_topics_language *language;
    int rc = mf_topics_language_new(spec, &language);
    if (rc != MF_OK) return rc;
    mf_topics *t = mf_alloc(1, sizeof *t);
    if (!t) {
        mf_topics_language_free(language);
        return MF_ENOMEM;
    }
    t->spec = *spec;
    t->language = language;
    t->size = (size_t)spec->bytes;
    t->text = mf_alloc_raw(t->size + 1);
    t->labels = mf_alloc_raw(t->size);
    if (!t->text || !t->labels) {
        mf_topics_free(t);
        return MF_ENOMEM;
    }
    put_text(t);
    t->text[t->size] = 0;
    *ret = t;
    return MF_OK;
}

void mf_topics_free(mf_topics *t)
{
    if (!t) return;
    mf_topics_language_free(t->language);
    mf_free(t->text);
    mf_free(t->labels);
    mf_free(t);
}
