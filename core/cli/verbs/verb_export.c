/* moefw export: writes the measurements of runs in the formats of other tools. The verb only
 * parses; report/export/export.h writes. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "report/export/export.h"

static const mf_cli_form forms[] = {
    {"csv", "RUN...", 1, -1, "a table, one line for each line of metrics.jsonl"},
    {"mlflow", "RUN...", 1, -1,
     "runs of MLflow's file store: params, metrics, tags (mlflow ui --backend-store-uri DIR)"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "PATH",
     .help = "csv: a new file (else to stdout); mlflow: the store's folder, new or one that is "
             "(mlruns)"},
    {.name = "experiment",
     .of = "mlflow",
     .kind = MF_CLI_TEXT,
     .arg = "NAME",
     .help = "mlflow: the experiment that the runs belong to, made if it is not there (moefw)"},
    {.name = "scalars",
     .of = "mlflow",
     .kind = MF_CLI_FLAG,
     .help = "mlflow: leave out what is counted by expert or by head"},
    MF_CLI_END};

static int export_csv(const mf_cli *cli)
{
    const char *runs[64], *out = mf_cli_text(cli, "out", NULL);
    const int n = mf_cli_operands(cli);
    if (n > 64) return mf_fail(MF_EUSAGE, "'moefw export' takes 64 runs at most, not %d", n);
    for (int i = 0; i < n; i++)
        runs[i] = mf_cli_operand(cli, i);
    int rc = out ? MF_OK : mf_cli_no_json(cli, "CSV");
    if (rc == MF_OK) rc = mf_export_csv(n, runs, out);
    if (rc == MF_OK && out) rc = mf_cli_put_name(cli, "export", out);
    return rc;
}

static int export_mlflow(const mf_cli *cli)
{
    const mf_export_mlflow_options o = {.store = mf_cli_text(cli, "out", "mlruns"),
                                        .experiment = mf_cli_text(cli, "experiment", "moefw"),
                                        .scalars = mf_cli_flag(cli, "scalars")};
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_cli_operands(cli); i++) {
        char *path;
        rc = mf_export_mlflow(mf_cli_operand(cli, i), &o, &path);
        if (rc == MF_OK) rc = mf_cli_put_name(cli, "export", path);
        mf_free(path);
    }
    return rc;
}

static int run(const mf_cli *cli)
{
    return strcmp(mf_cli_action(cli), "csv") == 0 ? export_csv(cli) : export_mlflow(cli);
}

const mf_verb mf_verb_export = {
    .name = "export",
    .brief = "write what runs measured for other tools",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "Numbers are named by the way to them in metrics.jsonl: moe.3.load.0 is the\n"
             "load of layer 3, expert 0; in MLflow SPLIT/NUMBER. Rows of validation have\n"
             "peak_rss_mib of memory.jsonl. What is at the target is never changed.\n"
             "MLflow 3 reads file stores with MLFLOW_ALLOW_FILE_STORE=true, or moves them\n"
             "into a database: mlflow migrate-filestore.\n"};
