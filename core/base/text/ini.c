/* base/text/ini.c: stores the entries of several sources, and finds for each key the entry in
 * use. If a source fails to load, nothing changes. */
#include "base/text/ini.h"
#include "base/error.h"
#include "base/text/ini_scan.h"
#include "base/file/io.h"
#include "base/mem.h"

#include <ini.h>
#include <stdarg.h>
#include <string.h>

/* A key of a section, or the section itself with key "" (a real key is never empty). */
typedef struct node {
    mf_ini_entry entry; /* must be the first member, because callers hold pointers to it */
    struct node *next;  /* next node in the same bucket */
    /* A section's node uses first and last: its first and last entry. An entry's node uses
     * after: the next entry of its section. */
    struct node *first, *last, *after;
    const char *why; /* message of an entry that was refused and kept aside */
    uint32_t hash;
} node;

/* The entries in use, found by section and key. */
typedef struct map {
    node **buckets; /* `room` buckets, a power of two */
    size_t room, n;
} map;

typedef struct list {
    node **items;
    size_t n, room;
} list;

struct mf_ini {
    mf_arena *arena;
    map in_force;
    list entries, sections;
    list refused; /* entries that were refused and kept aside, with their messages */
    bool keeps_refused;
};

/* FNV-1a. The byte between the two parts occurs in neither of them. */
static uint32_t hash_of(const char *section, const char *key)
{
    uint32_t h = 2166136261u;
    for (; *section; section++)
        h = (h ^ (unsigned char)*section) * 16777619u;
    h = (h ^ 0xFFu) * 16777619u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h;
}

static int map_reserve(map *m, size_t more)
{
    size_t room = m->room ? m->room : 64;
    node **buckets;
    while (room < m->n + more)
        room *= 2;
    if (room == m->room) return MF_OK;
    buckets = mf_alloc(room, sizeof *buckets);
    if (!buckets) return MF_ENOMEM;
    for (size_t i = 0; i < m->room; i++)
        for (node *e = m->buckets[i], *next; e; e = next) {
            node **head = &buckets[e->hash & (room - 1)];
            next = e->next;
            e->next = *head;
            *head = e;
        }
    mf_free(m->buckets);
    m->buckets = buckets;
    m->room = room;
    return MF_OK;
}

/* Returns the link that points to the node with that name. If there is no such node, returns
 * the last link of the bucket, which is NULL. The map must have buckets. */
static node **map_slot(const map *m, const char *section, const char *key)
{
    uint32_t hash = hash_of(section, key);
    node **slot = &m->buckets[hash & (m->room - 1)];
    while (*slot && ((*slot)->hash != hash || strcmp((*slot)->entry.key, key) != 0 ||
                     strcmp((*slot)->entry.section, section) != 0))
        slot = &(*slot)->next;
    return slot;
}

static node *map_find(const map *m, const char *section, const char *key)
{
    return m->room ? *map_slot(m, section, key) : NULL;
}

/* Puts the node into use and returns the node that it replaces, or NULL. map_reserve must have
 * reserved space for it. */
static node *map_put(map *m, node *e)
{
    node **slot = map_slot(m, e->entry.section, e->entry.key);
    node *old = *slot;
    e->next = old ? old->next : NULL;
    *slot = e;
    if (!old) m->n++;
    return old;
}

static int list_reserve(list *l, size_t more)
{
    size_t room = l->room ? l->room : 16;
    node **items;
    while (room < l->n + more)
        room *= 2;
    if (room == l->room) return MF_OK;
    items = mf_realloc(l->items, l->n * sizeof *items, room * sizeof *items);
    if (!items) return MF_ENOMEM;
    l->items = items;
    l->room = room;
    return MF_OK;
}

mf_ini *mf_ini_new(void)
{
    mf_ini *ini = mf_alloc(1, sizeof *ini);
    if (!ini) return NULL;
    ini->arena = mf_arena_new();
    if (!ini->arena) {
        mf_free(ini);
        return NULL;
    }
    return ini;
}

void mf_ini_free(mf_ini *ini)
{
    if (!ini) return;
    mf_free(ini->in_force.buckets);
    mf_free(ini->entries.items);
    mf_free(ini->sections.items);
    mf_free(ini->refused.items);
    mf_arena_free(ini->arena);
    mf_free(ini);
}

/* One source while it is being read. Its nodes are in the arena of ini, but ini points to them
 * only after the whole source has been checked. So a failed load changes nothing. */
typedef struct source {
    mf_ini *ini;
    const char *file;
    const mf_ini_scan *scan;
    size_t next_mark; /* the first mark that inih has not reported yet */
    map names;
    list entries, sections;
    int rc;
} source;

static node *new_node(mf_ini *ini, const char *section, const char *key, const char *value)
{
    node *e = mf_arena_alloc(ini->arena, sizeof *e);
    if (!e) return NULL;
    e->entry.section = mf_arena_strdup(ini->arena, section);
    e->entry.key = mf_arena_strdup(ini->arena, key);
    e->entry.value = mf_arena_strdup(ini->arena, value);
    e->hash = hash_of(section, key);
    return e->entry.section && e->entry.key && e->entry.value ? e : NULL;
}

static int source_section(source *src, const char *name, int line)
{
    node *e;
    if (map_reserve(&src->names, 1) != MF_OK) return MF_ENOMEM;
    if (map_find(&src->names, name, "")) return MF_OK;
    e = new_node(src->ini, name, "", "");
    if (!e || list_reserve(&src->sections, 1) != MF_OK) return MF_ENOMEM;
    e->entry.file = src->file;
    e->entry.line = line;
    map_put(&src->names, e);
    src->sections.items[src->sections.n++] = e;
    return MF_OK;
}

int mf_ini_refuse(mf_ini *ini, const mf_ini_entry *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(MF_ECONFIG, fmt, args);
    va_end(args);
    if (!ini->keeps_refused) return mf_ini_context(MF_ECONFIG, at->file, at->line);
    node *e = new_node(ini, at->section, at->key, at->value);
    if (!e || list_reserve(&ini->refused, 1) != MF_OK) return MF_ENOMEM;
    e->entry.file = mf_arena_strdup(ini->arena, at->file);
    e->entry.line = at->line;
    e->why = mf_arena_strdup(ini->arena, mf_error_message());
    if (!e->entry.file || !e->why) return MF_ENOMEM;
    mf_error_clear();
    ini->refused.items[ini->refused.n++] = e;
    return MF_OK;
}

static int source_entry(source *src, const char *section, const char *key, const char *value,
                        int line)
{
    const node *twin;
    node *e;
    if (map_reserve(&src->names, 1) != MF_OK) return MF_ENOMEM;
    twin = map_find(&src->names, section, key);
    if (twin) {
        const mf_ini_entry at = {
            .section = section, .key = key, .value = value, .file = src->file, .line = line};
        return mf_ini_refuse(src->ini, &at, "key '%s' of [%s] is already given on line %d", key,
                             section, twin->entry.line);
    }
    if (strlen(key) + strlen(" = ") + strlen(value) > MF_INI_LINE_MAX)
        return mf_fail(MF_ECONFIG,
                       "%s:%d: key '%s' and its value have %zu bytes: expected at most %d",
                       src->file, line, key, strlen(key) + strlen(value),
                       MF_INI_LINE_MAX - (int)strlen(" = "));
    e = new_node(src->ini, section, key, value);
    if (!e || list_reserve(&src->entries, 1) != MF_OK) return MF_ENOMEM;
    e->entry.file = src->file;
    e->entry.line = line;
    map_put(&src->names, e);
    src->entries.items[src->entries.n++] = e;
    return MF_OK;
}

/* Adds the sections up to the next pair, because inih reports only sections that have keys. */
static int take_sections(source *src)
{
    const mf_ini_scan *scan = src->scan;
    for (; src->next_mark < scan->n_marks; src->next_mark++) {
        const mf_ini_mark *mark = &scan->marks[src->next_mark];
        char name[MF_INI_NAME_MAX + 1];
        int rc;
        if (!mark->is_section) break;
        memcpy(name, scan->text + mark->name, mark->length);
        name[mark->length] = '\0';
        rc = source_section(src, name, mark->line);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* The handler that inih calls: 1 continues, 0 is an error. inih may be built without line
 * numbers, so the line numbers come from the marks. */
static int on_pair(void *user, const char *section, const char *key, const char *value)
{
    source *src = user;
    if (src->rc == MF_OK) src->rc = take_sections(src);
    if (src->rc == MF_OK && src->next_mark == src->scan->n_marks)
        src->rc =
            mf_fail(MF_ECONFIG, "%s: key '%s' of [%s] has no line", src->file, key, section);
    if (src->rc == MF_OK)
        src->rc =
            source_entry(src, section, key, value, src->scan->marks[src->next_mark++].line);
    return src->rc == MF_OK;
}

/* Makes e the last entry of its section. */
static void link_up(node *section, node *e)
{
    if (section->last)
        section->last->after = e;
    else
        section->first = e;
    section->last = e;
}

/* Adds all entries or none. Space is reserved first, and the steps after it cannot fail. */
static int commit(source *src)
{
    mf_ini *ini = src->ini;
    if (map_reserve(&ini->in_force, src->entries.n + src->sections.n) != MF_OK ||
        list_reserve(&ini->entries, src->entries.n) != MF_OK ||
        list_reserve(&ini->sections, src->sections.n) != MF_OK)
        return MF_ENOMEM;
    for (size_t i = 0; i < src->sections.n; i++) {
        node *e = src->sections.items[i];
        if (map_find(&ini->in_force, e->entry.section, "")) continue;
        map_put(&ini->in_force, e);
        ini->sections.items[ini->sections.n++] = e;
    }
    for (size_t i = 0; i < src->entries.n; i++) {
        node *e = src->entries.items[i];
        node *old = map_put(&ini->in_force, e);
        if (old) old->entry.overridden = true;
        link_up(map_find(&ini->in_force, e->entry.section, ""), e);
        e->entry.index = (int)ini->entries.n;
        ini->entries.items[ini->entries.n++] = e;
    }
    return MF_OK;
}

static void source_free(source *src)
{
    mf_free(src->names.buckets);
    mf_free(src->entries.items);
    mf_free(src->sections.items);
}

int mf_ini_load_text(mf_ini *ini, const char *name, const char *text, size_t size)
{
    mf_ini_scan scan;
    source src = {.ini = ini, .scan = &scan};
    int rc = mf_ini_scan_text(name, text, size, &scan);
    if (rc != MF_OK) return rc;
    src.file = mf_arena_strdup(ini->arena, name);
    if (!src.file) {
        rc = MF_ENOMEM;
    } else {
        int line = ini_parse_string(scan.text, on_pair, &src);
        if (src.rc == MF_OK) src.rc = take_sections(&src);
        rc = src.rc;
        if (rc == MF_OK && (line != 0 || src.next_mark != scan.n_marks))
            rc = mf_fail(MF_ECONFIG, "%s:%d: cannot be read as key = value", name, line);
    }
    if (rc == MF_OK) rc = commit(&src);
    source_free(&src);
    mf_ini_scan_free(&scan);
    return rc;
}

int mf_ini_load(mf_ini *ini, const char *path)
{
    char *text;
    size_t size;
    int rc = mf_read_input(path, MF_INI_FILE_MAX, &text, &size);
    if (rc == MF_ENOMEM || rc == MF_ENOTFOUND) return rc;
    if (rc != MF_OK) return mf_fail(MF_ECONFIG, "%s", mf_error_message());
    rc = mf_ini_load_text(ini, path, text, size);
    mf_free(text);
    return rc;
}

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    return s;
}

static const char *trim_end(const char *s, const char *end)
{
    while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return end;
}

/* The trimmed parts of "section.key=value". */
typedef struct parts {
    const char *section, *key, *value;
    size_t n_section, n_key, n_value;
} parts;

static int split(const char *text, parts *p)
{
    const char *equals = strchr(text, '='), *dot = equals, *end = text + strlen(text);
    while (dot && dot > text && *dot != '.')
        dot--;
    if (!dot || *dot != '.')
        return mf_fail(MF_ECONFIG, "'%s': expected SECTION.KEY=VALUE", text);
    p->section = skip_blanks(text, dot);
    p->n_section = (size_t)(trim_end(p->section, dot) - p->section);
    p->key = skip_blanks(dot + 1, equals);
    p->n_key = (size_t)(trim_end(p->key, equals) - p->key);
    p->value = skip_blanks(equals + 1, end);
    p->n_value = (size_t)(trim_end(p->value, end) - p->value);
    if (!mf_ini_is_section(p->section, p->n_section))
        return mf_fail(MF_ECONFIG,
                       "'%s': section '%.*s': expected 1 to %d letters, digits, _ - . and "
                       "single blanks",
                       text, (int)p->n_section, p->section, MF_INI_NAME_MAX);
    if (!mf_ini_is_key(p->key, p->n_key))
        return mf_fail(MF_ECONFIG, "'%s': key '%.*s': expected 1 to %d letters, digits, _ -",
                       text, (int)p->n_key, p->key, MF_INI_NAME_MAX);
    if (p->n_key + strlen(" = ") + p->n_value > MF_INI_LINE_MAX)
        return mf_fail(MF_ECONFIG,
                       "%.*s.%.*s: key and value have %zu bytes: expected at most %d",
                       (int)p->n_section, p->section, (int)p->n_key, p->key,
                       p->n_key + p->n_value, MF_INI_LINE_MAX - (int)strlen(" = "));
    if (!mf_ini_is_value(p->value, p->n_value))
        return mf_fail(MF_ECONFIG,
                       "%.*s.%.*s: value: expected UTF-8 without control characters and "
                       "without ';' at its start or after a blank, where a comment would begin",
                       (int)p->n_section, p->section, (int)p->n_key, p->key);
    return MF_OK;
}

int mf_ini_set(mf_ini *ini, const char *assignment, int position)
{
    source src = {.ini = ini, .file = MF_INI_SET};
    char section[MF_INI_NAME_MAX + 1], key[MF_INI_NAME_MAX + 1], value[MF_INI_LINE_MAX + 1];
    parts p = {0};
    int rc = split(assignment, &p);
    if (rc != MF_OK) return rc;
    memcpy(section, p.section, p.n_section);
    section[p.n_section] = '\0';
    memcpy(key, p.key, p.n_key);
    key[p.n_key] = '\0';
    memcpy(value, p.value, p.n_value);
    value[p.n_value] = '\0';
    rc = source_section(&src, section, position);
    if (rc == MF_OK) rc = source_entry(&src, section, key, value, position);
    if (rc == MF_OK) rc = commit(&src);
    source_free(&src);
    return rc;
}

int mf_ini_put(mf_ini *ini, const char *section, const char *key, const char *value,
               const char *file, int line)
{
    source src = {.ini = ini, .file = mf_arena_strdup(ini->arena, file)};
    int rc = src.file ? source_section(&src, section, line) : MF_ENOMEM;
    if (rc == MF_OK && *key) rc = source_entry(&src, section, key, value, line);
    if (rc == MF_OK) rc = commit(&src);
    source_free(&src);
    return rc;
}

int mf_ini_put_for(mf_ini *ini, const char *section, const char *key, const char *value,
                   const mf_ini_entry *from, const char *const *given_keys)
{
    const int rc = mf_ini_put(ini, section, key, value, from->file, from->line);
    if (rc != MF_OK || !*key) return rc;
    mf_ini_entry *e = mf_ini_at(ini, mf_ini_count(ini) - 1);
    e->given_section = from->section;
    e->given_key = from->key;
    e->given_keys = given_keys;
    return MF_OK;
}

bool mf_ini_is_file(const char *file)
{
    return file && strncmp(file, "--", 2) != 0 && strcmp(file, MF_INI_SET) != 0;
}

int mf_ini_context(int code, const char *file, int line)
{
    if (!file) return code;
    return mf_ini_is_file(file) ? mf_fail_context(code, "%s:%d", file, line)
                                : mf_fail_context(code, "%s", file);
}

void mf_ini_keep_refused(mf_ini *ini)
{
    ini->keeps_refused = true;
}

const mf_ini_entry *mf_ini_refused(const mf_ini *ini, int i, const char **ret_why)
{
    if (i < 0 || (size_t)i >= ini->refused.n) return NULL;
    *ret_why = ini->refused.items[i]->why;
    return &ini->refused.items[i]->entry;
}

int mf_ini_count(const mf_ini *ini)
{
    return (int)ini->entries.n;
}

mf_ini_entry *mf_ini_at(mf_ini *ini, int i)
{
    if (i < 0 || (size_t)i >= ini->entries.n) return NULL;
    return &ini->entries.items[i]->entry;
}

mf_ini_entry *mf_ini_first_of(const mf_ini *ini, const char *section)
{
    const node *s = map_find(&ini->in_force, section, "");
    return s && s->first ? &s->first->entry : NULL;
}

mf_ini_entry *mf_ini_next_of(const mf_ini_entry *e)
{
    const node *own = (const node *)e; /* the entry is the first member of its node */
    return own->after ? &own->after->entry : NULL;
}

mf_ini_entry *mf_ini_get(mf_ini *ini, const char *section, const char *key)
{
    node *e = *key ? map_find(&ini->in_force, section, key) : NULL;
    if (!e) return NULL;
    e->entry.used = true;
    return &e->entry;
}

bool mf_ini_has_section(const mf_ini *ini, const char *section)
{
    return map_find(&ini->in_force, section, "") != NULL;
}

const mf_ini_entry *mf_ini_section_begin(const mf_ini *ini, const char *section)
{
    const node *e = map_find(&ini->in_force, section, "");
    return e ? &e->entry : NULL;
}

const char *mf_ini_section_at(const mf_ini *ini, int i)
{
    const mf_ini_entry *e = mf_ini_section_entry(ini, i);
    return e ? e->section : NULL;
}

const mf_ini_entry *mf_ini_section_entry(const mf_ini *ini, int i)
{
    if (i < 0 || (size_t)i >= ini->sections.n) return NULL;
    return &ini->sections.items[i]->entry;
}
