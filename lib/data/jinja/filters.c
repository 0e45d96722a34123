/* data/jinja/filters.c: what stands behind a bar. A filter of a list gets the items of any
 * value that has some; a filter of a text gets the text of any value. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const jj_filter_names[] = {
    "trim",     "tojson",  "length",     "count",      "default", "d",      "join",  "map",
    "select",   "reject",  "selectattr", "rejectattr", "list",    "first",  "last",  "upper",
    "lower",    "title",   "capitalize", "replace",    "string",  "int",    "float", "items",
    "dictsort", "reverse", "abs",        "safe",       "indent",  "unique", NULL};

bool jj_has_filter(const char *name)
{
    for (int i = 0; jj_filter_names[i]; i++)
        if (strcmp(jj_filter_names[i], name) == 0) return true;
    return false;
}

/* ---- lists ---- */

/* Follows a path of attributes, NAME.NAME, with indices among them. */
static jv attribute(jj_run *r, jv v, jv path)
{
    size_t begin = 0;
    if (path.kind == JV_INT) return jv_item(r, v, path);
    if (path.kind != JV_STRING) return jj_fail(r, "expected the name of an attribute");
    while (r->rc == MF_OK && begin <= path.n) {
        const char *dot =
            begin < path.n ? memchr(path.as.s + begin, '.', path.n - begin) : NULL;
        const size_t end = dot ? (size_t)(dot - path.as.s) : path.n;
        const jv name = jv_copy(r, path.as.s + begin, end - begin);
        if (r->rc != MF_OK) break;
        char *rest;
        const long index = strtol(name.as.s, &rest, 10);
        v = jv_item(r, v, name.n > 0 && *rest == '\0' ? jv_int(index) : name);
        begin = end + 1;
    }
    return v;
}

/* The arguments behind the first `from` by position. */
static jj_args rest_of(const jj_args *a, int from)
{
    return (jj_args){a->value + from, a->name + from, a->n - from};
}

static const char *name_in(jj_run *r, jv v, bool (*has)(const char *), const char *what)
{
    const jv copy = v.kind == JV_STRING ? jv_copy(r, v.as.s, v.n) : jv_none();
    if (r->rc == MF_OK && (copy.kind != JV_STRING || !has(copy.as.s)))
        jj_fail(r, "%s: expected a name that is read, found \"%.40s\"", what,
                copy.kind == JV_STRING ? copy.as.s : jv_type(v));
    return r->rc == MF_OK ? copy.as.s : NULL;
}

static jv map(jj_run *r, jv v, const jj_args *a)
{
    const jv path = jj_arg_of(a, -1, "attribute"), missing = jj_arg_of(a, -1, "default"),
             items = jv_items(r, v), all = jv_new_list(r);
    const char *name = NULL;
    if (path.kind == JV_UNDEFINED) {
        if (a->n == 0) return jj_fail(r, "map: expected a filter or an attribute");
        name = name_in(r, a->value[0], jj_has_filter, "map");
    }
    for (size_t i = 0; i < items.as.list->n && jj_step(r, 0); i++) {
        jv one = items.as.list->item[i];
        if (name) {
            const jj_args rest = rest_of(a, 1);
            if (++r->depth > MF_JINJA_DEPTH) return jj_fail(r, "filters are nested too deeply");
            one = jj_filter(r, name, one, &rest);
            r->depth--;
        } else {
            one = attribute(r, one, path);
            if (one.kind == JV_UNDEFINED && missing.kind != JV_UNDEFINED) one = missing;
        }
        jv_append(r, all, one);
    }
    return all;
}

/* select and reject; selectattr and rejectattr test an attribute. */
static jv choose(jj_run *r, jv v, const jj_args *a, bool by_attribute, bool wanted)
{
    const jv items = jv_items(r, v), all = jv_new_list(r);
    const int at = by_attribute ? 1 : 0;
    if (by_attribute && a->n == 0) return jj_fail(r, "expected an attribute");
    const char *test = a->n > at ? name_in(r, a->value[at], jj_has_test, "select") : NULL;
    const jj_args rest = a->n > at ? rest_of(a, at + 1) : (jj_args){0};
    for (size_t i = 0; i < items.as.list->n && jj_step(r, 0); i++) {
        const jv one = items.as.list->item[i],
                 what = by_attribute ? attribute(r, one, a->value[0]) : one;
        if (r->rc != MF_OK) break;
        const bool holds = test ? jj_test(r, test, what, &rest) : jv_true(what);
        if (holds == wanted) jv_append(r, all, one);
    }
    return all;
}

static jv join(jj_run *r, jv v, const jj_args *a)
{
    const jv items = jv_items(r, v), path = jj_arg_of(a, 1, "attribute");
    jv between = jj_arg_of(a, 0, "d");
    jj_out out = {0};
    between = between.kind == JV_UNDEFINED ? jv_text("", 0) : jv_string(r, between);
    for (size_t i = 0; i < items.as.list->n && jj_step(r, 0); i++) {
        jv one = items.as.list->item[i];
        if (path.kind != JV_UNDEFINED) one = attribute(r, one, path);
        one = jv_string(r, one);
        if (r->rc != MF_OK) break;
        if (i > 0) jj_add(r, &out, between.as.s, between.n);
        jj_add(r, &out, one.as.s, one.n);
    }
    return jj_captured(r, &out);
}

static jv reversed(jj_run *r, jv v)
{
    const jv items = jv_items(r, v), all = jv_new_list(r);
    jj_out out = {0};
    for (size_t i = r->rc == MF_OK ? items.as.list->n : 0; i-- > 0 && r->rc == MF_OK;) {
        const jv one = items.as.list->item[i];
        if (v.kind == JV_STRING)
            jj_add(r, &out, one.as.s, one.n);
        else
            jv_append(r, all, one);
    }
    return v.kind == JV_STRING ? jj_captured(r, &out) : all;
}

static jv unique(jj_run *r, jv v)
{
    const jv items = jv_items(r, v), all = jv_new_list(r);
    for (size_t i = 0; r->rc == MF_OK && i < items.as.list->n; i++)
        if (!jv_contains(r, all, items.as.list->item[i]))
            jv_append(r, all, items.as.list->item[i]);
    return all;
}

/* [key, value] of a dictionary, also sorted by the keys in small letters. */
static jv pairs(jj_run *r, jv v, bool sorted)
{
    const jv all = jv_new_list(r);
    if (v.kind == JV_UNDEFINED && !sorted) return all;
    if (v.kind != JV_DICT) return jj_fail(r, "expected a dictionary, found %s", jv_type(v));
    for (size_t i = 0; i < v.as.dict->n && r->rc == MF_OK; i++) {
        jv one = jv_new_list(r);
        one.n = 1;
        if (r->rc == MF_OK) jv_append(r, one, v.as.dict->key[i]);
        if (r->rc == MF_OK) jv_append(r, one, v.as.dict->value[i]);
        if (r->rc == MF_OK) jv_append(r, all, one);
    }
    if (!sorted || r->rc != MF_OK) return all;
    const jv keys = jv_new_list(r), result = jv_new_list(r);
    for (size_t i = 0; i < all.as.list->n && r->rc == MF_OK; i++) {
        const jv key = v.as.dict->key[i];
        jv_append(r, keys, key.kind == JV_STRING ? jj_upper(r, key, false) : key);
    }
    const size_t *order =
        r->rc == MF_OK ? jv_sorted(r, keys.as.list->item, keys.as.list->n) : NULL;
    for (size_t i = 0; order && i < all.as.list->n && r->rc == MF_OK; i++)
        jv_append(r, result, all.as.list->item[order[i]]);
    return result;
}

/* ---- numbers ---- */

static jv to_int(jj_run *r, jv v, const jj_args *a)
{
    const jv other = jj_arg_of(a, 0, "default"),
             missing = other.kind == JV_UNDEFINED ? jv_int(0) : other;
    if (v.kind == JV_INT || v.kind == JV_BOOL)
        return jv_int(v.kind == JV_INT ? v.as.i : v.as.b);
    if (v.kind == JV_FLOAT) return fabs(v.as.f) < 9e18 ? jv_int((int64_t)v.as.f) : missing;
    if (v.kind != JV_STRING || v.n == 0) return missing;
    const jv copy = jv_copy(r, v.as.s, v.n);
    if (r->rc != MF_OK) return missing;
    char *end;
    const double f = strtod(copy.as.s, &end);
    return *end == '\0' && fabs(f) < 9e15 ? jv_int((int64_t)f) : missing;
}

static jv to_float(jj_run *r, jv v, const jj_args *a)
{
    const jv other = jj_arg_of(a, 0, "default"),
             missing = other.kind == JV_UNDEFINED ? jv_float(0) : other;
    if (jv_is_number(v)) return jv_float(jv_real(v));
    if (v.kind != JV_STRING || v.n == 0) return missing;
    const jv copy = jv_copy(r, v.as.s, v.n);
    if (r->rc != MF_OK) return missing;
    char *end;
    const double f = strtod(copy.as.s, &end);
    return *end == '\0' ? jv_float(f) : missing;
}

static jv absolute(jj_run *r, jv v)
{
    if (v.kind == JV_FLOAT) return jv_float(fabs(v.as.f));
    if (v.kind != JV_INT || v.as.i == INT64_MIN) return jj_fail(r, "abs of %s", jv_type(v));
    return jv_int(v.as.i < 0 ? -v.as.i : v.as.i);
}

/* ---- texts ---- */

static jv tojson(jj_run *r, jv v, const jj_args *a)
{
    const jv indent = jj_arg_of(a, 0, "indent");
    for (int i = 0; i < a->n; i++)
        if (a->name[i] && strcmp(a->name[i], "separators") == 0)
            return jj_fail(r, "tojson: separators are not read");
    if (indent.kind != JV_UNDEFINED && indent.kind != JV_NONE &&
        (indent.kind != JV_INT || indent.as.i < 0 || indent.as.i > 64))
        return jj_fail(r, "tojson: indent: expected a number from 0 to 64");
    return jv_json(r, v, indent.kind == JV_INT ? (int)indent.as.i : -1,
                   jv_true(jj_arg_of(a, -1, "ensure_ascii")),
                   jv_true(jj_arg_of(a, -1, "sort_keys")));
}

static jv indented(jj_run *r, jv v, const jj_args *a)
{
    const jv width = jj_arg_of(a, 0, "width"), first = jj_arg_of(a, 1, "first"),
             blank = jj_arg_of(a, 2, "blank");
    const int64_t n = width.kind == JV_INT ? width.as.i : 4;
    jj_out out = {0};
    bool begins = jv_true(first), some = true;
    if ((width.kind != JV_INT && width.kind != JV_UNDEFINED) || n < 0 || n > 256)
        return jj_fail(r, "indent: expected a width from 0 to 256");
    for (size_t at = 0; at < v.n && r->rc == MF_OK; at++) {
        some = v.as.s[at] != '\n' || jv_true(blank);
        for (int64_t i = 0; begins && some && i < n; i++)
            jj_add(r, &out, " ", 1);
        jj_add(r, &out, v.as.s + at, 1);
        begins = v.as.s[at] == '\n';
    }
    return jj_captured(r, &out);
}

static jv of_text(jj_run *r, const char *name, jv v, const jj_args *a)
{
    const jv text = jv_string(r, v);
    if (r->rc != MF_OK) return text;
    if (strcmp(name, "trim") == 0)
        return jj_trim(r, text, jj_arg_of(a, 0, "chars"), true, true);
    if (strcmp(name, "upper") == 0) return jj_upper(r, text, true);
    if (strcmp(name, "lower") == 0) return jj_upper(r, text, false);
    if (strcmp(name, "title") == 0) return jj_title(r, text, true);
    if (strcmp(name, "capitalize") == 0) return jj_title(r, text, false);
    if (strcmp(name, "indent") == 0) return indented(r, text, a);
    if (strcmp(name, "replace") == 0) {
        const jv count = jj_arg_of(a, 2, "count");
        return jj_replace(r, text, jj_arg_of(a, 0, "old"), jj_arg_of(a, 1, "new"),
                          count.kind == JV_INT ? count.as.i : -1);
    }
    return text; /* string, safe */
}

static jv of_list(jj_run *r, const char *name, jv v, const jj_args *a)
{
    if (strcmp(name, "join") == 0) return join(r, v, a);
    if (strcmp(name, "map") == 0) return map(r, v, a);
    if (strcmp(name, "select") == 0) return choose(r, v, a, false, true);
    if (strcmp(name, "reject") == 0) return choose(r, v, a, false, false);
    if (strcmp(name, "selectattr") == 0) return choose(r, v, a, true, true);
    if (strcmp(name, "rejectattr") == 0) return choose(r, v, a, true, false);
    if (strcmp(name, "reverse") == 0) return reversed(r, v);
    if (strcmp(name, "unique") == 0) return unique(r, v);
    const jv items = jv_items(r, v);
    if (r->rc != MF_OK || strcmp(name, "list") == 0) return items;
    const jv_list *l = items.as.list;
    return l->n == 0 ? jv_undefined(name) : l->item[name[0] == 'f' ? 0 : l->n - 1];
}

jv jj_filter(jj_run *r, const char *name, jv v, const jj_args *a)
{
    static const char *const lists[] = {"join",       "map",        "select",  "reject",
                                        "selectattr", "rejectattr", "reverse", "unique",
                                        "list",       "first",      "last",    NULL};
    if (strcmp(name, "default") == 0 || strcmp(name, "d") == 0) {
        const jv other = jj_arg_of(a, 0, "default_value");
        const bool falls =
            v.kind == JV_UNDEFINED || (jv_true(jj_arg_of(a, 1, "boolean")) && !jv_true(v));
        return !falls ? v : other.kind == JV_UNDEFINED ? jv_text("", 0) : other;
    }
    if (strcmp(name, "length") == 0 || strcmp(name, "count") == 0)
        return jv_int(jv_length(r, v));
    if (strcmp(name, "tojson") == 0) return tojson(r, v, a);
    if (strcmp(name, "int") == 0) return to_int(r, v, a);
    if (strcmp(name, "float") == 0) return to_float(r, v, a);
    if (strcmp(name, "abs") == 0) return absolute(r, v);
    if (strcmp(name, "items") == 0 || strcmp(name, "dictsort") == 0)
        return pairs(r, v, name[0] == 'd');
    for (int i = 0; lists[i]; i++)
        if (strcmp(lists[i], name) == 0) return of_list(r, name, v, a);
    return of_text(r, name, v, a);
}
