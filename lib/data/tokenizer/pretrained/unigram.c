/* data/tokenizer/pretrained/unigram.c: the tokens of a word by Unigram: among all ways to
 * divide it into tokens of the vocabulary, the one with the greatest sum of scores (Viterbi). A
 * character without a token costs more than every token. As in the library, unknown characters
 * that follow each other are one token.
 *
 * A word may be a whole text. Where no token extends over an offset, every way passes there, so
 * the tokens before it are settled and their memory is used again. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* The best way to an offset. */
typedef struct mf_pt_way {
    double score;
    size_t from; /* where its last token begins */
    int32_t id;
    bool known; /* there is a way */
} way;

typedef struct search {
    const mf_pt_model *m;
    const char *word;
    size_t n, base; /* length; offset of f->way[0] */
    mf_pt_found *f;
} search;

/* ---- tokens ---- */

/* Adds the token of a part. A part without a token becomes its bytes, or <unk>. */
static int add_token(const search *s, size_t begin, size_t end)
{
    const mf_pt_model *m = s->m;
    const int32_t id = mf_pt_id(m, s->word + begin, end - begin);
    bool bytes = m->byte_fallback;
    int rc = MF_OK;
    if (id >= 0) return mf_pt_found_add(s->f, id, end - begin);
    for (size_t i = begin; i < end; i++)
        bytes = bytes && m->byte[(unsigned char)s->word[i]] >= 0;
    if (!bytes) return mf_pt_found_add(s->f, m->unk, end - begin);
    for (size_t i = begin; i < end && rc == MF_OK; i++)
        rc = mf_pt_found_add(s->f, m->byte[(unsigned char)s->word[i]], 1);
    return rc;
}

static int reserve(mf_pt_found *f, size_t n)
{
    if (n <= f->cap_way) return MF_OK;
    const size_t cap = 2 * n + 256;
    way *larger = mf_realloc(f->way, f->cap_way * sizeof *larger, cap * sizeof *larger);
    if (!larger) return MF_ENOMEM;
    memset(larger + f->cap_way, 0, (cap - f->cap_way) * sizeof *larger);
    f->way = larger;
    f->cap_way = cap;
    return MF_OK;
}

/* Adds the tokens of the best way from s->base to `end`, and makes `end` the new base. */
static int settle(search *s, size_t end)
{
    way *w = s->f->way;
    const double score = w[end - s->base].score;
    size_t count = 0;
    int rc = MF_OK;
    /* The offsets of the way are stored in `from` of its own places, in forward order. */
    for (size_t at = end, next = end; at > s->base; count++) {
        const size_t from = w[at - s->base].from;
        w[at - s->base].from = next;
        next = at;
        at = from;
        if (at == s->base) w[0].from = next;
    }
    size_t begin = s->base;
    for (size_t k = 0, at = s->base; k < count && rc == MF_OK; k++) {
        const size_t to = w[at - s->base].from;
        const bool unknown = w[to - s->base].id == s->m->unk;
        const bool more = k + 1 < count && w[w[to - s->base].from - s->base].id == s->m->unk;
        if (!(unknown && more)) {
            rc = add_token(s, begin, to);
            begin = to;
        }
        at = to;
    }
    memset(w, 0, (end - s->base + 1) * sizeof *w);
    w[0] = (way){.score = score, .known = true};
    s->base = end;
    return rc;
}

static void improve(search *s, size_t from, size_t to, double score, int32_t id)
{
    way *w = &s->f->way[to - s->base];
    if (!w->known || score > w->score) *w = (way){score, from, id, true};
}

/* Extends the best way to `at` by each token that begins there. Returns the greatest end. */
static size_t extend(search *s, size_t at)
{
    const double so_far = s->f->way[at - s->base].score;
    uint32_t c;
    const size_t one = mf_unicode_read(s->word + at, s->n - at, &c);
    size_t reach = at + one, n = 0;
    bool single = false;
    int32_t node = -1;
    for (size_t end = at; end < s->n;) {
        node = mf_pt_trie_step(&s->m->trie, node, (unsigned char)s->word[end++]);
        if (node < 0) break;
        const int32_t id = s->m->trie.node[node].token;
        n = end - at;
        if (id < 0) continue;
        improve(s, at, end, so_far + s->m->score[id], id);
        single = single || n == one;
        if (end > reach) reach = end;
    }
    if (!single) improve(s, at, at + one, so_far + s->m->unk_score, s->m->unk);
    return reach;
}

int mf_pt_unigram_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f)
{
    search s = {.m = m, .word = word, .n = n, .f = f};
    size_t reach = 0;
    const size_t first = f->n;
    int rc = reserve(f, m->longest + 8);
    if (rc != MF_OK) return rc;
    f->way[0] = (way){.known = true}; /* the others are clear: `settle` leaves them so */
    for (size_t at = 0; at < n && rc == MF_OK;) {
        uint32_t c;
        if (at > 0 && at == reach && f->way[at - s.base].id != m->unk) rc = settle(&s, at);
        if (rc == MF_OK) rc = reserve(f, at - s.base + m->longest + 8);
        if (rc != MF_OK) break;
        const size_t end = extend(&s, at);
        if (end > reach) reach = end;
        at += mf_unicode_read(word + at, n - at, &c);
    }
    if (rc == MF_OK) rc = settle(&s, n);
    for (size_t i = first; i < f->n && rc == MF_OK; i++)
        if (f->token[i].id < 0)
            rc = mf_fail(MF_EINPUT, "a character has no token, and the vocabulary none for "
                                    "unknown ones; expected texts without it");
    return rc;
}

int mf_pt_level_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f)
{
    const int32_t id = mf_pt_id(m, word, n);
    return mf_pt_found_add(f, id >= 0 ? id : m->unk, n);
}
