/* run/sections/load_sections.c: fills the structs of all sections from the sources. Every key
 * and every section is checked at its line. Keys and sections are known only from tables. */
#include "base/error.h"
#include "config/aliases.h"
#include "config/section.h"
#include "run/sections/sources.h"

#include <stdarg.h>
#include <string.h>

/* maximum number of sections, including sections that abbreviate others, and the end mark */
enum { SECTIONS = 40 };

/* The state of loading. With a sink, wrong values are passed to the sink and reading continues.
 * Without a sink, the first error ends the reading. */
typedef struct loader {
    const mf_section_at *all;
    char *conf;
    mf_ini *ini;
    mf_arena *arena;
    mf_config_faults judge;
    bool translated; /* this is the configuration of a run: its sources may have sections
                      * that abbreviate others */
} loader;

/* Records an error. Returns the status for the caller: MF_OK if reading continues. */
static int went(loader *l, int rc)
{
    if (rc == MF_OK) return MF_OK;
    if (l->judge.first == MF_OK) l->judge.first = rc;
    return l->judge.sink != NULL && rc == MF_ECONFIG ? MF_OK : rc;
}

MF_PRINTF(4, 5)
static int fault(loader *l, const mf_ini_entry *at, const char *nearest, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_config_vfault_at(&l->judge, at, nearest, fmt, args);
    va_end(args);
    return went(l, MF_ECONFIG);
}

/* ---- the sections ---- */

static bool good_label(const char *label)
{
    return label[0] != '\0' &&
           strspn(label, "abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(label);
}

/* Writes a list of all sections: "model, task.NAME, moe, ..., trace, lora or include". */
static void list_sections(const char *const *names, char *out, size_t size)
{
    size_t n = 0;
    for (int i = 0; names[i] && n < size; i++) {
        const char *before = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        const bool any = names[i][strlen(names[i]) - 1] == '.';
        n += (size_t)snprintf(out + n, size - n, "%s%s%s", before, names[i], any ? "NAME" : "");
    }
}

/* Lists all sections. In the configuration of a run these include [include], and the sections
 * that abbreviate others. */
static void name_sections(const loader *l, const char *names[SECTIONS])
{
    int n = 0;
    for (const char *const *a = mf_alias_sections; *a && l->translated; a++)
        names[n++] = *a;
    for (const mf_section_at *a = l->all; a->section && n < SECTIONS - 2; a++)
        names[n++] = a->section->name;
    if (l->translated) names[n++] = "include";
    names[n] = NULL;
}

static int unknown_section(loader *l, const mf_ini_entry *at)
{
    const char *names[SECTIONS];
    char word[64], hint[512], list[400], label[96];
    name_sections(l, names);
    /* [regularizer], [regulariser.x] and [regularizer x] probably mean [regularizer.NAME]. */
    const size_t stem = strcspn(at->section, ". ");
    snprintf(word, sizeof word, "%.*s.", (int)(stem < 60 ? stem : 60), at->section);
    const char *nearest = mf_nearest(word, names);
    const bool labelled = at->section[stem] != '\0';
    const size_t end = !nearest ? 0 : labelled ? strlen(nearest) - 1 : stem;
    if (!nearest || strlen(nearest) <= end || nearest[end] != '.')
        nearest = mf_nearest(at->section, names);
    if (nearest && nearest[strlen(nearest) - 1] == '.' && at->section[stem] == ' ' &&
        good_label(at->section + stem + 1)) {
        snprintf(label, sizeof label, "%s%s", nearest, at->section + stem + 1);
        nearest = label;
    }
    list_sections(names, list, sizeof list);
    if (nearest && nearest[strlen(nearest) - 1] == '.')
        snprintf(hint, sizeof hint, "; did you mean [%sNAME]?", nearest);
    else if (nearest)
        snprintf(hint, sizeof hint, "; did you mean [%s]?", nearest);
    else
        snprintf(hint, sizeof hint, "; expected %s", list);
    return fault(l, at, nearest, "unknown section [%s]%s", at->section, hint);
}

/* [include] was used when the sources were read; here it is only checked. */
static int judge_include(loader *l)
{
    for (int i = 0; i < mf_ini_count(l->ini); i++) {
        const mf_ini_entry *e = mf_ini_at(l->ini, i);
        if (strcmp(e->section, "include") != 0) continue;
        int rc = MF_OK;
        if (!mf_ini_is_file(e->file))
            rc = fault(l, e, NULL,
                       "a preset is included by a file, or named on the command line as "
                       "in 'moefw train %s'",
                       e->value);
        else if (strcmp(e->key, "preset") != 0)
            rc = fault(l, e, "preset", "unknown key '%s' in [include]; expected 'preset'",
                       e->key);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static bool has_key(const mf_section *s, const char *key)
{
    for (const mf_option *o = s->options; o && o->name; o++)
        if (strcmp(o->name, key) == 0) return true;
    return false;
}

/* Notes for each entry the section to which its key would belong, for messages about keys in a
 * wrong section. */
static void look_elsewhere(loader *l)
{
    for (int i = 0; i < mf_ini_count(l->ini); i++) {
        mf_ini_entry *e = mf_ini_at(l->ini, i);
        int n = 0;
        for (const mf_section_at *a = l->all; a->section; a++) {
            const mf_section *s = a->section;
            if (mf_section_named(s) || strcmp(s->name, e->section) == 0 || !has_key(s, e->key))
                continue;
            e->elsewhere = s->name;
            n++;
        }
        if (n != 1) e->elsewhere = NULL;
    }
}

static int judge_sections(loader *l)
{
    int rc = judge_include(l);
    const mf_ini_entry *at;
    for (int i = 0; rc == MF_OK && (at = mf_ini_section_entry(l->ini, i)) != NULL; i++) {
        const mf_section *s = mf_section_find(l->all, at->section);
        if (strcmp(at->section, "include") == 0) continue;
        if (!s)
            rc = unknown_section(l, at);
        else if (mf_section_named(s) && !good_label(at->section + strlen(s->name)))
            rc = fault(l, at, NULL,
                       "[%s]: expected a name of letters, digits, _ and - behind '%s'",
                       at->section, s->name);
    }
    return rc;
}

/* ---- values ---- */

/* Fills a struct with the defaults, then with the entries of the section `name`. */
static int load_struct(loader *l, const mf_section *s, const char *name, void *out)
{
    mf_schema schema;
    int rc = mf_schema_init(&schema, l->arena, NULL, s->options, sizeof *s->options, s->size);
    if (rc == MF_OK) rc = mf_options_default(&schema, out, l->arena);
    if (rc == MF_OK)
        rc = mf_options_load(&schema, out, l->arena, l->ini, name, NULL, l->judge.sink);
    return went(l, rc);
}

/* Reads core's keys of a plugin's section. at: the entry that names the section; NULL: none. */
static int load_plugin_section(loader *l, const mf_section *s, const char *name,
                               const mf_ini_entry *at, mf_plugin_section *out)
{
    mf_schema schema;
    int rc = mf_schema_init(&schema, l->arena, NULL, s->options, sizeof *s->options, s->size);
    if (rc == MF_OK) rc = mf_options_default(&schema, out, l->arena);
    for (int i = 0; rc == MF_OK && i < schema.count; i++) {
        const mf_option *o = &schema.options[i];
        const mf_ini_entry *e = mf_ini_get(l->ini, name, o->name);
        if (e)
            rc = went(
                l, mf_option_set(&schema, o, out, l->arena, e->value, name, e, l->judge.sink));
    }
    const mf_ini_entry *e = mf_ini_get(l->ini, name, "plugin");
    if (!e) e = at;
    const char *dot = strchr(name, '.');
    out->of = s;
    out->reserved = schema.names;
    out->section = mf_arena_strdup(l->arena, name);
    out->label = mf_arena_strdup(l->arena, dot ? dot + 1 : "");
    out->file = e ? e->file : NULL;
    out->line = e ? e->line : 0;
    if (!out->plugin) out->plugin = out->label;
    return rc == MF_OK && (!out->section || !out->label) ? MF_ENOMEM : rc;
}

/* Reads one section [PREFIX.NAME]. *ret_keep: the section is used. */
static int load_one(loader *l, const mf_section *s, const mf_ini_entry *at, void *out,
                    bool *ret_keep)
{
    *ret_keep = true;
    /* A previous section that was not used may have filled the struct. */
    memset(out, 0, s->size);
    if (s->plugin) {
        mf_plugin_section *p = out;
        int rc = load_plugin_section(l, s, at->section, at, p);
        if (rc == MF_OK) *ret_keep = strcmp(p->plugin, "none") != 0;
        return rc;
    }
    int rc = load_struct(l, s, at->section, out);
    if (rc != MF_OK) return rc;
    const char *section = mf_arena_strdup(l->arena, at->section);
    if (!section) return MF_ENOMEM;
    return s->complete(out, section, section + strlen(s->name), l->arena, ret_keep);
}

/* Reads all sections whose name begins with that of a->section, in order. */
static int load_named(loader *l, const mf_section_at *a)
{
    const mf_section *s = a->section;
    const mf_ini_entry *at;
    int *n = (int *)(void *)(l->conf + a->count), count = 0;
    while (mf_ini_section_entry(l->ini, count))
        count++;
    char *all = mf_arena_alloc(l->arena, ((size_t)count + 1) * s->size);
    if (!all) return MF_ENOMEM;
    *(void **)(void *)(l->conf + a->offset) = all;
    for (int i = 0; (at = mf_ini_section_entry(l->ini, i)) != NULL; i++) {
        bool keep;
        if (strncmp(at->section, s->name, strlen(s->name)) != 0) continue;
        if (!good_label(at->section + strlen(s->name))) continue;
        int rc = load_one(l, s, at, all + (size_t)*n * s->size, &keep);
        if (rc != MF_OK) return rc;
        if (!keep) continue;
        if (s->most > 0 && *n == s->most)
            return fault(l, at, NULL, "[%s]: expected at most %d sections [%sNAME]",
                         at->section, s->most, s->name);
        ++*n;
    }
    return MF_OK;
}

/* Sets the plugin of a section for which no source names a plugin. Core has no names of plugins
 * in its code, so the plugin comes from the default preset. *preset is NULL until that preset
 * is loaded. */
static int default_plugin(loader *l, mf_plugin_section *s, mf_ini **preset)
{
    const char *path;
    if (s->plugin[0] != '\0') return MF_OK;
    int rc = mf_config_preset(l->arena, "default", NULL, &path);
    if (rc == MF_OK && !*preset) {
        *preset = mf_ini_new();
        rc = *preset ? mf_ini_load(*preset, path) : MF_ENOMEM;
    }
    if (rc != MF_OK) return rc;
    const mf_ini_entry *e = mf_ini_get(*preset, s->section, "plugin");
    if (!e) return mf_fail(MF_ECONFIG, "%s: [%s] names no plugin", path, s->section);
    s->plugin = mf_arena_strdup(l->arena, e->value);
    s->file = path;
    s->line = e->line;
    return s->plugin ? MF_OK : MF_ENOMEM;
}

static int default_plugins(loader *l)
{
    mf_ini *preset = NULL;
    int rc = MF_OK;
    for (const mf_section_at *a = l->all; rc == MF_OK && a->section; a++)
        if (a->section->plugin && !mf_section_named(a->section))
            rc = default_plugin(l, (mf_plugin_section *)(void *)(l->conf + a->offset), &preset);
    mf_ini_free(preset);
    return rc;
}

int mf_sections_load(const mf_section_at *all, void *conf, mf_ini *ini, mf_arena *arena,
                     const mf_problem_sink *sink, int *ret_first)
{
    loader l = {all, conf, ini, arena, {ini, sink, MF_OK}, false};
    for (const mf_section_at *a = all; a->section; a++)
        l.translated = l.translated || a->section->plugin;
    look_elsewhere(&l);
    int rc = judge_sections(&l);
    for (const mf_section_at *a = all; rc == MF_OK && a->section; a++) {
        const mf_section *s = a->section;
        if (mf_section_named(s))
            rc = load_named(&l, a);
        else if (s->plugin)
            rc = load_plugin_section(&l, s, s->name, NULL,
                                     (mf_plugin_section *)(void *)(l.conf + a->offset));
        else
            rc = load_struct(&l, s, s->name, l.conf + a->offset);
    }
    if (rc == MF_OK) rc = default_plugins(&l);
    *ret_first = l.judge.first;
    return rc;
}
