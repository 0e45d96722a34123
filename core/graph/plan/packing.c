/* graph/plan/packing.c: computes offsets for values from their lifetimes.
 *
 * Fixed spans keep their offset. The other spans are placed one after another, each into the
 * lowest gap between the spans that are alive at the same time (greedy by size: Pisarchyk, Lee
 * 2020, "Efficient Memory Management for Deep Neural Net Inference", 5.2). Three orders are
 * tried: largest first, longest-lived first, and by bytes times lifetime. On graphs of
 * transformers the best result is within a few percent of the largest sum of live bytes, the
 * lower bound. Then the best order is improved many times: the span that ends highest moves to
 * the front of the order, and all spans are placed again. */
#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

/* Limits of the improvement: number of orders that are tried, and pairs of spans that are
 * compared, so that planning takes milliseconds. */
enum { TRIES = 256, TRIES_WORK = 40000000 };

/* The time for placing grows with the square of the number of spans. If there are more spans
 * than this, only one order is tried. Only models of hundreds of layers have so many spans. */
enum { MANY = 16384 };

/* Compares spans for sorting: fixed spans first, then larger keys. The order is total, so the
 * result is the same everywhere. */
static int by_key(const mf_span *x, const mf_span *y, double key_x, double key_y)
{
    if (x->fixed != y->fixed) return x->fixed ? -1 : 1;
    if (key_x != key_y) return key_x < key_y ? 1 : -1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    /* Both spans are in the same array, so their addresses can be compared. */
    return x < y ? -1 : x > y;
}

static double life(const mf_span *s)
{
    return (double)s->last - s->first + 1;
}

static int by_size(const void *a, const void *b)
{
    const mf_span *x = *(mf_span *const *)a, *y = *(mf_span *const *)b;
    return by_key(x, y, (double)x->bytes, (double)y->bytes);
}

static int by_life(const void *a, const void *b)
{
    const mf_span *x = *(mf_span *const *)a, *y = *(mf_span *const *)b;
    return by_key(x, y, life(x), life(y));
}

static int by_area(const void *a, const void *b)
{
    const mf_span *x = *(mf_span *const *)a, *y = *(mf_span *const *)b;
    return by_key(x, y, life(x) * (double)x->bytes, life(y) * (double)y->bytes);
}

static bool together(const mf_span *a, const mf_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the first offset, `at` or a later one, at which a span does not cross the border. */
static size_t beside_border(size_t at, size_t bytes, size_t border)
{
    return at < border && at + bytes > border ? border : at;
}

/* Returns the lowest offset at which s fits. placed is sorted by offset. */
static size_t lowest_gap(const mf_span *s, mf_span *const *placed, int n, size_t border)
{
    size_t at = beside_border(0, s->bytes, border);
    for (int i = 0; i < n; i++) {
        if (!together(s, placed[i])) continue;
        if (placed[i]->offset >= at + s->bytes) break;
        if (placed[i]->offset + placed[i]->bytes > at)
            at = beside_border(placed[i]->offset + placed[i]->bytes, s->bytes, border);
    }
    return at;
}

static void insert(mf_span *s, mf_span **placed, int n)
{
    while (n > 0 && placed[n - 1]->offset > s->offset) {
        placed[n] = placed[n - 1];
        n--;
    }
    placed[n] = s;
}

/* Places the spans in the given order; returns the bytes needed behind the border. */
static size_t pack_as(mf_span **order, mf_span **placed, int n, size_t border)
{
    size_t end = border;
    for (int i = 0; i < n; i++) {
        mf_span *s = order[i];
        if (!s->fixed) s->offset = lowest_gap(s, placed, i, border);
        insert(s, placed, i);
        if (s->offset + s->bytes > end) end = s->offset + s->bytes;
    }
    return end - border;
}

static size_t pack_in(mf_span **order, mf_span **placed, int n, size_t border,
                      int (*compare)(const void *, const void *))
{
    qsort(order, (size_t)n, sizeof *order, compare);
    return pack_as(order, placed, n, border);
}

/* Returns the largest sum of bytes that are alive at the same time, which is a lower bound
 * for packing. */
static size_t most_alive(const mf_span *spans, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) { /* the maximum occurs at a node where some span begins */
        size_t sum = 0;
        for (int j = 0; j < n; j++)
            if (spans[j].first <= spans[i].first && spans[i].first <= spans[j].last)
                sum += spans[j].bytes;
        if (sum > most) most = sum;
    }
    return most;
}

/* Moves the span that ends highest to the front of the order, behind the fixed spans. */
static void raise_top(mf_span **order, int n)
{
    int top = -1, to = 0;
    while (to < n && order[to]->fixed)
        to++;
    for (int i = to; i < n; i++)
        if (top < 0 ||
            order[i]->offset + order[i]->bytes > order[top]->offset + order[top]->bytes)
            top = i;
    if (top < 0) return;
    mf_span *s = order[top];
    memmove(order + to + 1, order + to, (size_t)(top - to) * sizeof *order);
    order[to] = s;
}

/* Tries more orders, each made from the previous one; keeps the offsets of the best. */
static int improve(mf_span *spans, mf_span **order, mf_span **placed, int n, size_t border,
                   size_t *bytes)
{
    const size_t least = most_alive(spans, n);
    size_t *best = mf_alloc((size_t)n + 1, sizeof *best);
    if (!best) return MF_ENOMEM;
    for (int i = 0; i < n; i++)
        best[i] = spans[i].offset;
    for (int64_t left = TRIES_WORK / ((int64_t)n * n + 1), i = 0;
         i < left && i < TRIES && border + *bytes > least; i++) {
        raise_top(order, n);
        const size_t now = pack_as(order, placed, n, border);
        if (now >= *bytes) continue;
        *bytes = now;
        for (int j = 0; j < n; j++)
            best[j] = spans[j].offset;
    }
    for (int i = 0; i < n; i++)
        spans[i].offset = best[i];
    mf_free(best);
    return MF_OK;
}

int mf_pack(mf_span *spans, int n, size_t border, size_t *ret_bytes)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_life, by_area};
    enum { ORDERS = sizeof orders / sizeof *orders };
    mf_span **lists = mf_alloc(2 * (size_t)n + 1, sizeof *lists);
    int best = 0;
    if (!lists) return MF_ENOMEM;
    for (int i = 0; i < n; i++)
        lists[i] = &spans[i];
    const int tried = n > MANY ? 1 : ORDERS;
    for (int o = 0; o < tried; o++) {
        const size_t bytes = pack_in(lists, lists + n, n, border, orders[o]);
        if (o == 0 || bytes < *ret_bytes) {
            *ret_bytes = bytes;
            best = o;
        }
    }
    if (best != tried - 1) pack_in(lists, lists + n, n, border, orders[best]);
    const int code = n > MANY ? MF_OK : improve(spans, lists, lists + n, n, border, ret_bytes);
    mf_free(lists);
    return code;
}
