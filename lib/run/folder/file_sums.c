/* run/folder/file_sums.c: sums of files in manifest.json. There is no sum of config.ini,
 * because a person may change most of its keys, and a resumed run uses the changed values.
 * Instead, the keys whose change a resumed run would refuse are compared individually. */
#include "run/folder/file_sums.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/ini.h"
#include "run/folder/changes.h"
#include "run/folder/stored_files.h"
#include "run/run_config.h"

#define SUMS "sums"

static const char *const files[] = {"tokenizer.json", MF_STORED_FILES};
enum { FILES = sizeof files / sizeof *files, HASH = 33 };

int mf_file_sums_put(mf_jw *w, const char *manifest)
{
    char *folder = mf_parent_of(manifest), hash[HASH];
    int rc = folder ? MF_OK : MF_ENOMEM;
    mf_jw_key(w, SUMS);
    mf_jw_object(w);
    for (int i = 0; rc == MF_OK && i < FILES; i++) {
        char *path = mf_path_join(folder, files[i]);
        if (!path) rc = MF_ENOMEM;
        const bool there = path && mf_exists(path);
        if (there) rc = mf_hash_file(path, hash);
        if (there && rc == MF_OK) mf_jw_kv_string(w, files[i], hash);
        mf_free(path);
    }
    mf_jw_end(w);
    mf_free(folder);
    return rc;
}

static int verify_file(const mf_rundir *dir, const char *name, const char *expected)
{
    char hash[HASH];
    char *path = mf_path_join(dir->path, name);
    int rc = path ? mf_hash_file(path, hash) : MF_ENOMEM;
    if (rc == MF_ENOTFOUND)
        rc = mf_fail(MF_EINPUT, "%s: is missing: expected the file that the run began with",
                     path);
    else if (rc == MF_OK && strcmp(hash, expected) != 0)
        rc = mf_fail(MF_EINPUT, "%s: has changed: expected XXH3-128 %s, found %s", path,
                     expected, hash);
    mf_free(path);
    return rc;
}

/* ---- config.ini ---- */

/* Finds the name of a plugin without its folder and ending. The path of its file may
 * have changed. */
static size_t plugin_name(const char *value, const char **ret)
{
    const char *slash = strrchr(value, '/');
    *ret = slash ? slash + 1 : value;
    const size_t n = strlen(*ret);
    return n > 3 && strcmp(*ret + n - 3, ".so") == 0 ? n - 3 : n;
}

static bool same_value(const mf_section *s, const char *key, const char *a, const char *b)
{
    const char *x, *y;
    if (!s->plugin || (strcmp(key, "plugin") != 0 && strcmp(key, "file") != 0))
        return strcmp(a, b) == 0;
    if (strcmp(key, "file") == 0) return true;
    const size_t n = plugin_name(a, &x), m = plugin_name(b, &y);
    return n == m && memcmp(x, y, n) == 0;
}

/* Compares the keys of `a` that determine the meaning of the weights with those of `b`. found:
 * a is the file, b its earlier content; false: the reverse. */
static int compare(const char *path, mf_ini *a, mf_ini *b, bool found)
{
    for (int i = 0; i < mf_ini_count(a); i++) {
        const mf_ini_entry *e = mf_ini_at(a, i), *other = mf_ini_get(b, e->section, e->key);
        const mf_section *s = mf_section_find(mf_config_sections, e->section);
        if (!s || !mf_section_fixed(s, e->key)) continue;
        if (other && same_value(s, e->key, e->value, other->value)) continue;
        const char *now = found   ? e->value
                          : other ? other->value
                                  : "nothing",
                   *before = !found  ? e->value
                             : other ? other->value
                                     : "nothing";
        return mf_fail(
            MF_EINPUT,
            "%s: has changed: %s.%s: expected %s, with which the run was made, found "
            "%s",
            path, e->section, e->key, before, now);
    }
    return MF_OK;
}

static int verify_config(const mf_rundir *dir, const char *was)
{
    mf_ini *file = mf_ini_new(), *before = mf_ini_new();
    char *text = NULL;
    size_t n = 0;
    int rc =
        file && before ? mf_read_file(dir->config, MF_RUN_MANIFEST_MAX, &text, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_ini_load_text(file, dir->config, text, n);
    if (rc == MF_OK) rc = mf_ini_load_text(before, dir->manifest, was, strlen(was));
    if (rc == MF_OK) rc = compare(dir->config, file, before, true);
    if (rc == MF_OK) rc = compare(dir->config, before, file, false);
    mf_free(text);
    mf_ini_free(file);
    mf_ini_free(before);
    return rc;
}

static int verify_manifest(const mf_rundir *dir, const mf_json *doc)
{
    const mf_json *sums = mf_json_get(doc, SUMS);
    const char *config = mf_json_string(mf_json_get(doc, MF_RUN_CONFIG), NULL);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < FILES; i++) {
        const char *expected = mf_json_string(mf_json_get(sums, files[i]), NULL);
        if (expected) rc = verify_file(dir, files[i], expected);
    }
    return rc == MF_OK && config ? verify_config(dir, config) : rc;
}

int mf_file_sums_verify(const mf_rundir *dir, uint64_t *ret_bytes)
{
    mf_json *doc = NULL;
    char *text = NULL;
    size_t n = 0;
    *ret_bytes = 0;
    int rc = mf_read_file(dir->manifest, MF_RUN_MANIFEST_MAX, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(dir->manifest, text, n, &doc);
    if (rc == MF_OK) rc = verify_manifest(dir, doc);
    if (rc == MF_ENOTFOUND) { /* a run of an early version */
        mf_error_clear();
        rc = MF_OK;
    }
    if (rc == MF_OK) rc = mf_stored_files_verify(dir->stored, ret_bytes);
    mf_json_free(doc);
    mf_free(text);
    return rc;
}
