/* run/folder/changes_files.c: the files of a run that is resumed with changes. config.ini
 * describes the run from now on, and manifest.json contains the list of changes. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "io/json.h"
#include "run/folder/changes_parts.h"

/* ---- config.ini ---- */

typedef struct assignments {
    mf_arena *arena;
    mf_assignment *set;
    int n, undone; /* undone: number of changes that restore a value which somebody
                    * has edited */
} assignments;

static int assign(assignments *a, const char *section, const char *key, const char *value)
{
    const char *text = mf_arena_strf(a->arena, "%s.%s=%s", section, key, value);
    a->set[a->n++] = (mf_assignment){text, MF_INI_SET};
    return text ? MF_OK : MF_ENOMEM;
}

/* Restores keys that were edited by hand and that an option has set back to their
 * earlier value. */
static int undo_overridden(const mf_run_changes *c, assignments *a)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(c->now); i++) {
        const mf_ini_entry *e = mf_ini_at(c->now, i);
        const char *before = mf_run_value(c->before, e->section, e->key),
                   *file = mf_run_value(c->file, e->section, e->key);
        /* a value that differs from that of `before` is one of the changes in c->list */
        if (!before || strcmp(before, e->value) != 0) continue;
        if (file && strcmp(before, file) == 0) continue;
        rc = assign(a, e->section, e->key, before);
        a->undone++;
    }
    return rc;
}

/* Restores a value that was changed by hand without effect. */
static int undo(const mf_run_changes *c, const mf_run_change *one, assignments *a)
{
    int rc = MF_OK;
    if (one->added) {
        rc = assign(a, one->section, "plugin", "none");
    } else if (one->to) {
        if (!one->from) return MF_OK; /* a key of another version, whose value is unknown */
        rc = assign(a, one->section, one->key, one->from);
    } else {
        for (int i = 0; rc == MF_OK && i < mf_ini_count(c->before); i++) {
            const mf_ini_entry *e = mf_ini_at(c->before, i);
            if (strcmp(e->section, one->section) == 0)
                rc = assign(a, e->section, e->key, e->value);
        }
    }
    a->undone++;
    return rc;
}

/* Lists the edits that convert the present config.ini into a file that describes the run from
 * now on. */
static int list_assignments(const mf_run_changes *c, assignments *a)
{
    const size_t most =
        (size_t)c->n + (size_t)mf_ini_count(c->now) + (size_t)mf_ini_count(c->before);
    a->set = mf_arena_alloc(a->arena, (most + 1) * sizeof *a->set);
    int rc = a->set ? undo_overridden(c, a) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < c->n; i++) {
        const mf_run_change *one = &c->list[i];
        if (!one->none)
            rc = assign(a, one->section, one->key, one->to ? one->to : "none");
        else if (one->edited)
            rc = undo(c, one, a);
    }
    return rc;
}

static int config_text(const mf_rundir *dir, const assignments *a, char **ret, size_t *ret_n)
{
    mf_config *config = NULL;
    int rc = mf_config_load_from(dir->config, a->n, a->set, NULL, &config);
    if (rc == MF_OK) rc = mf_config_text(config, dir->config, ret, ret_n);
    mf_config_free(config);
    return rc;
}

/* ---- manifest.json ---- */

int mf_run_files_hash(const char *manifest, size_t n, const char *config, size_t m,
                      char hash[MF_RUN_HASH])
{
    char *both = mf_alloc_raw(n + m + 1);
    if (!both) return MF_ENOMEM;
    memcpy(both, manifest, n);
    memcpy(both + n, config, m);
    mf_hash_bytes(both, n + m, hash);
    mf_free(both);
    return MF_OK;
}

/* Computes the hash of both files before the first change. */
static int hash_files(const mf_rundir *dir, const char *manifest, size_t n, const mf_json *doc,
                      char hash[MF_RUN_HASH])
{
    const char *first = mf_json_string(mf_json_get(doc, MF_RUN_CONFIG), NULL);
    char *config = NULL;
    size_t m = 0;
    if (first) return mf_run_files_hash(manifest, n, first, strlen(first), hash);
    int rc = mf_read_file(dir->config, MF_RUN_MANIFEST_MAX, &config, &m);
    if (rc == MF_OK) rc = mf_run_files_hash(manifest, n, config, m, hash);
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

static bool any_effect(const mf_run_changes *c)
{
    for (int i = 0; i < c->n; i++)
        if (!c->list[i].none) return true;
    return false;
}

static void put_changes(mf_jw *w, const mf_run_changes *c, const mf_json *before, int64_t step)
{
    if (!before && !any_effect(c)) return;
    mf_jw_key(w, MF_RUN_CHANGES);
    mf_jw_array(w);
    for (size_t i = 0; before && i < mf_json_size(before); i++)
        put_value(w, mf_json_at(before, i));
    for (int i = 0; i < c->n; i++) {
        const mf_run_change *one = &c->list[i];
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

/* Copies the manifest, with the text of config.ini, the steps and the seed of the session
 * (which take effect unless all steps are done), and the list of changes. */
static void put_manifest(mf_jw *w, const mf_json *doc, const mf_run_changes *c,
                         const mf_trainer *t, const char *config, const char hash[MF_RUN_HASH])
{
    const mf_session *s = mf_training_session(t);
    const bool on = !mf_trainer_done(t);
    const mf_json *value;
    const char *key;
    mf_jw_object(w);
    for (size_t i = 0; mf_json_member(doc, i, &key, &value); i++) {
        if (strcmp(key, MF_RUN_CHANGES) == 0) continue;
        mf_jw_key(w, key);
        if (on && strcmp(key, "steps") == 0)
            mf_jw_int(w, s->steps);
        else if (on && strcmp(key, "seed") == 0)
            mf_jw_int(w, s->config->train.seed);
        else if (strcmp(key, MF_RUN_CONFIG) == 0)
            mf_jw_string(w, config);
        else
            put_value(w, value);
    }
    if (!mf_json_get(doc, MF_RUN_CONFIG)) mf_jw_kv_string(w, MF_RUN_CONFIG, config);
    if (!mf_json_get(doc, MF_RUN_FIRST_FILES)) mf_jw_kv_string(w, MF_RUN_FIRST_FILES, hash);
    put_changes(w, c, mf_json_get(doc, MF_RUN_CHANGES), mf_trainer_steps(t));
    mf_jw_end(w);
}

/* Makes the new text of manifest.json. *ret is NULL if there is no manifest, as in runs of
 * early versions. */
static int manifest_text(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t,
                         const char *config, char **ret)
{
    char *text = NULL, hash[MF_RUN_HASH];
    size_t n;
    mf_json *doc = NULL;
    mf_jw *w = NULL;
    *ret = NULL;
    int rc = mf_read_file(dir->manifest, MF_RUN_MANIFEST_MAX, &text, &n);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc == MF_OK) rc = mf_json_parse(dir->manifest, text, n, &doc);
    if (rc == MF_OK) rc = hash_files(dir, text, n, doc, hash);
    if (rc == MF_OK && !(w = mf_jw_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) {
        put_manifest(w, doc, c, t, config, hash);
        const char *made = mf_jw_text(w, &n);
        if (!made || !(*ret = mf_strndup(made, n))) rc = MF_ENOMEM;
    }
    mf_jw_free(w);
    mf_json_free(doc);
    mf_free(text);
    return rc;
}

/* Both texts are made before either is written. If the process is killed between the two
 * writes, config.ini differs from its text in the manifest. The next resume then finds these
 * changes again, as if somebody had edited the file. */
int mf_run_changes_write(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t)
{
    assignments a = {.arena = c->arena};
    char *config = NULL, *manifest = NULL;
    size_t n = 0;
    int rc = list_assignments(c, &a);
    if (rc != MF_OK || a.n == 0) return rc;
    rc = config_text(dir, &a, &config, &n);
    if (rc == MF_OK) rc = manifest_text(c, dir, t, config, &manifest);
    if (rc == MF_OK) rc = mf_write_file_atomic(dir->config, config, n);
    if (rc == MF_OK && manifest)
        rc = mf_write_file_atomic(dir->manifest, manifest, strlen(manifest));
    if (rc == MF_OK && a.undone > 0)
        mf_log(MF_LOG_WARN, "%s was changed by hand: what has no effect is undone there",
               dir->config);
    mf_free(manifest);
    mf_free(config);
    return rc;
}
