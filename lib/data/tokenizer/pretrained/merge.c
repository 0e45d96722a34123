/* data/tokenizer/pretrained/merge.c: byte pair encoding of one word. The pair with the lowest
 * rank merges first; among equal pairs, the leftmost. In short words this pair is found by a
 * search. Long words, such as a text without word boundaries, keep their pairs in a heap. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { SHORT = 32, NO_RANK = INT32_MAX };

/* A symbol and the pair that it begins. */
typedef struct mf_pt_symbol {
    int32_t id;
    uint32_t n;         /* number of bytes of the word; 0: merged into the previous symbol */
    int32_t rank, made; /* rank and result of the pair with the next symbol; NO_RANK: the pair
                         * does not merge */
    int32_t next, last; /* neighbours in a long word; -1: none */
} symbol;

void mf_pt_found_free(mf_pt_found *f)
{
    mf_free(f->token);
    mf_free(f->symbol);
    mf_free(f->heap);
    mf_free(f->way);
    *f = (mf_pt_found){0};
}

/* Makes space for one more element of `size` bytes in *list. */
static int grow(void *list, size_t n, size_t *cap, size_t size)
{
    void *have;
    if (n < *cap) return MF_OK;
    const size_t more = 2 * *cap + 64;
    memcpy(&have, list, sizeof have);
    void *larger = mf_realloc(have, n * size, more * size);
    if (!larger) return MF_ENOMEM;
    memcpy(list, &larger, sizeof larger);
    *cap = more;
    return MF_OK;
}

int mf_pt_found_add(mf_pt_found *f, int32_t id, size_t n)
{
    int rc = grow(&f->token, f->n, &f->cap, sizeof *f->token);
    if (rc == MF_OK) f->token[f->n++] = (mf_pt_token){id, (uint32_t)n};
    return rc;
}

/* ---- the table of merges ---- */

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)((uint32_t)left + 1) << 32 | (uint32_t)right;
}

static size_t slot_of(const mf_pt_model *m, uint64_t key)
{
    const uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t at = (h >> 32 ^ h) & (m->slots - 1);
    while (m->merge[at].key != 0 && m->merge[at].key != key)
        at = (at + 1) & (m->slots - 1);
    return at;
}

void mf_pt_add_merge(mf_pt_model *m, int32_t left, int32_t right, int32_t rank, int32_t made)
{
    const uint64_t key = key_of(left, right);
    mf_pt_merge *at = &m->merge[slot_of(m, key)];
    *at = (mf_pt_merge){key, rank, made};
}

/* Looks up the pair that begins with symbol s. next: the symbol after s, NULL at the end. */
static void pair_up(const mf_pt_model *m, symbol *s, const symbol *next)
{
    s->rank = NO_RANK;
    if (!next || m->slots == 0) return;
    const mf_pt_merge *at = &m->merge[slot_of(m, key_of(s->id, next->id))];
    if (at->key == 0) return;
    s->rank = at->rank;
    s->made = at->made;
}

/* ---- symbols ---- */

static int add_symbol(mf_pt_found *f, int32_t id, size_t n)
{
    int rc = grow(&f->symbol, f->n_symbol, &f->cap_symbol, sizeof *f->symbol);
    if (rc == MF_OK) f->symbol[f->n_symbol++] = (symbol){.id = id, .n = (uint32_t)n};
    return rc;
}

/* Adds the <unk> that was held back, of *unknown bytes. 0 bytes: there is none. */
static int add_waiting(const mf_pt_model *m, size_t *unknown, mf_pt_found *f)
{
    const size_t n = *unknown;
    *unknown = 0;
    return n > 0 ? add_symbol(f, m->unk, n) : MF_OK;
}

/* Adds a character that is not a symbol: its bytes, <unk>, or nothing. As in the library, <unk>
 * is held back until the next known character, and the bytes of other characters precede it.
 * *unknown: number of bytes of the <unk> that is held back. */
static int add_unknown(const mf_pt_model *m, const char *text, size_t n, size_t *unknown,
                       mf_pt_found *f)
{
    bool bytes = m->byte_fallback;
    int rc = MF_OK;
    for (size_t i = 0; i < n; i++)
        bytes = bytes && m->byte[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; bytes && i < n && rc == MF_OK; i++)
        rc = add_symbol(f, m->byte[(unsigned char)text[i]], 1);
    if (bytes || m->unk < 0) return rc;
    if (!m->fuse_unk) rc = add_waiting(m, unknown, f);
    *unknown += n;
    return rc;
}

static int no_token(unsigned char byte)
{
    return mf_fail(
        MF_EINPUT,
        "the text has byte 0x%02x, which has no token in this vocabulary and would be "
        "lost; expected texts without it",
        byte);
}

/* Returns the id of a character: inside of a word with the prefix, at its end with the suffix;
 * -1: none. */
static int32_t symbol_of(const mf_pt_model *m, const char *word, size_t n, size_t at,
                         size_t length)
{
    char name[sizeof m->prefix + 4 + sizeof m->suffix];
    const size_t prefix = at > 0 ? m->n_prefix : 0, suffix = at + length == n ? m->n_suffix : 0;
    if (prefix + suffix == 0) return mf_pt_id(m, word + at, length);
    memcpy(name, m->prefix, prefix);
    memcpy(name + prefix, word + at, length);
    memcpy(name + prefix + length, m->suffix, suffix);
    return mf_pt_id(m, name, prefix + length + suffix);
}

static int add_symbols(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f)
{
    size_t unknown = 0;
    int rc = MF_OK;
    f->n_symbol = 0;
    for (size_t at = 0; at < n && rc == MF_OK;) {
        uint32_t c;
        const size_t length = m->byte_level ? 1 : mf_unicode_read(word + at, n - at, &c);
        const int32_t id = m->byte_level ? m->byte[(unsigned char)word[at]]
                                         : symbol_of(m, word, n, at, length);
        if (id >= 0) {
            rc = add_waiting(m, &unknown, f);
            if (rc == MF_OK) rc = add_symbol(f, id, length);
        } else if (m->byte_level && m->unk < 0) {
            rc = no_token((unsigned char)word[at]);
        } else {
            rc = add_unknown(m, word + at, length, &unknown, f);
        }
        at += length;
    }
    return rc == MF_OK ? add_waiting(m, &unknown, f) : rc;
}

/* ---- short words ---- */

static void merge_short(const mf_pt_model *m, mf_pt_found *f)
{
    symbol *s = f->symbol;
    size_t n = f->n_symbol;
    for (size_t i = 0; i < n; i++)
        pair_up(m, &s[i], i + 1 < n ? &s[i + 1] : NULL);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[best].rank) best = i;
        if (n < 2 || s[best].rank == NO_RANK) break;
        s[best].id = s[best].made;
        s[best].n += s[best + 1].n;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        pair_up(m, &s[best], best + 1 < n ? &s[best + 1] : NULL);
        if (best > 0) pair_up(m, &s[best - 1], &s[best]);
    }
    f->n_symbol = n;
}

/* ---- long words: a heap of rank and position, whose entries may be out of date ---- */

static int heap_push(mf_pt_found *f, int32_t rank, size_t at)
{
    int rc = grow(&f->heap, f->n_heap, &f->cap_heap, sizeof *f->heap);
    if (rc != MF_OK) return rc;
    const uint64_t e = (uint64_t)(uint32_t)rank << 32 | at;
    size_t i = f->n_heap++;
    for (; i > 0 && f->heap[(i - 1) / 2] > e; i = (i - 1) / 2)
        f->heap[i] = f->heap[(i - 1) / 2];
    f->heap[i] = e;
    return MF_OK;
}

static uint64_t heap_pop(mf_pt_found *f)
{
    const uint64_t top = f->heap[0], last = f->heap[--f->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= f->n_heap) break;
        if (child + 1 < f->n_heap && f->heap[child + 1] < f->heap[child]) child++;
        if (f->heap[child] >= last) break;
        f->heap[at] = f->heap[child];
        at = child;
    }
    f->heap[at] = last;
    return top;
}

static int renew(const mf_pt_model *m, mf_pt_found *f, int32_t at)
{
    symbol *s = &f->symbol[at];
    pair_up(m, s, s->next >= 0 ? &f->symbol[s->next] : NULL);
    return s->rank == NO_RANK ? MF_OK : heap_push(f, s->rank, (size_t)at);
}

static int merge_at(const mf_pt_model *m, mf_pt_found *f, int32_t at)
{
    symbol *s = &f->symbol[at], *right = &f->symbol[s->next];
    s->id = s->made;
    s->n += right->n;
    right->n = 0;
    right->rank = NO_RANK;
    s->next = right->next;
    if (s->next >= 0) f->symbol[s->next].last = at;
    int rc = renew(m, f, at);
    return rc == MF_OK && s->last >= 0 ? renew(m, f, s->last) : rc;
}

static int merge_long(const mf_pt_model *m, mf_pt_found *f)
{
    const int32_t n = (int32_t)f->n_symbol;
    int rc = MF_OK;
    f->n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        f->symbol[i].last = i - 1;
        f->symbol[i].next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i < n && rc == MF_OK; i++)
        rc = renew(m, f, i);
    while (f->n_heap > 0 && rc == MF_OK) {
        const uint64_t e = heap_pop(f);
        const int32_t at = (int32_t)(e & UINT32_MAX);
        if (f->symbol[at].n > 0 && f->symbol[at].rank == (int32_t)(e >> 32))
            rc = merge_at(m, f, at);
    }
    size_t to = 0;
    for (size_t i = 0; i < f->n_symbol; i++)
        if (f->symbol[i].n > 0) f->symbol[to++] = f->symbol[i];
    f->n_symbol = to;
    return rc;
}

/* ---- words ---- */

/* Returns the id of a word that is a single token of the vocabulary; -1: it is not. */
static int32_t whole_word(const mf_pt_model *m, const char *word, size_t n)
{
    char name[4 * 256];
    size_t length = 0;
    if (!m->byte_level) return mf_pt_id(m, word, n);
    if (n > sizeof name / 4) return -1;
    for (size_t i = 0; i < n; i++)
        length += mf_unicode_write(mf_pt_letter_of((unsigned char)word[i]), name + length);
    return mf_pt_id(m, name, length);
}

int mf_pt_merge_word(const mf_pt_model *m, const char *word, size_t n, mf_pt_found *f)
{
    const int32_t whole = m->ignore_merges ? whole_word(m, word, n) : -1;
    if (whole >= 0) return mf_pt_found_add(f, whole, n);
    int rc = add_symbols(m, word, n, f);
    if (rc != MF_OK) return rc;
    if (f->n_symbol <= SHORT)
        merge_short(m, f);
    else
        rc = merge_long(m, f);
    for (size_t i = 0; i < f->n_symbol && rc == MF_OK; i++)
        rc = mf_pt_found_add(f, f->symbol[i].id, f->symbol[i].n);
    return rc;
}
