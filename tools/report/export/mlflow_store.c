/* Finds or names an experiment in MLflow's file store, and writes the store's small files. A
 * folder is an experiment only if its meta.yaml says so. Other folders are never changed. */
#include "report/export/mlflow_store.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/text/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 250, META_MAX = 1 << 20 };
#define TRASH ".trash" /* folder to which MLflow moves deleted experiments */

/* ---- meta.yaml ---- */

/* Copies the value of the line "key: value", without quotes. Returns false if no line has
 * the key. */
static bool yaml_value(const char *text, const char *key, char *out, size_t room)
{
    const size_t n = strlen(key);
    for (; text != NULL; text = strchr(text, '\n'), text += text != NULL) {
        if (strncmp(text, key, n) != 0 || text[n] != ':') continue;
        const char *at = text + n + 1 + strspn(text + n + 1, " ");
        const char quote = *at == '\'' || *at == '"' ? *at++ : '\0';
        size_t k = 0;
        for (; *at != '\0' && *at != '\n' && *at != '\r' && k + 1 < room; at++) {
            if (quote != '\0' && *at == quote) {
                if (quote == '"' || at[1] != quote) break;
                at++; /* within quotes, '' means one ' */
            } else if (quote == '"' && *at == '\\' && (at[1] == '"' || at[1] == '\\')) {
                at++;
            }
            out[k++] = *at;
        }
        while (quote == '\0' && k > 0 && out[k - 1] == ' ')
            k--;
        out[k] = '\0';
        return true;
    }
    return false;
}

/* Writes a text in quotes. YAML does not allow control characters, which the name of a run or
 * of a user may contain, so mf_shown replaces them. */
static void put_quoted(mf_doc *d, const char *text)
{
    mf_doc_put(d, "'");
    for (text = mf_shown(text); *text != '\0'; text++)
        mf_doc_printf(d, *text == '\'' ? "''" : "%c", *text);
    mf_doc_put(d, "'");
}

int mf_mlflow_meta(const char *folder, int n, const mf_mlflow_field *fields)
{
    mf_doc *d = mf_doc_new();
    size_t size = 0;
    if (!d) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        mf_doc_printf(d, "%s: ", fields[i].key);
        if (fields[i].text)
            put_quoted(d, fields[i].text);
        else
            mf_doc_printf(d, "%lld", (long long)fields[i].number);
        mf_doc_put(d, "\n");
    }
    const char *text = mf_doc_string(d, &size);
    int rc = text ? mf_mlflow_put(folder, "meta.yaml", text, size) : MF_ENOMEM;
    mf_doc_free(d);
    return rc;
}

void mf_mlflow_uri(mf_doc *d, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~";
    mf_doc_put(d, "file://");
    for (; *path != '\0'; path++)
        mf_doc_printf(d, strchr(plain, *path) ? "%c" : "%%%02X", (unsigned char)*path);
}

int mf_mlflow_put(const char *folder, const char *name, const char *text, size_t n)
{
    char safe[NAME_MAX_BYTES + 1];
    mf_writer w = {0};
    if (strlen(name) > NAME_MAX_BYTES)
        return mf_fail(MF_EINPUT,
                       "the name %.60s... is too long for MLflow: expected at most %d bytes, "
                       "found %zu",
                       name, NAME_MAX_BYTES, strlen(name));
    snprintf(safe, sizeof safe, "%s", name);
    for (char *c = safe; *c != '\0'; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
              (*c >= '0' && *c <= '9') || *c == '_' || *c == '-' || *c == '.' || *c == ' '))
            *c = '_';
    char *path = mf_path_join(folder, safe);
    int rc = path ? mf_writer_open(&w, path, true) : MF_ENOMEM;
    if (rc == MF_OK) mf_writer_put(&w, text, n);
    const int closed = mf_writer_close(&w, false);
    mf_free(path);
    return rc == MF_OK ? closed : rc;
}

/* ---- experiments ---- */

/* Reads the name of the experiment in a folder of the store, and whether it was deleted.
 * *ret_is: whether the folder contains an experiment. */
static int name_of(const char *store, const char *folder, char *out, size_t room, bool *ret_is,
                   bool *ret_deleted)
{
    char *dir = mf_path_join(store, folder),
         *path = dir ? mf_path_join(dir, "meta.yaml") : NULL;
    char *text = NULL, stage[32] = "";
    size_t n;
    *ret_is = false;
    int rc = path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(path)) rc = mf_read_file(path, META_MAX, &text, &n);
    if (rc == MF_OK && text)
        *ret_is = yaml_value(text, "name", out, room) &&
                  yaml_value(text, "lifecycle_stage", stage, sizeof stage);
    *ret_deleted = strcmp(stage, "deleted") == 0;
    mf_free(text);
    mf_free(path);
    mf_free(dir);
    return rc;
}

/* Makes an id of 18 digits, like the ids of MLflow, from a hash of the name and the
 * number nth. */
static void make_id(const char *name, int nth, char out[MF_MLFLOW_ID])
{
    char text[NAME_MAX_BYTES + 16], hash[33];
    snprintf(text, sizeof text, "%s/%d", name, nth);
    mf_hash_bytes(text, strlen(text), hash);
    hash[15] = '\0';
    const unsigned long long number = strtoull(hash, NULL, 16);
    snprintf(out, MF_MLFLOW_ID, "%llu", 100000000000000000ull + number % 900000000000000000ull);
}

static int judge_name(const char *name)
{
    if (name[0] == '\0' || strlen(name) > NAME_MAX_BYTES)
        return mf_fail(MF_EUSAGE, "--experiment: expected a name of 1 to %d bytes, found %zu",
                       NAME_MAX_BYTES, strlen(name));
    if (mf_shown(name) != name)
        return mf_fail(MF_EUSAGE,
                       "--experiment: expected one line of UTF-8 without control characters, "
                       "found '%s'",
                       name);
    return MF_OK;
}

/* Finds the experiment with this name among the folders, and counts the folders that belong to
 * MLflow. A deleted experiment (in .trash or marked) keeps its name in MLflow, so it is an
 * error here. */
static int find(const char *store, const char *name, bool trash, char **folders, int n,
                int *ret_at, int *ret_known)
{
    int rc = MF_OK;
    *ret_at = -1;
    *ret_known = 0;
    for (int i = 0; rc == MF_OK && i < n && *ret_at < 0; i++) {
        char found[4 * NAME_MAX_BYTES];
        bool is, deleted;
        rc = name_of(store, folders[i], found, sizeof found, &is, &deleted);
        *ret_known += is || strcmp(folders[i], TRASH) == 0 || strcmp(folders[i], "models") == 0;
        if (rc != MF_OK || !is || strcmp(found, name) != 0) continue;
        if (deleted || trash)
            rc = mf_fail(MF_EUSAGE,
                         "%s: the experiment '%s' was deleted (%s); restore it (mlflow "
                         "experiments restore), remove that folder, or give another name",
                         store, name, folders[i]);
        *ret_at = i;
    }
    return rc;
}

static int search_trash(const char *store, const char *name)
{
    char *trash = mf_path_join(store, TRASH), **folders = NULL;
    int n = 0, at, known, rc = trash ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_is_dir(trash)) rc = mf_list_dir(trash, &folders, &n);
    if (rc == MF_OK) rc = find(trash, name, true, folders, n, &at, &known);
    mf_list_free(folders, n);
    mf_free(trash);
    return rc;
}

static int search(const char *store, const char *name, char **folders, int n,
                  char ret_id[MF_MLFLOW_ID], bool *ret_there)
{
    int at, known, nth = 0, rc = find(store, name, false, folders, n, &at, &known);
    if (rc == MF_OK && at < 0) rc = search_trash(store, name);
    *ret_there = rc == MF_OK && at >= 0;
    if (*ret_there) snprintf(ret_id, MF_MLFLOW_ID, "%s", folders[at]);
    if (rc != MF_OK || *ret_there) return rc;
    if (n > 0 && known == 0)
        return mf_fail(
            MF_EUSAGE,
            "%s: holds '%s' and no experiment of MLflow; expected a new folder, or a "
            "store",
            store, folders[0]);
    bool taken;
    do {
        make_id(name, nth++, ret_id);
        taken = false;
        for (int i = 0; i < n; i++)
            taken = taken || strcmp(folders[i], ret_id) == 0;
    } while (taken);
    return MF_OK;
}

int mf_mlflow_experiment(const char *store, const char *name, char ret_id[MF_MLFLOW_ID],
                         bool *ret_there)
{
    char **folders = NULL;
    int n = 0, rc = judge_name(name);
    *ret_there = false;
    if (rc != MF_OK) return rc;
    if (mf_exists(store) && !mf_is_dir(store))
        return mf_fail(MF_EUSAGE, "%s: is a file; expected a new folder, or a store of MLflow",
                       store);
    if (mf_exists(store)) rc = mf_list_dir(store, &folders, &n);
    if (rc == MF_OK) rc = search(store, name, folders, n, ret_id, ret_there);
    mf_list_free(folders, n);
    return rc;
}
