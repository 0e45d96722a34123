/* plugin/option.c: reads, checks and writes options by their schema. A value that is refused
 * leaves conf unchanged, and its message names file, line, section and key. */
#include "plugin/option.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/other_names.h"

#define TEXT 512 /* size of parts of messages; longer parts are cut */

/* ---- texts ---- */

/* Writes the shortest text that reads back to the same double. */
static void number_text(double v, char *out, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

/* Appends as much of the text as fits. */
static void append(char *out, size_t size, const char *text)
{
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%s", text);
}

static void append_list(char *out, size_t size, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++) {
        append(out, size, i == 0 ? "" : ", ");
        append(out, size, words[i]);
    }
}

void mf_option_expected(const mf_option *o, char *out, size_t size)
{
    char lo[40], hi[40];
    switch (o->type) {
    case MF_OPT_INT:
    case MF_OPT_REAL:
        number_text(o->lo, lo, sizeof lo);
        number_text(o->hi, hi, sizeof hi);
        snprintf(out, size, "a%s number", o->type == MF_OPT_INT ? " whole" : "");
        if (isfinite(o->lo) && isfinite(o->hi)) {
            append(out, size, " from ");
            append(out, size, lo);
            append(out, size, " to ");
            append(out, size, hi);
        } else if (isfinite(o->lo)) {
            append(out, size, " of at least ");
            append(out, size, lo);
        } else if (isfinite(o->hi)) {
            append(out, size, " of at most ");
            append(out, size, hi);
        }
        if (o->choices) {
            append(out, size, " or ");
            append_list(out, size, o->choices);
        }
        break;
    case MF_OPT_BOOL:
        snprintf(out, size, "yes or no");
        break;
    case MF_OPT_ENUM:
        snprintf(out, size, "one of ");
        append_list(out, size, o->choices);
        break;
    default:
        snprintf(out, size, "one line of text");
        break;
    }
}

const char *mf_did_you_mean(const char *word, const char *const *names, char *out, size_t size)
{
    const char *near = mf_nearest(word, names);
    out[0] = '\0';
    if (near) snprintf(out, size, "; did you mean '%s'?", near);
    return out;
}

/* ---- faults ---- */

static void where_text(const mf_ini_entry *at, char *out, size_t size)
{
    out[0] = '\0';
    if (!at || !at->file) return;
    /* an assignment has no line; the message contains key and section */
    if (!mf_ini_is_file(at->file))
        snprintf(out, size, "%s: ", at->file);
    else
        snprintf(out, size, "%s:%d: ", at->file, at->line);
}

/* Records the fault as the current error and passes it to the sink. p: everything but code
 * and message. */
MF_PRINTF(3, 4)
static int report(const mf_problem_sink *sink, mf_problem p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    p.code = mf_vfail(MF_ECONFIG, fmt, args);
    va_end(args);
    if (sink) {
        p.message = mf_error_message();
        sink->add(sink->arg, &p);
    }
    return p.code;
}

/* Fills the fields of a problem except code and message. at: the entry; if the entry was
 * translated, section and key are replaced by those that the user wrote. */
static mf_problem problem_at(const mf_ini_entry *at, const char *section, const char *key)
{
    mf_problem p = {.section = section, .key = key};
    if (at && at->given_section) p.section = at->given_section;
    if (at && at->given_key) p.key = at->given_key;
    if (at) {
        p.file = at->file;
        p.line = at->line;
    }
    return p;
}

/* ---- setting ---- */

static void *field(const mf_option *o, void *conf)
{
    return (char *)conf + o->offset;
}

static void store_int(const mf_option *o, void *conf, int64_t v)
{
    memcpy(field(o, conf), &v, sizeof v);
}

static int64_t load_int(const mf_option *o, const void *conf)
{
    int64_t v;
    memcpy(&v, (const char *)conf + o->offset, sizeof v);
    return v;
}

static bool within(const mf_option *o, double v)
{
    return v >= o->lo && v <= o->hi;
}

/* Removes one pair of double quotes around a text; blanks inside them stay. */
static char *unquoted(mf_arena *arena, const char *text)
{
    size_t n = strlen(text);
    bool quoted = n >= 2 && text[0] == '"' && text[n - 1] == '"';
    char *copy = mf_arena_strdup(arena, quoted ? text + 1 : text);
    if (copy && quoted) copy[n - 2] = '\0';
    return copy;
}

/* Finds the index of a word among the option's choices; returns false if the word is
 * no choice. */
static bool word_index(const mf_option *o, const char *text, long long *ret)
{
    for (int i = 0; o->choices && o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Returns MF_OK, or MF_ECONFIG without a message if the text is no valid value of
 * this option. */
static int set_value(const mf_option *o, void *conf, mf_arena *arena, const char *text)
{
    long long whole;
    double real;
    bool yes;
    switch (o->type) {
    case MF_OPT_INT:
        if (word_index(o, text, &whole)) {
            store_int(o, conf, whole);
            return MF_OK;
        }
        if (!mf_parse_i64(text, &whole) || !within(o, (double)whole)) return MF_ECONFIG;
        store_int(o, conf, whole);
        return MF_OK;
    case MF_OPT_REAL:
        if (!mf_parse_f64(text, &real) || !within(o, real)) return MF_ECONFIG;
        memcpy(field(o, conf), &real, sizeof real);
        return MF_OK;
    case MF_OPT_BOOL:
        if (!mf_parse_bool(text, &yes)) return MF_ECONFIG;
        store_int(o, conf, yes);
        return MF_OK;
    case MF_OPT_ENUM:
        /* If the first two words are no and yes, their other spellings are accepted, too. */
        if (!word_index(o, text, &whole)) {
            if (strcmp(o->choices[0], "no") != 0 || !o->choices[1] ||
                strcmp(o->choices[1], "yes") != 0 || !mf_parse_bool(text, &yes))
                return MF_ECONFIG;
            whole = yes;
        }
        store_int(o, conf, whole);
        return MF_OK;
    default: {
        const char *copy = unquoted(arena, text);
        if (!copy) return MF_ENOMEM;
        memcpy(field(o, conf), &copy, sizeof copy);
        return MF_OK;
    }
    }
}

int mf_option_set(const mf_schema *s, const mf_option *o, void *conf, mf_arena *arena,
                  const char *text, const char *section, const mf_ini_entry *at,
                  const mf_problem_sink *sink)
{
    int rc = set_value(o, conf, arena, text);
    if (rc != MF_ECONFIG) return rc;
    char where[TEXT], expected[TEXT], hint[TEXT] = "";
    mf_problem p = problem_at(at, section, o->name);
    where_text(at, where, sizeof where);
    mf_option_expected(o, expected, sizeof expected);
    if (o->choices) {
        p.nearest = mf_nearest(text, o->choices);
        mf_did_you_mean(text, o->choices, hint, sizeof hint);
    }
    double v;
    bool out_of_range = (o->type == MF_OPT_INT || o->type == MF_OPT_REAL) &&
                        mf_parse_f64(text, &v) && !within(o, v);
    return report(sink, p, "%s'%s' in [%s]%s%s%s: %sexpected %s, found '%s'%s", where, p.key,
                  p.section ? p.section : "", s->owner ? " (" : "", s->owner ? s->owner : "",
                  s->owner ? ")" : "", out_of_range ? "out of range: " : "", expected, text,
                  hint);
}

int mf_options_default(const mf_schema *s, void *conf, mf_arena *arena)
{
    for (int i = 0; i < s->count; i++) {
        const mf_option *o = &s->options[i];
        if (!o->value) continue;
        int rc = mf_option_set(s, o, conf, arena, o->value, NULL, NULL, NULL);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* ---- whole sections ---- */

static bool contains(const char *const *names, const char *name)
{
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Returns the keys that may occur in the section: first the reserved keys, then the keys of
 * the schema. */
static const char **valid_keys(const mf_schema *s, const char *const *reserved, mf_arena *arena)
{
    size_t n = 0;
    while (reserved && reserved[n])
        n++;
    const char **names = mf_arena_alloc(arena, (n + (size_t)s->count + 1) * sizeof *names);
    if (!names) return NULL;
    for (size_t i = 0; i < n; i++)
        names[i] = reserved[i];
    for (int i = 0; i < s->count; i++)
        names[n + (size_t)i] = s->options[i].name;
    return names;
}

/* Improves the hint about an unknown key. Other programs may use this name for a key of this
 * section, or the key may belong to another section. A file has the section on a
 * separate line. */
static void hint_elsewhere(const mf_ini_entry *e, mf_problem *p, char hint[TEXT])
{
    const char *other = mf_other_name(p->key), *near = p->nearest, *section = e->elsewhere,
               *key = p->key;
    const size_t n = strlen(p->section);
    char named[64];
    if (other && strncmp(other, p->section, n) == 0 && other[n] == '.') {
        p->nearest = other + n + 1;
        snprintf(hint, TEXT, "; did you mean '%s'?", p->nearest);
        return;
    }
    if (other) {
        key = strrchr(other, '.') + 1;
        snprintf(named, sizeof named, "%.*s", (int)(key - 1 - other), other);
        section = named;
    }
    if (!section) return;
    char own[TEXT / 2] = "";
    if (near) snprintf(own, sizeof own, "'%s', or ", near);
    if (e->file && mf_ini_is_file(e->file))
        snprintf(hint, TEXT, "; did you mean %s'%s' in [%s]?", own, key, section);
    else
        snprintf(hint, TEXT, "; did you mean %s'%s.%s'?", own, section, key);
}

static int unknown_key(const mf_schema *s, const mf_ini_entry *e, const char *const *reserved,
                       mf_arena *arena, const mf_problem_sink *sink)
{
    const char *const *names =
        e->given_keys ? e->given_keys : (const char *const *)valid_keys(s, reserved, arena);
    if (!names) return MF_ENOMEM;
    char where[TEXT], hint[TEXT], valid[4 * TEXT] = "";
    mf_problem p = problem_at(e, e->section, e->key);
    p.nearest = mf_nearest(p.key, names);
    where_text(e, where, sizeof where);
    mf_did_you_mean(p.key, names, hint, sizeof hint);
    hint_elsewhere(e, &p, hint);
    append_list(valid, sizeof valid, names);
    return report(sink, p, "%sunknown key '%s' in [%s]%s%s%s%s %s%s", where, p.key, p.section,
                  s->owner ? " (" : "", s->owner ? s->owner : "", s->owner ? ")" : "",
                  hint[0] != '\0' ? hint : ";",
                  names[0] ? "valid keys: " : "no key is valid here", valid);
}

static int missing_key(const mf_schema *s, const mf_option *o, const char *section,
                       const mf_ini_entry *at, const mf_problem_sink *sink)
{
    char where[TEXT], expected[TEXT];
    where_text(at, where, sizeof where);
    mf_option_expected(o, expected, sizeof expected);
    return report(sink, problem_at(at, section, o->name),
                  "%s[%s]%s%s%s: key '%s' is missing and has no default: expected %s (%s)",
                  where, section, s->owner ? " (" : "", s->owner ? s->owner : "",
                  s->owner ? ")" : "", o->name, expected, o->help);
}

int mf_options_load(const mf_schema *s, void *conf, mf_arena *arena, mf_ini *ini,
                    const char *section, const char *const *reserved,
                    const mf_problem_sink *sink)
{
    int first = MF_OK;
    for (mf_ini_entry *e = mf_ini_first_of(ini, section); e; e = mf_ini_next_of(e)) {
        if (e->overridden || contains(reserved, e->key)) continue;
        e->used = true;
        const mf_option *o = mf_schema_find(s, e->key);
        if (e->optional && (!o || set_value(o, conf, arena, e->value) == MF_ECONFIG)) continue;
        int rc = !o ? unknown_key(s, e, reserved, arena, sink)
                    : mf_option_set(s, o, conf, arena, e->value, section, e, sink);
        if (rc != MF_OK && (!sink || rc != MF_ECONFIG)) return rc;
        first = first != MF_OK ? first : rc;
    }
    for (int i = 0; i < s->count; i++) {
        const mf_option *o = &s->options[i];
        if (o->value || mf_ini_get(ini, section, o->name) != NULL) continue;
        int rc = missing_key(s, o, section, mf_ini_section_begin(ini, section), sink);
        if (!sink) return rc;
        first = first != MF_OK ? first : rc;
    }
    return first;
}

/* ---- reading and changing ---- */

const char *mf_option_string(const mf_option *o, const void *conf)
{
    const char *text = NULL;
    if (o->type == MF_OPT_STR) memcpy(&text, (const char *)conf + o->offset, sizeof text);
    return text;
}

double mf_option_number(const mf_option *o, const void *conf)
{
    double v = NAN;
    if (o->type == MF_OPT_REAL)
        memcpy(&v, (const char *)conf + o->offset, sizeof v);
    else if (o->type != MF_OPT_STR)
        v = (double)load_int(o, conf);
    return v;
}

static size_t string_text(const char *text, char *out, size_t size)
{
    size_t n = text ? strlen(text) : 0;
    /* The text is written without quotes if it then reads back the same. */
    bool bare = n > 0 && strcspn(text, ";#") == n && strchr(" \t\"", text[0]) == NULL &&
                strchr(" \t\"", text[n - 1]) == NULL;
    return (size_t)snprintf(out, size, bare ? "%s" : "\"%s\"", n > 0 ? text : "");
}

size_t mf_option_text(const mf_option *o, const void *conf, char *out, size_t size)
{
    switch (o->type) {
    case MF_OPT_INT: /* a number that has a name is written as its name, for example "auto" */
        for (int i = 0; o->choices && o->choices[i]; i++)
            if (load_int(o, conf) == i) return (size_t)snprintf(out, size, "%s", o->choices[i]);
        return (size_t)snprintf(out, size, "%lld", (long long)load_int(o, conf));
    case MF_OPT_BOOL:
        return (size_t)snprintf(out, size, "%s", load_int(o, conf) != 0 ? "yes" : "no");
    case MF_OPT_ENUM:
        return (size_t)snprintf(out, size, "%s", o->choices[load_int(o, conf)]);
    case MF_OPT_REAL:
        number_text(mf_option_number(o, conf), out, size);
        return strlen(out);
    default:
        return string_text(mf_option_string(o, conf), out, size);
    }
}

bool mf_option_is_default(const mf_option *o, const void *conf)
{
    if (!o->value) return false;
    if (o->type == MF_OPT_STR) {
        const char *text = mf_option_string(o, conf);
        return text && strcmp(text, o->value) == 0;
    }
    mf_option alone = *o;
    int64_t own = 0;
    alone.offset = 0;
    return set_value(&alone, &own, NULL, o->value) == MF_OK &&
           mf_option_number(&alone, &own) == mf_option_number(o, conf);
}

int mf_option_change(const mf_option *o, void *conf, double value)
{
    char expected[TEXT];
    if ((o->flags & MF_OPT_LIVE) == 0 || o->type == MF_OPT_STR || o->type == MF_OPT_ENUM)
        return mf_fail(MF_ECONFIG,
                       "option '%s' is not live: it cannot change while training runs",
                       o->name);
    bool whole = o->type == MF_OPT_REAL || value == floor(value);
    if (!isfinite(value) || !whole || !within(o, value)) {
        mf_option_expected(o, expected, sizeof expected);
        return mf_fail(MF_ECONFIG, "option '%s': expected %s, found %g", o->name, expected,
                       value);
    }
    if (o->type == MF_OPT_REAL)
        memcpy(field(o, conf), &value, sizeof value);
    else
        store_int(o, conf, (int64_t)value);
    return MF_OK;
}
