/* sections/section_plugins.c: loads the plugins that a configuration names and checks their
 * options. Third-party files are first tried together in one child process. */
#include "run/sections/section_plugins.h"

#include "base/error.h"
#include "base/mem.h"
#include "config/aliases.h"
#include "plugin/load/judge.h"

#include <string.h>

/* Returns the known plugin of that kind whose name is nearest; NULL if none is near. */
static const char *nearest_plugin(mf_arena *arena, mf_kind kind, const char *word)
{
    mf_found *found;
    int n;
    if (mf_find_all(arena, kind, &found, &n) != MF_OK) return NULL;
    const char **names = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *names);
    for (int i = 0; names && i < n; i++)
        names[i] = found[i].name;
    return names ? mf_nearest(word, names) : NULL;
}

static void tell(const mf_plugin_section *p, mf_arena *arena, int rc,
                 const mf_problem_sink *sink)
{
    char *message = mf_arena_strdup(arena, mf_error_message());
    if (!sink || !message) return;
    mf_problem problem = {.code = rc,
                          .file = p->file,
                          .line = p->line,
                          .section = p->section,
                          .key = "plugin",
                          .message = message};
    if (rc != MF_EPLUGIN) problem.nearest = nearest_plugin(arena, p->of->kind, p->plugin);
    mf_fail(rc, "%s", message);
    sink->add(sink->arg, &problem);
}

int mf_section_plugin(const mf_plugin_section *p, mf_ini *ini, mf_arena *arena,
                      const mf_problem_sink *sink, const mf_loaded **ret, void **ret_conf)
{
    *ret_conf = NULL;
    int rc = mf_plugin_load(p->of->kind, p->plugin, p->file, p->line, ret);
    if (rc != MF_OK) {
        tell(p, arena, rc, sink);
        return rc;
    }
    const mf_schema *schema = &(*ret)->schema;
    *ret_conf = mf_arena_alloc(arena, (*ret)->conf_size + 1);
    if (!*ret_conf) return MF_ENOMEM;
    rc = mf_options_default(schema, *ret_conf, arena);
    if (rc == MF_OK)
        rc = mf_options_load(schema, *ret_conf, arena, ini, p->section, p->reserved, sink);
    return rc;
}

/* Collects all plugin sections of conf that are used, in the order of the table; returns their
 * number. out NULL: only counts. */
static int collect(const mf_section_at *all, const void *conf,
                   bool (*unused)(const void *conf, const mf_plugin_section *p),
                   const mf_plugin_section **out)
{
    int n = 0;
    for (const mf_section_at *a = all; a->section; a++) {
        const char *at = (const char *)conf + a->offset;
        const bool named = mf_section_named(a->section);
        if (!a->section->plugin) continue;
        const int count =
            named ? *(const int *)(const void *)((const char *)conf + a->count) : 1;
        const mf_plugin_section *p = named ? *(mf_plugin_section *const *)(const void *)at
                                           : (const mf_plugin_section *)(const void *)at;
        for (int i = 0; i < count; i++) {
            if (unused && unused(conf, &p[i])) continue;
            if (out) out[n] = &p[i];
            n++;
        }
    }
    return n;
}

/* Checks the options of adapters that old keys switch off. Older versions checked the old
 * keys, too. */
static int judge_switched(const mf_section_at *all, mf_ini *ini, mf_arena *arena,
                          const mf_problem_sink *sink)
{
    static const char *const reserved[] = {"plugin", "at", "layers", "lr", NULL};
    const char *section;
    mf_plugin_section p = {.reserved = reserved};
    int first = MF_OK;
    for (int i = 0; (section = mf_config_switched(i, &p.plugin)) != NULL; i++) {
        const mf_ini_entry *e = mf_ini_get(ini, section, "plugin");
        const mf_loaded *plugin;
        void *conf;
        p.section = section;
        p.of = mf_section_find(all, section);
        if (!p.of || !e || strcmp(e->value, "none") != 0) continue;
        if (mf_plugin_load(MF_ADAPTER, p.plugin, NULL, 0, &plugin) != MF_OK) {
            mf_error_clear(); /* the plugin is not needed, so the error is dropped */
            continue;
        }
        int rc = mf_section_plugin(&p, ini, arena, sink, &plugin, &conf);
        if (rc != MF_OK && !sink) return rc;
        if (first == MF_OK) first = rc;
    }
    return first;
}

int mf_sections_open_plugins(const mf_section_at *all, const void *conf, mf_ini *ini,
                             mf_arena *arena,
                             bool (*unused)(const void *conf, const mf_plugin_section *p),
                             const mf_problem_sink *sink)
{
    const int n = collect(all, conf, unused, NULL);
    const mf_plugin_section **used = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *used);
    mf_want *wants = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *wants);
    int first = MF_OK;
    if (!used || !wants) return MF_ENOMEM;
    collect(all, conf, unused, used);
    for (int i = 0; i < n; i++)
        wants[i] = (mf_want){used[i]->of->kind, used[i]->plugin, used[i]->file, used[i]->line};
    mf_plugins_try(wants, n); /* errors are ignored here, because the loop below reports them
                               * one by one */
    for (int i = 0; i < n; i++) {
        const mf_loaded *plugin;
        void *own;
        int rc = mf_section_plugin(used[i], ini, arena, sink, &plugin, &own);
        if (rc == MF_ENOMEM || (rc != MF_OK && !sink)) return rc;
        if (first == MF_OK) first = rc;
    }
    int rc = judge_switched(all, ini, arena, sink);
    return first == MF_OK ? rc : first;
}

int mf_section_plugin_place(mf_kind kind, const char *name, const char *what, char **ret)
{
    const bool many = kind != MF_ROUTER && kind != MF_EXPERT;
    *ret = mf_strf("%s%s%s.plugin=%s", mf_kind_name(kind), many ? "." : "", many ? name : "",
                   what);
    return *ret ? MF_OK : MF_ENOMEM;
}
