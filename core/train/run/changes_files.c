/* train/run/changes_files.c: the files of a run that is resumed otherwise: config.ini describes
 * it from now on, and manifest.json has the list of changes. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/text/json.h"
#include "train/run/changes_parts.h"

enum { MANIFEST_MAX = 1 << 20 };

/* ---- config.ini ---- */

static int write_config(const mf_run_changes *c, const mf_rundir *dir)
{
    mf_assignment *set = mf_arena_alloc(c->arena, ((size_t)c->n + 1) * sizeof *set);
    mf_config *config = NULL;
    char *text = NULL;
    size_t size;
    int n = 0, rc = set ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < c->n; i++) {
        const mf_run_change *one = &c->list[i];
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

static int hash_files(const mf_rundir *dir, const char *manifest, size_t n,
                      char hash[MF_RUN_HASH])
{
    char *config = NULL;
    size_t m = 0;
    int rc = mf_read_file(dir->config, MANIFEST_MAX, &config, &m);
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

static void put_changes(mf_jw *w, const mf_run_changes *c, const mf_json *before, int64_t step)
{
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

/* Copies the manifest, with the steps and the seed of the session, and more changes. */
static void put_manifest(mf_jw *w, const mf_json *doc, const mf_run_changes *c,
                         const mf_trainer *t, const char hash[MF_RUN_HASH])
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
    char *text = NULL, hash[MF_RUN_HASH];
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
int mf_run_changes_write(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t)
{
    char *manifest;
    int rc = manifest_text(c, dir, t, &manifest);
    if (rc == MF_OK) rc = write_config(c, dir);
    if (rc == MF_OK && manifest)
        rc = mf_write_file_atomic(dir->manifest, manifest, strlen(manifest));
    mf_free(manifest);
    return rc;
}
