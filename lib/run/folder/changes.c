/* run/folder/changes.c: compares two configurations key by key, in the form in which config.ini
 * is written. In this form every key has a value, and old names are replaced by new names. */
#include "run/folder/changes_parts.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/json.h"
#include "plugin/live.h"

void mf_run_changes_free(mf_run_changes *c)
{
    if (!c) return;
    if (c->before != c->file) mf_ini_free(c->before);
    mf_ini_free(c->file);
    mf_ini_free(c->now);
    mf_free(c->list);
    mf_arena_free(c->arena);
    mf_free(c);
}

/* ---- comparison ---- */

/* Lists all keys of a configuration, as config.ini contains them. */
static int keys_of(const mf_config *c, mf_ini **ret)
{
    char *text;
    size_t n;
    int rc = mf_config_text(c, "the configuration", &text, &n);
    if (rc == MF_OK && !(*ret = mf_ini_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_ini_load_text(*ret, "config.ini", text, n);
    mf_free(text);
    return rc;
}

static int add(mf_run_changes *c, const char *section, const char *key, const char *from,
               const char *to)
{
    if (c->n == c->room) {
        const int room = 2 * c->room + 16;
        mf_run_change *more =
            mf_realloc(c->list, (size_t)c->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        c->list = more;
        c->room = room;
    }
    const mf_section *s = mf_section_find(mf_config_sections, section);
    const char *file = mf_run_value(c->file, section, key);
    mf_run_change *one = &c->list[c->n];
    *one = (mf_run_change){.section = mf_arena_strdup(c->arena, section),
                           .key = mf_arena_strdup(c->arena, key),
                           .from = from ? mf_arena_strdup(c->arena, from) : NULL,
                           .to = to ? mf_arena_strdup(c->arena, to) : NULL,
                           .added = to && !mf_ini_has_section(c->before, section),
                           .local = s && mf_section_local(s, key),
                           .edited = from ? !file || strcmp(file, from) != 0 : file != NULL};
    if (!one->section || !one->key || (from && !one->from) || (to && !one->to))
        return MF_ENOMEM;
    c->n++;
    return MF_OK;
}

static int compare(mf_run_changes *c)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(c->now); i++) {
        const mf_ini_entry *e = mf_ini_at(c->now, i);
        const char *from = mf_run_value(c->before, e->section, e->key);
        if (!from || strcmp(from, e->value) != 0)
            rc = add(c, e->section, e->key, from, e->value);
    }
    for (int i = 0; rc == MF_OK && mf_ini_section_at(c->before, i); i++) {
        const char *section = mf_ini_section_at(c->before, i);
        if (!mf_ini_has_section(c->now, section))
            rc = add(c, section, "plugin", mf_run_value(c->before, section, "plugin"), NULL);
    }
    return rc;
}

/* ---- the model stays ---- */

/* Whether both values of a key `plugin` mean the same plugin. The path of its file may have
 * changed. If a plugin cannot be loaded, the error is returned, because its message is more
 * helpful than a message about a changed name. */
static int same_plugin(const mf_run_change *one, mf_kind kind, const mf_ini_entry *at,
                       bool *ret)
{
    const mf_loaded *plugin;
    const bool file = at && mf_ini_is_file(at->file);
    *ret = false;
    if (!one->from || !one->to) return MF_OK;
    const char *slash = strrchr(one->from, '/'), *name = slash ? slash + 1 : one->from;
    const size_t n = strlen(name), m = n > 3 && strcmp(name + n - 3, ".so") == 0 ? n - 3 : n;
    const int rc =
        mf_plugin_load(kind, one->to, file ? at->file : NULL, file ? at->line : 0, &plugin);
    if (rc == MF_OK)
        *ret = strlen(plugin->name) == m && strncmp(plugin->name, name, m) == 0;
    else if (at && !file)
        mf_fail_context(rc, "%s", at->file);
    return rc;
}

static bool is_fixed(const mf_run_change *one)
{
    const mf_section *s = mf_section_find(mf_config_sections, one->section);
    return s && mf_section_fixed(s, one->key);
}

/* Whether the change would alter the meaning of the checkpoint's weights or moments. A key of
 * an old section may exist only in the new configuration. It then belongs to a plugin that
 * could not be loaded from its old path. */
static int touches_model(const mf_run_change *one, const mf_config *now, bool *ret)
{
    const mf_section *s = mf_section_find(mf_config_sections, one->section);
    bool same = !one->from && !one->edited;
    int rc = MF_OK;
    *ret = false;
    if (!is_fixed(one)) return MF_OK;
    if (one->added || !one->to)
        same = false;
    else if (s->plugin && strcmp(one->key, "plugin") == 0)
        rc = same_plugin(one, s->kind, mf_ini_get(now->ini, one->section, one->key), &same);
    else if (s->plugin && strcmp(one->key, "file") == 0)
        same = true;
    *ret = !same;
    return rc;
}

static int refuse(const mf_run_change *one, const mf_rundir *dir, const mf_config *now)
{
    const mf_ini_entry *e = mf_ini_get(now->ini, one->section, one->key);
    char what[512];
    if (!one->to)
        snprintf(what, sizeof what, "[%s] is removed", one->section);
    else if (one->added)
        snprintf(what, sizeof what, "[%s] is new", one->section);
    else
        snprintf(what, sizeof what, "%s.%s: found %s, expected %s", one->section, one->key,
                 one->to, one->from);
    mf_fail(MF_ECONFIG,
            "%s: a run that is resumed keeps the model and the optimizer with which it was "
            "begun; a new run with train.from = %s begins with its weights",
            what, dir->path);
    if (!e) return one->edited ? mf_fail_context(MF_ECONFIG, "%s", dir->config) : MF_ECONFIG;
    return mf_ini_context(MF_ECONFIG, e->file, e->line);
}

int mf_run_changes_find(const mf_rundir *dir, const mf_config *now, mf_run_changes **ret)
{
    mf_run_changes *c = mf_alloc(1, sizeof *c);
    mf_config *config = NULL;
    int rc = c && (c->arena = mf_arena_new()) ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_load(dir->config, 0, NULL, &config);
    if (rc == MF_OK) rc = keys_of(config, &c->file);
    if (rc == MF_OK) rc = mf_run_edits_undo(dir, c->file, &c->before);
    if (rc == MF_OK && !c->before) c->before = c->file;
    if (rc == MF_OK) rc = keys_of(now, &c->now);
    if (rc == MF_OK) rc = compare(c);
    for (int i = 0; rc == MF_OK && i < c->n; i++) {
        mf_run_change *one = &c->list[i];
        bool touches;
        rc = touches_model(one, now, &touches);
        if (rc == MF_OK && touches) rc = refuse(one, dir, now);
        if (is_fixed(one)) one->local = true; /* only the path of a file has changed */
    }
    mf_config_free(config);
    if (rc != MF_OK) {
        mf_run_changes_free(c);
        c = NULL;
    }
    *ret = c;
    return rc;
}

/* ---- what has no effect ---- */

static bool is(const mf_run_change *one, const char *section, const char *key)
{
    return strcmp(one->section, section) == 0 && strcmp(one->key, key) == 0;
}

static bool number_of(const char *text, double *ret)
{
    bool on;
    if (mf_parse_f64(text, ret)) return true;
    if (!mf_parse_bool(text, &on)) return false;
    *ret = on;
    return true;
}

/* Whether a live option keeps the checkpoint's value. The checkpoint cannot contain keys of a
 * new section. */
static bool keeps_live(const mf_run_change *one, const mf_trainer *t)
{
    const mf_plughost *h = mf_training_session(t)->model->plugins;
    char name[256];
    double now, given;
    if (!one->from || !one->to || !number_of(one->to, &given)) return false;
    snprintf(name, sizeof name, "%s.%s", one->section, one->key);
    if (mf_live_get(h, name, &now) != MF_OK) {
        mf_error_clear();
        return false;
    }
    if (now == given) return false;
    mf_log(MF_LOG_WARN, "%s=%s has no effect: the run continues with the checkpoint's %s = %g",
           name, one->to, name, now);
    return true;
}

static bool has_no_effect(const mf_run_change *one, const mf_rundir *dir, const mf_trainer *t)
{
    const char *why = NULL;
    if (keeps_live(one, t)) return true;
    if (is(one, "train", "from"))
        why = "the run has weights of its own";
    else if (is(one, "data", "tokenizer") && mf_exists(dir->tokenizer))
        why = "the run has its own tokenizer";
    else if (!one->local && mf_trainer_done(t))
        why = "all steps of the run are done";
    if (why)
        mf_log(MF_LOG_WARN, "%s.%s=%s has no effect: %s", one->section, one->key,
               one->to ? one->to : "none", why);
    return why != NULL;
}

int mf_run_changes_judge(const mf_run_changes *c, int rc)
{
    char why[1024];
    if (rc != MF_ECHECKPOINT) return rc;
    for (int i = 0; i < c->n; i++) {
        const mf_run_change *one = &c->list[i];
        if (!one->added && strcmp(one->key, "plugin") != 0) continue;
        snprintf(why, sizeof why, "%s", mf_error_message());
        return mf_fail(MF_ECONFIG, "the run is resumed %s [%s]: %s",
                       !one->to     ? "without"
                       : one->added ? "with a new section"
                                    : "with another plugin in",
                       one->section, why);
    }
    return rc;
}

/* ---- telling ---- */

/* Whether a run that has the new value from step 0 would end with the same result as this run,
 * which got the value later. */
static bool repeats(const mf_run_change *one, const mf_config *c)
{
    const bool length = is(one, "train", "steps") || is(one, "train", "epochs");
    const int64_t by = c->train.schedule;
    return one->local || (length && (by == MF_SCHEDULE_CONSTANT || by == MF_SCHEDULE_STEP));
}

static void tell(const mf_run_change *one, bool first, bool warn, int64_t step)
{
    char what[512] = "";
    if (!one->to)
        snprintf(what, sizeof what, "without [%s]", one->section);
    else if (one->added && first)
        snprintf(what, sizeof what, "with a new section [%s]", one->section);
    else if (!one->added)
        snprintf(what, sizeof what, "%s.%s = %s (before: %s)%s", one->section, one->key,
                 one->to, one->from ? one->from : "not there",
                 is(one, "train", "seed") ? ", for the order of data and dropout" : "");
    if (what[0])
        mf_log(warn ? MF_LOG_WARN : MF_LOG_INFO, "after step %lld %s; config.ini says so now",
               (long long)step, what);
}

int mf_run_changes_keep(mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t,
                        bool writes)
{
    const char *section = "";
    bool same = true;
    int n = 0;
    for (int i = 0; i < c->n; i++)
        c->list[i].none = has_no_effect(&c->list[i], dir, t);
    for (int i = 0; i < c->n; i++) {
        const mf_run_change *one = &c->list[i];
        if (one->none) continue;
        const bool alike = repeats(one, mf_training_session(t)->config);
        tell(one, strcmp(section, one->section) != 0, !alike, mf_trainer_steps(t));
        section = one->section;
        same = same && alike;
        n++;
    }
    if (!same)
        mf_log(MF_LOG_WARN,
               "%s now describes how the run goes on: repeated from its start it may end with "
               "other weights (manifest.json lists the changes)",
               dir->config);
    return writes ? mf_run_changes_write(c, dir, t) : MF_OK;
}
