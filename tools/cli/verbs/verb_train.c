/* moefw train: starts a run from a configuration, or resumes one. Nothing is written before
 * data and model have been checked. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/ranks.h"
#include "cli/signals.h"
#include "plugin/crash.h"
#include "report/terminal/progress.h"
#include "report/report.h"
#include "report/terminal/summary.h"
#include "run/device_use.h"
#include "run/folder/rundir.h"
#include "run/modules.h"
#include "api/run_internal.h"
#include "run/training.h"

static const mf_cli_form forms[] = {
    {NULL, "[CONFIG|PRESET|RUN]", 0, 1, "train; --resume continues RUN"}, MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "the run's directory; else runs/NAME-N"},
    {.name = "resume",
     .kind = MF_CLI_FLAG,
     .help = "continue from the last checkpoint of RUN, or of the directory of --out"},
    {.name = "steps",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e15,
     .set = "train.steps",
     .help = "optimizer steps"},
    {.name = "seed",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 9e15,
     .set = "train.seed",
     .help = "of weights, data order and noise"},
    MF_CLI_DATA_FILES,
    MF_CLI_END};

/* ---- progress ---- */

/* Seconds between two queries of the device's utilization. Each query needs a driver call. */
#define DEVICE_SECONDS 1.0

typedef struct {
    mf_progress *progress;
    mf_device_use use; /* use of the device at the last query */
    bool on_device;
    double looked;          /* time of the last query; 0: never */
    double eval_began;      /* time at which the present validation began */
    char predictions[1024]; /* scores of the last validation */
} watcher;

/* Queries the use of the device. In the first step tokens_per_s is 0, so the next step queries
 * it again. */
static void look_at_device(watcher *w, const mf_session *s, const mf_step_result *r)
{
    char text[MF_DEVICE_USE_TEXT];
    const double now = mf_clock();
    const bool known = w->use.peak <= 0 || isfinite(w->use.mfu);
    if (!s->device || (w->looked > 0 && known && now - w->looked < DEVICE_SECONDS)) return;
    w->looked = now;
    w->on_device = mf_device_use_of(s, r->graph, (double)r->tokens, r->tokens_per_s, &w->use);
    mf_device_use_short(&w->use, text);
    mf_progress_device(w->progress, text);
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    watcher *w = self;
    look_at_device(w, mf_training_session(t), r);
    mf_progress_step(w->progress, r->step, r->loss, r->tokens_per_s);
    return MF_OK;
}

/* Reports the progress of a validation. The time of a batch shows how long the validation at
 * the end will take. */
static int after_eval_batch(void *self, mf_trainer *t, int64_t done, int64_t total)
{
    watcher *w = self;
    const double now = mf_clock();
    if (done <= 1) w->eval_began = now;
    if (done > 1)
        mf_progress_last(w->progress, (now - w->eval_began) / (double)(done - 1) *
                                          (double)mf_training_last_batches(t));
    mf_progress_batch(w->progress, done, total);
    return MF_OK;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    watcher *w = self;
    (void)t;
    if (strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) != 0) return MF_OK;
    mf_progress_eval(w->progress, r->step, r->task_loss, r->floor,
                     mf_metrics_predictions(r, w->predictions, sizeof w->predictions));
    return MF_OK;
}

static const mf_observer watching = {.name = "progress",
                                     .after_step = after_step,
                                     .after_eval_batch = after_eval_batch,
                                     .after_eval = after_eval};

/* ---- the run ---- */

static void tell(void *arg, int level, const char *line)
{
    (void)arg;
    mf_log((mf_log_level)level, "%s", line);
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether the run's configuration uses the run's own initial weights. import, swap and quantize
 * write such runs, which have not been trained. */
static bool is_own(const char *path)
{
    mf_rundir *dir = NULL;
    mf_config *c = NULL;
    int rc = mf_rundir_read(path, &dir);
    if (rc == MF_OK) rc = mf_config_load(dir->config, 0, NULL, &c);
    const bool own = rc == MF_OK && same_folder(c->train.from, dir->path);
    mf_config_free(c);
    mf_rundir_close(dir);
    if (rc != MF_OK) mf_error_clear();
    return own;
}

static int is_a_run(const char *path)
{
    char word[PATH_MAX];
    mf_shell_word(path, word, sizeof word);
    if (is_own(path))
        return mf_fail(
            MF_EUSAGE,
            "%s is a model that was not trained yet; to train it, from its weights and in "
            "a new run: moefw train %s/config.ini --data FILE",
            path, word);
    return mf_fail(
        MF_EUSAGE,
        "%s is a run; to continue it: moefw train %s --resume; to repeat it: moefw train "
        "%s/config.ini; for a new run with its weights: moefw train %s/config.ini "
        "--set train.from=%s",
        path, word, word, word, word);
}

/* Whether there is nothing at the path that could be continued. Job scripts use this: the same
 * command starts a run and later continues it. */
static bool is_new(const char *path)
{
    char **names;
    int n;
    if (!mf_exists(path)) return true;
    if (!mf_is_dir(path) || mf_list_dir(path, &names, &n) != MF_OK) return false;
    const bool empty = n == 0 || (n == 1 && strcmp(names[0], ".lock") == 0);
    mf_list_free(names, n);
    return empty;
}

/* Determines the run that --resume continues. */
static int run_to_resume(const mf_cli *cli, const char **ret_run)
{
    const char *config_name = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL);
    const bool names_run = config_name && mf_rundir_is(config_name);
    if (!config_name && !out)
        return mf_fail(MF_EUSAGE, "--resume needs a run to continue: moefw train RUN --resume");
    if (names_run && is_own(config_name)) return is_a_run(config_name);
    if (names_run && out && strcmp(config_name, out) != 0)
        return mf_fail(MF_EUSAGE,
                       "--resume: both %s and --out %s name the run to continue; "
                       "give one of them",
                       config_name, out);
    if (out && config_name && !names_run && !is_new(out))
        mf_log(MF_LOG_INFO, "%s continues with its own configuration; %s is not read", out,
               config_name);
    *ret_run = out ? out : config_name;
    return MF_OK;
}

/* Refuses a configuration without data. A program that uses the library can supply its own
 * batches, but this program cannot. */
static int judge_data(const mf_config *c)
{
    if (strcmp(c->data.path, MF_DATA_NONE) != 0) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: data.path = " MF_DATA_NONE ": there are no data: --data FILE names some", c->name);
}

/* For out of memory: says whether this model can be trained on this machine at all. */
static int tell_need(const char *name, int n, const mf_assignment *a)
{
    char why[1024];
    mf_config *config = NULL;
    snprintf(why, sizeof why, "%s", mf_error_message());
    if (mf_config_load_from(name, n, a, NULL, &config) != MF_OK) config = NULL;
    mf_fail(MF_ENOMEM, "%s", why);
    return mf_cli_model_too_large(config);
}

static int open_run(const mf_cli *cli, moefw_run *run)
{
    const char *config_name = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL);
    bool resume = mf_cli_flag(cli, "resume");
    const char *old = NULL;
    mf_assignment *a;
    mf_run_scope scope;
    int n = 0;
    if (!resume && config_name && mf_rundir_is(config_name)) return is_a_run(config_name);
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_cli_assignments(cli, arena, &a, &n) : MF_ENOMEM;
    if (rc == MF_OK) {
        (void)mf_run_enter(run, &scope); /* always succeeds here: no other thread uses
                                          * the handle */
        run->joins = true;
        if (resume) rc = run_to_resume(cli, &old);
        if (rc == MF_OK && resume && out && config_name && !mf_rundir_is(config_name) &&
            is_new(out)) {
            mf_log(MF_LOG_INFO, "%s: there is no run yet, so it begins", out);
            resume = false;
        }
        if (rc == MF_OK && resume) {
            rc = mf_run_resume(run, old, n, a);
        } else if (rc == MF_OK) {
            rc = mf_run_configure(run, config_name, n, a);
            if (rc == MF_OK) rc = judge_data(run->config);
            if (rc == MF_OK) rc = mf_run_start(run, out, out ? NULL : "runs");
            if (rc == MF_ENOMEM) rc = tell_need(config_name, n, a);
        }
        /* One rank prints the errors that occurred before the ranks could join. */
        if (rc != MF_OK) rc = mf_run_join(run, rc);
        rc = mf_run_leave(run, &scope, rc);
    }
    mf_arena_free(arena);
    return rc;
}

/* The unit of the loss; NULL if it is not a cross entropy, or if it is a sum of
 * several losses. */
static const char *unit_of(const mf_session *s)
{
    const mf_config *c = s->config;
    if (c->model.task == MF_TASK_REGRESS || c->n_tasks > 0) return NULL;
    if (c->model.task == MF_TASK_CLASSIFY) return "example";
    if (s->tokenizer && s->tokenizer->vocab == 256) return "byte";
    return s->tokenizer && strcmp(s->tokenizer->ops->name, "char") == 0 ? "char" : "token";
}

/* Describes the tokenizer if the loss is per token of it; NULL: no tokenizer is known. */
static const char *tokenizer_of(const mf_session *s, char *out, size_t size)
{
    const char *unit = unit_of(s);
    if (!unit || strcmp(unit, "token") != 0 || !s->tokenizer) return NULL;
    snprintf(out, size, "a tokenizer %s of %d", s->tokenizer->ops->name,
             (int)s->tokenizer->vocab);
    return out;
}

/* Adds the last and the best validation of the run, from its metrics. Values that cannot be
 * read are missing in the summary. */
static void add_validations(const mf_rundir *dir, mf_summary *s)
{
    mf_metrics_history *h = NULL;
    s->best_step = -1;
    if (mf_metrics_read(dir->metrics, &h) != MF_OK) {
        mf_error_clear();
        return;
    }
    for (int i = 0; i < h->n; i++)
        if (strcmp(h->records[i].split, "val") == 0) s->batches = h->records[i].batches;
    const int best = mf_metrics_best(h->n, h->records);
    if (best >= 0) {
        const mf_metrics_record r = mf_metrics_like(&h->records[best]);
        s->best_step = r.step;
        s->best_batches = r.batches;
        s->best_what = isnan(r.accuracy) ? "loss" : "accuracy";
        s->best = isnan(r.accuracy) ? r.task_loss : r.accuracy;
    }
    mf_metrics_history_free(h);
}

/* Prints one line for each head if the model has several heads. */
static void tell_heads(const mf_model *m)
{
    const int n = mf_model_tasks(m);
    for (int i = 0; n > 1 && i < n; i++) {
        const bool number = mf_model_task_kind(m, i) == MF_TASK_REGRESS;
        mf_log(MF_LOG_INFO, "head %s: %s, %lld parameters, weight %g", mf_model_task_name(m, i),
               number ? "regress" : "classify", (long long)mf_model_task_params(m, i),
               m->task_weights[i]);
    }
}

static void summarise(const mf_session *s, const mf_rundir *dir, const mf_train_result *r,
                      const watcher *w, bool reported)
{
    const mf_terminal t = mf_terminal_of(stderr);
    const mf_config *c = s->config;
    int32_t layers[1024];
    char device[MF_DEVICE_USE_TEXT], tokenizer[64];
    if (w->on_device) mf_device_use_text(&w->use, device);
    for (int32_t i = 0; i < s->model->n_moe && i < 1024; i++)
        layers[i] = s->model->moe[i].layer;
    mf_summary summary = {.run = dir->path,
                          .report = reported ? dir->report : NULL,
                          .unit = unit_of(s),
                          .tokenizer = tokenizer_of(s, tokenizer, sizeof tokenizer),
                          .predictions = w->predictions[0] != '\0' ? w->predictions : NULL,
                          .router = c->router.plugin,
                          .generates = c->model.task == MF_TASK_LM,
                          .steps = r->step,
                          .tokens = r->tokens,
                          .wall_s = r->wall_s,
                          .tokens_per_s = r->tokens_per_s,
                          .device = w->on_device ? device : NULL,
                          .val_loss = r->val_loss,
                          .floor = r->floor,
                          .bits_per_byte = r->bits_per_byte,
                          .n_layers = r->n_layers,
                          .layers = layers,
                          .nmi = r->nmi,
                          .nmi_random = r->nmi_random};
    add_validations(dir, &summary);
    mf_summary_print(&t, &summary);
}

/* Appends to the message of a run that a signal or a limit stopped: how to continue the run. */
static int stopped(int rc)
{
    char message[512];
    if (rc != MF_ESIGNAL && rc != MF_ELIMIT) return rc;
    snprintf(message, sizeof message, "%s", mf_error_message());
    return mf_fail(rc, "%s; continue with --resume", message);
}

/* A path as a user types it from the current folder. */
static const char *from_here(const char *path)
{
    char here[PATH_MAX];
    const size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && strncmp(path, here, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

/* Says which weights are trained: "drawn", "of runs/olmoe, step 0". */
static void weights_text(const moefw_run *run, char *out, size_t size)
{
    const mf_session *s = run->session;
    const char *from = s->config->train.from;
    if (mf_training_resumed(run->trainer))
        snprintf(out, size, "of %s, step %lld", mf_shown(from_here(run->dir->path)),
                 (long long)mf_trainer_steps(run->trainer));
    else if (from[0] == '\0')
        snprintf(out, size, "drawn");
    else if (s->from_missing > 0)
        snprintf(out, size, "of %s, step %lld, %d tensors that it lacks drawn",
                 mf_shown(from_here(from)), (long long)s->from_step, s->from_missing);
    else
        snprintf(out, size, "of %s, step %lld", mf_shown(from_here(from)),
                 (long long)s->from_step);
}

static void introduce(const moefw_run *run)
{
    char weights[2 * PATH_MAX];
    const mf_session *s = run->session;
    moefw_info info = {.size = sizeof info};
    mf_model_module module[MF_MODEL_MODULES];
    if (moefw_run_info((moefw_run *)run, &info) != MF_OK) return;
    weights_text(run, weights, sizeof weights);
    mf_log(
        MF_LOG_INFO,
        "%s: weights: %s; %.2f M parameters, %.2f M active per token; %lld steps; results in "
        "%s",
        s->config->name, weights, (double)info.params / 1e6, (double)info.params_active / 1e6,
        (long long)info.steps, info.directory);
    const int n_modules = mf_model_modules(s->model, module);
    for (int i = 0; i < n_modules; i++)
        mf_log(MF_LOG_DEBUG, "%-9s %lld parameters, %lld active per token", module[i].name,
               (long long)module[i].params, (long long)module[i].active);
    tell_heads(s->model);
}

/* The value of parallel.comm; NULL if it is not known. */
static const char *comm_of(const moefw_run *run)
{
    const mf_config *c = run->session ? run->session->config : run->config;
    return c ? c->parallel.comm : NULL;
}

static bool is_other(const moefw_run *run)
{
    return mf_ranks_other(run->world, comm_of(run));
}

static int train(const mf_cli *cli, moefw_run *run, int *ret_signal)
{
    const mf_terminal terminal = mf_terminal_of(stderr);
    watcher w = {0};
    /* Each rank gets another seed of rand(). A plugin that uses rand() then differs between
     * ranks, and the program detects the difference. With equal seeds it would stay unnoticed.
     * The library does not do this, because a program that uses the library chooses its
     * own seed. */
    if (run->world) srand(1u + (unsigned)mf_world_rank(run->world));
    int rc = mf_trainer_observe(run->trainer, &watching, &w);
    if (rc == MF_OK) rc = mf_trainer_begin(run->trainer);
    if (rc != MF_OK) return rc;
    const bool quiet = mf_cli_quiet(cli) || is_other(run);
    introduce(run);
    if (mf_trainer_done(run->trainer) && !quiet)
        mf_log(
            MF_LOG_INFO,
            "all of its steps are done: it is only validated again (--steps N trains it on)");
    w.progress = mf_progress_new(&terminal, "train", mf_trainer_steps(run->trainer),
                                 run->session->steps, quiet);
    mf_signals_catch(run, run->session->config->train.on_usr1 == MF_USR1_STOP);
    rc = stopped(moefw_run_train(run));
    mf_signals_release();
    mf_progress_end(w.progress);
    *ret_signal = mf_signals_stop();
    if (rc == MF_OK && !quiet)
        summarise(run->session, run->dir, mf_training_result(run->trainer), &w, run->reported);
    return rc;
}

/* ---- several ranks ---- */

/* Ends the ranks of a run that has failed. A signal or a limit stops all ranks together. */
static void end_ranks(const moefw_run *run, int rc)
{
    const bool several = mf_world_ranks(run->world) > 1;
    if (several && rc == MF_ESIGNAL) {
        if (mf_world_rank(run->world) > 0) mf_error_clear();
    } else if (several && rc == MF_ELIMIT) {
        mf_ranks_tell_agreed(run->world);
    } else {
        mf_ranks_end(run->world, comm_of(run), run->alone, rc);
    }
}

/* Prints the run's name, also if a signal or a limit has stopped the run. */
static int put_name(const mf_cli *cli, const moefw_run *run, int rc)
{
    if (!run->directory || is_other(run)) return rc;
    if (rc != MF_OK && rc != MF_ESIGNAL && rc != MF_ELIMIT) return rc;
    const int put = mf_cli_put_name(cli, "run", run->directory);
    return rc == MF_OK ? put : rc;
}

static int run_verb(const mf_cli *cli)
{
    moefw_run *run = moefw_run_new();
    int stopped_by = 0;
    if (!run) return MF_ENOMEM;
    if (mf_ranks_other(NULL, NULL)) mf_log_set_level(MF_LOG_ERROR);
    moefw_run_on_log(run, (int)mf_log_get_level(), tell, NULL);
    int rc = open_run(cli, run);
    if (rc == MF_OK) rc = train(cli, run, &stopped_by);
    /* The name must be printed before the ranks end, because the launcher kills the other ranks
     * when one has failed. */
    const int failed = rc;
    rc = put_name(cli, run, rc);
    fflush(NULL);
    if (failed != MF_OK) end_ranks(run, rc);
    if (mf_world_ranks(run->world) > 1 && rc == MF_ESIGNAL) {
        /* The launcher must see an exit, not a death by signal. */
        const int code = 128 + mf_trainer_asked_stop(run->trainer);
        if (!is_other(run)) fprintf(stderr, "moefw: %s\n", mf_shown(mf_error_message()));
        moefw_run_free(run);
        fflush(NULL);
        mf_crash_ended();
        _exit(code);
    }
    moefw_run_free(run);
    if (rc == MF_ESIGNAL) {
        mf_log(MF_LOG_WARN, "%s", mf_error_message());
        mf_signals_end();
    }
    return rc;
}

const mf_verb mf_verb_train = {
    .name = "train",
    .brief = "train a model",
    .forms = forms,
    .options = options,
    .run = run_verb,
    .notes = "Everything else is a key of the configuration, such as\n"
             "  moefw train --set train.lr=1e-4 --set model.layers=2 --set "
             "moe.experts=16\n"
             "The sections are model, moe, router, expert, block NAME, adapter NAME, "
             "regularizer NAME, controller NAME, task NAME, data, train, device, "
             "report, log, trace, parallel and plugin. 'moefw config show "
             "--template' prints all keys with their defaults, 'moefw presets' lists presets, "
             "moefw.ini(5) explains."};
