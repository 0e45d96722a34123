/* plugin/load/schema.c: checks option tables. A table that passes has no duplicate name, no
 * field outside conf, and only defaults within its own bounds. */
#include "plugin/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Every field of conf that an option writes has this size, whatever its type. */
#define FIELD_BYTES sizeof(int64_t)
_Static_assert(sizeof(double) == FIELD_BYTES, "a real fits the field");
_Static_assert(sizeof(const char *) <= FIELD_BYTES, "a string fits the field");

/* All flags that mf_option.flags may have. */
#define OPTION_FLAGS (MF_OPT_LIVE | MF_OPT_STRUCTURAL)

static bool good_name(const char *name)
{
    return name[0] != '\0' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

const char *mf_option_type_name(const mf_option *o)
{
    switch (o->type) {
    case MF_OPT_INT:
        return "int";
    case MF_OPT_REAL:
        return "real";
    case MF_OPT_BOOL:
        return "bool";
    case MF_OPT_STR:
        return "string";
    case MF_OPT_ENUM:
        return "enum";
    }
    return NULL;
}

static int bad(const mf_option *o, const char *what)
{
    return mf_fail(MF_EPLUGIN, "option '%s': %s", o->name, what);
}

static int judge_choices(const mf_option *o)
{
    if (!o->choices || !o->choices[0])
        return bad(o, "expected a list of choices, found an empty one");
    for (int i = 0; o->choices[i] != NULL; i++) {
        if (i == MF_OPTIONS_MAX)
            return bad(o, "the list of choices has no end: expected NULL after the last one");
        if (strcspn(o->choices[i], " \t;\"") != strlen(o->choices[i]) ||
            o->choices[i][0] == '\0')
            return mf_fail(MF_EPLUGIN, "option '%s': choice '%s' is not one word", o->name,
                           o->choices[i]);
        for (int j = 0; j < i; j++)
            if (strcmp(o->choices[i], o->choices[j]) == 0)
                return mf_fail(MF_EPLUGIN, "option '%s': choice '%s' stands there twice",
                               o->name, o->choices[i]);
    }
    return MF_OK;
}

/* Checks one option by itself, except for its default. */
static int judge_option(const mf_option *o, size_t conf_size)
{
    if (!good_name(o->name))
        return mf_fail(MF_EPLUGIN, "option '%s': expected a name of [a-z0-9_] only", o->name);
    if (!o->help || o->help[0] == '\0' || strchr(o->help, '\n') != NULL)
        return bad(o, "expected one line of help, found none or several");
    if (mf_option_type_name(o) == NULL)
        return mf_fail(MF_EPLUGIN, "option '%s': expected a type from %d to %d, found %u",
                       o->name, MF_OPT_INT, MF_OPT_ENUM, (unsigned)o->type);
    if (o->offset % FIELD_BYTES != 0)
        return mf_fail(MF_EPLUGIN,
                       "option '%s': expected an offset divisible by %zu, found %zu", o->name,
                       FIELD_BYTES, o->offset);
    if (conf_size < FIELD_BYTES || o->offset > conf_size - FIELD_BYTES)
        return mf_fail(
            MF_EPLUGIN,
            "option '%s': its field (offset %zu, %zu bytes) lies outside conf, which "
            "has %zu bytes (integers, booleans and enums are int64_t)",
            o->name, o->offset, FIELD_BYTES, conf_size);
    if ((o->flags & ~OPTION_FLAGS) != 0)
        return mf_fail(MF_EPLUGIN,
                       "option '%s': expected flags of MF_OPT_* (0x%x), found 0x%x; get a "
                       "newer moefw if that is a new one",
                       o->name, OPTION_FLAGS, (unsigned)o->flags);
    if (o->type == MF_OPT_ENUM) return judge_choices(o);
    if (o->choices && o->type != MF_OPT_INT)
        return bad(o, "expected choices NULL: only enums and whole numbers have choices");
    if (o->choices) {
        int rc = judge_choices(o);
        if (rc != MF_OK) return rc;
    }
    if ((o->flags & MF_OPT_LIVE) != 0 && o->type == MF_OPT_STR)
        return bad(o, "is a string and cannot be live: only numbers and booleans can");
    if ((o->type == MF_OPT_INT || o->type == MF_OPT_REAL) && !(o->lo <= o->hi))
        return mf_fail(MF_EPLUGIN, "option '%s': expected bounds lo <= hi, found %g and %g",
                       o->name, o->lo, o->hi);
    return MF_OK;
}

static int judge_pairs(const mf_schema *s)
{
    for (int i = 0; i < s->count; i++) {
        for (int j = 0; j < i; j++) {
            const mf_option *a = &s->options[j], *b = &s->options[i];
            if (strcmp(a->name, b->name) == 0)
                return mf_fail(MF_EPLUGIN,
                               "duplicate option '%s': expected each name once, found it at "
                               "places %d and %d of the table",
                               a->name, j + 1, i + 1);
            if (a->offset == b->offset)
                return mf_fail(MF_EPLUGIN,
                               "options '%s' and '%s' have the same field (offset %zu)",
                               a->name, b->name, a->offset);
        }
    }
    return MF_OK;
}

/* Checks the default in the same way as a user's value. For this it is written into a
 * separate field. */
static int judge_default(const mf_schema *s, const mf_option *o, mf_arena *arena)
{
    if (!o->value) return MF_OK;
    mf_option alone = *o;
    int64_t field = 0;
    alone.offset = 0;
    int rc = mf_option_set(s, &alone, &field, arena, o->value, NULL, NULL, NULL);
    if (rc == MF_ECONFIG) {
        char expected[512];
        mf_option_expected(o, expected, sizeof expected);
        return mf_fail(MF_EPLUGIN,
                       "option '%s': its default '%s' breaks its own rule: expected %s",
                       o->name, o->value, expected);
    }
    return rc;
}

/* Checks that the bytes of an entry after the fields that this moefw knows are zero: other
 * values would request something that this moefw cannot do. */
static int judge_rest(const char *entry, size_t stride)
{
    for (size_t i = sizeof(mf_option); i < stride; i++)
        if (entry[i] != 0)
            return mf_fail(MF_EPLUGIN,
                           "option '%s' uses a field at byte %zu: expected nothing after byte "
                           "%zu, which is all that this moefw knows; get a newer moefw",
                           ((const mf_option *)(const void *)entry)->name, i,
                           sizeof(mf_option));
    return MF_OK;
}

int mf_schema_init(mf_schema *s, mf_arena *arena, const char *owner, const mf_option *table,
                   size_t stride, size_t conf_size)
{
    *s = (mf_schema){.owner = owner, .conf_size = conf_size};
    if (!table)
        return mf_fail(MF_EPLUGIN, "the option table is NULL: expected a table, if only "
                                   "{MF_END_OPTIONS}");
    if (stride < sizeof(mf_option) || stride % sizeof(void *) != 0)
        return mf_fail(MF_EPLUGIN, "option_size: expected %zu or more, found %zu",
                       sizeof(mf_option), stride);
    const char *at = (const char *)table;
    int n = 0;
    while (n <= MF_OPTIONS_MAX &&
           ((const mf_option *)(const void *)(at + n * stride))->name != NULL)
        n++;
    if (n > MF_OPTIONS_MAX)
        return mf_fail(MF_EPLUGIN,
                       "the option table has no end: expected MF_END_OPTIONS after at "
                       "most %d options",
                       MF_OPTIONS_MAX);
    mf_option *copy = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *copy);
    const char **names = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *names);
    if (!copy || !names) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        const char *entry = at + (size_t)i * stride;
        int rc = judge_rest(entry, stride);
        if (rc != MF_OK) return rc;
        memcpy(&copy[i], entry, sizeof *copy);
        names[i] = copy[i].name;
    }
    s->options = copy;
    s->names = names;
    s->count = n;
    for (int i = 0; i < n; i++) {
        int rc = judge_option(&copy[i], conf_size);
        if (rc != MF_OK) return rc;
    }
    int rc = judge_pairs(s);
    for (int i = 0; i < n && rc == MF_OK; i++)
        rc = judge_default(s, &copy[i], arena);
    return rc;
}

const mf_option *mf_schema_find(const mf_schema *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->options[i].name, name) == 0) return &s->options[i];
    return NULL;
}
