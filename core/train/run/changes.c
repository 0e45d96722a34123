/* train/run/changes.c: compares two configurations key by key, in the form in which config.ini
 * is written, so that every key has a value and old names have become new ones. */
#include "train/run/changes.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/json.h"
#include "plugin/live.h"

enum { MANIFEST_MAX = 1 << 20, HASH = 33 };

typedef struct change {
    const char *section, *key;
    const char *from, *to; /* from NULL: there was no such key; to NULL: the section is gone */
    bool added;            /* the section was not there */
    bool local;            /* see mf_section */
    bool none;             /* without effect */
} change;

struct mf_run_changes {
    mf_arena *arena;
    change *list;
    int n, room;
};

void mf_run_changes_free(mf_run_changes *c)
{
    if (!c) return;
    mf_free(c->list);
    mf_arena_free(c->arena);
    mf_free(c);
}

/* ---- comparison ---- */

/* All keys of a configuration, as config.ini has them. */
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

static const char *value_of(mf_ini *ini, const char *section, const char *key)
{
    const mf_ini_entry *e = mf_ini_get(ini, section, key);
    return e ? e->value : NULL;
}

static int add(mf_run_changes *c, const char *section, const char *key, const char *from,
               const char *to, bool added)
{
    if (c->n == c->room) {
        const int room = 2 * c->room + 16;
        change *more =
            mf_realloc(c->list, (size_t)c->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        c->list = more;
        c->room = room;
    }
    const mf_section *s = mf_section_find(mf_config_sections, section);
    change *one = &c->list[c->n];
    *one = (change){.section = mf_arena_strdup(c->arena, section),
                    .key = mf_arena_strdup(c->arena, key),
                    .from = from ? mf_arena_strdup(c->arena, from) : NULL,
                    .to = to ? mf_arena_strdup(c->arena, to) : NULL,
                    .added = added,
                    .local = s && mf_section_local(s, key)};
    if (!one->section || !one->key || (from && !one->from) || (to && !one->to))
        return MF_ENOMEM;
    c->n++;
    return MF_OK;
}

static int compare(mf_run_changes *c, mf_ini *old, mf_ini *now)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(now); i++) {
        const mf_ini_entry *e = mf_ini_at(now, i);
        const char *from = value_of(old, e->section, e->key);
        if (!from || strcmp(from, e->value) != 0)
            rc = add(c, e->section, e->key, from, e->value,
                     !mf_ini_has_section(old, e->section));
    }
    for (int i = 0; rc == MF_OK && mf_ini_section_at(old, i); i++) {
        const char *section = mf_ini_section_at(old, i);
        if (!mf_ini_has_section(now, section))
            rc = add(c, section, "plugin", value_of(old, section, "plugin"), NULL, false);
    }
    return rc;
}

/* ---- the model stays ---- */

/* Whether both values of a key `plugin` mean the same one: its file may lie elsewhere now. */
static bool same_plugin(const change *one)
{
    const mf_loaded *plugin;
    if (!one->from || !one->to) return false;
    const char *slash = strrchr(one->from, '/'), *name = slash ? slash + 1 : one->from;
    const size_t n = strlen(name), m = n > 3 && strcmp(name + n - 3, ".so") == 0 ? n - 3 : n;
    if (mf_plugin_load(0, one->to, NULL, 0, &plugin) != MF_OK) {
        mf_error_clear(); /* the session, which needs it, gives the reason */
        return false;
    }
    return strlen(plugin->name) == m && strncmp(plugin->name, name, m) == 0;
}

static bool is_fixed(const change *one)
{
    const mf_section *s = mf_section_find(mf_config_sections, one->section);
    return s && mf_section_fixed(s, one->key);
}

/* Whether the change would give the weights or moments of the checkpoint another meaning. A key
 * that only the new configuration has, in an old section, is one of a plugin that could not be
 * loaded from its old path. */
static bool touches_model(const change *one)
{
    const mf_section *s = mf_section_find(mf_config_sections, one->section);
    if (!is_fixed(one)) return false;
    if (one->added || !one->to) return true;
    if (!one->from) return false;
    if (s->plugin && strcmp(one->key, "plugin") == 0) return !same_plugin(one);
    return !(s->plugin && strcmp(one->key, "file") == 0);
}

static int refuse(const change *one, const mf_rundir *dir, const mf_config *now)
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
            "%s: a run that is resumed keeps the model and the optimizer of %s; a new run with "
            "train.from = %s begins with its weights",
            what, dir->config, dir->path);
    return e && !mf_ini_is_file(e->file) ? mf_fail_context(MF_ECONFIG, "%s", e->file)
                                         : MF_ECONFIG;
}

int mf_run_changes_find(const mf_rundir *dir, const mf_config *now, mf_run_changes **ret)
{
    mf_run_changes *c = mf_alloc(1, sizeof *c);
    mf_config *config = NULL;
    mf_ini *old = NULL, *new = NULL;
    int rc = c && (c->arena = mf_arena_new()) ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_load(dir->config, 0, NULL, &config);
    if (rc == MF_OK) rc = keys_of(config, &old);
    if (rc == MF_OK) rc = keys_of(now, &new);
    if (rc == MF_OK) rc = compare(c, old, new);
    for (int i = 0; rc == MF_OK && i < c->n; i++) {
        change *one = &c->list[i];
        if (touches_model(one)) rc = refuse(one, dir, now);
        if (is_fixed(one)) one->local = true; /* only the path of a file is another */
    }
    mf_ini_free(old);
    mf_ini_free(new);
    mf_config_free(config);
    if (rc != MF_OK) {
        mf_run_changes_free(c);
        c = NULL;
    }
    *ret = c;
    return rc;
}

/* ---- what has no effect ---- */

static bool is(const change *one, const char *section, const char *key)
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

/* A live option continues with the checkpoint's value. Keys of a new section are those that the
 * checkpoint cannot know. */
static bool keeps_live(const change *one, const mf_trainer *t)
{
    const mf_plughost *h = mf_trainer_session(t)->model->plugins;
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

static bool has_no_effect(const change *one, const mf_rundir *dir, const mf_trainer *t)
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
        const change *one = &c->list[i];
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

/* Whether a run from step 0 with the new value ends like one that got it on the way. */
static bool repeats(const change *one, const mf_config *c)
{
    const bool length = is(one, "train", "steps") || is(one, "train", "epochs");
    const int64_t by = c->train.schedule;
    return one->local || (length && (by == MF_SCHEDULE_CONSTANT || by == MF_SCHEDULE_STEP));
}

static void tell(const change *one, bool first, bool warn, int64_t step)
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

/* ---- config.ini ---- */

static int write_config(const mf_run_changes *c, const mf_rundir *dir)
{
    mf_assignment *set = mf_arena_alloc(c->arena, ((size_t)c->n + 1) * sizeof *set);
    mf_config *config = NULL;
    char *text = NULL;
    size_t size;
    int n = 0, rc = set ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < c->n; i++) {
        const change *one = &c->list[i];
        if (one->none) continue;
        set[n++] = (mf_assignment){mf_arena_strf(c->arena, "%s.%s=%s", one->section, one->key,
                                                 one->to ? one->to : "none"),
                                   MF_INI_SET};
        if (!set[n - 1].text) rc = MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_config_load_from(dir->config, n, set, NULL, &config);
    if (rc == MF_OK) rc = mf_config_text(config, dir->config, &text, &size);
    if (rc == MF_OK) rc = mf_write_file_atomic(dir->config, text, size);
    mf_free(text);
    mf_config_free(config);
    return rc;
}

/* ---- manifest.json ---- */

/* The hash by which `moefw export mlflow` names a run: of both files, before they change. */
static int hash_files(const mf_rundir *dir, const char *manifest, size_t n, char hash[HASH])
{
    char *config = NULL;
    size_t m = 0;
    int rc = mf_read_file(dir->config, MANIFEST_MAX, &config, &m);
    char *both = rc == MF_OK ? mf_alloc_raw(n + m + 1) : NULL;
    if (both) {
        memcpy(both, manifest, n);
        memcpy(both + n, config, m);
        mf_hash_bytes(both, n + m, hash);
    } else if (rc == MF_OK) {
        rc = MF_ENOMEM;
    }
    mf_free(both);
    mf_free(config);
    return rc;
}

static void put_value(mf_jw *w, const mf_json *v)
{
    const mf_json *value;
    const char *key;
    int64_t whole;
    double real;
    bool on;
    switch (mf_json_typeof(v)) {
    case MF_JSON_OBJECT:
        mf_jw_object(w);
        for (size_t i = 0; mf_json_member(v, i, &key, &value); i++) {
            mf_jw_key(w, key);
            put_value(w, value);
        }
        mf_jw_end(w);
        break;
    case MF_JSON_ARRAY:
        mf_jw_array(w);
        for (size_t i = 0; i < mf_json_size(v); i++)
            put_value(w, mf_json_at(v, i));
        mf_jw_end(w);
        break;
    default:
        if (mf_json_string(v, NULL))
            mf_jw_string(w, mf_json_string(v, NULL));
        else if (mf_json_int(v, &whole))
            mf_jw_int(w, whole);
        else if (mf_json_real(v, &real))
            mf_jw_real(w, real);
        else if (mf_json_bool(v, &on))
            mf_jw_bool(w, on);
        else
            mf_jw_null(w);
    }
}

static void put_changes(mf_jw *w, const mf_run_changes *c, const mf_json *before, int64_t step)
{
    mf_jw_key(w, MF_RUN_CHANGES);
    mf_jw_array(w);
    for (size_t i = 0; before && i < mf_json_size(before); i++)
        put_value(w, mf_json_at(before, i));
    for (int i = 0; i < c->n; i++) {
        const change *one = &c->list[i];
        char name[128];
        if (one->none) continue;
        snprintf(name, sizeof name, "%s.%s", one->section, one->key);
        mf_jw_object(w);
        mf_jw_kv_int(w, "step", step);
        mf_jw_kv_string(w, "option", name);
        if (one->from) mf_jw_kv_string(w, "from", one->from);
        mf_jw_kv_string(w, "to", one->to ? one->to : "none");
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

/* Copies the manifest, with the steps and the seed of the session, and more changes. */
static void put_manifest(mf_jw *w, const mf_json *doc, const mf_run_changes *c,
                         const mf_trainer *t, const char hash[HASH])
{
    const mf_session *s = mf_trainer_session(t);
    const mf_json *value;
    const char *key;
    mf_jw_object(w);
    for (size_t i = 0; mf_json_member(doc, i, &key, &value); i++) {
        if (strcmp(key, MF_RUN_CHANGES) == 0) continue;
        mf_jw_key(w, key);
        if (strcmp(key, "steps") == 0)
            mf_jw_int(w, s->steps);
        else if (strcmp(key, "seed") == 0)
            mf_jw_int(w, s->config->train.seed);
        else
            put_value(w, value);
    }
    if (!mf_json_get(doc, MF_RUN_FIRST_FILES)) mf_jw_kv_string(w, MF_RUN_FIRST_FILES, hash);
    put_changes(w, c, mf_json_get(doc, MF_RUN_CHANGES), mf_trainer_steps(t));
    mf_jw_end(w);
}

/* *ret: the new text; NULL if there is no manifest, as in runs of early versions. */
static int manifest_text(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t,
                         char **ret)
{
    char *text = NULL, hash[HASH];
    size_t n;
    mf_json *doc = NULL;
    mf_jw *w = NULL;
    *ret = NULL;
    int rc = mf_read_file(dir->manifest, MANIFEST_MAX, &text, &n);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc == MF_OK) rc = hash_files(dir, text, n, hash);
    if (rc == MF_OK) rc = mf_json_parse(dir->manifest, text, n, &doc);
    if (rc == MF_OK && !(w = mf_jw_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) {
        put_manifest(w, doc, c, t, hash);
        const char *made = mf_jw_text(w, &n);
        if (!made || !(*ret = mf_strndup(made, n))) rc = MF_ENOMEM;
    }
    mf_jw_free(w);
    mf_json_free(doc);
    mf_free(text);
    return rc;
}

/* Both texts are made before one is written. A process that is killed in between leaves a
 * config.ini that holds, and a manifest without these changes. */
static int write_files(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t)
{
    char *manifest;
    int rc = manifest_text(c, dir, t, &manifest);
    if (rc == MF_OK) rc = write_config(c, dir);
    if (rc == MF_OK && manifest)
        rc = mf_write_file_atomic(dir->manifest, manifest, strlen(manifest));
    mf_free(manifest);
    return rc;
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
        const change *one = &c->list[i];
        if (one->none) continue;
        const bool alike = repeats(one, mf_trainer_session(t)->config);
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
    return n > 0 && writes ? write_files(c, dir, t) : MF_OK;
}
