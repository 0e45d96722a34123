/* run/folder/describe.c: visits the keys of a run and the members of its manifest. The names
 * are the same as in `moefw export mlflow`. */
#include "run/folder/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/number.h"

int mf_describe_keys(mf_ini *config, mf_describe_visit visit, void *arg)
{
    char name[512];
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(config); i++) {
        const mf_ini_entry *e = mf_ini_at(config, i);
        if (e->overridden) continue;
        snprintf(name, sizeof name, "%s.%s", e->section, e->key);
        rc = visit(arg, name, e->value);
    }
    return rc;
}

const char *mf_describe_name(const char *path, char out[128])
{
    size_t n = strlen(path), begin;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (begin = n; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    snprintf(out, 128, "%.*s", (int)(n - begin), path + begin);
    return out;
}

int mf_describe_run(const mf_json *manifest, const char *path, mf_describe_visit visit,
                    void *arg)
{
    char name[160], number[MF_NUMBER_TEXT], of[128];
    const char *key, *user = getenv("USER");
    const mf_json *value;
    const struct {
        const char *key, *text;
    } known[] = {{"mlflow.runName", mf_describe_name(path, of)},
                 {"mlflow.user", user && user[0] != '\0' ? user : "unknown"},
                 {"mlflow.source.name", "moefw train"},
                 {"mlflow.source.type", "LOCAL"}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof known / sizeof *known; i++)
        rc = visit(arg, known[i].key, known[i].text);
    for (size_t i = 0; rc == MF_OK && mf_json_member(manifest, i, &key, &value); i++) {
        double real;
        const char *text = mf_json_string(value, NULL);
        if (!text && mf_json_real(value, &real)) text = mf_format_f64(real, number);
        if (!text) continue;
        snprintf(name, sizeof name, "moefw.%s", strcmp(key, "moefw") == 0 ? "version" : key);
        rc = visit(arg, name, text);
    }
    return rc;
}

int mf_describe_config_file(const char *config, mf_describe_visit visit, void *arg)
{
    char *text = NULL;
    size_t n = 0;
    int rc = mf_read_file(config, (size_t)4 << 20, &text, &n);
    mf_ini *ini = rc == MF_OK ? mf_ini_new() : NULL;
    if (rc == MF_OK && !ini) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_ini_load_text(ini, config, text, n);
    if (rc == MF_OK) rc = mf_describe_keys(ini, visit, arg);
    mf_ini_free(ini);
    mf_free(text);
    return rc;
}

int mf_describe_manifest_file(const char *manifest, const char *path, mf_describe_visit visit,
                              void *arg)
{
    char *text = NULL;
    size_t n = 0;
    mf_json *v = NULL;
    int rc = mf_read_file(manifest, (size_t)4 << 20, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(manifest, text, n, &v);
    if (rc == MF_OK) rc = mf_describe_run(v, path, visit, arg);
    mf_json_free(v);
    mf_free(text);
    return rc;
}
