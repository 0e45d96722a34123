/* data/jinja/order.c: equality and order of values, with the rules of Python. Texts that are
 * compared count as work, and so does each comparison of a sort, which is a merge sort. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <string.h>

static int64_t whole(jv v)
{
    return v.kind == JV_INT ? v.as.i : v.as.b;
}

bool jv_equal_numbers(jv a, jv b)
{
    if (!jv_is_number(a) || !jv_is_number(b)) return false;
    return a.kind == JV_FLOAT || b.kind == JV_FLOAT ? jv_real(a) == jv_real(b)
                                                    : whole(a) == whole(b);
}

static bool equal_lists(jj_run *r, const jv_list *a, const jv_list *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n && r->rc == MF_OK; i++)
        if (!jv_equal(r, a->item[i], b->item[i])) return false;
    return true;
}

static bool equal_dicts(jj_run *r, jv a, jv b)
{
    if (a.as.dict->n != b.as.dict->n) return false;
    for (size_t i = 0; i < a.as.dict->n && r->rc == MF_OK; i++) {
        const jv *other = jv_find(r, b, a.as.dict->key[i]);
        if (!other || !jv_equal(r, a.as.dict->value[i], *other)) return false;
    }
    return true;
}

static bool same(jj_run *r, jv a, jv b)
{
    if (jv_is_number(a) && jv_is_number(b)) return jv_equal_numbers(a, b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JV_STRING:
        return a.n == b.n && jj_spend(r, a.n) && memcmp(a.as.s, b.as.s, a.n) == 0;
    case JV_LIST:
        return a.n == b.n && equal_lists(r, a.as.list, b.as.list);
    case JV_DICT:
        return equal_dicts(r, a, b);
    case JV_UNDEFINED:
    case JV_NONE:
        return true;
    default:
        return a.as.dict == b.as.dict; /* the same object */
    }
}

bool jv_equal(jj_run *r, jv a, jv b)
{
    if (!jj_enter(r, 0)) return false;
    const bool is = same(r, a, b);
    jj_leave(r);
    return is;
}

int jv_order(jj_run *r, jv a, jv b)
{
    if (jv_is_number(a) && jv_is_number(b)) {
        const double x = jv_real(a), y = jv_real(b);
        if (a.kind == JV_FLOAT || b.kind == JV_FLOAT) return x < y ? -1 : x > y;
        return whole(a) < whole(b) ? -1 : whole(a) > whole(b);
    }
    if (a.kind == JV_STRING && b.kind == JV_STRING) {
        const size_t n = a.n < b.n ? a.n : b.n;
        const int c = n > 0 && jj_spend(r, n) ? memcmp(a.as.s, b.as.s, n) : 0;
        return c != 0 ? (c < 0 ? -1 : 1) : a.n < b.n ? -1 : a.n > b.n;
    }
    jj_fail(r, "%s and %s have no order", jv_type(a), jv_type(b));
    return 0;
}

bool jv_contains(jj_run *r, jv in, jv what)
{
    if (in.kind == JV_STRING) {
        if (what.kind != JV_STRING) {
            jj_fail(r, "in a text: expected a text, found %s", jv_type(what));
            return false;
        }
        return what.n == 0 ||
               (jj_spend(r, in.n) && memmem(in.as.s, in.n, what.as.s, what.n) != NULL);
    }
    if (in.kind == JV_DICT) return jv_find(r, in, what) != NULL;
    const jv items = jv_items(r, in);
    for (size_t i = 0; r->rc == MF_OK && i < items.as.list->n; i++)
        if (jv_equal(r, items.as.list->item[i], what)) return true;
    return false;
}

/* Merges two sorted parts that follow each other: from[begin..middle) and from[middle..end). */
static void merge(jj_run *r, const jv *key, const size_t *from, size_t *to, size_t begin,
                  size_t middle, size_t end)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        const bool first = a < middle && (b >= end || !jj_step(r, 0) ||
                                          jv_order(r, key[from[a]], key[from[b]]) <= 0);
        to[i] = first ? from[a++] : from[b++];
    }
}

const size_t *jv_sorted(jj_run *r, const jv *key, size_t n)
{
    size_t *from = jj_take(r, n * sizeof *from), *to = jj_take(r, n * sizeof *to);
    if (!from || !to) return NULL;
    for (size_t i = 0; i < n; i++)
        from[i] = i;
    for (size_t part = 1; part < n; part *= 2) {
        for (size_t i = 0; i < n; i += 2 * part)
            merge(r, key, from, to, i, i + part < n ? i + part : n,
                  i + 2 * part < n ? i + 2 * part : n);
        size_t *other = from;
        from = to;
        to = other;
    }
    return r->rc == MF_OK ? from : NULL;
}
