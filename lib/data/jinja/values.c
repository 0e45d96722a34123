/* data/jinja/values.c: the values of templates, with the rules of Python: truth, items and
 * attributes. Lists and dictionaries never change once they are made; only a
 * namespace does. All memory is of the arena of the rendering. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"
#include "io/unicode.h"

#include <math.h>
#include <string.h>

jv jv_none(void)
{
    return (jv){.kind = JV_NONE};
}

jv jv_bool(bool b)
{
    return (jv){.kind = JV_BOOL, .as.b = b};
}

jv jv_int(int64_t i)
{
    return (jv){.kind = JV_INT, .as.i = i};
}

jv jv_float(double f)
{
    return (jv){.kind = JV_FLOAT, .as.f = f};
}

jv jv_text(const char *s, size_t n)
{
    return (jv){.kind = JV_STRING, .n = n, .as.s = s};
}

jv jv_undefined(const char *name)
{
    return (jv){.kind = JV_UNDEFINED, .as.s = name};
}

jv jv_copy(jj_run *r, const char *s, size_t n)
{
    char *text = jj_take(r, n + 1);
    if (!text) return jv_none();
    if (n > 0) memcpy(text, s, n);
    return jv_text(text, n);
}

jv jv_join(jj_run *r, jv a, jv b)
{
    if (a.n + b.n > r->limits->output)
        return jj_fail(r, "the template makes a text of more than %zu MiB",
                       r->limits->output >> 20);
    char *text = jj_take(r, a.n + b.n + 1);
    if (!text) return jv_none();
    if (a.n > 0) memcpy(text, a.as.s, a.n);
    if (b.n > 0) memcpy(text + a.n, b.as.s, b.n);
    return jv_text(text, a.n + b.n);
}

jv jv_new_list(jj_run *r)
{
    jv_list *list = jj_take(r, sizeof *list);
    return list ? (jv){.kind = JV_LIST, .as.list = list} : jv_none();
}

void jv_append(jj_run *r, jv list, jv item)
{
    if (r->rc != MF_OK) return;
    jv_list *l = list.as.list;
    if (l->n == l->cap) {
        const size_t cap = 2 * l->cap + 8;
        jv *larger = jj_take(r, cap * sizeof *larger);
        if (!larger) return;
        if (l->n > 0) memcpy(larger, l->item, l->n * sizeof *larger);
        l->item = larger;
        l->cap = cap;
    }
    l->item[l->n++] = item;
}

jv jv_new_dict(jj_run *r, jv_kind kind)
{
    jv_dict *dict = jj_take(r, sizeof *dict);
    return dict ? (jv){.kind = kind, .as.dict = dict} : jv_none();
}

static bool is_key(jj_run *r, jv a, jv b)
{
    if (a.kind == JV_STRING && b.kind == JV_STRING)
        return a.n == b.n && jj_spend(r, a.n) && memcmp(a.as.s, b.as.s, a.n) == 0;
    return jv_equal_numbers(a, b) || (a.kind == JV_NONE && b.kind == JV_NONE);
}

const jv *jv_find(jj_run *r, jv dict, jv key)
{
    const jv_dict *d = dict.as.dict;
    for (size_t i = 0; i < d->n && jj_spend(r, 1); i++)
        if (is_key(r, d->key[i], key)) return &d->value[i];
    return NULL;
}

/* Adds a member whose key is not there yet. */
static void add_member(jj_run *r, jv dict, jv key, jv value)
{
    jv_dict *d = dict.as.dict;
    if (r->rc != MF_OK) return;
    if (d->n == d->cap) {
        const size_t cap = 2 * d->cap + 8;
        jv *keys = jj_take(r, cap * sizeof *keys), *values = jj_take(r, cap * sizeof *values);
        if (!keys || !values) return;
        if (d->n > 0) {
            memcpy(keys, d->key, d->n * sizeof *keys);
            memcpy(values, d->value, d->n * sizeof *values);
        }
        d->key = keys;
        d->value = values;
        d->cap = cap;
    }
    d->key[d->n] = key;
    d->value[d->n++] = value;
}

void jv_put(jj_run *r, jv dict, jv key, jv value)
{
    if (r->rc != MF_OK) return;
    const jv *old = jv_find(r, dict, key);
    if (old)
        dict.as.dict->value[old - dict.as.dict->value] = value;
    else if (key.kind == JV_LIST || key.kind == JV_DICT || key.kind == JV_UNDEFINED)
        jj_fail(r, "a key of type %s", jv_type(key));
    else
        add_member(r, dict, key, value);
}

jv jv_from_json(jj_run *r, const mf_json *v)
{
    const char *key;
    const mf_json *value;
    jv all;
    size_t n = 0;
    int64_t i = 0;
    double f = NAN;
    bool b = false;
    switch (mf_json_typeof(v)) {
    case MF_JSON_NULL:
        break;
    case MF_JSON_BOOL:
        mf_json_bool(v, &b);
        return jv_bool(b);
    case MF_JSON_INT:
        mf_json_int(v, &i);
        return jv_int(i);
    case MF_JSON_REAL:
        mf_json_real(v, &f);
        return jv_float(f);
    case MF_JSON_STRING: {
        const char *s = mf_json_string(v, &n);
        return jv_text(s, n);
    }
    case MF_JSON_ARRAY:
        all = jv_new_list(r);
        for (size_t k = 0; k < mf_json_size(v) && r->rc == MF_OK; k++)
            jv_append(r, all, jv_from_json(r, mf_json_at(v, k)));
        return all;
    case MF_JSON_OBJECT:
        all = jv_new_dict(r, JV_DICT);
        for (size_t k = 0; r->rc == MF_OK && mf_json_member(v, k, &key, &value); k++)
            add_member(r, all, jv_text(key, strlen(key)), jv_from_json(r, value));
        return all;
    }
    return jv_none();
}

static jv from_message(jj_run *r, const mf_json *v)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const mf_json *reasoning = NULL, *value;
    const char *key;
    const jv all = jv_new_dict(r, JV_DICT);
    for (int i = 0; i < 3 && mf_json_typeof(reasoning) == MF_JSON_NULL; i++)
        reasoning = mf_json_get(v, names[i]);
    const bool reasons = mf_json_typeof(reasoning) != MF_JSON_NULL;
    if (reasons) jv_put(r, all, jv_text("thinking", 8), jv_from_json(r, reasoning));
    for (size_t i = 0; r->rc == MF_OK && mf_json_member(v, i, &key, &value); i++)
        if (mf_json_typeof(value) != MF_JSON_NULL)
            (reasons && strcmp(key, "thinking") == 0 ? jv_put : add_member)(
                r, all, jv_text(key, strlen(key)), jv_from_json(r, value));
    if (reasons)
        jv_put(r, all, jv_text(names[0], strlen(names[0])), jv_from_json(r, reasoning));
    return all;
}

jv jv_from_messages(jj_run *r, const mf_json *v, size_t most)
{
    const jv all = jv_new_list(r);
    const size_t n = most > 0 && most < mf_json_size(v) ? most : mf_json_size(v);
    for (size_t i = 0; i < n && r->rc == MF_OK; i++)
        jv_append(r, all, from_message(r, mf_json_at(v, i)));
    return all;
}

/* ---- kinds and truth ---- */

bool jv_true(jv v)
{
    switch (v.kind) {
    case JV_UNDEFINED:
    case JV_NONE:
        return false;
    case JV_BOOL:
        return v.as.b;
    case JV_INT:
        return v.as.i != 0;
    case JV_FLOAT:
        return v.as.f != 0;
    case JV_STRING:
        return v.n > 0;
    case JV_LIST:
        return v.as.list->n > 0;
    case JV_DICT:
        return v.as.dict->n > 0;
    default:
        return true;
    }
}

bool jv_is_number(jv v)
{
    return v.kind == JV_INT || v.kind == JV_FLOAT || v.kind == JV_BOOL;
}

double jv_real(jv v)
{
    return v.kind == JV_INT ? (double)v.as.i : v.kind == JV_BOOL ? v.as.b : v.as.f;
}

const char *jv_type(jv v)
{
    static const char *const names[] = {"undefined", "NoneType", "bool",  "int",       "float",
                                        "str",       "list",     "dict",  "namespace", "loop",
                                        "macro",     "function", "method"};
    return names[v.kind];
}

/* ---- parts ---- */

/* Returns the length in bytes of the character at s. */
static size_t step_of(const char *s)
{
    const unsigned char c = (unsigned char)*s;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

jv jv_items(jj_run *r, jv v)
{
    static jv_list empty; /* never written */
    if (v.kind == JV_LIST) return v;
    const jv all = jv_new_list(r);
    if (v.kind == JV_STRING) {
        for (size_t at = 0; at < v.n && r->rc == MF_OK; at += step_of(v.as.s + at))
            jv_append(r, all, jv_text(v.as.s + at, step_of(v.as.s + at)));
    } else if (v.kind == JV_DICT) {
        for (size_t i = 0; i < v.as.dict->n; i++)
            jv_append(r, all, v.as.dict->key[i]);
    } else if (v.kind != JV_UNDEFINED) {
        jj_fail(r, "a loop over %s", jv_type(v));
    }
    return r->rc == MF_OK ? all : (jv){.kind = JV_LIST, .as.list = &empty};
}

int64_t jv_length(jj_run *r, jv v)
{
    int64_t n = 0;
    switch (v.kind) {
    case JV_UNDEFINED:
        return 0;
    case JV_STRING:
        jj_spend(r, v.n);
        for (size_t at = 0; at < v.n && r->rc == MF_OK; at += step_of(v.as.s + at))
            n++;
        return n;
    case JV_LIST:
        return (int64_t)v.as.list->n;
    case JV_DICT:
        return (int64_t)v.as.dict->n;
    default:
        jj_fail(r, "the length of %s", jv_type(v));
        return 0;
    }
}

static jv loop_attr(const jv_loop *l, const char *name)
{
    const int64_t n = (int64_t)l->items->n, at = (int64_t)l->at;
    if (strcmp(name, "index") == 0) return jv_int(at + 1);
    if (strcmp(name, "index0") == 0) return jv_int(at);
    if (strcmp(name, "revindex") == 0) return jv_int(n - at);
    if (strcmp(name, "revindex0") == 0) return jv_int(n - at - 1);
    if (strcmp(name, "first") == 0) return jv_bool(at == 0);
    if (strcmp(name, "last") == 0) return jv_bool(at + 1 == n);
    if (strcmp(name, "length") == 0) return jv_int(n);
    if (strcmp(name, "depth") == 0) return jv_int(1); /* of loops that are not recursive */
    if (strcmp(name, "depth0") == 0) return jv_int(0);
    if (strcmp(name, "previtem") == 0 && at > 0) return l->items->item[at - 1];
    if (strcmp(name, "nextitem") == 0 && at + 1 < n) return l->items->item[at + 1];
    return jv_undefined(name);
}

jv jv_attr(jj_run *r, jv v, const char *name)
{
    if (v.kind == JV_UNDEFINED)
        return jj_fail(r, "\"%.60s\" is undefined, so it has no \"%.60s\"", v.as.s, name);
    if (v.kind == JV_LOOP) return loop_attr(v.as.loop, name);
    if (jj_has_method(v, name)) {
        jv_method *m = jj_take(r, sizeof *m);
        if (!m) return jv_none();
        *m = (jv_method){v, name};
        return (jv){.kind = JV_METHOD, .as.method = m};
    }
    if (v.kind == JV_DICT || v.kind == JV_NAMESPACE) {
        const jv *found = jv_find(r, v, jv_text(name, strlen(name)));
        if (found) return *found;
    }
    return jv_undefined(name);
}

static jv list_at(const jv_list *l, int64_t i, const char *what)
{
    if (i < 0) i += (int64_t)l->n;
    return i >= 0 && i < (int64_t)l->n ? l->item[i] : jv_undefined(what);
}

/* Returns the offset of character i of a text, or its length if there are fewer. */
static size_t offset_of(jj_run *r, jv v, int64_t i)
{
    size_t at = 0;
    for (; i > 0 && at < v.n && jj_spend(r, 1); i--)
        at += step_of(v.as.s + at);
    return at;
}

static jv character(jj_run *r, jv v, int64_t i)
{
    if (i < 0) i += jv_length(r, v);
    const size_t at = i >= 0 ? offset_of(r, v, i) : v.n;
    return at < v.n ? jv_text(v.as.s + at, step_of(v.as.s + at)) : jv_undefined("a character");
}

jv jv_item(jj_run *r, jv v, jv key)
{
    if (v.kind == JV_UNDEFINED)
        return jj_fail(r, "\"%.60s\" is undefined, so it has no items", v.as.s);
    if (v.kind == JV_DICT) {
        const jv *found = jv_find(r, v, key);
        if (found) return *found;
    }
    if (key.kind == JV_INT || key.kind == JV_BOOL) {
        const int64_t i = key.kind == JV_INT ? key.as.i : key.as.b;
        if (v.kind == JV_LIST) return list_at(v.as.list, i, "an item");
        if (v.kind == JV_STRING) return character(r, v, i);
    }
    if (key.kind != JV_STRING) return jv_undefined("an item");
    const jv name = jv_copy(r, key.as.s, key.n);
    return r->rc == MF_OK && v.kind != JV_DICT ? jv_attr(r, v, name.as.s)
           : r->rc == MF_OK && jj_has_method(v, name.as.s)
               ? jv_attr(r, v, name.as.s)
               : jv_undefined(r->rc == MF_OK ? name.as.s : "");
}

/* A bound of a slice, as Python adjusts it. */
static int64_t bound(jj_run *r, jv v, int64_t n, int64_t missing, int64_t low, int64_t high)
{
    if (v.kind == JV_NONE || v.kind == JV_UNDEFINED) return missing;
    if (v.kind != JV_INT) {
        jj_fail(r, "a slice: expected whole numbers, found %s", jv_type(v));
        return 0;
    }
    const int64_t i = v.as.i < 0 ? v.as.i + n : v.as.i;
    return i < low ? low : i > high ? high : i;
}

/* Every by-th character of a text from number `from` on, up to number `to`. */
static jv characters(jj_run *r, jv v, int64_t from, int64_t to, int64_t by)
{
    jj_out out = {0};
    size_t at = offset_of(r, v, from);
    if (by == 1) {
        const jv rest = jv_text(v.as.s + at, v.n - at);
        return jv_text(rest.as.s, from < to ? offset_of(r, rest, to - from) : 0);
    }
    for (int64_t i = from; r->rc == MF_OK && (by > 0 ? i < to : i > to); i += by) {
        jj_add(r, &out, v.as.s + at, step_of(v.as.s + at));
        for (int64_t k = by; k > 0 && at < v.n && jj_spend(r, 1); k--)
            at += step_of(v.as.s + at);
        for (int64_t k = by; k < 0 && at > 0 && jj_spend(r, 1); k++)
            do
                at--;
            while (((unsigned char)v.as.s[at] & 0xc0) == 0x80);
    }
    return jj_captured(r, &out);
}

jv jv_slice(jj_run *r, jv v, jv begin, jv end, jv step)
{
    if (v.kind != JV_LIST && v.kind != JV_STRING)
        return jj_fail(r, "a slice of %s", v.kind == JV_UNDEFINED ? v.as.s : jv_type(v));
    const int64_t n = jv_length(r, v);
    int64_t by = step.kind == JV_INT ? step.as.i : step.kind == JV_NONE ? 1 : 0;
    if (by == 0) return jj_fail(r, "a slice: expected a step other than 0");
    by = by > n + 1 ? n + 1 : by < -n - 1 ? -n - 1 : by;
    const int64_t from = bound(r, begin, n, by > 0 ? 0 : n - 1, by > 0 ? 0 : -1,
                               by > 0 ? n : n - 1),
                  to = bound(r, end, n, by > 0 ? n : -1, by > 0 ? 0 : -1, by > 0 ? n : n - 1);
    if (r->rc != MF_OK) return jv_none();
    if (v.kind == JV_STRING) return characters(r, v, from, to, by);
    const jv all = jv_new_list(r);
    for (int64_t i = from; r->rc == MF_OK && (by > 0 ? i < to : i > to); i += by)
        jv_append(r, all, v.as.list->item[i]);
    return all;
}
