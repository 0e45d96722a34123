/* moefw analyze: what the routing of a run looks like. The verb only parses and shows;
 * lab/analyze/run.h computes. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread/parallel.h"
#include "cli/cli.h"
#include "cli/analyze/print.h"
#include "lab/analyze/run.h"
#include "report/analyze/analyze.h"
#include "report/page/doc.h"
#include "report/terminal/progress.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN", 1, 1, "what its routing looks like: loads, pairs, what decides the experts"},
    MF_CLI_FORM_END};

static const char *const splits[] = {"train", "val", "test", NULL};

static const mf_cli_option options[] = {
    {.name = "text",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "a text instead of the run's data: text, jsonl, a folder or a pattern"},
    {.name = "labels",
     .kind = MF_CLI_TEXT,
     .arg = "FIELD",
     .help = "domains of the texts, as data.labels: a member of jsonl, or folder"},
    {.name = "split",
     .kind = MF_CLI_ENUM,
     .arg = "NAME",
     .choices = splits,
     .help = "split of the run's data: train, val (the default) or test"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "the first N batches (64); 0: the whole text"},
    {.name = "step",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the checkpoint of this step (the newest)"},
    {.name = "checkpoints",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = MF_ANALYZE_THEN,
     .help = "compare with N earlier checkpoints, evenly spread; 2: at 10 and 50 % (2)"},
    {.name = "outputs",
     .kind = MF_CLI_FLAG,
     .help = "also compare what the experts compute for 128 tokens of the first batch"},
    {.name = "report",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "also write the figures as one HTML page"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

typedef struct {
    mf_terminal terminal;
    mf_progress *progress;
    bool quiet;
} view;

static int each(void *arg, int64_t done, int64_t total)
{
    view *v = arg;
    if (!v->progress)
        v->progress = mf_progress_new(&v->terminal, "analyze", 0, total, v->quiet);
    mf_progress_step(v->progress, done, (double)NAN, (double)NAN);
    return MF_OK;
}

/* The command that makes the same page. */
static int write_page(const mf_cli *cli, const mf_analysis *a)
{
    static const char *const texts[] = {"text", "labels", "split"}, *const numbers[] = {
                                                                        "batches", "step",
                                                                        "checkpoints"};
    const char *out = mf_cli_text(cli, "report", NULL);
    mf_doc *d = mf_doc_new();
    if (!d) return MF_ENOMEM;
    mf_doc_put(d, "moefw analyze ");
    mf_doc_put_path(d, mf_cli_operand(cli, 0));
    for (int i = 0; i < 3; i++) {
        const char *value =
            i == 2 ? splits[mf_cli_enum(cli, "split", 1)] : mf_cli_text(cli, texts[i], NULL);
        if (mf_cli_count(cli, texts[i]) == 0) continue;
        mf_doc_printf(d, " --%s ", texts[i]);
        mf_doc_put_path(d, value);
    }
    for (int i = 0; i < 3; i++)
        if (mf_cli_count(cli, numbers[i]) > 0)
            mf_doc_printf(d, " --%s %lld", numbers[i],
                          (long long)mf_cli_int(cli, numbers[i], 0));
    if (mf_cli_flag(cli, "outputs")) mf_doc_put(d, " --outputs");
    mf_doc_put(d, " --report ");
    mf_doc_put_path(d, out);
    const char *command = mf_doc_string(d, NULL);
    const int rc = command ? mf_report_analysis(a, command, out) : MF_ENOMEM;
    mf_doc_free(d);
    if (rc == MF_OK) mf_log(MF_LOG_INFO, "report: %s", out);
    return rc;
}

static int run(const mf_cli *cli)
{
    view v = {.terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    const mf_analyze_options o = {.data = mf_cli_text(cli, "text", NULL),
                                  .labels = mf_cli_text(cli, "labels", NULL),
                                  .device = mf_cli_text(cli, "device", NULL),
                                  .split = (mf_split)mf_cli_enum(cli, "split", MF_SPLIT_VAL),
                                  .step = mf_cli_int(cli, "step", -1),
                                  .batches = mf_cli_int(cli, "batches", 64),
                                  .outputs = mf_cli_flag(cli, "outputs"),
                                  .checkpoints = (int)mf_cli_int(cli, "checkpoints", 2),
                                  .each = each,
                                  .arg = &v};
    const char *page = mf_cli_text(cli, "report", NULL);
    mf_analysis *a = NULL;
    if (o.data && mf_cli_count(cli, "split") > 0)
        return mf_fail(MF_EUSAGE, "--text is analyzed whole: expected no --split");
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    int rc = mf_cli_run_stays(cli, mf_cli_operand(cli, 0));
    if (rc == MF_OK) rc = mf_cli_new_file(cli, page);
    if (rc == MF_OK) rc = mf_analyze(mf_cli_operand(cli, 0), &o, &a);
    mf_progress_end(v.progress);
    if (rc == MF_OK) rc = mf_cli_json(cli) ? mf_analyze_print_json(a) : mf_analyze_print(a);
    if (rc == MF_OK && page) rc = write_page(cli, a);
    mf_analysis_free(a);
    return rc;
}

const mf_verb mf_verb_analyze = {
    .name = "analyze",
    .brief = "what a run's routing looks like, and what decides it",
    .forms = forms,
    .options = options,
    .run = run,
    .notes =
        "Every figure stands beside its value by chance. Intervals take documents as units.\n"};
