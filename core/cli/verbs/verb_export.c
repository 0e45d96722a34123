/* moefw export: writes measurements of runs, or the weights of imported models, in the formats
 * of other tools. The verb only parses; report/export and pretrained write. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "pretrained/import.h"
#include "report/export/export.h"

static const mf_cli_form forms[] = {
    {"csv", "RUN...", 1, -1, "a table, one line for each line of metrics.jsonl"},
    {"mlflow", "RUN...", 1, -1,
     "runs of MLflow's file store: params, metrics, tags (mlflow ui --backend-store-uri DIR)"},
    {"hf", "RUN", 1, 1,
     "a model folder of the form that the run was imported from, with its weights"},
    {"gguf", "RUN", 1, 1, "a GGUF file of an imported model, with its weights and tokenizer"},
    {"peft", "RUN", 1, 1, "an adapter folder of PEFT, with the adapters of the plugin lora"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "PATH",
     .help = "csv: a new file (else to stdout); mlflow: the store's folder, new or one that is "
             "(mlruns); hf, peft: a new folder; gguf: a new file NAME.gguf, or a folder"},
    {.name = "experiment",
     .of = "mlflow",
     .kind = MF_CLI_TEXT,
     .arg = "NAME",
     .help = "mlflow: the experiment that the runs belong to, made if it is not there (moefw)"},
    {.name = "scalars",
     .of = "mlflow",
     .kind = MF_CLI_FLAG,
     .help = "mlflow: leave out what is counted by expert or by head"},
    {.name = "unmerged",
     .of = "hf gguf",
     .kind = MF_CLI_FLAG,
     .help =
         "hf, gguf: write weights without adapters of the plugin lora, which are else merged"},
    {.name = "dtype",
     .of = "hf gguf",
     .kind = MF_CLI_TEXT,
     .arg = "TYPE",
     .help = "hf, gguf: f32, f16 or bf16 for all tensors (each as it was imported)"},
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

static int read_dtype(const char *text, mf_st_dtype *ret)
{
    *ret = MF_ST_UNKNOWN;
    if (!text) return MF_OK;
    if (strcmp(text, "f32") == 0) *ret = MF_ST_F32;
    if (strcmp(text, "f16") == 0) *ret = MF_ST_F16;
    if (strcmp(text, "bf16") == 0) *ret = MF_ST_BF16;
    if (*ret != MF_ST_UNKNOWN) return MF_OK;
    return mf_fail(MF_EUSAGE, "--dtype: expected one of f32, f16, bf16, found '%s'", text);
}

static int export_folder(const mf_cli *cli)
{
    const char *out = mf_cli_text(cli, "out", NULL), *what = mf_cli_action(cli);
    const bool unmerged = mf_cli_flag(cli, "unmerged");
    mf_export_options o = {.adapters = unmerged ? MF_EXPORT_WITHOUT : MF_EXPORT_MERGED};
    int64_t tensors = 0;
    if (!out)
        return mf_fail(MF_EUSAGE, "'moefw export %s' wants -o FOLDER, a new folder", what);
    int rc = read_dtype(mf_cli_text(cli, "dtype", NULL), &o.dtype);
    if (rc == MF_OK)
        rc = strcmp(what, "peft") == 0
                 ? mf_export_peft(mf_cli_operand(cli, 0), out, &tensors)
                 : mf_export_hf(mf_cli_operand(cli, 0), out, &o, &tensors);
    return rc == MF_OK ? mf_cli_put_name(cli, "export", out) : rc;
}

static int export_gguf(const mf_cli *cli)
{
    const char *out = mf_cli_text(cli, "out", NULL);
    const bool unmerged = mf_cli_flag(cli, "unmerged");
    mf_export_options o = {.adapters = unmerged ? MF_EXPORT_WITHOUT : MF_EXPORT_MERGED};
    char *path = NULL;
    if (!out)
        return mf_fail(MF_EUSAGE,
                       "'moefw export gguf' wants -o FILE.gguf, a new file, or -o FOLDER");
    int rc = read_dtype(mf_cli_text(cli, "dtype", NULL), &o.dtype);
    if (rc == MF_OK) rc = mf_export_gguf(mf_cli_operand(cli, 0), out, &o, &path);
    if (rc == MF_OK) rc = mf_cli_put_name(cli, "export", path);
    mf_free(path);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *what = mf_cli_action(cli);
    if (strcmp(what, "gguf") == 0) return export_gguf(cli);
    if (strcmp(what, "hf") == 0 || strcmp(what, "peft") == 0) return export_folder(cli);
    return strcmp(what, "csv") == 0 ? export_csv(cli) : export_mlflow(cli);
}

const mf_verb mf_verb_export = {
    .name = "export",
    .brief = "write measurements or weights of runs for other tools",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "Numbers are named by the way to them in metrics.jsonl: moe.3.load.0 is the\n"
             "load of layer 3, expert 0; in MLflow SPLIT/NUMBER. Rows of validation have\n"
             "peak_rss_mib of memory.jsonl. What is at the target is never changed.\n"
             "MLflow 3 reads file stores with MLFLOW_ALLOW_FILE_STORE=true, or moves them\n"
             "into a database: mlflow migrate-filestore.\n"};
