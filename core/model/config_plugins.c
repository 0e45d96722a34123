#include "base/error.h"
#include "model/config_load.h"
#include "plugin/open.h"

#include <string.h>

static mf_kind kind_of(const mf_plugin_section *p)
{
    if (strcmp(p->section, "router") == 0) return MF_ROUTER;
    if (strcmp(p->section, "expert") == 0) return MF_EXPERT;
    return strncmp(p->section, "regularizer.", 12) == 0 ? MF_REGULARIZER : MF_CONTROLLER;
}

/* The known plugin of that kind whose name is nearest; NULL if none is near. */
static const char *nearest_plugin(mf_arena *arena, mf_kind kind, const char *word)
{
    mf_found *found;
    int n;
    if (mf_find_all(arena, kind, &found, &n) != MF_OK) return NULL;
    const char **names = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *names);
    for (int i = 0; names != NULL && i < n; i++)
        names[i] = found[i].name;
    return names != NULL ? mf_nearest(word, names) : NULL;
}

static void tell(const mf_plugin_section *p, mf_arena *arena, int rc,
                 const mf_problem_sink *sink)
{
    char *message = mf_arena_strdup(arena, mf_error_message());
    if (sink == NULL || message == NULL) return;
    mf_problem problem = {.code = rc,
                          .file = p->file,
                          .line = p->line,
                          .section = p->section,
                          .key = "plugin",
                          .message = message};
    if (rc != MF_EPLUGIN) problem.nearest = nearest_plugin(arena, kind_of(p), p->plugin);
    mf_fail(rc, "%s", message);
    sink->add(sink->arg, &problem);
}

int mf_config_plugin(const mf_config *c, const mf_plugin_section *p, mf_arena *arena,
                     const mf_problem_sink *sink, const mf_loaded **ret, void **ret_conf)
{
    *ret_conf = NULL;
    int rc = mf_plugin_load(kind_of(p), p->plugin, p->file, p->line, ret);
    if (rc != MF_OK) {
        tell(p, arena, rc, sink);
        return rc;
    }
    const mf_schema *schema = &(*ret)->schema;
    *ret_conf = mf_arena_alloc(arena, (*ret)->conf_size + 1);
    if (*ret_conf == NULL) return MF_ENOMEM;
    rc = mf_options_default(schema, *ret_conf, arena);
    if (rc == MF_OK)
        rc = mf_options_load(schema, *ret_conf, arena, c->ini, p->section,
                             mf_config_reserved(p), sink);
    return rc;
}

int mf_config_open_plugins(mf_config *c, const mf_problem_sink *sink)
{
    const int n = 2 + c->n_regularizers + c->n_controllers;
    const mf_plugin_section **all = mf_arena_alloc(c->arena, (size_t)n * sizeof *all);
    mf_want *wants = mf_arena_alloc(c->arena, (size_t)n * sizeof *wants);
    int used = 0, first = MF_OK;
    if (all == NULL || wants == NULL) return MF_ENOMEM;
    if (c->model.moe_every > 0) {
        all[used++] = &c->router;
        all[used++] = &c->expert;
    }
    for (int i = 0; i < c->n_regularizers; i++)
        all[used++] = &c->regularizers[i];
    for (int i = 0; i < c->n_controllers; i++)
        all[used++] = &c->controllers[i];
    for (int i = 0; i < used; i++)
        wants[i] = (mf_want){kind_of(all[i]), all[i]->plugin, all[i]->file, all[i]->line};
    mf_plugins_try(wants, used); /* faults come again, one by one, below */
    for (int i = 0; i < used; i++) {
        const mf_loaded *plugin;
        void *conf;
        int rc = mf_config_plugin(c, all[i], c->arena, sink, &plugin, &conf);
        if (rc == MF_ENOMEM || (rc != MF_OK && sink == NULL)) return rc;
        if (first == MF_OK) first = rc;
    }
    return first;
}
