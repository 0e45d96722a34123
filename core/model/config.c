#include "base/error.h"
#include "model/config_load.h"
#include "model/config_tables.h"

#include <string.h>

static const char *const router_keys[] = {"plugin", NULL};
static const char *const regularizer_keys[] = {"plugin", "weight", NULL};
static const char *const controller_keys[] = {"plugin", "every", NULL};

const char *const *mf_config_reserved(const mf_plugin_section *s)
{
    if (strncmp(s->section, "regularizer.", 12) == 0) return regularizer_keys;
    return strncmp(s->section, "controller.", 11) == 0 ? controller_keys : router_keys;
}

/* Faults of a value go to the sink and reading goes on; without one the first ends it. */
typedef struct loader {
    mf_config *c;
    const mf_problem_sink *sink;
    int first; /* code of the first fault */
} loader;

/* Returns what the caller should return: MF_OK when there is reason to go on. */
static int went(loader *l, int rc)
{
    if (rc == MF_OK) return MF_OK;
    if (l->first == MF_OK) l->first = rc;
    return l->sink != NULL && rc == MF_ECONFIG ? MF_OK : rc;
}

MF_PRINTF(4, 5)
static int fault(loader *l, const mf_ini_entry *at, const char *nearest, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vfail(MF_ECONFIG, fmt, args);
    va_end(args);
    mf_problem p = {.code = MF_ECONFIG,
                    .file = at->file,
                    .line = at->line,
                    .section = at->section,
                    .key = at->key,
                    .nearest = nearest};
    if (strncmp(at->file, "--", 2) == 0)
        mf_fail_context(MF_ECONFIG, "%s", at->file);
    else
        mf_fail_context(MF_ECONFIG, "%s:%d", at->file, at->line);
    if (l->sink != NULL) {
        p.message = mf_error_message();
        l->sink->add(l->sink->arg, &p);
    }
    return went(l, MF_ECONFIG);
}

/* ---- which sections there are ---- */

static bool good_label(const char *label)
{
    return label[0] != '\0' &&
           strspn(label, "abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(label);
}

static int unknown_section(loader *l, const mf_ini_entry *at)
{
    const char *names[32];
    char word[64], hint[128];
    int n = 0;
    for (const mf_config_section *s = mf_config_sections; s->name != NULL && n < 30; s++)
        names[n++] = s->name;
    names[n++] = "include";
    names[n] = NULL;
    /* [regularizer] and [regulariser.x] mean [regularizer.NAME] */
    size_t stem = strcspn(at->section, ".");
    snprintf(word, sizeof word, "%.*s.", (int)(stem < 60 ? stem : 60), at->section);
    if (mf_nearest(word, names) == NULL || mf_nearest(word, names)[stem] != '.')
        snprintf(word, sizeof word, "%s", at->section);
    const char *nearest = mf_nearest(word, names);
    if (nearest != NULL && nearest[strlen(nearest) - 1] == '.')
        snprintf(hint, sizeof hint, "; did you mean [%sNAME]?", nearest);
    else if (nearest != NULL)
        snprintf(hint, sizeof hint, "; did you mean [%s]?", nearest);
    else
        snprintf(hint, sizeof hint,
                 "; expected model, task.NAME, moe, router, expert, film, regularizer.NAME, "
                 "controller.NAME, data, train, report or trace");
    return fault(l, at, nearest, "unknown section [%s]%s", at->section, hint);
}

/* [include] has been obeyed when the sources were read; here it is only judged. */
static int judge_include(loader *l)
{
    for (int i = 0; i < mf_ini_count(l->c->ini); i++) {
        const mf_ini_entry *e = mf_ini_at(l->c->ini, i);
        if (strcmp(e->section, "include") != 0) continue;
        int rc = MF_OK;
        if (strncmp(e->file, "--", 2) == 0)
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

static int judge_sections(loader *l)
{
    int rc = judge_include(l);
    const mf_ini_entry *at;
    for (int i = 0; rc == MF_OK && (at = mf_ini_section_entry(l->c->ini, i)) != NULL; i++) {
        const mf_config_section *s = mf_config_section_find(at->section);
        if (strcmp(at->section, "include") == 0) continue;
        if (s == NULL)
            rc = unknown_section(l, at);
        else if (mf_config_section_named(s) && !good_label(at->section + strlen(s->name)))
            rc = fault(l, at, NULL,
                       "[%s]: expected a name of letters, digits, _ and - behind '%s'",
                       at->section, s->name);
    }
    return rc;
}

/* ---- core's own sections ---- */

static int load_section(loader *l, const mf_config_section *s)
{
    mf_config *c = l->c;
    mf_schema schema;
    void *conf = (char *)c + s->offset;
    int rc =
        mf_schema_init(&schema, c->arena, NULL, s->options, sizeof *s->options, s->conf_size);
    if (rc == MF_OK) rc = mf_options_default(&schema, conf, c->arena);
    if (rc == MF_OK)
        rc = mf_options_load(&schema, conf, c->arena, c->ini, s->name, NULL, l->sink);
    return went(l, rc);
}

/* ---- further tasks ---- */

static const char task_prefix[] = "task.";

static int load_task(loader *l, const char *section, mf_task_section *out)
{
    const mf_config_section *s = mf_config_section_find(section);
    mf_arena *arena = l->c->arena;
    mf_schema schema;
    int rc = mf_schema_init(&schema, arena, NULL, s->options, sizeof *s->options, s->conf_size);
    if (rc == MF_OK) rc = mf_options_default(&schema, out, arena);
    if (rc == MF_OK)
        rc = mf_options_load(&schema, out, arena, l->c->ini, section, NULL, l->sink);
    out->section = mf_arena_strdup(arena, section);
    out->name = mf_arena_strdup(arena, section + sizeof task_prefix - 1);
    if (!out->section || !out->name) return MF_ENOMEM;
    if (out->column == NULL || out->column[0] == '\0') out->column = out->name;
    return went(l, rc);
}

static int load_tasks(loader *l)
{
    const mf_ini_entry *at;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && (at = mf_ini_section_entry(l->c->ini, i)) != NULL; i++) {
        const size_t n = sizeof task_prefix - 1;
        mf_task_section task = {0};
        if (strncmp(at->section, task_prefix, n) != 0 || !good_label(at->section + n)) continue;
        rc = load_task(l, at->section, &task);
        if (rc != MF_OK || task.task == MF_FURTHER_NONE) continue;
        if (l->c->n_tasks == MF_TASKS_MAX)
            return fault(l, at, NULL, "[%s]: expected at most %d sections [task.NAME]",
                         at->section, MF_TASKS_MAX);
        l->c->tasks[l->c->n_tasks++] = task;
    }
    return rc;
}

/* ---- sections of plugins ---- */

/* Core's keys of the section. at: where the section was named, NULL: nowhere. */
static int load_plugin_section(loader *l, const char *name, const mf_ini_entry *at,
                               mf_plugin_section *out)
{
    mf_config *c = l->c;
    const mf_config_section *s = mf_config_section_find(name);
    mf_schema schema;
    int rc =
        mf_schema_init(&schema, c->arena, NULL, s->options, sizeof *s->options, s->conf_size);
    if (rc == MF_OK) rc = mf_options_default(&schema, out, c->arena);
    for (int i = 0; rc == MF_OK && i < schema.count; i++) {
        const mf_option *o = &schema.options[i];
        const mf_ini_entry *e = mf_ini_get(c->ini, name, o->name);
        if (e != NULL)
            rc = went(l, mf_option_set(&schema, o, out, c->arena, e->value, name, e, l->sink));
    }
    const mf_ini_entry *e = mf_ini_get(c->ini, name, "plugin");
    if (e == NULL) e = at;
    const char *dot = strchr(name, '.');
    out->section = mf_arena_strdup(c->arena, name);
    out->label = mf_arena_strdup(c->arena, dot != NULL ? dot + 1 : "");
    out->file = e != NULL ? e->file : NULL;
    out->line = e != NULL ? e->line : 0;
    if (out->plugin == NULL) out->plugin = out->label;
    if (rc == MF_OK && (out->section == NULL || out->label == NULL)) rc = MF_ENOMEM;
    return rc;
}

/* All sections whose name begins with prefix, those with plugin = none left out. */
static int load_plugin_sections(loader *l, const char *prefix, mf_plugin_section **ret,
                                int *ret_n)
{
    const mf_ini_entry *at;
    int count = 0;
    while (mf_ini_section_entry(l->c->ini, count) != NULL)
        count++;
    *ret = mf_arena_alloc(l->c->arena, ((size_t)count + 1) * sizeof **ret);
    if (*ret == NULL) return MF_ENOMEM;
    for (int i = 0; (at = mf_ini_section_entry(l->c->ini, i)) != NULL; i++) {
        if (strncmp(at->section, prefix, strlen(prefix)) != 0) continue;
        if (!good_label(at->section + strlen(prefix))) continue;
        mf_plugin_section *out = &(*ret)[*ret_n];
        *out = (mf_plugin_section){0}; /* a section that was left out may have been here */
        int rc = load_plugin_section(l, at->section, at, out);
        if (rc != MF_OK) return rc;
        if (strcmp(out->plugin, "none") != 0) ++*ret_n;
    }
    return MF_OK;
}

/* Core knows no plugin by name: where no source names the router or the expert, the default
 * preset's are taken. */
static int load_default_plugins(loader *l)
{
    mf_config *c = l->c;
    mf_plugin_section *sections[] = {&c->router, &c->expert};
    const char *path;
    if (c->router.plugin[0] != '\0' && c->expert.plugin[0] != '\0') return MF_OK;
    mf_ini *preset = mf_ini_new();
    int rc = preset == NULL ? MF_ENOMEM : mf_config_preset(c->arena, "default", NULL, &path);
    if (rc == MF_OK) rc = mf_ini_load(preset, path);
    for (int i = 0; rc == MF_OK && i < 2; i++) {
        mf_plugin_section *s = sections[i];
        const mf_ini_entry *e = mf_ini_get(preset, s->section, "plugin");
        if (s->plugin[0] != '\0') continue;
        if (e == NULL) {
            rc = mf_fail(MF_ECONFIG, "%s: [%s] names no plugin", path, s->section);
            break;
        }
        s->plugin = mf_arena_strdup(c->arena, e->value);
        s->file = path;
        s->line = e->line;
        if (s->plugin == NULL) rc = MF_ENOMEM;
    }
    mf_ini_free(preset);
    return rc;
}

static int load_values(loader *l)
{
    mf_config *c = l->c;
    int rc = judge_sections(l);
    for (const mf_config_section *s = mf_config_sections; rc == MF_OK && s->name != NULL; s++)
        if (!s->plugin && !mf_config_section_named(s)) rc = load_section(l, s);
    if (rc == MF_OK) rc = load_tasks(l);
    if (rc == MF_OK) rc = load_plugin_section(l, "router", NULL, &c->router);
    if (rc == MF_OK) rc = load_plugin_section(l, "expert", NULL, &c->expert);
    if (rc == MF_OK)
        rc = load_plugin_sections(l, "regularizer.", &c->regularizers, &c->n_regularizers);
    if (rc == MF_OK)
        rc = load_plugin_sections(l, "controller.", &c->controllers, &c->n_controllers);
    if (rc == MF_OK) rc = load_default_plugins(l);
    return rc;
}

/* ---- values that stand for others ---- */

/* Steps and epochs both say how long: the later source's word counts. */
static int settle_length(loader *l)
{
    mf_train_config *t = &l->c->train;
    const mf_ini_entry *epochs = mf_ini_get(l->c->ini, "train", "epochs");
    const mf_ini_entry *steps = mf_ini_get(l->c->ini, "train", "steps"), *later = NULL;
    if (epochs == NULL || t->epochs == 0 || t->steps == 0) return MF_OK;
    if (steps == NULL) {
        t->steps = 0;
        return MF_OK;
    }
    if (strcmp(steps->file, epochs->file) == 0 && strncmp(steps->file, "--", 2) != 0)
        return fault(l, epochs, NULL,
                     "both 'steps' (line %d) and 'epochs' say how long to train: "
                     "expected one of them",
                     steps->line);
    for (int i = 0; i < mf_ini_count(l->c->ini); i++) {
        if (mf_ini_at(l->c->ini, i) == steps) later = steps;
        if (mf_ini_at(l->c->ini, i) == epochs) later = epochs;
    }
    if (later == steps)
        t->epochs = 0;
    else
        t->steps = 0;
    return MF_OK;
}

static int settle(loader *l)
{
    mf_model_config *m = &l->c->model;
    if (m->kv_heads == 0) m->kv_heads = m->heads;
    if (m->ffn_hidden == 0) m->ffn_hidden = 4 * m->dim;
    return settle_length(l);
}

int mf_config_load_from(const char *config, int n, const mf_assignment *assignments,
                        const mf_problem_sink *sink, mf_config **ret)
{
    *ret = NULL;
    mf_config *c = mf_alloc(1, sizeof *c);
    if (c == NULL) return MF_ENOMEM;
    loader l = {c, sink, MF_OK};
    c->arena = mf_arena_new();
    c->ini = mf_ini_new();
    int rc = c->arena != NULL && c->ini != NULL ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_sources(c->ini, c->arena, config, n, assignments, &c->name);
    if (rc == MF_OK) rc = load_values(&l);
    if (rc == MF_OK) rc = settle(&l);
    if (rc == MF_OK) rc = went(&l, mf_config_judge(c, sink));
    if (rc != MF_OK) {
        mf_config_free(c);
        return rc;
    }
    *ret = c;
    return l.first;
}

int mf_config_load(const char *config, int n_set, const char *const *set, mf_config **ret)
{
    mf_assignment *assignments = mf_alloc((size_t)n_set + 1, sizeof *assignments);
    *ret = NULL;
    if (assignments == NULL) return MF_ENOMEM;
    for (int i = 0; i < n_set; i++)
        assignments[i] = (mf_assignment){set[i], "--set"};
    int rc = mf_config_load_from(config, n_set, assignments, NULL, ret);
    mf_free(assignments);
    return rc;
}

void mf_config_free(mf_config *c)
{
    if (c == NULL) return;
    mf_ini_free(c->ini);
    mf_arena_free(c->arena);
    mf_free(c);
}
