/* run/run_config.c: the sections of the whole configuration: the offset of each section in
 * mf_config, and the rules between keys of different sections. */
#include "run/run_config.h"
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "run/config_write.h"
#include "run/metrics/tracking.h"
#include "run/sample/sample_steps.h"
#include "run/sections/section_plugins.h"
#include "run/sections/run_sections.h"

#define AT(part, field)                                                                        \
    {                                                                                          \
        &part, offsetof(mf_config, field), 0                                                   \
    }
#define ALL(part, field)                                                                       \
    {                                                                                          \
        &part, offsetof(mf_config, field), offsetof(mf_config, n_##field)                      \
    }

const mf_section_at mf_config_sections[] = {
    AT(mf_model_section, model),
    ALL(mf_task_sections, tasks),
    AT(mf_moe_section, moe),
    ALL(mf_block_sections, blocks),
    AT(mf_router_section, router),
    ALL(mf_router_sections, routers),
    AT(mf_expert_section, expert),
    ALL(mf_expert_sections, layer_experts),
    ALL(mf_adapter_sections, adapters),
    ALL(mf_regularizer_sections, regularizers),
    ALL(mf_controller_sections, controllers),
    AT(mf_data_section, data),
    AT(mf_train_section, train),
    AT(mf_device_section, device),
    AT(mf_report_section, report),
    AT(mf_log_section, log),
    AT(mf_trace_section, trace),
    AT(mf_parallel_section, parallel),
    AT(mf_calls_section, calls),
    {NULL, 0, 0},
};

mf_model_settings mf_config_model(const mf_config *c)
{
    return (mf_model_settings){.model = c->model,
                               .moe = c->moe,
                               .tasks = c->tasks,
                               .n_tasks = c->n_tasks,
                               .router = c->router,
                               .routers = c->routers,
                               .n_routers = c->n_routers,
                               .expert = c->expert,
                               .layer_experts = c->layer_experts,
                               .n_layer_experts = c->n_layer_experts,
                               .blocks = c->blocks,
                               .n_blocks = c->n_blocks,
                               .regularizers = c->regularizers,
                               .n_regularizers = c->n_regularizers,
                               .controllers = c->controllers,
                               .n_controllers = c->n_controllers,
                               .adapters = c->adapters,
                               .n_adapters = c->n_adapters,
                               .ini = c->ini};
}

/* ---- derived values ---- */

/* Both steps and epochs set the length of training. The later source has priority. It is an
 * error if one file sets both. */
static void settle_length(mf_config *c, mf_config_faults *j)
{
    mf_train_config *t = &c->train;
    const mf_ini_entry *epochs = mf_ini_get(c->ini, "train", "epochs");
    const mf_ini_entry *steps = mf_ini_get(c->ini, "train", "steps");
    if (!epochs || t->epochs == 0 || t->steps == 0) return;
    if (!steps) {
        t->steps = 0;
        return;
    }
    if (strcmp(steps->file, epochs->file) == 0 && mf_ini_is_file(steps->file)) {
        mf_config_fault_at(j, epochs, NULL,
                           "both 'steps' (line %d) and 'epochs' say how long to train: "
                           "expected one of them",
                           steps->line);
        return;
    }
    if (steps->index > epochs->index)
        t->epochs = 0;
    else
        t->steps = 0;
}

/* ---- rules ---- */

static bool good_device(const char *device)
{
    if (strcmp(device, "cpu") == 0 || strcmp(device, "cuda") == 0) return true;
    /* these devices are for tests */
    if (strcmp(device, "strict") == 0 || strcmp(device, "emu") == 0) return true;
    return strncmp(device, "cuda:", 5) == 0 && device[5] != '\0' && strlen(device + 5) <= 4 &&
           strspn(device + 5, "0123456789") == strlen(device + 5);
}

/* At least one task must have the metric that train.best_by names. */
static void judge_best(mf_config_faults *j, const mf_config *c)
{
    const int64_t by = c->train.best_by;
    bool classes = c->model.task == MF_TASK_CLASSIFY,
         numbers = c->model.task == MF_TASK_REGRESS;
    for (int i = 0; i < c->n_tasks; i++) {
        classes = classes || c->tasks[i].task == MF_FURTHER_CLASSIFY;
        numbers = numbers || c->tasks[i].task == MF_FURTHER_REGRESS;
    }
    if ((by == MF_BEST_ACCURACY || by == MF_BEST_MACRO_F1) && !classes)
        mf_config_fault(j, "train", "best_by", "model.task", "loss",
                        "accuracy and macro_f1 want a task that learns classes (classify)");
    if (by >= MF_BEST_MSE && !numbers)
        mf_config_fault(j, "train", "best_by", "model.task", "loss",
                        "mse, pearson and spearman want a task that learns numbers (regress)");
}

static void judge_train(mf_config_faults *j, const mf_config *c)
{
    const mf_train_config *t = &c->train;
    if (t->steps == 0 && t->epochs == 0)
        mf_config_fault(j, "train", "steps", NULL, NULL,
                        "nothing to train: expected steps or epochs above 0");
    if (t->patience > 0 && t->eval_every == 0 && t->eval_epochs == 0)
        mf_config_fault(j, "train", "patience", "train.eval_every", NULL,
                        "expected validations on the way (eval_every or eval_epochs above 0)");
    if (t->routes && t->routes_from[0] == '\0')
        mf_config_fault(j, "train", "routes", "train.routes_from", NULL,
                        "expected train.routes_from = FILE, the trace of the routes");
    if (!t->routes && t->routes_from[0] != '\0')
        mf_config_fault(j, "train", "routes_from", "train.routes", NULL,
                        "expected train.routes = trace with it");
    if (t->routes && c->data.packing)
        mf_config_fault(j, "train", "routes", "data.packing", NULL,
                        "expected data.packing = no: a record begins with its sequence");
    if (!good_device(t->device))
        mf_config_fault(j, "train", "device", NULL, NULL,
                        "expected cpu, cuda or cuda:N, found '%s'", t->device);
}

static void judge_report(mf_config_faults *j, const mf_report_config *r)
{
    int64_t list[MF_PICTURED_MAX];
    int n;
    const char *at = r->sample_at;
    if (!mf_sample_steps_list(at, list, &n))
        mf_config_fault(
            j, "report", "sample_at", NULL, NULL,
            "expected up to %d rising numbers of evaluations, from 1, as 1,5,15,20, found '%s'",
            MF_PICTURED_MAX, at);
}

static void judge_log(mf_config_faults *j, const mf_log_config *l)
{
    if (l->mlflow[0] == '\0') return;
    if (!mf_tracking_is_address(l->mlflow))
        mf_config_fault(j, "log", "mlflow", NULL, NULL,
                        "expected the address of an MLflow server, as http://localhost:5000, "
                        "without a login, found '%s'",
                        strchr(l->mlflow, '@') ? "an address with @" : l->mlflow);
    if (l->mlflow_experiment[0] == '\0')
        mf_config_fault(j, "log", "mlflow_experiment", "log.mlflow", "moefw",
                        "expected the name of an experiment");
}

/* Returns the origin of a value as text: "from FILE:LINE", "from --set", "the default". */
static const char *origin(mf_ini *ini, const char *section, const char *key, char out[256])
{
    const mf_ini_entry *e = mf_ini_get(ini, section, key);
    if (!e)
        snprintf(out, 256, "the default");
    else if (mf_ini_is_file(e->file))
        snprintf(out, 256, "from %s:%d", e->file, e->line);
    else
        snprintf(out, 256, "from %s", e->file);
    return out;
}

/* Often the caller has not set one of the two values, so the message says where both
 * are from. */
static void judge_context(mf_config_faults *j, const mf_config *c)
{
    char of_seq[256], of_context[256];
    if (c->train.eval_context < c->model.seq) return;
    mf_config_fault(j, "train", "eval_context", "model.seq", NULL,
                    "expected less than model.seq (%lld, %s), found %lld (%s); "
                    "train.eval_context=%lld goes with it",
                    (long long)c->model.seq, origin(j->ini, "model", "seq", of_seq),
                    (long long)c->train.eval_context,
                    origin(j->ini, "train", "eval_context", of_context),
                    (long long)c->model.seq / 2);
}

static void judge_all(mf_config_faults *j, const mf_config *c)
{
    const mf_model_settings model = mf_config_model(c);
    mf_model_config_judge(j, &model);
    judge_context(j, c);
    if (c->data.packing && (c->model.task != MF_TASK_LM || c->model.window > 0))
        mf_config_fault(j, "data", "packing",
                        c->model.window > 0 ? "model.window" : "model.task", "no",
                        "expected no, or model.task = lm and model.window = 0");
    judge_best(j, c);
    mf_data_config_judge(j, &c->data);
    judge_train(j, c);
    judge_report(j, &c->report);
    judge_log(j, &c->log);
}

/* ---- configuration ---- */

int mf_config_load_from(const char *config, int n, const mf_assignment *assignments,
                        const mf_problem_sink *sink, mf_config **ret)
{
    *ret = NULL;
    mf_config *c = mf_alloc(1, sizeof *c);
    if (!c) return MF_ENOMEM;
    int first = MF_OK;
    c->arena = mf_arena_new();
    c->ini = mf_ini_new();
    int rc = c->arena && c->ini ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK)
        rc = mf_config_sources(mf_config_sections, c->ini, c->arena, config, n, assignments,
                               &c->given, &c->name);
    mf_config_faults j = {c->ini, sink, MF_OK};
    if (rc == MF_OK) mf_config_judge_refused(&j, c->given);
    if (rc == MF_OK && !sink) rc = j.first;
    if (rc == MF_OK)
        rc = mf_sections_load(mf_config_sections, c, c->ini, c->arena, sink, &first);
    if (rc == MF_OK) {
        mf_model_config_settle(&c->model);
        mf_block_config_settle(c->blocks, c->n_blocks, &c->moe);
        mf_moe_config_settle(&c->moe);
        settle_length(c, &j);
        if (j.first == MF_OK || sink) judge_all(&j, c);
        if (!sink) rc = j.first;
    }
    if (rc != MF_OK) {
        mf_config_free(c);
        return rc;
    }
    *ret = c;
    return first != MF_OK ? first : j.first;
}

int mf_config_load(const char *config, int n_set, const char *const *set, mf_config **ret)
{
    mf_assignment *assignments = mf_alloc((size_t)n_set + 1, sizeof *assignments);
    *ret = NULL;
    if (!assignments) return MF_ENOMEM;
    for (int i = 0; i < n_set; i++)
        assignments[i] = (mf_assignment){set[i], "--set"};
    int rc = mf_config_load_from(config, n_set, assignments, NULL, ret);
    mf_free(assignments);
    return rc;
}

void mf_config_free(mf_config *c)
{
    if (!c) return;
    mf_ini_free(c->ini);
    mf_ini_free(c->given);
    mf_arena_free(c->arena);
    mf_free(c);
}

int mf_config_write(const mf_config *c, FILE *out)
{
    /* The name is that of a file and may contain any bytes. It must be written as one line that
     * the reader of INI files accepts, also by its length. */
    char name[101];
    mf_safe_text(c->name, false, name, sizeof name);
    fprintf(out, "; %s" MF_CONFIG_COMPLETE " To repeat: moefw train config.ini\n", name);
    mf_sections_write(mf_config_sections, c, c->ini, out);
    return ferror(out) ? mf_fail_errno(MF_EIO, "cannot write the configuration") : MF_OK;
}

int mf_config_text(const mf_config *c, const char *what, char **ret, size_t *ret_n)
{
    char *text = NULL;
    const unsigned long faults = mf_faults();
    FILE *f = open_memstream(&text, ret_n);
    *ret = NULL;
    if (!f) return mf_fail(MF_ENOMEM, "no memory for %s", what);
    int rc = mf_config_write(c, f);
    /* If a plugin or a file no longer exists, the writer omits the options of the plugin, or
     * keeps the relative path of the file. If a system error is the cause, this
     * function fails. */
    if (rc == MF_OK && mf_faults() != faults) {
        const char *why = mf_fault_last(&rc);
        rc = mf_fail(rc, "%s: a path or the options of a plugin cannot be read: %s", what, why);
    }
    /* If the stream could not grow and has lost text, fclose does not report it. fclose also
     * does not report a failure of its own last allocation, after which there is no text
     * at all. */
    const bool lost = ferror(f) != 0;
    if ((fclose(f) != 0 || lost || !text) && rc == MF_OK)
        rc = mf_fail(MF_ENOMEM, "no memory for %s", what);
    if (rc == MF_OK && !(*ret = mf_strndup(text, *ret_n))) rc = MF_ENOMEM;
    free(text);
    return rc;
}

/* A dense model does not use a router or an expert. */
static bool unused(const void *conf, const mf_plugin_section *p)
{
    const mf_config *c = conf;
    if (c->model.moe_every > 0) return false;
    return p == &c->router || p == &c->expert || p->of == &mf_router_sections ||
           p->of == &mf_expert_sections;
}

int mf_config_open_plugins(mf_config *c, const mf_problem_sink *sink)
{
    return mf_sections_open_plugins(mf_config_sections, c, c->ini, c->arena, unused, sink);
}
