/* moefw train: a run from a configuration, or on with one that was stopped. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "report/progress.h"
#include "report/report.h"
#include "report/summary.h"
#include "train/rundir.h"
#include "train/trainer.h"

static const mf_cli_form forms[] = {
    {NULL, "[CONFIG|PRESET|RUN]", 0, 1, "train; RUN with --resume goes on with it"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "the run's directory; else runs/NAME-N"},
    {.name = "resume",
     .kind = MF_CLI_FLAG,
     .help = "go on from the last checkpoint of RUN, or of the directory of --out"},
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

/* ---- what a person sees while it runs ---- */

typedef struct {
    mf_progress *progress;
    double floor;
    char answers[1024]; /* of the last validation */
} watcher;

static void on_step(void *arg, int64_t step, int64_t steps, double loss, double tokens_per_s,
                    const mf_metrics_record *record)
{
    (void)steps;
    (void)record;
    mf_progress_step(((watcher *)arg)->progress, step, loss, tokens_per_s);
}

static void on_eval(void *arg, const mf_metrics_record *r)
{
    watcher *w = arg;
    mf_progress_eval(w->progress, r->step, r->task_loss, w->floor,
                     mf_metrics_answers(r, w->answers, sizeof w->answers));
}

/* ---- the run ---- */

static int open_run(const mf_cli *cli, mf_session **ret_session, mf_rundir **ret_dir,
                    bool *resume)
{
    const char *config_name = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL);
    const bool names_run = config_name && mf_rundir_is(config_name);
    mf_config *config = NULL;
    mf_session_options o = {.training = true};
    *resume = mf_cli_flag(cli, "resume");
    if (names_run && !*resume)
        return mf_fail(MF_EUSAGE,
                       "%s is a run; expected --resume to go on with it, or its config.ini "
                       "to repeat it",
                       config_name);
    if (*resume && !config_name && !out)
        return mf_fail(MF_EUSAGE,
                       "--resume needs a run to go on with: moefw train RUN --resume");
    if (*resume && names_run && out && strcmp(config_name, out) != 0)
        return mf_fail(MF_EUSAGE,
                       "--resume: both %s and --out %s name the run to go on with; "
                       "give one of them",
                       config_name, out);
    int rc = MF_OK;
    if (*resume) {
        if (out && config_name && !names_run)
            mf_log(MF_LOG_INFO, "%s goes on with its own configuration; %s is not read", out,
                   config_name);
        rc = mf_rundir_open(out ? out : config_name, ret_dir);
        if (rc == MF_OK) rc = mf_cli_config(cli, (*ret_dir)->config, &config);
        if (rc == MF_OK && mf_exists((*ret_dir)->tokenizer))
            o.tokenizer_file = (*ret_dir)->tokenizer;
    } else {
        rc = mf_cli_config(cli, config_name, &config);
    }
    /* Data and model are judged before anything is written. */
    if (rc == MF_OK) rc = mf_session_open(config, &o, ret_session);
    if (rc != MF_OK || *resume) return rc;
    return out ? mf_rundir_create_at(out, ret_dir)
               : mf_rundir_create("runs", (*ret_session)->config->name, ret_dir);
}

/* What the loss is taken of; NULL where it is no cross entropy, or a sum of several. */
static const char *unit_of(const mf_session *s)
{
    const mf_config *c = s->config;
    if (c->model.task == MF_TASK_REGRESS || c->n_tasks > 0) return NULL;
    if (c->model.task == MF_TASK_CLASSIFY) return "example";
    if (s->tokenizer && s->tokenizer->vocab == 256) return "byte";
    return s->tokenizer ? s->tokenizer->ops->name : "token";
}

/* One line for each head where there are several. */
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
    for (int32_t i = 0; i < s->model->n_moe && i < 1024; i++)
        layers[i] = s->model->moe[i].layer;
    const mf_summary summary = {.run = dir->path,
                                .report = reported ? dir->report : NULL,
                                .unit = unit_of(s),
                                .answers = w->answers[0] != '\0' ? w->answers : NULL,
                                .router = c->router.plugin,
                                .generates = c->model.task == MF_TASK_LM,
                                .steps = r->step,
                                .tokens = r->tokens,
                                .wall_s = r->wall_s,
                                .tokens_per_s =
                                    r->wall_s > 0 ? (double)r->tokens / r->wall_s : 0,
                                .val_loss = r->val_loss,
                                .floor = r->floor,
                                .n_layers = r->n_layers,
                                .layers = layers,
                                .nmi = r->nmi,
                                .nmi_random = r->nmi_random};
    mf_summary_print(&t, &summary);
}

static int train(const mf_cli *cli, mf_session *s, mf_rundir *dir, bool resume, int *ret_signal)
{
    const mf_terminal terminal = mf_terminal_of(stderr);
    mf_trainer *t = NULL;
    watcher w = {.floor = mf_session_floor(s)};
    const mf_observer observer = {.arg = &w, .on_step = on_step, .on_eval = on_eval};
    int rc = mf_trainer_new(s, dir, resume, &observer, &t);
    if (rc != MF_OK) return rc;
    int64_t all, active;
    mf_model_count(s->model, &all, &active);
    mf_log(MF_LOG_INFO,
           "%s: %.2f M parameters, %.2f M active per token; %lld steps; results in %s",
           s->config->name, (double)all / 1e6, (double)active / 1e6, (long long)s->steps,
           dir->path);
    mf_model_module module[MF_MODEL_MODULES];
    const int n_modules = mf_model_modules(s->model, module);
    for (int i = 0; i < n_modules; i++)
        mf_log(MF_LOG_DEBUG, "%-9s %lld parameters, %lld active per token", module[i].name,
               (long long)module[i].params, (long long)module[i].active);
    tell_heads(s->model);
    w.progress =
        mf_progress_new(&terminal, "train", mf_trainer_step(t), s->steps, mf_cli_quiet(cli));
    rc = mf_trainer_run(t);
    mf_progress_end(w.progress);
    *ret_signal = mf_trainer_signal(t);
    if (rc == MF_OK) {
        bool reported = false;
        if (s->config->report.enabled) {
            const char *const runs[] = {dir->path};
            reported = mf_report_write(1, runs, dir->report) == MF_OK;
            if (!reported) mf_log(MF_LOG_WARN, "no report: %s", mf_error_message());
        }
        if (!mf_cli_quiet(cli)) summarise(s, dir, mf_trainer_result(t), &w, reported);
    }
    mf_trainer_free(t);
    return rc;
}

static int run(const mf_cli *cli)
{
    mf_session *s = NULL;
    mf_rundir *dir = NULL;
    bool resume = false;
    int stopped_by = 0;
    int rc = open_run(cli, &s, &dir, &resume);
    if (rc == MF_OK) rc = train(cli, s, dir, resume, &stopped_by);
    if (rc == MF_OK || rc == MF_ESIGNAL || rc == MF_ELIMIT) {
        const int put = mf_cli_put_name(cli, "run", dir->path);
        if (rc == MF_OK) rc = put;
    }
    mf_rundir_close(dir);
    mf_session_close(s);
    if (rc == MF_ESIGNAL) { /* the shell is to see which signal it was */
        mf_log(MF_LOG_WARN, "%s", mf_error_message());
        fflush(stdout);
        signal(stopped_by, SIG_DFL);
        raise(stopped_by);
    }
    return rc;
}

const mf_verb mf_verb_train = {.name = "train",
                               .brief = "train a model",
                               .forms = forms,
                               .options = options,
                               .run = run,
                               .computes = true};
