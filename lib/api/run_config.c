/* api/run_config.c: the configuration of a handle: its source, options and plugins.
 *
 * A handle keeps the name of the configuration and all later assignments in order, and reads
 * both again for each change. Therefore an option is checked when it is set, by the same rules
 * as in a file. An invalid option has no effect. */
#include "api/run_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "plugin/load/open.h"
#include "run/sections/section_plugins.h"

int mf_run_config(const moefw_run *run, mf_config **ret)
{
    return mf_config_load_from(run->config_name, run->n_assignments, run->assignments, NULL,
                               ret);
}

static void take(moefw_run *run, mf_config *fresh)
{
    mf_config_free(run->config);
    mf_ini_free(run->resolved);
    run->resolved = NULL;
    run->config = fresh;
    run->threads = (int)fresh->train.threads;
}

/* Reads the configuration again, with the present assignments. If this fails, the old
 * configuration stays. */
static int reload(moefw_run *run)
{
    mf_config *fresh = NULL;
    int rc = mf_run_config(run, &fresh);
    if (rc == MF_OK) take(run, fresh);
    return rc;
}

static int push(moefw_run *run, const char *text, const char *origin)
{
    if (run->n_assignments == run->cap_assignments) {
        const int cap = 2 * run->cap_assignments + 8;
        mf_assignment *a =
            mf_realloc(run->assignments, (size_t)run->cap_assignments * sizeof *a,
                       (size_t)cap * sizeof *a);
        if (!a) return MF_ENOMEM;
        run->assignments = a;
        run->cap_assignments = cap;
    }
    mf_assignment *a = &run->assignments[run->n_assignments];
    *a =
        (mf_assignment){mf_arena_strdup(run->texts, text), mf_arena_strdup(run->texts, origin)};
    if (!a->text || !a->origin) return MF_ENOMEM;
    run->n_assignments++;
    return MF_OK;
}

int mf_run_configure(moefw_run *run, const char *config, int n,
                     const mf_assignment *assignments)
{
    int rc =
        mf_run_expect(run, "configure", MF_RUN_IS(MF_RUN_NEW) | MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc != MF_OK) return rc;
    if (!run->texts && !(run->texts = mf_arena_new())) return MF_ENOMEM;
    run->n_assignments = 0;
    run->config_name = config ? mf_arena_strdup(run->texts, config) : NULL;
    if (config && !run->config_name) rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = push(run, assignments[i].text, assignments[i].origin);
    if (rc == MF_OK) rc = reload(run);
    if (rc != MF_OK) {
        mf_config_free(run->config);
        run->config = NULL;
    }
    run->state = run->config ? MF_RUN_CONFIGURED : MF_RUN_NEW;
    return rc;
}

int moefw_run_configure(moefw_run *run, const char *config)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, mf_run_configure(run, config, 0, NULL));
}

/* ---- options ---- */

/* Errors that reading the configuration reported. Only errors of the new assignment are
 * returned now. A later option may correct the others, and start and open check
 * everything again. */
typedef struct faults {
    const char *text; /* "section.key=value" */
    int told;
    char own[MF_RUN_MESSAGE]; /* first error of the new assignment */
} faults;

static void note_fault(void *arg, const mf_problem *p)
{
    faults *f = arg;
    const size_t n = p->section ? strlen(p->section) : 0, m = p->key ? strlen(p->key) : 0;
    /* An error without a key concerns its whole section. An error without a section concerns
     * the assignment. */
    const bool section = n == 0 || (strncmp(f->text, p->section, n) == 0 && f->text[n] == '.');
    const bool key =
        n == 0 || m == 0 ||
        (section && strncmp(f->text + n + 1, p->key, m) == 0 && f->text[n + 1 + m] == '=');
    f->told++;
    if (!f->own[0] && section && key) snprintf(f->own, sizeof f->own, "%s", p->message);
}

static int assign(moefw_run *run, const char *text)
{
    faults f = {.text = text};
    const mf_problem_sink sink = {note_fault, &f};
    mf_config *fresh = NULL;
    int rc = push(run, text, MF_INI_SET);
    if (rc != MF_OK) return rc;
    rc = mf_config_load_from(run->config_name, run->n_assignments, run->assignments, &sink,
                             &fresh);
    if (rc == MF_OK || (f.told > 0 && !f.own[0])) {
        if (fresh) take(run, fresh);
        mf_error_clear();
        return MF_OK;
    }
    mf_config_free(fresh);
    run->n_assignments--;
    return f.own[0] ? mf_fail(rc, "%s", f.own) : rc;
}

static int set_live(moefw_run *run, const char *name, const char *text)
{
    double value;
    if (!mf_parse_f64(text, &value)) {
        bool on;
        if (!mf_parse_bool(text, &on))
            return mf_fail(MF_ECONFIG, "%s: expected a number, found '%s'", name, text);
        value = on ? 1 : 0;
    }
    mf_run_forget(run);
    return mf_live_set(run->session->model->plugins, name, value, "program", "set");
}

static int set(moefw_run *run, const char *name, const char *value)
{
    int rc =
        mf_run_expect(run, "set", MF_RUN_IS(MF_RUN_CONFIGURED) | MF_RUN_IS(MF_RUN_TRAINING));
    if (rc != MF_OK) return rc;
    if (!name || !value)
        return mf_fail(MF_EINVAL, "set: expected a name and a value, found NULL");
    if (run->state == MF_RUN_TRAINING) return set_live(run, name, value);
    char *text = mf_strf("%s=%s", name, value);
    if (!text) return MF_ENOMEM;
    rc = assign(run, text);
    mf_free(text);
    return rc;
}

int moefw_run_set(moefw_run *run, const char *name, const char *value)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, set(run, name, value));
}

/* Makes run->resolved if it is missing. It holds all options with their values, as config.ini
 * of a run directory does. */
static int resolve(moefw_run *run)
{
    char *text;
    size_t n;
    const mf_config *c = run->session ? run->session->config : run->config;
    if (run->resolved) return MF_OK;
    if (!c) return mf_run_expect(run, "options", MF_RUN_IS(MF_RUN_CONFIGURED));
    int rc = mf_config_text(c, "options", &text, &n);
    if (rc == MF_OK && !(run->resolved = mf_ini_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_ini_load_text(run->resolved, "options", text, n);
    if (rc != MF_OK) {
        mf_ini_free(run->resolved);
        run->resolved = NULL;
    }
    mf_free(text);
    return rc;
}

/* Finds the entry "section.key" (the last dot separates the two); NULL if there is none. */
static const mf_ini_entry *entry_of(moefw_run *run, const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    for (int i = 0; dot && i < mf_ini_count(run->resolved); i++) {
        const mf_ini_entry *e = mf_ini_at(run->resolved, i);
        if (strlen(e->section) == (size_t)(dot - name) && strcmp(e->key, dot + 1) == 0 &&
            strncmp(e->section, name, (size_t)(dot - name)) == 0)
            return e;
    }
    return NULL;
}

const char *moefw_run_get(moefw_run *run, const char *name)
{
    mf_run_scope scope;
    const mf_ini_entry *e = NULL;
    MF_RUN_ENTER(run, &scope, NULL);
    int rc = resolve(run);
    if (rc == MF_OK && !(e = entry_of(run, name)))
        rc = mf_fail(MF_ENOTFOUND, "get: expected an option SECTION.KEY, found '%s'",
                     name ? name : "(null)");
    (void)mf_run_leave(run, &scope, rc);
    return e ? e->value : NULL;
}

/* Finds the option of a key: an option of core, or one of the section's plugin; NULL if there
 * is none. */
static const mf_option *option_of(const mf_config *c, const mf_ini_entry *e)
{
    const mf_section *section = mf_section_find(mf_config_sections, e->section);
    for (const mf_option *o = section ? section->options : NULL; o && o->name; o++)
        if (strcmp(o->name, e->key) == 0) return o;
    if (!section || !section->plugin) return NULL;
    const mf_plugin_section *p = strcmp(e->section, "router") == 0   ? &c->router
                                 : strcmp(e->section, "expert") == 0 ? &c->expert
                                                                     : NULL;
    for (int i = 0; !p && i < c->n_routers; i++)
        if (strcmp(c->routers[i].section, e->section) == 0) p = &c->routers[i];
    for (int i = 0; !p && i < c->n_layer_experts; i++)
        if (strcmp(c->layer_experts[i].section, e->section) == 0) p = &c->layer_experts[i];
    for (int i = 0; !p && i < c->n_regularizers; i++)
        if (strcmp(c->regularizers[i].section, e->section) == 0) p = &c->regularizers[i];
    for (int i = 0; !p && i < c->n_controllers; i++)
        if (strcmp(c->controllers[i].section, e->section) == 0) p = &c->controllers[i];
    for (int i = 0; !p && i < c->n_adapters; i++)
        if (strcmp(c->adapters[i].section, e->section) == 0) p = &c->adapters[i];
    const mf_loaded *plugin;
    if (!p || mf_plugin_load(p->of->kind, p->plugin, p->file, p->line, &plugin) != MF_OK)
        return NULL;
    return mf_schema_find(&plugin->schema, e->key);
}

static int list(moefw_run *run, moefw_option_fn option, void *arg)
{
    const mf_config *c = run->session ? run->session->config : run->config;
    int rc = resolve(run);
    for (int i = 0; rc == MF_OK && i < mf_ini_count(run->resolved); i++) {
        const mf_ini_entry *e = mf_ini_at(run->resolved, i);
        const mf_option *o = option_of(c, e);
        char expected[512] = "";
        char *name = mf_strf("%s.%s", e->section, e->key);
        if (!name) return MF_ENOMEM;
        if (o) mf_option_expected(o, expected, sizeof expected);
        const moefw_option shown = {.size = sizeof shown,
                                    .name = name,
                                    .value = e->value,
                                    .usual = o ? o->value : NULL,
                                    .help = o && o->help ? o->help : "",
                                    .expected = expected,
                                    .live = o && (o->flags & MF_OPT_LIVE) != 0};
        const int end = option(arg, &shown);
        mf_free(name);
        if (end != 0) break;
    }
    return rc;
}

int moefw_run_options(moefw_run *run, moefw_option_fn option, void *arg)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope,
                        option ? list(run, option, arg) : mf_run_null("options", "a function"));
}

/* ---- plugins ---- */

static int use_plugin(moefw_run *run, const char *what)
{
    const mf_loaded *plugin;
    char *text;
    int rc = mf_run_expect(run, "plugin", MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc == MF_OK && !what) rc = mf_fail(MF_EINVAL, "plugin: expected a name, found NULL");
    if (rc == MF_OK) rc = mf_plugin_load(0, what, NULL, 0, &plugin);
    if (rc == MF_OK) rc = mf_section_plugin_place(plugin->kind, plugin->name, what, &text);
    if (rc != MF_OK) return rc;
    rc = assign(run, text);
    mf_free(text);
    return rc;
}

int moefw_run_use_plugin(moefw_run *run, const char *plugin)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, use_plugin(run, plugin));
}

int moefw_run_register_plugin(moefw_run *run, const struct mf_plugin *plugin)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, mf_plugin_register(plugin));
}
