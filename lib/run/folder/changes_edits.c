/* run/folder/changes_edits.c: finds edits of config.ini since moefw last wrote the file, at the
 * start of the run or at a resume. manifest.json contains the text of that time. The two texts
 * are compared without normalizing values. If a version of the program writes values in another
 * form, or has more keys, no change is reported. */
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "io/json.h"
#include "run/folder/changes_parts.h"

/* greatest size in bytes; the reader of INI files has the same limit */
enum { CONFIG_MAX = 1 << 20 };

/* Returns the text of config.ini in the manifest, which the caller frees. NULL: there is no
 * manifest, or an earlier version without this text wrote it. */
static int read_record(const mf_rundir *dir, char **ret)
{
    char *text = NULL;
    size_t n;
    mf_json *doc = NULL;
    *ret = NULL;
    int rc = mf_read_file(dir->manifest, MF_RUN_MANIFEST_MAX, &text, &n);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc == MF_OK) rc = mf_json_parse(dir->manifest, text, n, &doc);
    const char *config = mf_json_string(mf_json_get(doc, MF_RUN_CONFIG), NULL);
    if (rc == MF_OK && config && !(*ret = mf_strdup(config))) rc = MF_ENOMEM;
    mf_json_free(doc);
    mf_free(text);
    return rc;
}

static int parse(const char *name, const char *text, mf_ini **ret)
{
    if (!(*ret = mf_ini_new())) return MF_ENOMEM;
    return mf_ini_load_text(*ret, name, text, strlen(text));
}

const char *mf_run_value(mf_ini *ini, const char *section, const char *key)
{
    const mf_ini_entry *e = mf_ini_get(ini, section, key);
    return e ? e->value : NULL;
}

static bool equal(const char *a, const char *b)
{
    double x, y;
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0 || (mf_parse_f64(a, &x) && mf_parse_f64(b, &y) && x == y);
}

/* Returns the value that was in force for a key of the present config.ini; NULL: none. */
static const char *before(const mf_ini_entry *e, mf_ini *record, mf_ini *file)
{
    const char *then = mf_run_value(record, e->section, e->key),
               *now = mf_run_value(file, e->section, e->key);
    /* the version that wrote the record did not have this key */
    if (!then) return now ? NULL : e->value;
    return equal(then, now) || equal(then, e->value) ? e->value : then;
}

static int put(mf_ini *to, const char *section, const char *key, const char *value)
{
    return value ? mf_ini_put(to, section, key, value, "config.ini", 1) : MF_OK;
}

/* Writes to ret the keys of the present config.ini with the values that were in force before it
 * was edited. all: all keys of the present config.ini; record: its text in the manifest; file:
 * its present text. */
static int undo(mf_ini *all, mf_ini *record, mf_ini *file, mf_ini *ret)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(all); i++) {
        const mf_ini_entry *e = mf_ini_at(all, i);
        if (!mf_ini_has_section(record, e->section) && mf_ini_has_section(file, e->section))
            continue;
        rc = put(ret, e->section, e->key, before(e, record, file));
    }
    for (int i = 0; rc == MF_OK && i < mf_ini_count(record); i++) {
        const mf_ini_entry *e = mf_ini_at(record, i);
        if (mf_run_value(all, e->section, e->key)) continue;
        if (equal(e->value, mf_run_value(file, e->section, e->key))) continue;
        rc = put(ret, e->section, e->key, e->value);
    }
    return rc;
}

int mf_run_edits_undo(const mf_rundir *dir, mf_ini *all, mf_ini **ret)
{
    char *then = NULL, *now = NULL;
    size_t n;
    mf_ini *record = NULL, *file = NULL;
    *ret = NULL;
    int rc = read_record(dir, &then);
    if (rc != MF_OK || !then) return rc;
    rc = mf_read_file(dir->config, CONFIG_MAX, &now, &n);
    if (rc == MF_OK && strcmp(now, then) != 0) {
        rc = parse("\"" MF_RUN_CONFIG "\"", then, &record);
        if (rc == MF_ECONFIG) rc = mf_fail_context(MF_EINPUT, "%s", dir->manifest);
        if (rc == MF_OK) rc = parse(dir->config, now, &file);
        if (rc == MF_OK && !(*ret = mf_ini_new())) rc = MF_ENOMEM;
        if (rc == MF_OK) rc = undo(all, record, file, *ret);
    }
    mf_ini_free(record);
    mf_ini_free(file);
    mf_free(then);
    mf_free(now);
    if (rc != MF_OK) {
        mf_ini_free(*ret);
        *ret = NULL;
    }
    return rc;
}
