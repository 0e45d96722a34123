/* data/jinja/tests.c: what stands behind `is`. The tests are those of Jinja2, without the ones
 * that ask for names of filters and tests. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <string.h>

const char *const jj_test_names[] = {
    "defined",  "undefined", "none",        "boolean", "true",     "false",    "integer",
    "float",    "number",    "string",      "mapping", "iterable", "sequence", "callable",
    "odd",      "even",      "divisibleby", "eq",      "equalto",  "ne",       "lt",
    "lessthan", "gt",        "greaterthan", "le",      "ge",       "in",       "sameas",
    "lower",    "upper",     NULL};

bool jj_has_test(const char *name)
{
    for (int i = 0; jj_test_names[i]; i++)
        if (strcmp(jj_test_names[i], name) == 0) return true;
    return false;
}

static bool is_iterable(jv v)
{
    return v.kind == JV_STRING || v.kind == JV_LIST || v.kind == JV_DICT ||
           v.kind == JV_UNDEFINED;
}

/* Tests of the kind of a value. Returns -1 for another test. */
static int of_kind(const char *name, jv v)
{
    if (strcmp(name, "defined") == 0) return v.kind != JV_UNDEFINED;
    if (strcmp(name, "undefined") == 0) return v.kind == JV_UNDEFINED;
    if (strcmp(name, "none") == 0) return v.kind == JV_NONE;
    if (strcmp(name, "boolean") == 0) return v.kind == JV_BOOL;
    if (strcmp(name, "true") == 0) return v.kind == JV_BOOL && v.as.b;
    if (strcmp(name, "false") == 0) return v.kind == JV_BOOL && !v.as.b;
    if (strcmp(name, "integer") == 0) return v.kind == JV_INT;
    if (strcmp(name, "float") == 0) return v.kind == JV_FLOAT;
    if (strcmp(name, "number") == 0) return jv_is_number(v);
    if (strcmp(name, "string") == 0) return v.kind == JV_STRING;
    if (strcmp(name, "mapping") == 0) return v.kind == JV_DICT;
    if (strcmp(name, "iterable") == 0 || strcmp(name, "sequence") == 0) return is_iterable(v);
    if (strcmp(name, "callable") == 0) return v.kind >= JV_MACRO;
    return -1;
}

static bool of_number(jj_run *r, const char *name, jv v, jv other)
{
    const int64_t by =
        strcmp(name, "divisibleby") == 0 && other.kind == JV_INT ? other.as.i : 2;
    if (v.kind != JV_INT || by == 0) {
        jj_fail(r, "%s: expected a whole number, found %s", name, jv_type(v));
        return false;
    }
    const bool even = by == -1 || v.as.i % by == 0;
    return strcmp(name, "odd") == 0 ? !even : even;
}

bool jj_test(jj_run *r, const char *name, jv v, const jj_args *a)
{
    const jv other = jj_arg_of(a, 0, NULL);
    const int known = of_kind(name, v);
    if (known >= 0) return known;
    if (strcmp(name, "odd") == 0 || strcmp(name, "even") == 0 ||
        strcmp(name, "divisibleby") == 0)
        return of_number(r, name, v, other);
    if (strcmp(name, "lower") == 0 || strcmp(name, "upper") == 0) {
        const jv text = jv_string(r, v);
        return r->rc == MF_OK && jv_equal(r, text, jj_upper(r, text, name[0] == 'u'));
    }
    if (a->n == 0) {
        jj_fail(r, "is %s: expected a value behind it", name);
        return false;
    }
    if (strcmp(name, "in") == 0) return jv_contains(r, other, v);
    if (strcmp(name, "ne") == 0) return !jv_equal(r, v, other);
    if (strcmp(name, "sameas") == 0) return v.kind == other.kind && jv_equal(r, v, other);
    if (name[0] == 'e') return jv_equal(r, v, other); /* eq, equalto */
    const int order = jv_order(r, v, other);
    if (strcmp(name, "le") == 0) return order <= 0;
    if (strcmp(name, "ge") == 0) return order >= 0;
    return name[0] == 'l' ? order < 0 : order > 0;
}
