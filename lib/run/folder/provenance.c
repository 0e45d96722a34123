/* run/folder/provenance.c: writes manifest.json, and reads from it the dimensions and class
 * names of the model. */
#include "run/folder/provenance.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "io/json.h"
#include "base/mem.h"
#include "base/thread/thread_memory.h"
#include "base/thread/parallel.h"
#include "run/folder/processor.h"
#include "kernels/kernel.h"
#include <moefw/version.h>
#include "plugin/load/open.h"
#include "run/cost.h"
#include "run/folder/changes.h"
#include "run/folder/file_sums.h"

#define MAX_PLUGINS 64

static bool is_of(const mf_ctx *instance, const mf_loaded *p)
{
    return instance && mf_instance_plugin(instance) == p;
}

/* Whether the model uses a plugin. The process may have loaded other plugins, for another model
 * or to list their options. */
static bool in_use(const mf_loaded *p, const mf_model *m)
{
    bool found = false;
    for (int32_t i = 0; i < m->n_moe; i++)
        found = found || is_of(m->moe[i].router, p) || is_of(m->moe[i].expert, p);
    for (int i = 0; i < m->config->n_regularizers; i++)
        found = found || is_of(m->regularizers[i], p);
    for (int i = 0; i < m->config->n_controllers; i++)
        found = found || is_of(m->controllers[i], p);
    for (int i = 0; i < m->config->n_adapters; i++)
        found = found || m->adapter_plugins[i] == p;
    return found;
}

/* Memory for the results of mf_provenance_now and mf_provenance_of. */
typedef struct texts {
    mf_provenance now, of;
    mf_provenance_plugin plugins[MAX_PLUGINS];
    char kernels[64], cpu[MF_CPU_TEXT];
} texts;

static texts *own(void)
{
    static texts spare;
    return mf_thread_memory(MF_THREAD_PROVENANCE, sizeof spare, &spare);
}

const mf_provenance *mf_provenance_now(const mf_model *m)
{
    texts *t = own();
    const mf_loaded *p;
    const char *name = mf_backend_kernels()->name;
    if (strcmp(name, "cpu") == 0)
        snprintf(t->kernels, sizeof t->kernels, "cpu %s", mf_kernels_isa());
    else
        snprintf(t->kernels, sizeof t->kernels, "%s", name);
    if (!t->cpu[0]) mf_cpu_name(t->cpu);
    int n = 0;
    for (int i = 0; n < MAX_PLUGINS && (p = mf_plugin_loaded(i)); i++)
        if (in_use(p, m))
            t->plugins[n++] =
                (mf_provenance_plugin){p->name, mf_kind_name(p->kind), p->path, p->hash};
    t->now = (mf_provenance){.version = MOEFW_VERSION,
                             .abi = (int)MF_ABI,
                             .threads = mf_parallel_threads(),
                             .kernels = t->kernels,
                             .cpu = t->cpu,
                             .blas = mf_backend_blas(),
                             .plugins = t->plugins,
                             .n_plugins = n};
    return &t->now;
}

const mf_provenance *mf_provenance_of(const mf_session *s)
{
    mf_provenance *id = &own()->of;
    *id = *mf_provenance_now(s->model);
    id->run = s->run_id;
    id->data = s->data.pieces;
    id->data_all = s->data.all;
    id->data_files = s->data.files;
    return id;
}

/* ---- names of a run and of its data ---- */

enum { HASH = 33 };

void mf_provenance_name_data(mf_session *s)
{
    if (s->corpus && !s->other_data && !s->data.pieces[0])
        mf_data_sums_take(s->corpus, &s->data);
}

int mf_provenance_name(mf_session *s, const char *config, const char *weights)
{
    char text[3 * 64] = "", hash[2][HASH];
    const long long now = (long long)time(NULL);
    int rc = mf_hash_file(config, hash[0]);
    if (rc == MF_OK) rc = mf_hash_file(weights, hash[1]);
    if (rc != MF_OK) return rc;
    snprintf(text, sizeof text, "%lld\n%s\n%s\n", now, hash[0], hash[1]);
    mf_hash_bytes(text, strlen(text), s->run_id);
    mf_provenance_name_data(s);
    return MF_OK;
}

static int read_manifest(const char *path, mf_json **ret)
{
    char *text;
    size_t n;
    int rc = mf_read_file(path, MF_RUN_MANIFEST_MAX, &text, &n);
    if (rc != MF_OK) return rc;
    rc = mf_json_parse(path, text, n, ret);
    mf_free(text);
    return rc;
}

int mf_provenance_read_id(const char *path, char ret[MF_PROVENANCE_ID], bool *ret_found)
{
    mf_json *doc = NULL;
    int rc = read_manifest(path, &doc);
    *ret_found = rc == MF_OK;
    ret[0] = '\0';
    if (rc != MF_OK && rc != MF_ENOTFOUND) return rc;
    if (rc != MF_OK) mf_error_clear();
    const char *id = mf_json_string(mf_json_get(doc, "id"), NULL);
    snprintf(ret, MF_PROVENANCE_ID, "%s", id ? id : "");
    mf_json_free(doc);
    return MF_OK;
}

int mf_provenance_recall(mf_session *s, const char *path)
{
    bool found;
    const int rc = mf_provenance_read_id(path, s->run_id, &found);
    if (rc != MF_OK) return rc;
    if (!found)
        mf_log(
            MF_LOG_WARN,
            "%s is missing: nothing tells whether the checkpoint is of this run or of another",
            path);
    mf_provenance_name_data(s);
    return MF_OK;
}

/* ---- the manifest of a run ---- */

static void put_plugins(mf_jw *w, const mf_model *m)
{
    const mf_loaded *p;
    mf_jw_key(w, "plugins");
    mf_jw_array(w);
    for (int i = 0; (p = mf_plugin_loaded(i)); i++) {
        if (!in_use(p, m)) continue;
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", p->name);
        mf_jw_kv_string(w, "kind", mf_kind_name(p->kind));
        mf_jw_kv_string(w, "file", p->path);
        mf_jw_kv_string(w, "xxh3_128", p->hash);
        mf_jw_kv_int(w, "abi", p->abi);
        mf_jw_kv_string(w, "version", p->version);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_names(mf_jw *w, const char *key, char *const *classes, int32_t n)
{
    if (n == 0) return;
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int32_t i = 0; i < n; i++)
        mf_jw_string(w, classes[i]);
    mf_jw_end(w);
}

/* Writes one object per task: name, kind, size of the head, and classes. */
static void put_tasks(mf_jw *w, const mf_session *s)
{
    const mf_model *m = s->model;
    const int n = mf_model_tasks(m);
    if (n == 0) return;
    mf_jw_key(w, "tasks");
    mf_jw_array(w);
    for (int i = 0; i < n; i++) {
        const bool number = mf_model_task_kind(m, i) == MF_TASK_REGRESS;
        const mf_corpus_answers *a = i > 0 && s->corpus ? &s->corpus->more[i - 1] : NULL;
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", mf_model_task_name(m, i));
        mf_jw_kv_string(w, "task", number ? "regress" : "classify");
        mf_jw_kv_int(w, "params", mf_model_task_params(m, i));
        if (!number)
            mf_jw_kv_int(w, "classes", i == 0 ? m->dims.classes : m->dims.more_classes[i - 1]);
        if (a) put_names(w, "class_names", a->classes, a->n_classes);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

int mf_provenance_write(const char *path, mf_session *s, const char *config)
{
    const unsigned long faults = mf_faults();
    const mf_provenance *id = mf_provenance_of(s);
    int64_t all, active;
    mf_model_module module[MF_MODEL_MODULES];
    char began[32];
    const time_t now = time(NULL);
    struct tm utc;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    gmtime_r(&now, &utc);
    strftime(began, sizeof began, "%Y-%m-%dT%H:%M:%SZ", &utc);
    mf_model_count(s->model, &all, &active);
    mf_jw_object(w);
    mf_jw_kv_string(w, "moefw", id->version);
    mf_jw_kv_int(w, "abi", id->abi);
    mf_jw_kv_string(w, "began", began);
    if (*id->run) mf_jw_kv_string(w, "id", id->run);
    if (*id->data) mf_jw_kv_string(w, "data", id->data);
    if (*id->data_all) mf_jw_kv_string(w, "data_all", id->data_all);
    mf_jw_kv_string(w, "name", s->config->name ? s->config->name : "");
    mf_jw_kv_int(w, "seed", s->config->train.seed);
    mf_jw_kv_int(w, "steps", s->steps);
    mf_jw_kv_int(w, "params", all);
    mf_jw_kv_int(w, "params_active", active);
    mf_cost_put_modules(w, mf_model_modules(s->model, module), module);
    mf_jw_kv_int(w, "vocab", s->model->dims.vocab);
    mf_jw_kv_int(w, "labels", s->model->dims.labels);
    mf_jw_kv_int(w, "classes", s->model->dims.classes);
    if (s->corpus) put_names(w, "class_names", s->corpus->classes, s->corpus->n_classes);
    if (s->corpus) put_names(w, "label_names", s->corpus->label_names, s->corpus->n_labels);
    put_tasks(w, s);
    mf_jw_kv_string(w, "kernels", id->kernels);
    mf_jw_kv_string(w, "blas", id->blas ? id->blas : "");
    mf_jw_kv_string(w, "cpu", id->cpu);
    char features[MF_CPU_TEXT];
    mf_cpu_features(features);
    mf_jw_kv_string(w, "cpu_features", features);
    mf_jw_kv_int(w, "threads", id->threads);
    double floor = (double)NAN;
    int rc = MF_OK;
    if (s->corpus)
        rc = mf_corpus_floor(s->corpus, MF_SPLIT_VAL, MF_FLOOR_PAST, 0, 0, 0, &floor);
    if (!isnan(floor)) mf_jw_kv_real(w, "entropy_floor", floor);
    put_plugins(w, s->model);
    if (rc == MF_OK) rc = mf_file_sums_put(w, path);
    mf_jw_kv_string(w, MF_RUN_CONFIG, config);
    mf_jw_end(w);
    size_t n;
    const char *text = mf_jw_text(w, &n);
    /* If an entry could not be read, it is missing in the text, so the manifest is
     * not written. */
    if (rc == MF_OK && mf_faults() != faults) {
        const char *why = mf_fault_last(&rc);
        rc = mf_fail(rc, "%s: %s", path, why);
    }
    if (rc == MF_OK) rc = text ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

/* The manifest's entry of the i-th [task.NAME]; model.task is not counted. */
static const mf_json *further_task(const mf_json *doc, int i)
{
    const mf_json *list = mf_json_get(doc, "tasks");
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    return (size_t)i + 1 < n ? mf_json_at(list, (size_t)i + 1) : NULL;
}

int mf_provenance_read_dims(const char *path, mf_model_dims *ret)
{
    static const char *const keys[] = {"vocab", "labels", "classes"};
    int64_t value[3];
    mf_json *doc = NULL;
    int rc = read_manifest(path, &doc);
    for (int i = 0; rc == MF_OK && i < 3; i++)
        if (!mf_json_int(mf_json_get(doc, keys[i]), &value[i]) || value[i] < (i == 0) ||
            value[i] > INT32_MAX)
            rc = mf_fail(MF_EINPUT, "%s: expected a whole number \"%s\"", path, keys[i]);
    if (rc == MF_OK)
        *ret = (mf_model_dims){.vocab = (int32_t)value[0],
                               .labels = (int32_t)value[1],
                               .classes = (int32_t)value[2]};
    for (int i = 0; rc == MF_OK && i < MF_TASKS_MAX; i++) {
        const mf_json *classes = mf_json_get(further_task(doc, i), "classes");
        int64_t n = 0;
        if (classes && (!mf_json_int(classes, &n) || n < 0 || n > INT32_MAX))
            rc = mf_fail(MF_EINPUT, "%s: \"tasks\"[%d]: expected a whole number \"classes\"",
                         path, i + 1);
        ret->more_classes[i] = (int32_t)n;
    }
    mf_json_free(doc);
    return rc;
}

/* Copies a list of strings. The pointers and the texts are in one block of memory. */
static int copy_names(const char *path, const char *key, const mf_json *list, const char ***ret)
{
    const size_t n = mf_json_size(list);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = mf_json_string(mf_json_at(list, i), NULL);
        if (name == NULL) return mf_fail(MF_EINPUT, "%s: \"%s\": expected strings", path, key);
        bytes += strlen(name) + 1;
    }
    const char **names = mf_alloc(n * sizeof *names + bytes, 1);
    if (names == NULL) return MF_ENOMEM;
    char *at = (char *)(names + n);
    for (size_t i = 0; i < n; i++) {
        const char *name = mf_json_string(mf_json_at(list, i), NULL);
        names[i] = strcpy(at, name);
        at += strlen(name) + 1;
    }
    *ret = names;
    return MF_OK;
}

static int read_names(const char *path, const mf_json *object, const char *key,
                      const char ***ret_names, int32_t *ret_n)
{
    const mf_json *list = mf_json_get(object, key);
    if (mf_json_typeof(list) != MF_JSON_ARRAY || mf_json_size(list) == 0) return MF_OK;
    int rc = copy_names(path, key, list, ret_names);
    if (rc == MF_OK) *ret_n = (int32_t)mf_json_size(list);
    return rc;
}

static int read_list(const char *path, const char *key, const char ***ret_names, int32_t *ret_n)
{
    mf_json *doc = NULL;
    *ret_names = NULL;
    *ret_n = 0;
    int rc = read_manifest(path, &doc);
    if (rc == MF_OK) rc = read_names(path, doc, key, ret_names, ret_n);
    mf_json_free(doc);
    return rc;
}

int mf_provenance_read_classes(const char *path, const char ***ret_names, int32_t *ret_n)
{
    return read_list(path, "class_names", ret_names, ret_n);
}

int mf_provenance_read_labels(const char *path, const char ***ret_names, int32_t *ret_n)
{
    return read_list(path, "label_names", ret_names, ret_n);
}

int mf_provenance_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX])
{
    mf_json *doc = NULL;
    int rc = read_manifest(path, &doc);
    for (int i = 0; i < MF_TASKS_MAX; i++)
        ret[i] = (mf_names){0};
    for (int i = 0; rc == MF_OK && i < MF_TASKS_MAX; i++)
        rc = read_names(path, further_task(doc, i), "class_names", &ret[i].name, &ret[i].n);
    mf_json_free(doc);
    return rc;
}
