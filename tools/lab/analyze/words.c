/* Which token ids each expert gets, and how much of an id its first expert gets. Averages over
 * ids, each once, as some published figures have, say .83 for independent routing with 32,000
 * ids, 64 experts and 16,384 tokens, because rare ids have a share of 1 by arithmetic. */
#include "lab/analyze/words.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

typedef struct {
    int32_t vocab;   /* 1 + the largest id */
    int32_t *tokens; /* [vocab] number of tokens of each id */
    int32_t *count;  /* [vocab] of which chose the expert at hand */
    int32_t *most;   /* [vocab] the largest number of any expert */
} table;

/* Counts the tokens of each id that chose expert e. */
static void count(const mf_routes *r, const int32_t *id, const int32_t *order, int32_t e,
                  table *t)
{
    memset(t->count, 0, (size_t)t->vocab * sizeof *t->count);
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t a = r->begin[i]; a < r->begin[i + 1]; a++)
            if (r->expert[a] == e) t->count[id[order ? order[i] : i]]++;
}

/* Puts an id into the list of an expert, which is sorted by share, then by number of tokens. */
static void insert(mf_expert_word *list, int32_t *n, const mf_expert_word *w)
{
    int32_t at = *n;
    while (at > 0 && (list[at - 1].share < w->share ||
                      (list[at - 1].share == w->share && list[at - 1].tokens < w->tokens)))
        at--;
    if (at == MF_WORDS) return;
    const int32_t last = *n < MF_WORDS ? *n : MF_WORDS - 1;
    memmove(list + at + 1, list + at, (size_t)(last - at) * sizeof *list);
    list[at] = *w;
    if (*n < MF_WORDS) ++*n;
}

/* The mean over tokens of frequent ids of the share of the id's most used expert. */
static double top_share(const table *t)
{
    double sum = 0, n = 0;
    for (int32_t x = 0; x < t->vocab; x++) {
        if (t->tokens[x] < MF_WORD_TOKENS) continue;
        sum += t->most[x];
        n += t->tokens[x];
    }
    return n > 0 ? sum / n : (double)NAN;
}

/* Finds the lists of all experts; with `order`, the ids are exchanged in this order, and only
 * the mean share is found. */
static double go(const mf_routes *r, const int32_t *id, const int32_t *order, table *t,
                 mf_expert_words *ret)
{
    memset(t->most, 0, (size_t)t->vocab * sizeof *t->most);
    for (int32_t e = 0; e < r->experts; e++) {
        count(r, id, order, e, t);
        for (int32_t x = 0; x < t->vocab; x++) {
            if (t->count[x] > t->most[x]) t->most[x] = t->count[x];
            if (order || t->count[x] == 0 || t->tokens[x] < MF_WORD_TOKENS) continue;
            const mf_expert_word w = {x, t->tokens[x], (double)t->count[x] / t->tokens[x]};
            insert(ret->words + (int64_t)e * MF_WORDS, &ret->n[e], &w);
        }
    }
    return top_share(t);
}

int mf_words_of(const mf_routes *r, const int32_t *id, mf_arena *arena, mf_expert_words *ret)
{
    table t = {0};
    const size_t E = (size_t)r->experts;
    int32_t *order = mf_alloc((size_t)r->n + 1, sizeof *order);
    *ret = (mf_expert_words){.words = mf_arena_alloc(arena, E * MF_WORDS * sizeof *ret->words),
                             .n = mf_arena_alloc(arena, E * sizeof *ret->n)};
    for (int64_t i = 0; i < r->n; i++)
        if (id[i] >= t.vocab) t.vocab = id[i] + 1;
    t.tokens = mf_alloc((size_t)t.vocab + 1, sizeof *t.tokens);
    t.count = mf_alloc((size_t)t.vocab + 1, sizeof *t.count);
    t.most = mf_alloc((size_t)t.vocab + 1, sizeof *t.most);
    const bool done = order && ret->words && ret->n && t.tokens && t.count && t.most;
    if (done) {
        for (int64_t i = 0; i < r->n; i++)
            t.tokens[id[i]]++;
        ret->top_share = go(r, id, NULL, &t, ret);
        mf_rng_permutation(1, mf_rng_stream("analyze.words"), 0, order, (size_t)r->n);
        ret->top_share_shuffled = go(r, id, order, &t, ret);
    }
    mf_free(order);
    mf_free(t.tokens);
    mf_free(t.count);
    mf_free(t.most);
    return done ? MF_OK : MF_ENOMEM;
}
