/* data/tokenizer/regex/classes.c: divides the code points into classes, such that a set of an
 * expression contains a class wholly or not at all. The table of classes is made when an
 * expression is read; it decides the version of Unicode (versions.c). */
#include "data/tokenizer/regex/regex_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer/pretrained/pretrained.h"
#include "data/tokenizer/regex/scripts.h"
#include "io/unicode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int mf_rx_script(const char *name)
{
    for (int i = 0; mf_rx_script_names[i]; i++)
        if (strcmp(mf_rx_script_names[i], name) == 0) return i;
    return -1;
}

/* What a set asks about a code point. */
typedef struct properties {
    uint32_t category;
    int script;
    bool space, word;
} properties;

static int script_of(uint32_t c)
{
    size_t low = 0, high = sizeof scripts / sizeof *scripts;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c > scripts[middle].to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof scripts / sizeof *scripts && c >= scripts[low].from
               ? scripts[low].script
               : -1;
}

/* \w of Oniguruma: that of the library's other expressions with the numbers of Latin-1, without
 * the two joiners. */
static bool is_word(uint32_t c)
{
    if (c == 0x200c || c == 0x200d) return false;
    return mf_pt_is_word(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
}

static properties properties_of(uint32_t c)
{
    return (properties){mf_pt_category(c), script_of(c), mf_unicode_is_space(c), is_word(c)};
}

static int by_begin(const void *a, const void *b)
{
    const uint32_t x = ((const mf_rx_step *)a)->a, y = ((const mf_rx_step *)b)->a;
    return (x > y) - (x < y);
}

/* Sorts ranges that follow each other, and gives each as its end the greatest one so far, so
 * that a code point is found in as many steps as their number has digits in base 2. Returns the
 * number of steps, with such ranges as one. */
static size_t arrange(mf_rx_step *step, size_t n)
{
    size_t parts = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; step[i].op == MF_RX_RANGE && end < n && step[end].op == MF_RX_RANGE;)
            end++;
        qsort(step + i, end - i, sizeof *step, by_begin);
        step[i].n = (uint32_t)(end - i);
        for (size_t k = i + 1; k < end; k++)
            if (step[k].b < step[k - 1].b) step[k].b = step[k - 1].b;
        parts++;
    }
    return parts;
}

static bool in_ranges(const mf_rx_step *first, uint32_t c)
{
    size_t low = 0, high = first->n; /* ranges before low begin at c or before it */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (first[middle].a <= c)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && c <= first[low - 1].b;
}

static bool contains(const mf_rx_step *step, size_t n, uint32_t c, const properties *p)
{
    bool stack[2 * MF_REGEX_DEPTH + 8] = {false};
    int top = -1;
    for (size_t i = 0; i < n; i++) {
        const mf_rx_step *s = &step[i];
        switch (s->op) {
        case MF_RX_EMPTY:
            stack[++top] = false;
            break;
        case MF_RX_RANGE:
            stack[top] = stack[top] || in_ranges(s, c);
            i += s->n - 1;
            break;
        case MF_RX_CATEGORY:
            stack[top] = stack[top] || (p->category & s->a) != 0;
            break;
        case MF_RX_SCRIPT:
            stack[top] = stack[top] || p->script == (int)s->a;
            break;
        case MF_RX_SPACE:
            stack[top] = stack[top] || p->space;
            break;
        case MF_RX_WORD:
            stack[top] = stack[top] || p->word;
            break;
        case MF_RX_NOT:
            stack[top] = !stack[top];
            break;
        case MF_RX_OR:
            top--;
            stack[top] = stack[top] || stack[top + 1];
            break;
        case MF_RX_AND:
            top--;
            stack[top] = stack[top] && stack[top + 1];
            break;
        }
    }
    return stack[0];
}

/* ---- boundaries of ranges ---- */

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Returns the sorted code points at which ranges of the sets begin, or have ended; the last one
 * is beyond all code points. *ret: their number. */
static uint32_t *edges_of(const mf_rx_sets *s, size_t *ret)
{
    uint32_t *edge = mf_alloc(2 * s->n_steps + 1, sizeof *edge);
    size_t n = 0;
    if (!edge) return NULL;
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->step[i].op == MF_RX_RANGE) {
            edge[n++] = s->step[i].a;
            edge[n++] = s->step[i].b + 1;
        }
    edge[n++] = UINT32_MAX;
    qsort(edge, n, sizeof *edge, by_value);
    *ret = n;
    return edge;
}

/* ---- properties of all code points ---- */

/* Code points that follow each other and have the same properties. Found once for the process;
 * the tables have about 4000 of them. Runs of one kind have the same properties. */
enum { RUNS = 8000 };
static struct {
    uint32_t begin;
    uint16_t kind;
    properties p;
} runs[RUNS + 1];
static size_t n_runs, n_kinds;

static bool same(const properties *a, const properties *b)
{
    return a->category == b->category && a->script == b->script && a->space == b->space &&
           a->word == b->word;
}

/* Planes without characters are not looked at one by one. */
static bool is_plain(uint32_t c)
{
    return (c >= 0x32400 && c < 0xe0000) || (c >= 0xe0200 && c < 0xf0000) ||
           (c >= 0xf0000 && c < 0xfff00) || (c >= 0x100000 && c < 0x10ff00);
}

/* Gives the last run the kind of an earlier run, or a new one. */
static void set_kind(void)
{
    size_t i = 0;
    while (!same(&runs[i].p, &runs[n_runs].p))
        i++;
    runs[n_runs].kind = (uint16_t)(i < n_runs ? runs[i].kind : n_kinds++);
}

static void find_runs(void)
{
    for (uint32_t c = 0; c < MF_RX_PAGES * MF_RX_PAGE && n_runs < RUNS; c++) {
        if (is_plain(c) && c % MF_RX_PAGE != 0) continue;
        const properties p = properties_of(c);
        if (n_runs > 0 && same(&runs[n_runs - 1].p, &p)) continue;
        runs[n_runs].begin = c;
        runs[n_runs].p = p;
        set_kind();
        n_runs++;
    }
    runs[n_runs].begin = UINT32_MAX;
}

/* ---- classes ---- */

enum { WORK = 1 << 26 }; /* each part of a set may be asked once at each end of a range */

typedef struct maker {
    const char *where;
    const mf_rx_sets *sets;
    mf_rx_classes *ret;
    uint64_t (*member)[4]; /* [class] the sets that contain it, as bits */
    int16_t *of_kind;      /* [kind] class of it since the last edge; -1: not known */
    uint64_t *hash;        /* [page] of its classes */
    size_t cap;            /* of pages */
} maker;

static int class_of(maker *m, uint32_t c, const properties *p, int *ret)
{
    uint64_t in[4] = {0};
    mf_rx_classes *r = m->ret;
    for (int k = 0; k < m->sets->n; k++)
        if (contains(m->sets->step + m->sets->set[k].begin, m->sets->set[k].n, c, p))
            in[k / 64] |= UINT64_C(1) << k % 64;
    for (int i = 0; i < r->n; i++)
        if (memcmp(m->member[i], in, sizeof in) == 0) {
            *ret = i;
            return MF_OK;
        }
    if (r->n == MF_RX_CLASSES)
        return mf_fail(MF_EINPUT,
                       "%s: an expression that distinguishes more than %d kinds of characters",
                       m->where, MF_RX_CLASSES);
    memcpy(m->member[r->n], in, sizeof in);
    for (int k = 0; k < m->sets->n; k++)
        if (in[k / 64] >> k % 64 & 1) r->in[k][r->n / 64] |= UINT64_C(1) << r->n % 64;
    *ret = r->n++;
    return MF_OK;
}

static int enlarge(maker *m)
{
    const size_t cap = 2 * m->cap + 32;
    uint8_t *of = mf_realloc(m->ret->of, m->cap * MF_RX_PAGE, cap * MF_RX_PAGE);
    if (of) m->ret->of = of;
    uint64_t *hash = of ? mf_realloc(m->hash, m->cap * sizeof *hash, cap * sizeof *hash) : NULL;
    if (!hash) return MF_ENOMEM;
    m->hash = hash;
    m->cap = cap;
    return MF_OK;
}

static uint64_t hash_of(const uint8_t *of)
{
    uint64_t h = 0, part;
    for (size_t i = 0; i < MF_RX_PAGE; i += sizeof part) {
        memcpy(&part, of + i, sizeof part);
        h = (h ^ part) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* Keeps a page, or finds an equal one. Hashes spare most comparisons: some 600 pages are looked
 * for among more than 100. */
static int add_page(maker *m, uint32_t page, const uint8_t *of)
{
    mf_rx_classes *r = m->ret;
    const uint64_t hash = hash_of(of);
    size_t i = 0;
    while (i < r->n_pages &&
           (m->hash[i] != hash || memcmp(r->of + i * MF_RX_PAGE, of, MF_RX_PAGE) != 0))
        i++;
    if (i == m->cap) {
        const int rc = enlarge(m);
        if (rc != MF_OK) return rc;
    }
    if (i == r->n_pages) {
        memcpy(r->of + i * MF_RX_PAGE, of, MF_RX_PAGE);
        m->hash[r->n_pages++] = hash;
    }
    r->page[page] = (uint16_t)i;
    return MF_OK;
}

/* Between two edges, the class of a code point depends only on its kind. */
static int class_of_run(maker *m, uint32_t c, size_t run, bool edge, int *ret)
{
    int16_t *known = &m->of_kind[runs[run].kind];
    if (edge) memset(m->of_kind, -1, n_kinds * sizeof *m->of_kind);
    int rc = MF_OK;
    if (*known < 0) {
        rc = class_of(m, c, &runs[run].p, ret);
        *known = (int16_t)*ret;
    }
    *ret = *known;
    return rc;
}

/* Gives a page whose code points are all of one class. */
static int add_even(maker *m, uint32_t page, int class, int32_t *known)
{
    uint8_t of[MF_RX_PAGE];
    int rc = MF_OK;
    if (*known < 0) {
        memset(of, class, sizeof of);
        rc = add_page(m, page, of);
        *known = m->ret->page[page];
    }
    m->ret->page[page] = (uint16_t)*known;
    return rc;
}

static int fill(maker *m, const uint32_t *edge)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint8_t of[MF_RX_PAGE];
    int32_t even[MF_RX_CLASSES];
    size_t run = 0; /* the next one */
    int class = -1, rc = MF_OK;
    pthread_once(&once, find_runs);
    m->of_kind = mf_alloc(n_kinds + 1, sizeof *m->of_kind);
    if (!m->of_kind) return MF_ENOMEM;
    memset(m->of_kind, -1, n_kinds * sizeof *m->of_kind);
    memset(even, -1, sizeof even);
    for (uint32_t page = 0; page < MF_RX_PAGES && rc == MF_OK; page++) {
        const uint32_t begin = page * MF_RX_PAGE, end = begin + MF_RX_PAGE;
        if (class >= 0 && *edge >= end && runs[run].begin >= end) {
            rc = add_even(m, page, class, &even[class]);
            continue;
        }
        for (uint32_t c = begin, next; c < end && rc == MF_OK; c = next) {
            const bool at_edge = c >= *edge, changes = at_edge || c >= runs[run].begin;
            while (c >= *edge)
                edge++;
            if (c >= runs[run].begin) run++;
            if (changes) rc = class_of_run(m, c, run - 1, at_edge, &class);
            next = *edge < runs[run].begin ? *edge : runs[run].begin;
            next = next < end ? next : end;
            memset(of + (c - begin), class, next - c);
        }
        if (rc == MF_OK) rc = add_page(m, page, of);
    }
    return rc;
}

int mf_rx_classify(const char *where, mf_rx_sets *s, mf_rx_classes *ret)
{
    maker m = {.where = where, .sets = s, .ret = ret};
    size_t parts = 0, edges = 0;
    for (int i = 0; i < s->n; i++)
        parts += arrange(s->step + s->set[i].begin, s->set[i].n);
    uint32_t *edge = edges_of(s, &edges);
    m.member = mf_alloc(MF_RX_CLASSES, sizeof *m.member);
    int rc = edge && m.member ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && parts * edges > WORK)
        rc = mf_fail(MF_EINPUT,
                     "%s: classes with %zu ends of ranges and %zu parts: multiplied they are "
                     "more than %d",
                     where, edges, parts, WORK);
    if (rc == MF_OK) rc = fill(&m, edge);
    mf_free(edge);
    mf_free(m.of_kind);
    mf_free(m.hash);
    mf_free(m.member);
    return rc;
}
