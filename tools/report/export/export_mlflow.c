/* Writes a run in the layout of MLflow's file store:
 *   STORE/EXPERIMENT_ID/meta.yaml
 *   STORE/EXPERIMENT_ID/RUN_ID/meta.yaml  params/KEY  metrics/SPLIT/NAME  tags/KEY  artifacts/
 * Everything is written to a temporary folder in the store, then renamed once: the run's
 * folder, or the experiment's folder if the experiment is new. */
#include "report/export/export.h"

#include "base/error.h"
#include "base/text/ini.h"
#include "base/file/io.h"
#include "io/json.h"
#include "base/log.h"
#include "base/text/number.h"
#include "report/export/flat.h"
#include "report/export/mlflow_store.h"
#include "run/folder/changes.h"
#include "run/folder/describe.h"
#include "run/folder/rundir.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FINISHED = 3, KILLED = 5 }; /* values of mlflow.entities.RunStatus */

#define BESIDE ".moefw-" /* prefix of the names of temporary folders in a store */

typedef struct work {
    const char *run; /* run directory */
    const mf_export_mlflow_options *o;
    mf_flat flat;
    mf_json *manifest;
    char *manifest_text, *config_text;
    size_t manifest_size, config_size;
    mf_ini *config;
    int64_t began, ended; /* ms since 1970 */
    char id[MF_RUN_HASH], experiment[MF_MLFLOW_ID];
    bool experiment_there;
    char *store;                     /* absolute path */
    char *beside, *folder, *made;    /* STORE/.moefw-N-I; its subfolder EXPERIMENT_ID; in that
                                      * folder, RUN_ID */
    char *final_experiment, *target; /* final paths */
} work;

/* ---- reading ---- */

static int read_text(work *w, const char *name, char **ret, size_t *ret_n)
{
    char *path = mf_path_join(w->run, name);
    if (!path) return MF_ENOMEM;
    int rc = mf_read_file(path, (size_t)4 << 20, ret, ret_n);
    if (rc == MF_ENOTFOUND) rc = mf_rundir_missing(w->run, name);
    mf_free(path);
    return rc;
}

static int read_run(work *w)
{
    int rc = mf_flat_add(&w->flat, w->run);
    if (rc == MF_OK) rc = read_text(w, "config.ini", &w->config_text, &w->config_size);
    if (rc == MF_OK && !(w->config = mf_ini_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) {
        rc = mf_ini_load_text(w->config, "config.ini", w->config_text, w->config_size);
        if (rc == MF_ECONFIG) rc = mf_fail_context(MF_EINPUT, "%s", w->run);
    }
    if (rc == MF_OK) rc = read_text(w, "manifest.json", &w->manifest_text, &w->manifest_size);
    if (rc != MF_OK) return rc;
    rc = mf_json_parse("manifest.json", w->manifest_text, w->manifest_size, &w->manifest);
    return rc == MF_EINPUT ? mf_fail_context(rc, "%s", w->run) : rc;
}

/* ---- times and names ---- */

/* Number of days from 1970-01-01 to a day of the Gregorian calendar. */
static int64_t days_of(int64_t year, int month, int day)
{
    year -= month <= 2; /* years are counted from March, so the leap day is the last day of
                         * a year */
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719468;
}

/* Converts "2026-01-31T23:59:59Z" to ms since 1970; 0 if the text has another form. */
static int64_t time_of(const char *text)
{
    int y, mo, d, h, mi, s;
    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &y, &mo, &d, &h, &mi, &s) != 6)
        return 0;
    return 1000 * (((days_of(y, mo, d) * 24 + h) * 60 + mi) * 60 + s);
}

static int64_t time_at(const work *w, const mf_flat_line *l)
{
    return w->began + (int64_t)llround(1000 * l->wall_s);
}

/* Computes the run's id: a hash of manifest.json and config.ini, with the contents they had
 * when the run began. */
static int identify_files(work *w)
{
    const char *first = mf_json_string(mf_json_get(w->manifest, MF_RUN_FIRST_FILES), NULL);
    if (first && strlen(first) == sizeof w->id - 1 &&
        strspn(first, "0123456789abcdef") == sizeof w->id - 1) {
        snprintf(w->id, sizeof w->id, "%s", first);
        return MF_OK;
    }
    const char *config = mf_json_string(mf_json_get(w->manifest, MF_RUN_CONFIG), NULL);
    return mf_run_files_hash(w->manifest_text, w->manifest_size,
                             config ? config : w->config_text,
                             config ? strlen(config) : w->config_size, w->id);
}

/* Sets the run's id and its times. */
static int identify(work *w)
{
    const int rc = identify_files(w);
    if (rc != MF_OK) return rc;
    w->began = time_of(mf_json_string(mf_json_get(w->manifest, "began"), NULL));
    w->ended = time_at(w, &w->flat.lines[w->flat.n_lines - 1]);
    return MF_OK;
}

static int absolute(const char *path, char **ret)
{
    char here[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return mf_fail_errno(MF_EIO, "%s: the current folder is not known", path);
    *ret = mf_path_join(here, path);
    return *ret ? MF_OK : MF_ENOMEM;
}

/* Warns of the temporary folders of killed exports, because the server would not show them. */
static void tell_leftovers(const char *store)
{
    char **names;
    int n;
    if (!mf_is_dir(store)) return;
    if (mf_list_dir(store, &names, &n) != MF_OK) {
        mf_error_clear();
        return;
    }
    for (int i = 0; i < n; i++)
        if (strncmp(names[i], BESIDE, sizeof BESIDE - 1) == 0)
            mf_log(MF_LOG_WARN,
                   "%s/%s: left of an export that was stopped, unless one goes on now; it "
                   "may be removed",
                   store, names[i]);
    mf_list_free(names, n);
}

/* Chooses an unused name in the store. A process on another machine may have the same number,
 * so the number alone is not enough. */
static int name_beside(work *w)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        w->beside = mf_strf("%s/" BESIDE "%ld-%d", w->o->store, (long)getpid(), i);
        if (!w->beside) return MF_ENOMEM;
        if (!mf_exists(w->beside)) return MF_OK;
        mf_free(w->beside);
        w->beside = NULL;
    }
    return mf_fail(MF_EIO, "%s: %d names of temporary folders are taken", w->o->store, TRIES);
}

static int place(work *w)
{
    int rc = absolute(w->o->store, &w->store);
    if (rc == MF_OK)
        rc = mf_mlflow_experiment(w->o->store, w->o->experiment, w->experiment,
                                  &w->experiment_there);
    if (rc == MF_OK) tell_leftovers(w->o->store);
    if (rc == MF_OK) rc = name_beside(w);
    if (rc != MF_OK) return rc;
    w->folder = w->beside ? mf_path_join(w->beside, w->experiment) : NULL;
    w->made = w->folder ? mf_path_join(w->folder, w->id) : NULL;
    w->final_experiment = mf_path_join(w->o->store, w->experiment);
    w->target = w->final_experiment ? mf_path_join(w->final_experiment, w->id) : NULL;
    if (!w->made || !w->target) return MF_ENOMEM;
    if (mf_exists(w->target))
        return mf_fail(MF_EUSAGE,
                       "%s: is in the store already, as %s; remove that to export it again",
                       w->run, w->target);
    return MF_OK;
}

/* ---- writing ---- */

/* Sets *ret to MADE/FOLDER, and creates it with its parents. The caller frees *ret. */
static int folder_of(const work *w, const char *folder, char **ret)
{
    *ret = mf_path_join(w->made, folder);
    return *ret ? mf_mkdirs(*ret) : MF_ENOMEM;
}

static int put_one(void *arg, const char *name, const char *text)
{
    return mf_mlflow_put(arg, name, text, strlen(text));
}

static int put_params(work *w)
{
    char *dir;
    int rc = folder_of(w, "params", &dir);
    if (rc == MF_OK) rc = mf_describe_keys(w->config, put_one, dir);
    mf_free(dir);
    return rc;
}

static int put_histories(const char *dir, const mf_flat *f, mf_doc *const *history)
{
    char name[512];
    int rc = MF_OK;
    for (int32_t i = 0; rc == MF_OK && i < f->names.n; i++) {
        if (!history[i]) continue;
        size_t n, size;
        const char *of = mf_strings_get(&f->names, i, &n),
                   *text = mf_doc_string(history[i], &size);
        snprintf(name, sizeof name, "%.*s", (int)n, of);
        rc = text ? mf_mlflow_put(dir, name, text, size)
                  : mf_fail(MF_ENOMEM, "out of memory for the history of %s", name);
    }
    return rc;
}

/* Sets *ret to the folder of a split. The split must be a plain word: another text, from a
 * damaged file, could name a path outside the store. */
static int split_folder(const char *metrics, const char *split, char **ret)
{
    const char *words = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (split[0] == '\0' || split[strspn(split, words)] != '\0')
        return mf_fail(MF_EINPUT, "metrics.jsonl: split: expected a word, found '%.60s'",
                       split);
    *ret = mf_path_join(metrics, split);
    return *ret ? MF_OK : MF_ENOMEM;
}

/* Writes one file for each number of a split, with one line per record: time, value, step. */
static int put_split(work *w, const char *split)
{
    const mf_flat *f = &w->flat;
    mf_doc **history = mf_alloc((size_t)f->names.n + 1, sizeof *history);
    char *metrics = NULL, *dir = NULL, number[MF_NUMBER_TEXT];
    int rc = history ? folder_of(w, "metrics", &metrics) : MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < f->n_lines; i++) {
        const mf_flat_line *l = &f->lines[i];
        if (strcmp(l->split, split) != 0) continue;
        for (size_t k = l->first; rc == MF_OK && k < l->first + l->n; k++) {
            const mf_flat_value *v = &f->values[k];
            if (v->counted && w->o->scalars) continue;
            mf_doc **d = &history[v->name];
            if (!*d && !(*d = mf_doc_new())) rc = MF_ENOMEM;
            if (rc == MF_OK)
                mf_doc_printf(*d, "%lld %s %lld\n", (long long)time_at(w, l),
                              mf_format_f64(v->value, number), (long long)l->step);
        }
    }
    if (rc == MF_OK) rc = split_folder(metrics, split, &dir);
    if (rc == MF_OK) rc = mf_mkdirs(dir);
    if (rc == MF_OK) rc = put_histories(dir, f, history);
    for (int32_t i = 0; history && i < f->names.n; i++)
        mf_doc_free(history[i]);
    mf_free(history);
    mf_free(metrics);
    mf_free(dir);
    return rc;
}

/* Whether this line is the first of its split, so that each split is written once. */
static bool first_of_split(const mf_flat *f, size_t line)
{
    for (size_t i = 0; i < line; i++)
        if (strcmp(f->lines[i].split, f->lines[line].split) == 0) return false;
    return true;
}

static int put_metrics(work *w)
{
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < w->flat.n_lines; i++)
        if (first_of_split(&w->flat, i)) rc = put_split(w, w->flat.lines[i].split);
    return rc;
}

static const char *user(void)
{
    const char *name = getenv("USER");
    return name && name[0] != '\0' ? name : "unknown";
}

static int put_tags(work *w)
{
    char *dir;
    int rc = folder_of(w, "tags", &dir);
    if (rc == MF_OK) rc = mf_describe_run(w->manifest, w->run, put_one, dir);
    mf_free(dir);
    return rc;
}

static int put_run_meta(work *w)
{
    double steps = 0;
    char of[128], *artifacts = NULL;
    mf_doc *uri = mf_doc_new();
    mf_json_real(mf_json_get(w->manifest, "steps"), &steps);
    const bool finished = (double)w->flat.lines[w->flat.n_lines - 1].step >= steps;
    int rc = uri ? folder_of(w, "artifacts", &artifacts) : MF_ENOMEM;
    if (rc == MF_OK) {
        mf_mlflow_uri(uri, w->store);
        mf_doc_printf(uri, "/%s/%s/artifacts", w->experiment, w->id);
        const char *where = mf_doc_string(uri, NULL);
        const mf_mlflow_field fields[] = {{"artifact_uri", where ? where : "", 0},
                                          {"end_time", NULL, w->ended},
                                          {"entry_point_name", "", 0},
                                          {"experiment_id", w->experiment, 0},
                                          {"lifecycle_stage", "active", 0},
                                          {"run_id", w->id, 0},
                                          {"run_name", mf_describe_name(w->run, of), 0},
                                          {"run_uuid", w->id, 0},
                                          {"source_name", "", 0},
                                          {"source_type", NULL, 4},
                                          {"source_version", "", 0},
                                          {"start_time", NULL, w->began},
                                          {"status", NULL, finished ? FINISHED : KILLED},
                                          {"user_id", user(), 0}};
        rc =
            where ? mf_mlflow_meta(w->made, sizeof fields / sizeof *fields, fields) : MF_ENOMEM;
    }
    mf_free(artifacts);
    mf_doc_free(uri);
    return rc;
}

static int put_experiment_meta(work *w)
{
    mf_doc *uri = mf_doc_new();
    if (!uri) return MF_ENOMEM;
    mf_mlflow_uri(uri, w->store);
    mf_doc_printf(uri, "/%s", w->experiment);
    const char *where = mf_doc_string(uri, NULL);
    const mf_mlflow_field fields[] = {{"artifact_location", where ? where : "", 0},
                                      {"creation_time", NULL, w->began},
                                      {"experiment_id", w->experiment, 0},
                                      {"last_update_time", NULL, w->began},
                                      {"lifecycle_stage", "active", 0},
                                      {"name", w->o->experiment, 0}};
    int rc =
        where ? mf_mlflow_meta(w->folder, sizeof fields / sizeof *fields, fields) : MF_ENOMEM;
    mf_doc_free(uri);
    return rc;
}

/* Length of the path without its last component; 0 if it has only one. */
static size_t parent_length(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n;
}

/* Removes the empty folders that this export has created for the store. They are the components
 * after the first `there` bytes of the path. */
static void remove_store(char *path, size_t there)
{
    for (size_t n = strlen(path); n > there; n = parent_length(path, n)) {
        path[n] = '\0';
        if (mf_io()->rmdir(path) != 0 && errno != ENOENT) return;
    }
}

/* Writes the temporary folder, then renames it once. The temporary folder is removed on success
 * and on failure. */
static int write_run(work *w)
{
    char *store = mf_strdup(w->o->store);
    if (!store) return MF_ENOMEM;
    size_t there = strlen(store);
    for (char cut; there > 0; there = parent_length(store, there)) {
        cut = store[there];
        store[there] = '\0';
        const bool is = mf_exists(store);
        store[there] = cut;
        if (is) break;
    }
    int rc = mf_mkdirs(w->made);
    if (rc == MF_OK) rc = put_params(w);
    if (rc == MF_OK) rc = put_metrics(w);
    if (rc == MF_OK) rc = put_tags(w);
    if (rc == MF_OK) rc = put_run_meta(w);
    if (rc == MF_OK && !w->experiment_there) rc = put_experiment_meta(w);
    const char *from = w->experiment_there ? w->made : w->folder,
               *to = w->experiment_there ? w->target : w->final_experiment;
    if (rc == MF_OK && mf_io()->rename_new(from, to) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", from, to);
    char said[1024];
    snprintf(said, sizeof said, "%s", mf_error_message());
    if (mf_remove_tree(w->beside) != MF_OK && rc == MF_OK)
        mf_log(MF_LOG_WARN, "%s", mf_error_message());
    if (rc != MF_OK) {
        remove_store(store, there);
        rc = mf_fail(rc, "%s", said);
    }
    mf_free(store);
    return rc;
}

int mf_export_mlflow(const char *run, const mf_export_mlflow_options *options, char **ret_path)
{
    work w = {.run = run, .o = options, .flat = {.apart = true}};
    int rc = read_run(&w);
    if (rc == MF_OK) rc = identify(&w);
    if (rc == MF_OK) rc = place(&w);
    if (rc == MF_OK) rc = write_run(&w);
    if (rc == MF_OK) mf_flat_warn(&w.flat, run);
    *ret_path = rc == MF_OK ? w.target : NULL;
    if (rc != MF_OK) mf_free(w.target);
    mf_flat_free(&w.flat);
    mf_json_free(w.manifest);
    mf_ini_free(w.config);
    mf_free(w.manifest_text);
    mf_free(w.config_text);
    mf_free(w.store);
    mf_free(w.beside);
    mf_free(w.folder);
    mf_free(w.made);
    mf_free(w.final_experiment);
    return rc;
}
