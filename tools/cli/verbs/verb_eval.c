/* moefw eval: measures loss and routing of a trained run, or of a configuration with its
 * initial weights, in the same way as the evaluations of training. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/eval_tasks.h"
#include "pretrained/tokens.h"
#include "api/run_internal.h"
#include "run/folder/rundir.h"
#include "run/folder/file_sums.h"
#include "run/sections/run_sections.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN|CHECKPOINT|CONFIG", 1, 1,
     "measure a run's newest checkpoint, or one of its checkpoints; a configuration that is "
     "not of a run is measured with its initial weights"},
    MF_CLI_FORM_END};

static const char *const splits[] = {"train", "val", "test", NULL};

static const mf_cli_option options[] = {
    {.name = "data",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "measure on all of this file instead of the run's validation split"},
    {.name = "split",
     .kind = MF_CLI_ENUM,
     .arg = "NAME",
     .choices = splits,
     .help = "which split: train, val (the default) or test"},
    {.name = "step",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the run's checkpoint of this step instead of the newest"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "at most so many batches; 0: the whole split"},
    {.name = "heads",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e15,
     .help =
         "gradient norm and importance of each attention head as well, over at most N batches: "
         "one run forward a head and batch"},
    {.name = "tasks",
     .kind = MF_CLI_TEXT,
     .arg = "FILE,...",
     .help = "multiple choice by log-likelihood instead: files with an object a line, "
             "{\"context\": TEXT, \"choices\": [TEXT, ...], \"gold\": N}"},
    {.name = "shots",
     .kind = MF_CLI_INT,
     .arg = "K",
     .lo = 0,
     .hi = 1000,
     .help = "--tasks: K other items with their right choices before each item (0)"},
    {.name = "shots-from",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "--shots: out of this file of items instead of the item's own"},
    {.name = "shots-draw",
     .kind = MF_CLI_TEXT,
     .arg = "SEED|first",
     .help = "--shots: seed of the draw, or the first items of the file (1234)"},
    {.name = "tokens",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "run the model on these tokens only: a safetensors file with input_ids, and "
             "attention_mask and labels if wanted"},
    {.name = "lines",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "instead of --tokens: the texts of this file, one in each line and up to a tab"},
    {.name = "count",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "--lines: at most N texts; 0: all (0)"},
    {.name = "length",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "windows of N positions instead of model.seq; --lines: pad or cut texts to N "
             "positions, 0: to the longest (0)"},
    {.name = "save",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "--tokens, --lines: write logits, hidden states and routing to this new "
             "safetensors file"},
    {.name = "gradients",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "--tokens: write the gradients of the mean loss of the labels to this new file"},
    {.name = "dtype",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .set = "train.dtype",
     .help = "type of the gemms: f32 or bf16 (as the run was trained)"},
    MF_CLI_FORCE_OF(NULL),
    {.name = "verify",
     .kind = MF_CLI_FLAG,
     .help = "first check every byte of the run's tokenizer and of the files that an import's "
             "weights are in, and the keys of config.ini that weights depend on"},
    MF_CLI_END};

static void print_efficiency(const mf_metrics_record *r)
{
    mf_line line = {0};
    mf_line_add(
        &line,
        "parameter efficiency %.4g (1 / perplexity for each of %.3f M parameters in use)",
        mf_metrics_efficiency(r), (double)r->params_active / 1e6);
    if (r->heads_total > 0 && r->heads_active > 0)
        mf_line_add(&line,
                    "; perplexity / head %.4g, head efficiency %.4g (%lld of %lld heads)",
                    r->ppl / (double)r->heads_active, mf_metrics_head_efficiency(r),
                    (long long)r->heads_active, (long long)r->heads_total);
    mf_wrap_line(stdout, 2, "%s", line.text);
}

static void warn_of(double loss)
{
    if (!isfinite(loss))
        mf_log(MF_LOG_WARN, "the loss is not finite: a weight, or what follows from one, is "
                            "no finite number");
}

/* Returns the text of a split. data: --data, or NULL. */
static const char *text_of(const mf_session *s, const mf_metrics_record *r, const char *data)
{
    const mf_data_config *c = &s->config->data;
    const bool val = strcmp(r->split, "val") == 0 && c->val_path[0] != '\0';
    return data ? data : val ? c->val_path : c->path;
}

/* Prints the record as text. trained: the weights come from a run; otherwise they are
 * initial weights. */
static void print_text(const mf_session *s, const mf_metrics_record *r, const char *data,
                       bool trained, int64_t step)
{
    mf_line line = {0};
    char answers[1024];
    const bool by_row = mf_task_by_row(s->config->model.task),
               nats = s->config->model.task != MF_TASK_REGRESS && s->config->n_tasks == 0;
    if (trained)
        mf_line_add(&line, "%s after %lld steps", r->split, (long long)step);
    else
        mf_line_add(&line, "%s with initial weights", r->split);
    mf_line_add(&line, ": loss %.4f", r->task_loss);
    if (nats) mf_line_add(&line, " nats/%s", by_row ? "example" : "token");
    if (r->ppl == r->ppl) mf_line_add(&line, ", perplexity %.3f", r->ppl);
    if (r->ppl_batch_mean == r->ppl_batch_mean)
        mf_line_add(&line, " (mean of batches %.3f)", r->ppl_batch_mean);
    if (r->bits_per_byte == r->bits_per_byte)
        mf_line_add(&line, ", %.4f bits/byte", r->bits_per_byte);
    mf_line_add(&line, " (%lld %s of %s", (long long)r->tokens, by_row ? "examples" : "tokens",
                mf_shown_on(stdout, text_of(s, r, data)));
    if (s->eval_seq > 0)
        mf_line_add(&line, ", in windows of %d", (int)s->eval_seq);
    else if (!by_row && s->config->train.eval_context > 0)
        mf_line_add(&line, ", in windows of %d that overlap by %lld", (int)s->config->model.seq,
                    (long long)s->config->train.eval_context);
    mf_wrap_line(stdout, 2, "%s)", line.text);
    if (mf_metrics_predictions(r, answers, sizeof answers)[0] != '\0')
        mf_wrap_line(stdout, 2, "%s", mf_shown(answers));
    if (r->ppl == r->ppl) print_efficiency(r);
    if (r->floor == r->floor)
        mf_wrap_line(stdout, 2, "entropy floor in windows of %d %.4f: loss is %.3f x the floor",
                     s->eval_seq > 0 ? (int)s->eval_seq : (int)s->config->model.seq, r->floor,
                     r->task_loss / r->floor);
    for (int i = 0; i < r->n_layers; i++) {
        const mf_layer_stats *l = &r->layers[i];
        char nmi[64] = "";
        if (l->nmi == l->nmi) snprintf(nmi, sizeof nmi, ", NMI(expert, label) %.4f", l->nmi);
        mf_wrap_line(
            stdout, 2,
            "layer %d: entropy %.3f, load CV %.3f, dropped %.2f %%, empty experts %d%s",
            (int)l->layer, l->entropy, l->load_cv, 100 * l->drop_rate, (int)l->empty, nmi);
    }
}

static void print_heads(const mf_metrics_record *r)
{
    for (int i = 0; i < r->n_head_layers; i++) {
        const mf_head_stats *s = &r->heads[i];
        for (int h = 0; h < s->heads; h++) {
            printf("layer %d, head %d: ", (int)s->layer, h);
            if (s->active[h] == 0)
                puts("pruned");
            else
                printf("gate %.3f, entropy %.3f, gradient norm %.3g, importance %.3f\n",
                       (double)s->gate[h], (double)s->entropy[h], (double)s->grad_norm[h],
                       (double)s->importance[h]);
        }
    }
}

static int measure(const mf_cli *cli, moefw_run *run)
{
    moefw_metrics m = {.size = sizeof m};
    const mf_split split = (mf_split)mf_cli_enum(cli, "split", MF_SPLIT_VAL);
    const int64_t heads = mf_cli_int(cli, "heads", 0);
    int rc = moefw_run_evaluate(run, mf_split_name(split), mf_cli_int(cli, "batches", 0), &m);
    if (rc == MF_OK && heads > 0) {
        rc = mf_evaluator_heads(run->evaluator, run->step, heads);
        if (rc == MF_OK) rc = mf_run_metrics(run, &run->record, &m);
    }
    if (rc != MF_OK) return rc;
    warn_of(run->record.task_loss);
    if (mf_cli_json(cli)) {
        puts(m.json);
        return MF_OK;
    }
    print_text(run->session, &run->record, mf_cli_text(cli, "data", NULL),
               run->directory != NULL, run->step);
    if (heads > 0) print_heads(&run->record);
    return MF_OK;
}

/* Makes the windows of a split shorter than those of training (--length). */
static int shorten(const mf_cli *cli, mf_session *s)
{
    const int64_t n = mf_cli_int(cli, "length", 0), most = s->config->model.seq,
                  context = s->config->train.eval_context;
    if (n == 0) return MF_OK;
    if (mf_task_by_row(s->config->model.task) || mf_session_by_length(s))
        return mf_fail(MF_EUSAGE,
                       "--length=%lld: expected a text that is read in windows, "
                       "found whole examples",
                       (long long)n);
    if (n > most)
        return mf_fail(MF_EUSAGE, "--length=%lld: expected at most model.seq of the run, %lld",
                       (long long)n, (long long)most);
    if (n <= context)
        return mf_fail(MF_EUSAGE,
                       "--length=%lld: expected more than train.eval_context of the run, %lld",
                       (long long)n, (long long)context);
    s->eval_seq = (int32_t)n;
    return MF_OK;
}

/* Evaluates the tokens of a file, and writes the requested files. */
static int run_tokens(const mf_cli *cli, moefw_run *run)
{
    const char *save = mf_cli_text(cli, "save", NULL), *path = mf_cli_text(cli, "tokens", NULL),
               *lines = mf_cli_text(cli, "lines", NULL),
               *gradients = mf_cli_text(cli, "gradients", NULL);
    char *beside = NULL;
    double loss = NAN;
    mf_tokens t = {0};
    int rc = lines ? mf_tokens_read_lines(lines, run->session, mf_cli_int(cli, "count", 0),
                                          mf_cli_int(cli, "length", 0), &t)
                   : mf_tokens_read(path, run->session, &t);
    if (rc == MF_OK && save) {
        rc = mf_cli_beside(save, &beside);
        if (rc == MF_OK) rc = mf_tokens_save(run->session, &t, beside, &loss);
        rc = mf_cli_put_beside(rc, beside, save);
    }
    if (rc == MF_OK && gradients) {
        rc = mf_cli_beside(gradients, &beside);
        if (rc == MF_OK)
            rc = mf_tokens_gradients(run->session, run->directory, &t, beside, &loss);
        rc = mf_cli_put_beside(rc, beside, gradients);
    }
    const bool labelled = t.labelled;
    mf_tokens_free(&t);
    if (rc != MF_OK) return rc;
    if (mf_cli_json(cli)) {
        if (loss == loss)
            printf("{\"loss\":%.9g}\n", loss);
        else
            puts("{\"loss\":null}");
    } else if (labelled) {
        printf("loss of the labels %.6f nats/token\n", loss);
    }
    if (labelled) warn_of(loss);
    return MF_OK;
}

static void tell(void *arg, int level, const char *line)
{
    (void)arg;
    mf_log((mf_log_level)level, "%s", line);
}

static int configure(const mf_cli *cli, moefw_run *run)
{
    mf_assignment *a;
    mf_run_scope scope;
    int n = 0;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_cli_assignments(cli, arena, &a, &n) : MF_ENOMEM;
    if (rc == MF_OK) {
        (void)mf_run_enter(run, &scope); /* always succeeds here: no other thread uses
                                          * the handle */
        rc = mf_run_leave(run, &scope, mf_run_configure(run, mf_cli_operand(cli, 0), n, a));
    }
    mf_arena_free(arena);
    return rc;
}

static int configure_untrained(const mf_cli *cli, moefw_run *run)
{
    const char *what = mf_cli_operand(cli, 0);
    if (!mf_cli_names_config(what) || mf_is_dir(what)) return mf_rundir_missing(what, NULL);
    if (mf_cli_count(cli, "step") > 0)
        return mf_fail(MF_EUSAGE,
                       "--step: %s is a configuration, which has no checkpoints; "
                       "expected a run",
                       what);
    const int rc = configure(cli, run);
    if (rc == MF_OK)
        mf_log(MF_LOG_WARN,
               "%s is a configuration, not a run: its model is measured with initial weights; "
               "'moefw train %s' trains it, 'moefw runs' lists runs",
               what, what);
    return rc;
}

/* Verifies the files outside the run. Opening a run does not read them whole: it only compares
 * their size and time of change with the recorded values. */
static int verify(const char *what)
{
    mf_rundir *dir = NULL;
    uint64_t bytes = 0;
    int rc = mf_rundir_read(what, &dir);
    if (rc == MF_OK) rc = mf_file_sums_verify(dir, &bytes);
    if (rc == MF_OK && bytes > 0)
        mf_log(MF_LOG_INFO, "%s: %llu bytes of its files are as they were imported", what,
               (unsigned long long)bytes);
    mf_rundir_close(dir);
    return rc;
}

static int run_verb(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    const bool is_run = mf_rundir_readable(what);
    const bool lines = mf_cli_count(cli, "lines") > 0,
               tokens = mf_cli_count(cli, "tokens") > 0 || lines;
    const bool tasks = mf_cli_count(cli, "tasks") > 0;
    const bool save = mf_cli_count(cli, "save") > 0, gradients = mf_cli_count(cli, "gradients");
    if (lines && mf_cli_count(cli, "tokens") > 0)
        return mf_fail(MF_EUSAGE, "expected --tokens or --lines, found both");
    if (tasks && (tokens || mf_cli_count(cli, "data") > 0 || mf_cli_count(cli, "heads") > 0))
        return mf_fail(MF_EUSAGE, "--tasks has texts of its own: expected no --data, --tokens, "
                                  "--lines or --heads");
    if (!tasks && mf_cli_count(cli, "shots") > 0)
        return mf_fail(MF_EUSAGE, "--shots wants --tasks");
    if (mf_cli_int(cli, "shots", 0) == 0 &&
        (mf_cli_count(cli, "shots-from") > 0 || mf_cli_count(cli, "shots-draw") > 0))
        return mf_fail(MF_EUSAGE, "--shots-from and --shots-draw want --shots");
    if (lines && gradients) return mf_fail(MF_EUSAGE, "--gradients wants --tokens with labels");
    if (tokens && (!is_run || (!save && !gradients)))
        return mf_fail(MF_EUSAGE, "--%s wants a run, and --save%s", lines ? "lines" : "tokens",
                       lines ? "" : " or --gradients");
    if (!lines && mf_cli_count(cli, "count") > 0)
        return mf_fail(MF_EUSAGE, "--count wants --lines");
    if (!lines && (tokens || tasks) && mf_cli_count(cli, "length") > 0)
        return mf_fail(MF_EUSAGE, "--length wants --lines or the text of a split");
    if (!tokens && (save || gradients))
        return mf_fail(MF_EUSAGE, "--save and --gradients want --tokens");
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    o.step = mf_cli_int(cli, "step", -1);
    o.dtype = mf_cli_text(cli, "dtype", NULL);
    o.device = mf_cli_text(cli, "device", NULL);
    o.data = !tokens && !tasks;
    o.path = mf_cli_text(cli, "data", NULL);
    o.gradients = mf_cli_int(cli, "heads", 0) > 0 || gradients;
    o.threads = (int)mf_cli_int(cli, "threads", 0);
    /* the files must be new, and this is checked first because computing them may take long */
    for (int i = 0; i < 2; i++) {
        const char *file = mf_cli_text(cli, i == 0 ? "save" : "gradients", NULL);
        const int rc = mf_cli_new_file(cli, file);
        if (rc != MF_OK) return rc;
    }
    int rc = is_run ? mf_cli_run_stays(cli, what) : MF_OK;
    if (rc == MF_OK && is_run && mf_cli_flag(cli, "verify")) rc = verify(what);
    if (rc != MF_OK) return rc;
    moefw_run *run = moefw_run_new();
    if (!run) return MF_ENOMEM;
    moefw_run_on_log(run, (int)mf_log_get_level(), tell, NULL);
    if (!is_run) rc = configure_untrained(cli, run);
    if (rc == MF_OK) rc = moefw_run_open(run, is_run ? what : NULL, &o);
    if (rc == MF_OK && !lines) rc = shorten(cli, run->session);
    if (rc == MF_OK)
        rc = tasks    ? mf_eval_tasks(cli, run->session)
             : tokens ? run_tokens(cli, run)
                      : measure(cli, run);
    moefw_run_free(run);
    return rc;
}

const mf_verb mf_verb_eval = {.name = "eval",
                              .brief = "measure a run on a split",
                              .forms = forms,
                              .options = options,
                              .run = run_verb};
