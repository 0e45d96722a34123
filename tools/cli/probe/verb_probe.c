/* moefw probe: what changes of a run's routing cost. The verb parses and shows progress;
 * lab/probe measures, and probe_print.c prints. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "api/run_internal.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/probe/probe_print.h"
#include "cli/signals.h"
#include "report/compare/probe.h"
#include "report/page/doc.h"
#include "report/terminal/progress.h"
#include "run/folder/rundir.h"
#include "run/sections/run_sections.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN|CHECKPOINT", 1, 1,
     "change the routing of a run's model, its weights staying as they are, and measure the "
     "change of the loss, with intervals over documents"},
    MF_CLI_FORM_END};

static const char *const splits[] = {"train", "val", "test", NULL};
static const char *const hows[] = {"next", "drop", NULL};
static const char *const bys[] = {"label", NULL};

static const mf_cli_option options[] = {
    {.name = "remove",
     .kind = MF_CLI_TEXT,
     .arg = "LAYER.EXPERT,...",
     .help = "take one expert away at a time: these, or all; what is measured without other "
             "options"},
    {.name = "how",
     .kind = MF_CLI_ENUM,
     .arg = "HOW",
     .choices = hows,
     .help = "how --remove removes: next, the next choice comes in, as if the expert did not "
             "exist (the default); drop, its output is 0 and the other gates stay"},
    {.name = "exchange",
     .kind = MF_CLI_TEXT,
     .arg = "LAYER.A-B,...",
     .help = "what is routed to one expert is computed by the other: these pairs, or all"},
    {.name = "among",
     .kind = MF_CLI_TEXT,
     .arg = "LAYER.A+B,...",
     .help = "all tokens choose among the experts of a set only"},
    {.name = "ranks",
     .kind = MF_CLI_FLAG,
     .help = "each token's choice r becomes its choice k + 1, for each r: equal cost"},
    {.name = "bias",
     .kind = MF_CLI_REAL,
     .arg = "D",
     .lo = -1e6,
     .hi = 1e6,
     .help = "add D standard deviations of a layer's scores to the score of an expert, for "
             "selection only"},
    {.name = "more",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = -4096,
     .hi = 4096,
     .help = "k + N experts for each token of a layer, such as -1"},
    {.name = "by",
     .kind = MF_CLI_ENUM,
     .arg = "WHAT",
     .choices = bys,
     .help = "also by label: for tokens of each label, or examples of each class"},
    {.name = "margin",
     .kind = MF_CLI_REAL,
     .arg = "X",
     .lo = 1e-9,
     .hi = 1e3,
     .help = "changes within X nats are called redundant (0.005)"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "measure on N batches that are drawn from the split; 0: on all (16)"},
    {.name = "draw",
     .kind = MF_CLI_INT,
     .arg = "SEED",
     .lo = 0,
     .hi = 1e15,
     .help = "seed of this draw (1)"},
    {.name = "data",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "measure on this file instead of the run's validation split"},
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
    {.name = "dtype",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .set = "train.dtype",
     .help = "type of the gemms: f32 or bf16 (as the run was trained)"},
    {.name = "report",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "also write the table, with figures, as one HTML page"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

/* ---- progress ---- */

typedef struct view {
    mf_terminal terminal;
    mf_progress *progress;
    bool quiet;
} view;

static int on_run(void *arg, int64_t done, int64_t total)
{
    view *v = arg;
    if (!v->progress) v->progress = mf_progress_new(&v->terminal, "probe", 0, total, v->quiet);
    mf_progress_step(v->progress, done, (double)NAN, (double)NAN);
    return mf_signals_stop();
}

/* ---- the verb ---- */

static int make_changes(const mf_cli *cli, const mf_model *m, mf_arena *arena,
                        mf_probe_list *ret)
{
    const char *remove = mf_cli_text(cli, "remove", NULL),
               *exchange = mf_cli_text(cli, "exchange", NULL),
               *among = mf_cli_text(cli, "among", NULL);
    const bool ranks = mf_cli_flag(cli, "ranks"), bias = mf_cli_count(cli, "bias") > 0,
               more = mf_cli_count(cli, "more") > 0;
    const mf_probe_kind how = mf_cli_enum(cli, "how", 0) == 0 ? MF_PROBE_NEXT : MF_PROBE_DROP;
    int rc = MF_OK;
    if (m->n_moe == 0) return mf_fail(MF_EUSAGE, "this model has no experts to probe");
    if (!remove && !exchange && !among && !ranks && !bias && !more) remove = "all";
    if (!remove && mf_cli_count(cli, "how") > 0)
        return mf_fail(MF_EUSAGE, "--how belongs to --remove");
    if (remove) rc = mf_probe_remove(m, arena, how, remove, ret);
    if (rc == MF_OK && exchange) rc = mf_probe_exchange(m, arena, exchange, ret);
    if (rc == MF_OK && among) rc = mf_probe_force(m, arena, among, ret);
    if (rc == MF_OK && ranks) rc = mf_probe_rank(m, arena, ret);
    if (rc == MF_OK && bias) rc = mf_probe_bias(m, arena, mf_cli_real(cli, "bias", 0), ret);
    if (rc == MF_OK && more)
        rc = mf_probe_top_k(m, arena, (int)mf_cli_int(cli, "more", 0), ret);
    return rc;
}

/* Adds " --NAME VALUE", or " --NAME" if value is NULL. */
static void put_option(mf_doc *d, const char *name, const char *value)
{
    mf_doc_printf(d, " --%s", name);
    if (value) mf_doc_put(d, " ");
    if (value) mf_doc_put_path(d, value);
}

/* Writes the page, with the command that repeats the probe. */
static int write_page(const mf_cli *cli, const mf_session *s, const mf_probe_report *r,
                      const mf_probe_options *o)
{
    static const char *const texts[] = {"remove", "exchange", "among", "data", "dtype"};
    const char *out = mf_cli_text(cli, "report", NULL), *from = mf_cli_operand(cli, 0);
    mf_doc *d = mf_doc_new();
    if (!d) return MF_ENOMEM;
    mf_doc_put(d, "moefw probe ");
    mf_doc_put_path(d, from);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (mf_cli_count(cli, texts[i]) > 0)
            put_option(d, texts[i], mf_cli_text(cli, texts[i], ""));
    if (mf_cli_count(cli, "how") > 0) put_option(d, "how", hows[mf_cli_enum(cli, "how", 0)]);
    if (mf_cli_flag(cli, "ranks")) put_option(d, "ranks", NULL);
    if (mf_cli_count(cli, "bias") > 0)
        mf_doc_printf(d, " --bias %.17g", mf_cli_real(cli, "bias", 0));
    if (mf_cli_count(cli, "more") > 0)
        mf_doc_printf(d, " --more %lld", (long long)mf_cli_int(cli, "more", 0));
    if (o->by_label) put_option(d, "by", "label");
    mf_doc_printf(d, " --step %lld --split %s --batches %lld --draw %lld --margin %g",
                  (long long)o->step, mf_split_name(o->split), (long long)o->batches,
                  (long long)o->draw, o->margin);
    const char *command = mf_doc_string(d, NULL);
    const int rc = command ? mf_report_probe(s->model, r, o, from, command,
                                             mf_probe_label_names(s, r), out)
                           : MF_ENOMEM;
    mf_doc_free(d);
    if (rc == MF_OK) mf_log(MF_LOG_INFO, "report: %s", out);
    return rc;
}

static int probe(const mf_cli *cli, moefw_run *run)
{
    view v = {.terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    mf_probe_list list = {0};
    mf_probe_report *r = NULL;
    const mf_probe_options o = {.split = (mf_split)mf_cli_enum(cli, "split", MF_SPLIT_VAL),
                                .step = run->step,
                                .batches = mf_cli_int(cli, "batches", 16),
                                .draw = (uint64_t)mf_cli_int(cli, "draw", 1),
                                .margin = mf_cli_real(cli, "margin", 0.005),
                                .by_label = mf_cli_count(cli, "by") > 0,
                                .each = on_run,
                                .arg = &v};
    mf_arena *arena = mf_arena_new();
    int rc = arena ? make_changes(cli, run->session->model, arena, &list) : MF_ENOMEM;
    mf_signals_catch(NULL, false);
    if (rc == MF_OK) rc = mf_probe_measure(run->session, &list, &o, &r);
    mf_progress_end(v.progress);
    mf_signals_release();
    if (rc == MF_ESIGNAL) mf_signals_end();
    if (rc == MF_OK) rc = mf_probe_print(cli, run->session, r, &o);
    if (rc == MF_OK && mf_cli_count(cli, "report") > 0)
        rc = write_page(cli, run->session, r, &o);
    mf_probe_report_free(r);
    mf_arena_free(arena);
    return rc;
}

static void tell(void *arg, int level, const char *line)
{
    (void)arg;
    mf_log((mf_log_level)level, "%s", line);
}

static int run_verb(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    o.step = mf_cli_int(cli, "step", -1);
    o.dtype = mf_cli_text(cli, "dtype", NULL);
    o.device = mf_cli_text(cli, "device", NULL);
    o.data = true;
    o.path = mf_cli_text(cli, "data", NULL);
    o.threads = (int)mf_cli_int(cli, "threads", 0);
    int rc = mf_rundir_readable(what) ? MF_OK : mf_rundir_missing(what, NULL);
    if (rc == MF_OK) rc = mf_cli_run_stays(cli, what);
    if (rc == MF_OK) rc = mf_cli_new_file(cli, mf_cli_text(cli, "report", NULL));
    if (rc != MF_OK) return rc;
    moefw_run *run = moefw_run_new();
    if (!run) return MF_ENOMEM;
    moefw_run_on_log(run, (int)mf_log_get_level(), tell, NULL);
    rc = moefw_run_open(run, what, &o);
    if (rc == MF_OK) rc = probe(cli, run);
    moefw_run_free(run);
    return rc;
}

const mf_verb mf_verb_probe = {.name = "probe",
                               .brief = "measure what each expert does for the loss",
                               .forms = forms,
                               .options = options,
                               .run = run_verb};
