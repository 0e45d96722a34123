/* data/tokenizer/regex/scan.c: finds matches. For each character of a text, from the end to the
 * beginning, the set of nodes is found from which the expression can be completed there. Then
 * a match is a walk: at each node it takes the first alternative that is in the set.
 *
 * Sets, transitions between them and the alternatives that were taken are kept in tables. A
 * long text is read in blocks, so that the tables and the sets of the characters have bounded
 * size; the sets at the borders of blocks come from a reading of the whole text. */
#include "data/tokenizer/regex/regex_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "io/unicode.h"

#include <string.h>

enum {
    TABLES = 32 << 20, /* greatest size of the tables in bytes, approximately */
    STATES = 32768,    /* greatest number of sets */
    BLOCK = 1 << 20,   /* length of a block in bytes, unless there are too many sets */
};

struct mf_regex_scan {
    const mf_regex *r;
    const char *text;
    size_t n, at, last; /* where the next search begins; the end of the last match */
    bool matched;
    /* sets of nodes; 0 is no set, 1 the empty one */
    uint64_t *set;  /* [states * words] */
    uint16_t *next; /* [states * columns] set before a character; 0: not known yet */
    uint16_t
        *taken; /* [states * nodes] node of a character that is reached, + 1; 0: not known */
    uint16_t *slot; /* hash table of the sets, slots_for(cap) entries */
    int states, cap, most;
    int words, classes, columns;
    /* work memory: a set, and nodes to be visited */
    uint64_t *work, *seen;
    uint16_t *stack;
    /* the current block: number of the set at each byte from begin to end */
    uint16_t *id;
    size_t begin, end, cap_id, block;
    bool open;      /* a block is loaded */
    uint64_t *mark; /* sets at the borders of blocks */
    size_t marks;
    uint64_t steps;
};

/* ---- the tables ---- */

static bool has(const uint64_t *set, size_t i)
{
    return set[i / 64] >> i % 64 & 1;
}

static void include(uint64_t *set, size_t i)
{
    set[i / 64] |= UINT64_C(1) << i % 64;
}

/* A power of two, because slots are found by a mask; at least half of them stay free. */
static size_t slots_for(size_t cap)
{
    size_t n = 128;
    while (n < 2 * cap)
        n *= 2;
    return n;
}

static size_t slot_of(const mf_regex_scan *s, const uint64_t *set)
{
    uint64_t h = 0;
    const size_t mask = slots_for((size_t)s->cap) - 1;
    for (int i = 0; i < s->words; i++) {
        h = (h ^ set[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    size_t at = h & mask;
    while (s->slot[at] != 0 && memcmp(s->set + (size_t)s->slot[at] * (size_t)s->words, set,
                                      (size_t)s->words * sizeof *set) != 0)
        at = (at + 1) & mask;
    return at;
}

static void forget(mf_regex_scan *s)
{
    memset(s->slot, 0, slots_for((size_t)s->cap) * sizeof *s->slot);
    s->states = 1;
}

static int resize(void *list, size_t width, size_t was, size_t cap)
{
    void *have;
    memcpy(&have, list, sizeof have);
    void *larger = mf_realloc(have, was * width, cap * width);
    if (!larger) return MF_ENOMEM;
    memcpy(list, &larger, sizeof larger);
    return MF_OK;
}

static int enlarge(mf_regex_scan *s, int most)
{
    const size_t was = (size_t)s->cap, cap = (size_t)(2 * s->cap < most ? 2 * s->cap : most);
    int rc = resize(&s->set, (size_t)s->words * sizeof *s->set, was, cap);
    if (rc == MF_OK) rc = resize(&s->next, (size_t)s->columns * sizeof *s->next, was, cap);
    if (rc == MF_OK) rc = resize(&s->taken, (size_t)s->r->n * sizeof *s->taken, was, cap);
    if (rc == MF_OK) rc = resize(&s->slot, sizeof *s->slot, 0, slots_for(cap));
    if (rc != MF_OK) return rc;
    s->cap = (int)cap;
    memset(s->slot, 0, slots_for(cap) * sizeof *s->slot);
    for (int i = 1; i < s->states; i++)
        s->slot[slot_of(s, s->set + i * s->words)] = (uint16_t)i;
    return MF_OK;
}

/* Finds the number of a set. *ret is 0 if there is no room for a new one. */
static int number_of(mf_regex_scan *s, const uint64_t *set, int *ret)
{
    size_t at = slot_of(s, set);
    *ret = s->slot[at];
    if (*ret != 0 || s->states == s->most) return MF_OK;
    if (s->states == s->cap) {
        const int rc = enlarge(s, s->most);
        if (rc != MF_OK) return rc;
        at = slot_of(s, set);
    }
    const size_t i = (size_t)s->states++;
    memcpy(s->set + i * (size_t)s->words, set, (size_t)s->words * sizeof *set);
    memset(s->next + i * (size_t)s->columns, 0, (size_t)s->columns * sizeof *s->next);
    memset(s->taken + i * (size_t)s->r->n, 0, (size_t)s->r->n * sizeof *s->taken);
    s->slot[at] = (uint16_t)i;
    *ret = (int)i;
    return MF_OK;
}

/* ---- sets of nodes ---- */

static bool in_class(const mf_regex *r, int set, int class)
{
    return class < r->classes.n && r->classes.in[set][class / 64] >> class % 64 & 1;
}

/* Whether the expression can be completed from a node. after: the set behind the character.
 * class, before: classes of the character and of the one before it, or none. */
static bool can_go_on(const mf_regex_scan *s, const mf_rx_node *n, const uint64_t *after,
                      int class, int before)
{
    switch ((mf_rx_node_kind)n->kind) {
    case MF_RX_ACCEPT:
        return true;
    case MF_RX_ONE:
        return in_class(s->r, n->a, class) && has(after, n->b);
    case MF_RX_SPLIT:
        return has(s->work, n->a) || has(s->work, n->b);
    case MF_RX_LOOK:
        return has(s->work, n->a) != n->negative && has(s->work, n->b);
    case MF_RX_BACK:
        return in_class(s->r, n->a, before) != n->negative && has(s->work, n->b);
    }
    return false;
}

/* Adds a node to the set, and the nodes before it in the order that go on with it: the nodes of
 * loops, and those that lead to them. */
static void include_node(mf_regex_scan *s, size_t node, const uint64_t *after, int class,
                         int before)
{
    const mf_regex *r = s->r;
    int top = 0;
    include(s->work, node);
    s->stack[top++] = (uint16_t)node;
    while (top > 0) {
        const size_t at = s->stack[--top];
        for (size_t e = r->first_user[at]; e > 0; e = r->next_user[e - 1]) {
            const size_t user = (e - 1) / 2;
            s->steps++;
            if (user > node || has(s->work, user) ||
                !can_go_on(s, &r->node[user], after, class, before))
                continue;
            include(s->work, user);
            s->stack[top++] = (uint16_t)user;
        }
    }
}

/* Makes the set before a character. Look-aheads are decided before the nodes around them. A
 * node refers to nodes before it, so each is asked once; only the body of a loop is behind the
 * node of the loop, which is asked again when its body comes into the set. */
static void make_set(mf_regex_scan *s, const uint64_t *after, int class, int before)
{
    const mf_regex *r = s->r;
    memset(s->work, 0, (size_t)s->words * sizeof *s->work);
    for (int32_t i = 0; i < r->n; i++) {
        const size_t at = r->order[i];
        if (!has(s->work, at) && can_go_on(s, &r->node[at], after, class, before))
            include_node(s, at, after, class, before);
    }
    s->steps += (uint64_t)r->n;
}

/* Returns the number of the set before a character, 0: no room. */
static int before_character(mf_regex_scan *s, int after, int column, int *ret)
{
    const int class = column % (s->classes + 1), before = column / (s->classes + 1);
    make_set(s, s->set + after * s->words, class, before);
    const int rc = number_of(s, s->work, ret);
    if (rc == MF_OK && *ret) s->next[after * s->columns + column] = (uint16_t)*ret;
    return rc;
}

/* ---- reading backward ---- */

static int class_at(const mf_regex_scan *s, size_t at)
{
    const mf_rx_classes *k = &s->r->classes;
    uint32_t c = (unsigned char)s->text[at];
    if (c >= 0x80) mf_unicode_read(s->text + at, s->n - at, &c);
    return k->of[(size_t)k->page[c / MF_RX_PAGE] * MF_RX_PAGE + c % MF_RX_PAGE];
}

static size_t begin_of(const mf_regex_scan *s, size_t at)
{
    while (at > 0 && ((unsigned char)s->text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* The column of the character at `at`, or of the end of the text. */
static int column_at(const mf_regex_scan *s, size_t at)
{
    const int class = at < s->n ? class_at(s, at) : s->classes;
    if (!s->r->behind) return class;
    const int before = at > 0 ? class_at(s, begin_of(s, at - 1)) : s->classes;
    return before * (s->classes + 1) + class;
}

/* Reads from `to`, whose set is number `state`, back to `from`. ids: where the number of the
 * set at `from` is stored, and behind it those up to `to`; NULL: they are not stored. *ret: the
 * set at *stop, which is `from`, or an offset before which there is no room for a set. */
static int read_back(mf_regex_scan *s, size_t from, size_t to, int state, uint16_t *ids,
                     size_t *stop, int *ret)
{
    int rc = MF_OK;
    size_t at = to;
    if (ids) ids[to - from] = (uint16_t)state;
    while (at > from) {
        const size_t here = begin_of(s, at - 1);
        const int column = column_at(s, here);
        int next = s->next[state * s->columns + column];
        if (next == 0) {
            rc = before_character(s, state, column, &next);
            if (rc != MF_OK || next == 0) break;
        }
        s->steps++;
        state = next;
        at = here;
        if (ids) ids[at - from] = (uint16_t)state;
    }
    *stop = at;
    *ret = state;
    return rc;
}

/* The number of the set at the end of the text, which is made from the empty set. */
static int end_state(mf_regex_scan *s, int *ret)
{
    int rc;
    memset(s->work, 0, (size_t)s->words * sizeof *s->work);
    rc = number_of(s, s->work, ret);
    return rc == MF_OK ? before_character(s, *ret, column_at(s, s->n), ret) : rc;
}

/* ---- blocks ---- */

static size_t border(const mf_regex_scan *s, size_t i)
{
    return i * s->block < s->n ? begin_of(s, i * s->block) : s->n;
}

/* Reads the whole text and keeps the sets at the borders of its blocks. */
static int set_marks(mf_regex_scan *s)
{
    const size_t count = s->n / s->block + 1;
    int state, rc = MF_OK;
    mf_free(s->mark);
    s->marks = count;
    s->mark = mf_alloc(count * (size_t)s->words, sizeof *s->mark);
    if (!s->mark) return MF_ENOMEM;
    forget(s);
    rc = end_state(s, &state);
    size_t at = s->n;
    for (size_t i = count; i-- > 1 && rc == MF_OK;) {
        while (at > border(s, i) && rc == MF_OK) {
            rc = read_back(s, border(s, i), at, state, NULL, &at, &state);
            if (rc != MF_OK || at == border(s, i)) break;
            memcpy(s->seen, s->set + state * s->words, (size_t)s->words * sizeof *s->seen);
            forget(s);
            rc = number_of(s, s->seen, &state);
        }
        if (rc == MF_OK)
            memcpy(s->mark + i * (size_t)s->words, s->set + state * s->words,
                   (size_t)s->words * sizeof *s->mark);
    }
    return rc;
}

/* Reads block i. *ret false: there are too many sets for a block of this length. */
static int try_block(mf_regex_scan *s, size_t i, bool *ret)
{
    int state, rc;
    size_t stop = 0;
    s->begin = border(s, i);
    s->end = border(s, i + 1);
    const size_t n = s->end - s->begin;
    if (n + 1 > s->cap_id) {
        mf_free(s->id);
        s->cap_id = n + 1 + (s->n > n ? n / 4 : 0);
        s->id = mf_alloc_raw(s->cap_id * sizeof *s->id);
        if (!s->id) return MF_ENOMEM;
    }
    if ((size_t)s->states + n + 4 > (size_t)s->most && s->states > s->most / 2) forget(s);
    if (s->end == s->n)
        rc = end_state(s, &state);
    else
        rc = number_of(s, s->mark + (i + 1) * (size_t)s->words, &state);
    if (rc == MF_OK) rc = read_back(s, s->begin, s->end, state, s->id, &stop, &state);
    *ret = rc == MF_OK && stop == s->begin;
    s->open = *ret;
    return rc;
}

/* Loads the block that contains the offset. */
static int load(mf_regex_scan *s, size_t at)
{
    bool fits;
    if (s->open && at >= s->begin && at <= s->end) return MF_OK;
    int rc = MF_OK;
    if (s->n > s->block && s->marks == 0) rc = set_marks(s);
    if (rc == MF_OK)
        rc = try_block(s, at < s->n || s->block > s->n ? at / s->block : (s->n - 1) / s->block,
                       &fits);
    if (rc != MF_OK || fits) return rc;
    s->block = (size_t)s->most / 2 - 8;
    rc = s->n > s->block ? set_marks(s) : MF_OK;
    forget(s);
    return rc == MF_OK ? try_block(s, at < s->n ? at / s->block : (s->n - 1) / s->block, &fits)
                       : rc;
}

/* ---- reading forward ---- */

/* Returns the first node of a character, or the end of the expression, that is reached from a
 * node by alternatives in the set; -1: none. */
static int take(mf_regex_scan *s, int state, int node)
{
    const mf_regex *r = s->r;
    const uint64_t *set = s->set + state * s->words;
    uint16_t *known = &s->taken[state * r->n + node];
    if (*known) return *known - 1;
    int top = 0;
    memset(s->seen, 0, (size_t)s->words * sizeof *s->seen);
    s->stack[top++] = (uint16_t)node;
    while (top > 0) {
        const size_t at = s->stack[--top];
        const mf_rx_node *n = &r->node[at];
        s->steps++;
        if (!has(set, at)) continue;
        if (has(s->seen, at)) { /* an empty repetition ends its loop */
            if (n->loop) s->stack[top++] = n->lazy ? n->a : n->b;
            continue;
        }
        include(s->seen, at);
        if (n->kind == MF_RX_ACCEPT || n->kind == MF_RX_ONE) {
            *known = (uint16_t)(at + 1);
            return (int)at;
        }
        s->stack[top++] = n->b;
        if (n->kind == MF_RX_SPLIT) s->stack[top++] = n->a;
    }
    return -1;
}

static size_t length_at(const mf_regex_scan *s, size_t at)
{
    const unsigned char c = (unsigned char)s->text[at];
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Finds the end of the match that begins at `at`. */
static int walk(mf_regex_scan *s, size_t at, size_t *end)
{
    int node = s->r->start, rc = MF_OK;
    for (;;) {
        if (at > s->end && (rc = load(s, at)) != MF_OK) return rc;
        node = take(s, s->id[at - s->begin], node);
        s->steps++;
        if (node < 0 || s->r->node[node].kind == MF_RX_ACCEPT) break;
        node = s->r->node[node].b;
        at += length_at(s, at);
    }
    *end = at;
    return rc;
}

/* Finds the first offset from s->at on at which a match begins. */
static int find(mf_regex_scan *s, size_t *ret, bool *found)
{
    const size_t start = (size_t)s->r->start;
    *found = false;
    for (size_t at = s->at; at <= s->n; at += at < s->n ? length_at(s, at) : 1) {
        const int rc = load(s, at);
        if (rc != MF_OK) return rc;
        s->steps++;
        if (!has(s->set + s->id[at - s->begin] * s->words, start)) continue;
        *ret = at;
        *found = true;
        break;
    }
    return MF_OK;
}

int mf_regex_scan_next(mf_regex_scan *s, size_t *begin, size_t *end, bool *found)
{
    int rc = MF_OK;
    *found = false;
    while (s->at <= s->n) {
        rc = find(s, begin, found);
        if (rc != MF_OK || !*found) break;
        rc = walk(s, *begin, end);
        if (rc != MF_OK) break;
        if (*end > *begin || !s->matched || s->last != *end) {
            s->at = s->last = *end;
            s->matched = true;
            return MF_OK;
        }
        s->at = *end + (*end < s->n ? length_at(s, *end) : 1);
    }
    *found = false;
    s->at = s->n + 1;
    return rc;
}

/* ---- beginning and end ---- */

int mf_regex_scan_begin(mf_regex_scan *s, const char *text, size_t n)
{
    s->text = text;
    s->n = n;
    s->at = s->last = 0;
    s->matched = s->open = false;
    s->begin = s->end = 0;
    s->marks = 0;
    return MF_OK;
}

int mf_regex_scan_new(const mf_regex *r, mf_regex_scan **ret)
{
    mf_regex_scan *s = mf_alloc(1, sizeof *s);
    *ret = s;
    if (!s) return MF_ENOMEM;
    s->r = r;
    s->words = (r->n + 63) / 64;
    s->classes = r->classes.n;
    s->columns = (s->classes + 1) * (r->behind ? s->classes + 1 : 1);
    s->block = BLOCK;
    const size_t each = (size_t)s->words * 8 + 2 * (size_t)(s->columns + r->n) + 8;
    s->most = (int)(TABLES / each < STATES ? TABLES / each : STATES);
    if (s->most < 64) s->most = 64;
    s->cap = 32;
    s->states = 1;
    s->set = mf_alloc_raw((size_t)(s->cap * s->words) * sizeof *s->set);
    s->next = mf_alloc_raw((size_t)(s->cap * s->columns) * sizeof *s->next);
    s->taken = mf_alloc_raw((size_t)(s->cap * r->n) * sizeof *s->taken);
    s->slot = mf_alloc(slots_for((size_t)s->cap), sizeof *s->slot);
    s->work = mf_alloc((size_t)s->words, sizeof *s->work);
    s->seen = mf_alloc((size_t)s->words, sizeof *s->seen);
    s->stack = mf_alloc(2 * (size_t)r->n + 2, sizeof *s->stack);
    if (s->set && s->next && s->taken && s->slot && s->work && s->seen && s->stack)
        return MF_OK;
    mf_regex_scan_free(s);
    *ret = NULL;
    return MF_ENOMEM;
}

void mf_regex_scan_free(mf_regex_scan *s)
{
    if (!s) return;
    mf_free(s->set);
    mf_free(s->next);
    mf_free(s->taken);
    mf_free(s->slot);
    mf_free(s->work);
    mf_free(s->seen);
    mf_free(s->stack);
    mf_free(s->id);
    mf_free(s->mark);
    mf_free(s);
}

uint64_t mf_regex_scan_steps(const mf_regex_scan *s)
{
    return s->steps;
}
