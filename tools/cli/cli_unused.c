/* Checks --set and --plugin for verbs that do not use them: verbs of a run, which keeps its own
 * configuration, and verbs without a configuration. A typing error is an error here, too.
 * Correct values have no effect, and a verb of a run warns about this. Rules between keys are
 * not checked, since the values are not used together. */
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli_parse.h"
#include "config/aliases.h"
#include "run/sections/sources.h"
#include "plugin/load/open.h"
#include "run/sections/section_plugins.h"

#include <string.h>

typedef struct judge {
    const char *run; /* NULL: the verb has no configuration */
    mf_arena *arena;
    mf_assignment *given;
    int n;
    mf_ini *as_given, *ini; /* as_given: with old names of keys; ini: with new names */
} judge;

static bool any_given(const mf_cli *cli)
{
    return mf_cli_count(cli, "set") > 0 || mf_cli_count(cli, "plugin") > 0;
}

/* Reads one assignment alone. An error in its form then names the option it came from. */
static int read_one(judge *j, int i)
{
    mf_ini *alone = mf_ini_new();
    int rc = alone ? mf_ini_set(alone, j->given[i].text, i + 1) : MF_ENOMEM;
    if (rc == MF_ECONFIG) rc = mf_fail_context(rc, "%s", j->given[i].origin);
    if (rc == MF_OK) {
        const mf_ini_entry *e = mf_ini_at(alone, 0);
        rc = mf_ini_put(j->as_given, e->section, e->key, e->value, j->given[i].origin, i + 1);
    }
    mf_ini_free(alone);
    return rc;
}

static int read_sources(judge *j)
{
    int end[2], n = 0, rc = MF_OK;
    j->as_given = mf_ini_new();
    j->ini = mf_ini_new();
    if (!j->as_given || !j->ini) return MF_ENOMEM;
    const char *path =
        j->run && mf_is_dir(j->run) ? mf_arena_strf(j->arena, "%s/config.ini", j->run) : j->run;
    if (path && mf_exists(path)) {
        rc = mf_ini_load(j->as_given, path);
        end[n++] = mf_ini_count(j->as_given);
    } else {
        j->run = NULL; /* opening the run fails later, with its own message */
    }
    for (int i = 0; rc == MF_OK && i < j->n; i++)
        rc = read_one(j, i);
    end[n++] = mf_ini_count(j->as_given);
    if (rc == MF_OK) rc = mf_config_translate(j->as_given, j->ini, n, end);
    /* An assignment may name another plugin than the run's. That plugin need not have the
     * options of the run's plugin. */
    for (int i = 0; rc == MF_OK && i < mf_ini_count(j->ini); i++)
        mf_ini_at(j->ini, i)->optional = mf_ini_is_file(mf_ini_at(j->ini, i)->file);
    return rc;
}

/* ---- options of plugins ---- */

static bool is_assigned(const mf_config *c, const char *section)
{
    for (const mf_ini_entry *e = mf_ini_first_of(c->ini, section); e; e = mf_ini_next_of(e))
        if (!mf_ini_is_file(e->file)) return true;
    return false;
}

static bool not_assigned(const void *conf, const mf_plugin_section *p)
{
    return !is_assigned(conf, p->section);
}

static bool in_table(const mf_option *table, const char *key)
{
    for (; table->name; table++)
        if (strcmp(table->name, key) == 0) return true;
    return false;
}

/* Without a run, a key of a plugin's section is accepted if any plugin of that kind has
 * this option. */
static int judge_option(const judge *j, const mf_section *s, const mf_ini_entry *e)
{
    enum { MOST = 500 };
    mf_found *found;
    int n = 0, m = 0;
    char hint[256];
    const char **names = mf_arena_alloc(j->arena, (MOST + 1) * sizeof *names);
    int rc = names ? mf_find_all(j->arena, s->kind, &found, &n) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const mf_loaded *p;
        if (found[i].fault || mf_plugin_load_found(&found[i], NULL, 0, &p) != MF_OK) {
            mf_error_clear();
            continue;
        }
        if (mf_schema_find(&p->schema, e->key)) return MF_OK;
        for (int k = 0; k < p->schema.count && m < MOST; k++)
            names[m++] = p->schema.options[k].name;
    }
    if (rc != MF_OK) return rc;
    names[m] = NULL;
    return mf_fail(MF_ECONFIG, "%s: unknown key '%s' in [%s]%s no %s has it", e->file, e->key,
                   e->section,
                   mf_did_you_mean(e->key, names, hint, sizeof hint)[0] ? hint : ";",
                   mf_kind_name(s->kind));
}

static int judge_options(const judge *j, mf_config *c)
{
    if (j->run)
        return mf_sections_open_plugins(mf_config_sections, c, j->ini, j->arena, not_assigned,
                                        NULL);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(j->ini); i++) {
        const mf_ini_entry *e = mf_ini_at(j->ini, i);
        const mf_section *s = mf_section_find(mf_config_sections, e->section);
        const mf_loaded *p;
        if (!s || !s->plugin) continue;
        if (strcmp(e->key, "plugin") == 0 && strcmp(e->value, "none") != 0)
            rc = mf_plugin_load(s->kind, e->value, e->file, e->line, &p);
        else if (!in_table(s->options, e->key))
            rc = judge_option(j, s, e);
    }
    return rc;
}

static int judge_given(judge *j, const mf_cli *cli)
{
    int first = MF_OK;
    int rc = mf_cli_assignments(cli, j->arena, &j->given, &j->n);
    if (rc == MF_OK) rc = read_sources(j);
    mf_config *c = rc == MF_OK ? mf_arena_alloc(j->arena, sizeof *c) : NULL;
    if (rc == MF_OK && !c) rc = MF_ENOMEM;
    if (rc != MF_OK) return rc;
    *c = (mf_config){.ini = j->ini, .arena = j->arena};
    rc = mf_sections_load(mf_config_sections, c, j->ini, j->arena, NULL, &first);
    return rc == MF_OK ? judge_options(j, c) : rc;
}

static void clear(judge *j)
{
    mf_ini_free(j->as_given);
    mf_ini_free(j->ini);
    mf_arena_free(j->arena);
}

/* ---- assignments without effect ---- */

/* Whether the run already uses the plugin. Then naming its file has an effect: it permits
 * loading the file. */
static bool has_plugin(const judge *j, const char *what)
{
    const mf_loaded *p, *its;
    bool has = false;
    if (!j->run) return false;
    if (mf_plugin_load(0, what, NULL, 0, &p) != MF_OK) {
        mf_error_clear();
        return false;
    }
    for (int i = 0; !has && i < mf_ini_count(j->ini); i++) {
        const mf_ini_entry *e = mf_ini_at(j->ini, i);
        const mf_section *s = mf_section_find(mf_config_sections, e->section);
        if (!mf_ini_is_file(e->file) || strcmp(e->key, "plugin") != 0 || !s ||
            s->kind != p->kind)
            continue;
        if (mf_plugin_load(s->kind, e->value, e->file, e->line, &its) == MF_OK)
            has = its == p;
        else
            mf_error_clear();
    }
    return has;
}

/* Returns WHAT of "SECTION.plugin=WHAT"; NULL if the text is another assignment. */
static const char *plugin_set(const char *text)
{
    static const char key[] = ".plugin=";
    const char *at = strstr(text, key);
    return at && strchr(text, '=') == at + sizeof key - 2 ? at + sizeof key - 1 : NULL;
}

static void warn(const judge *j, const mf_cli *cli, const char *run)
{
    for (int i = 0; i < cli->n_given; i++) {
        const mf_cli_given *g = &cli->given[i];
        const char *set = g->option->set;
        const bool is_set = strcmp(g->option->name, "set") == 0;
        const char *plugin = strcmp(g->option->name, "plugin") == 0 ? g->text
                             : is_set                               ? plugin_set(g->text)
                                                                    : NULL;
        if (plugin && has_plugin(j, plugin)) continue;
        if (is_set || plugin || (set && strncmp(set, "data.", 5) == 0))
            mf_log(MF_LOG_WARN, "--%s=%s is ignored: %s has its own configuration",
                   g->option->name, g->text, run);
    }
}

int mf_cli_run_stays(const mf_cli *cli, const char *run)
{
    judge j = {.run = run};
    int rc = MF_OK;
    if (any_given(cli)) {
        j.arena = mf_arena_new();
        rc = j.arena ? judge_given(&j, cli) : MF_ENOMEM;
    }
    if (rc == MF_OK) warn(&j, cli, run);
    clear(&j);
    return rc;
}

int mf_cli_no_config(const mf_cli *cli)
{
    judge j = {0};
    if (!any_given(cli)) return MF_OK;
    j.arena = mf_arena_new();
    const int rc = j.arena ? judge_given(&j, cli) : MF_ENOMEM;
    clear(&j);
    return rc;
}
