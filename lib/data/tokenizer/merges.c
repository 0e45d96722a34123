/* data/tokenizer/merges.c: counts pairs of symbols while symbols merge. The most frequent pair
 * is found with a heap, whose entries may be out of date. The most likely pair is found by a
 * search of all pairs. */
#include "data/tokenizer/merges.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { FIRST = 1024, COUNT_DEFAULT = 2 };

typedef struct mf_learner_word {
    int32_t *symbol;
    int32_t n;
    int64_t count;
} learner_word;

typedef struct pair {
    int32_t left, right;
    int64_t count;
    uint32_t *words; /* words that contain the pair or contained it earlier */
    size_t n_words, cap_words;
    bool done;    /* the pair was merged; it can merge again only if `again` is set */
    bool touched; /* the pair is in the list of pairs that became more frequent by a merge */
} pair;

typedef struct heap_entry {
    int64_t count; /* the count when the entry was made; the present count may be smaller */
    int32_t left, right;
    uint32_t pair;
} heap_entry;

typedef struct mf_learner_pairs {
    pair *pair;
    size_t n, cap;
    uint32_t *slot; /* index + 1 of a pair, 0: free */
    size_t slots;
    uint32_t *touched;
    size_t n_touched, cap_touched;
    heap_entry *heap;
    size_t n_heap, cap_heap;
    int64_t *symbol_count;
    size_t n_symbol_count;
    int64_t total;
    int64_t min_count;
    bool again;          /* a merged pair may merge once more */
    int64_t *book;       /* [symbols] counts under rule.keeps_counts; NULL without this rule */
    uint32_t first_word; /* index of the first word that is not yet merged into one symbol */
} learner_pairs;

/* Makes space for one more element of `size` bytes in *list. */
static int grow(void *list, size_t n, size_t *cap, size_t size)
{
    void *have;
    if (n < *cap) return MF_OK;
    size_t more = *cap > 0 ? 2 * *cap : 16;
    memcpy(&have, list, sizeof have);
    void *larger = mf_realloc(have, n * size, more * size);
    if (!larger) return MF_ENOMEM;
    memcpy(list, &larger, sizeof larger);
    *cap = more;
    return MF_OK;
}

void mf_learner_free(mf_learner *l)
{
    for (int32_t i = 0; i < l->words.n; i++)
        if (l->word && (size_t)i < l->cap_word) mf_free(l->word[i].symbol);
    mf_free(l->word);
    if (l->pairs) {
        for (size_t i = 0; i < l->pairs->n; i++)
            mf_free(l->pairs->pair[i].words);
        mf_free(l->pairs->pair);
        mf_free(l->pairs->slot);
        mf_free(l->pairs->touched);
        mf_free(l->pairs->heap);
        mf_free(l->pairs->symbol_count);
        mf_free(l->pairs->book);
        mf_free(l->pairs);
    }
    mf_free(l->merges);
    mf_free(l->listed);
    mf_strings_free(&l->symbols);
    mf_strings_free(&l->words);
    *l = (mf_learner){0};
}

int mf_learner_word(mf_learner *l, const char *text, size_t n, bool *ret_new)
{
    int32_t id;
    int rc = grow(&l->word, (size_t)l->words.n, &l->cap_word, sizeof *l->word);
    if (rc == MF_OK) rc = mf_strings_add(&l->words, text, n, &id, ret_new);
    if (rc != MF_OK) return rc;
    if (*ret_new) l->word[id] = (learner_word){0};
    l->word[id].count++;
    return MF_OK;
}

int mf_learner_cut(mf_learner *l, const int32_t *symbol, int32_t n)
{
    learner_word *w = &l->word[l->words.n - 1];
    w->symbol = mf_alloc((size_t)n, sizeof *w->symbol);
    if (!w->symbol) return MF_ENOMEM;
    memcpy(w->symbol, symbol, (size_t)n * sizeof *symbol);
    w->n = n;
    return MF_OK;
}

/* ---- pairs ---- */

static size_t pair_slot(const learner_pairs *p, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    size_t at = (h >> 32 ^ h) & (p->slots - 1);
    while (p->slot[at] != 0 &&
           (p->pair[p->slot[at] - 1].left != left || p->pair[p->slot[at] - 1].right != right))
        at = (at + 1) & (p->slots - 1);
    return at;
}

static int more_slots(learner_pairs *p)
{
    size_t slots = p->slots > 0 ? 2 * p->slots : FIRST;
    uint32_t *slot = mf_alloc(slots, sizeof *slot);
    if (!slot) return MF_ENOMEM;
    mf_free(p->slot);
    p->slot = slot;
    p->slots = slots;
    for (size_t i = 0; i < p->n; i++)
        p->slot[pair_slot(p, p->pair[i].left, p->pair[i].right)] = (uint32_t)i + 1;
    return MF_OK;
}

static int find_pair(learner_pairs *p, int32_t left, int32_t right, uint32_t *ret)
{
    int rc = p->n * 2 >= p->slots ? more_slots(p) : MF_OK;
    if (rc != MF_OK) return rc;
    size_t at = pair_slot(p, left, right);
    if (p->slot[at] == 0) {
        rc = grow(&p->pair, p->n, &p->cap, sizeof *p->pair);
        if (rc != MF_OK) return rc;
        p->pair[p->n++] = (pair){.left = left, .right = right};
        p->slot[at] = (uint32_t)p->n;
    }
    *ret = p->slot[at] - 1;
    return MF_OK;
}

/* Adds the pairs of a word to the counts (sign 1), or subtracts them (sign -1). */
static int count_word(mf_learner *l, uint32_t index, int sign)
{
    learner_pairs *p = l->pairs;
    const learner_word *w = &l->word[index];
    for (int32_t i = 0; i < w->n; i++) {
        p->symbol_count[w->symbol[i]] += sign * w->count;
        p->total += sign * w->count;
    }
    for (int32_t i = 0; i + 1 < w->n; i++) {
        uint32_t at;
        int rc = find_pair(p, w->symbol[i], w->symbol[i + 1], &at);
        if (rc != MF_OK) return rc;
        pair *q = &p->pair[at];
        q->count += sign * w->count;
        if (sign < 0) continue;
        if (q->n_words == 0 || q->words[q->n_words - 1] != index) {
            rc = grow(&q->words, q->n_words, &q->cap_words, sizeof *q->words);
            if (rc != MF_OK) return rc;
            q->words[q->n_words++] = index;
        }
        if (!q->touched) {
            rc = grow(&p->touched, p->n_touched, &p->cap_touched, sizeof *p->touched);
            if (rc != MF_OK) return rc;
            p->touched[p->n_touched++] = at;
            q->touched = true;
        }
    }
    return MF_OK;
}

/* ---- the most frequent pair ---- */

static bool before(const heap_entry *a, const heap_entry *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static int heap_push(learner_pairs *p, heap_entry e)
{
    int rc = grow(&p->heap, p->n_heap, &p->cap_heap, sizeof *p->heap);
    if (rc != MF_OK) return rc;
    size_t at = p->n_heap++;
    for (; at > 0 && before(&e, &p->heap[(at - 1) / 2]); at = (at - 1) / 2)
        p->heap[at] = p->heap[(at - 1) / 2];
    p->heap[at] = e;
    return MF_OK;
}

static heap_entry heap_pop(learner_pairs *p)
{
    heap_entry top = p->heap[0], last = p->heap[--p->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= p->n_heap) break;
        if (child + 1 < p->n_heap && before(&p->heap[child + 1], &p->heap[child])) child++;
        if (!before(&p->heap[child], &last)) break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    if (p->n_heap > 0) p->heap[at] = last;
    return top;
}

/* Adds entries for pairs that became more frequent. An entry whose count has become too large
 * is corrected when it reaches the top. */
static int push_touched(learner_pairs *p, bool heap)
{
    int rc = MF_OK;
    for (size_t i = 0; i < p->n_touched; i++) {
        pair *q = &p->pair[p->touched[i]];
        q->touched = false;
        if (heap && rc == MF_OK && (!q->done || p->again) && q->count >= p->min_count)
            rc = heap_push(p, (heap_entry){q->count, q->left, q->right, p->touched[i]});
    }
    p->n_touched = 0;
    return rc;
}

/* Finds, among the pairs with this count, the one that occurs first in the words. */
static pair *first_pair(mf_learner *l, int64_t count)
{
    learner_pairs *p = l->pairs;
    while (l->word[p->first_word].n < 2)
        p->first_word++;
    for (uint32_t i = p->first_word;; i++)
        for (int32_t k = 0; k + 1 < l->word[i].n; k++) {
            const int32_t *symbol = &l->word[i].symbol[k];
            pair *q = &p->pair[p->slot[pair_slot(p, symbol[0], symbol[1])] - 1];
            if (q->count == count) return q;
        }
}

static int most_frequent(mf_learner *l, pair **ret)
{
    learner_pairs *p = l->pairs;
    *ret = NULL;
    while (p->n_heap > 0) {
        heap_entry e = heap_pop(p);
        pair *q = &p->pair[e.pair];
        if ((q->done && !p->again) || q->count < p->min_count) continue;
        if (q->count == e.count) {
            *ret = p->again ? first_pair(l, e.count) : q;
            return *ret == q ? MF_OK : heap_push(p, e); /* the entry will reach the top again */
        }
        if (q->count < e.count) {
            e.count = q->count;
            int rc = heap_push(p, e);
            if (rc != MF_OK) return rc;
        }
    }
    return MF_OK;
}

/* ---- the most likely pair ---- */

static int most_likely(mf_learner *l, pair **ret)
{
    learner_pairs *p = l->pairs;
    double best = 0, total = log((double)p->total);
    *ret = NULL;
    for (size_t i = 0; i < p->n; i++) {
        pair *q = &p->pair[i];
        if (q->done || q->count < p->min_count) continue;
        double n = (double)q->count;
        /* n(ab) / (n(a) n(b)) is at most 1, so the gain is at most n total. Most pairs
         * therefore need no logarithm. */
        if (n * total <= best) continue;
        double gain =
            n * (log(n / (double)p->symbol_count[q->left] / (double)p->symbol_count[q->right]) +
                 total);
        bool equal = *ret != NULL && gain == best;
        if (gain > best || (equal && (q->left < (*ret)->left ||
                                      (q->left == (*ret)->left && q->right < (*ret)->right)))) {
            best = gain;
            *ret = q;
        }
    }
    return MF_OK;
}

/* ---- merging ---- */

/* Grows an array from `was` to `more` elements of `size` bytes. The new elements are 0. */
static int lengthen(void *list, size_t was, size_t more, size_t size)
{
    void *have;
    memcpy(&have, list, sizeof have);
    char *longer = mf_realloc(have, was * size, more * size);
    if (!longer) return MF_ENOMEM;
    memset(longer + was * size, 0, (more - was) * size);
    memcpy(list, &longer, sizeof longer);
    return MF_OK;
}

static int symbol_counts(mf_learner *l)
{
    learner_pairs *p = l->pairs;
    const size_t was = p->n_symbol_count, need = (size_t)l->symbols.n;
    if (need <= was) return MF_OK;
    const size_t more = 2 * need;
    int rc = lengthen(&p->symbol_count, was, more, sizeof *p->symbol_count);
    if (rc == MF_OK && p->again) rc = lengthen(&p->book, was, more, sizeof *p->book);
    if (rc == MF_OK && p->again) rc = lengthen(&l->listed, was, more, sizeof *l->listed);
    if (rc == MF_OK) p->n_symbol_count = more;
    return rc;
}

/* ---- rule.keeps_counts ---- */

static void list_symbol(mf_learner *l, int32_t symbol, bool listed)
{
    l->n_listed += listed - l->listed[symbol];
    l->listed[symbol] = listed;
}

static void begin_book(mf_learner *l)
{
    for (int32_t i = 0; i < l->symbols.n; i++) {
        l->pairs->book[i] = l->pairs->symbol_count[i];
        list_symbol(l, i, l->pairs->book[i] != 0);
    }
}

/* Updates the counts after a merge. count: the count of the pair before it merged. The count of
 * a symbol may fall below 0; a symbol with a negative count is still listed. */
static void book_merge(mf_learner *l, const mf_merge *m, int64_t count)
{
    int64_t *book = l->pairs->book;
    book[m->made] = count;
    list_symbol(l, m->made, true);
    book[m->left] -= count;
    book[m->right] -= count;
    list_symbol(l, m->left, book[m->left] != 0);
    list_symbol(l, m->right, book[m->right] != 0);
}

/* Sets m->made to the symbol that the pair makes, -1 if there are already too many. */
static int make_symbol(mf_learner *l, const mf_learner_rule *rule, mf_merge *m)
{
    size_t n, more;
    const char *left = mf_strings_get(&l->symbols, m->left, &n);
    const char *right = mf_strings_get(&l->symbols, m->right, &more);
    if (rule->hashes) {
        right += 2;
        more -= 2;
    }
    char *text = mf_alloc(n + more, 1);
    if (!text) return MF_ENOMEM;
    memcpy(text, left, n);
    memcpy(text + n, right, more);
    bool added;
    int rc = MF_OK;
    m->made = mf_strings_find(&l->symbols, text, n + more);
    if (m->made < 0 && (rule->keeps_counts || l->symbols.n < rule->max_symbols))
        rc = mf_strings_add(&l->symbols, text, n + more, &m->made, &added);
    mf_free(text);
    return rc == MF_OK && m->made >= 0 ? symbol_counts(l) : rc;
}

static void merge_in(learner_word *w, const mf_merge *m)
{
    int32_t to = 0;
    for (int32_t i = 0; i < w->n; i++)
        if (i + 1 < w->n && w->symbol[i] == m->left && w->symbol[i + 1] == m->right) {
            w->symbol[to++] = m->made;
            i++;
        } else {
            w->symbol[to++] = w->symbol[i];
        }
    w->n = to;
}

static bool holds(const learner_word *w, const mf_merge *m)
{
    for (int32_t i = 0; i + 1 < w->n; i++)
        if (w->symbol[i] == m->left && w->symbol[i + 1] == m->right) return true;
    return false;
}

static int apply(mf_learner *l, const mf_merge *m, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!holds(&l->word[words[i]], m)) continue;
        int rc = count_word(l, words[i], -1);
        if (rc != MF_OK) return rc;
        merge_in(&l->word[words[i]], m);
        rc = count_word(l, words[i], 1);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Merges pair q once. Adding pairs may move q in memory. */
static int merge(mf_learner *l, const mf_learner_rule *rule, pair *q, bool *full)
{
    mf_merge m = {q->left, q->right, -1};
    int rc = make_symbol(l, rule, &m);
    *full = m.made < 0;
    if (rc != MF_OK || *full) return rc;
    size_t cap = (size_t)l->cap_merges;
    rc = grow(&l->merges, (size_t)l->n_merges, &cap, sizeof *l->merges);
    if (rc != MF_OK) return rc;
    l->cap_merges = (int32_t)cap;
    if (!q->done) l->merges[l->n_merges++] = m;
    if (rule->keeps_counts) {
        book_merge(l, &m, q->count);
        *full = l->n_listed == rule->max_symbols;
    }
    q->done = true;
    uint32_t *words = q->words;
    size_t n = q->n_words;
    q->words = NULL;
    q->n_words = q->cap_words = 0;
    rc = apply(l, &m, words, n);
    mf_free(words);
    return rc;
}

int mf_learner_run(mf_learner *l, const mf_learner_rule *rule)
{
    bool full = false;
    l->pairs = mf_alloc(1, sizeof *l->pairs);
    if (!l->pairs) return MF_ENOMEM;
    l->pairs->again = rule->keeps_counts;
    l->pairs->min_count = rule->min_count > 0  ? rule->min_count
                          : rule->keeps_counts ? 1
                                               : COUNT_DEFAULT;
    int rc = symbol_counts(l);
    for (int32_t i = 0; i < l->words.n && rc == MF_OK; i++)
        rc = count_word(l, (uint32_t)i, 1);
    if (rc == MF_OK && rule->keeps_counts) begin_book(l);
    for (int32_t i = 0; rc == MF_OK && i < rule->max_merges && !full; i++) {
        pair *best = NULL;
        rc = push_touched(l->pairs, !rule->likely);
        if (rc == MF_OK) rc = (rule->likely ? most_likely : most_frequent)(l, &best);
        if (!best) break;
        rc = merge(l, rule, best, &full);
    }
    return rc;
}
