/* moefw export: writes measurements of runs, or the weights of models, in the formats
 * of other tools. The verb only parses; report/export and pretrained write. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "lab/result/result.h"
#include "lab/swap/swap.h"
#include "pretrained/code/code.h"
#include "pretrained/import.h"
#include "report/export/export.h"

static const mf_cli_form forms[] = {
    {"csv", "RUN...", 1, -1, "a table, one line for each line of metrics.jsonl"},
    {"mlflow", "RUN...", 1, -1,
     "runs of MLflow's file store: params, metrics, tags (mlflow ui --backend-store-uri DIR)"},
    {"result", "RUN", 1, 1,
     "result.json of a run, with which others can verify it (moefw verify)"},
    {"hf", "RUN", 1, 1,
     "a model folder of Hugging Face, of the form that the run was imported from, or else of a "
     "published form that can say the model"},
    {"gguf", "RUN", 1, 1, "a GGUF file of a model, with its weights and tokenizer"},
    {"peft", "RUN", 1, 1, "an adapter folder of PEFT, with the adapters of the plugin lora"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "PATH",
     .help = "csv: a new file (else to stdout); result: a new file (RUN/result.json); mlflow: "
             "the store's folder, new or one that is "
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
    {.name = "as",
     .of = "hf gguf",
     .kind = MF_CLI_TEXT,
     .arg = "FAMILY",
     .help = "hf, gguf: the published form, as mixtral or llama (that of the imported folder, "
             "else the first that can say the model)"},
    {.name = "with-code",
     .of = "hf",
     .kind = MF_CLI_FLAG,
     .help = "hf: with a modelling file of moefw's own, for models that no published form can "
             "say (trust_remote_code=True opens it); weights are f32"},
    {.name = "no-tokenizer",
     .of = "hf gguf",
     .kind = MF_CLI_FLAG,
     .help = "hf, gguf: write no tokenizer"},
    {.name = "router",
     .of = "hf gguf",
     .kind = MF_CLI_TEXT,
     .arg = "linear",
     .help = "hf, gguf: fit the router of the family to a swapped one that has no form there, "
             "and tell the loss of both"},
    {.name = "match",
     .of = "hf gguf",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e9,
     .help = "hf, gguf: with --router: batches of the fit (64)"},
    {.name = "data",
     .of = "hf gguf",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "hf, gguf: with --router: text of the fit, instead of the run's"},
    MF_CLI_FORCE_OF("csv result"),
    MF_CLI_END};

static int export_csv(const mf_cli *cli)
{
    const char *runs[64], *out = mf_cli_text(cli, "out", NULL);
    const int n = mf_cli_operands(cli);
    if (n > 64) return mf_fail(MF_EUSAGE, "'moefw export' takes 64 runs at most, not %d", n);
    for (int i = 0; i < n; i++)
        runs[i] = mf_cli_operand(cli, i);
    int rc = out ? mf_cli_new_file(cli, out) : mf_cli_no_json(cli, "CSV");
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

static int export_result(const mf_cli *cli)
{
    const char *run = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL);
    char *own = out ? NULL : mf_path_join(run, "result.json");
    const char *path = out ? out : own;
    int rc = path ? mf_cli_new_file(cli, path) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_result_write_run(run, path);
    if (rc == MF_OK) rc = mf_cli_put_name(cli, "export", path);
    mf_free(own);
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

/* The result of fitting a router for --router. */
typedef struct fitted {
    char *run; /* a temporary run; NULL: the format can store the routers as they are */
    mf_swap_report *report;
} fitted;

/* If --router requests it, makes a temporary run beside the output, with the router of the
 * model family. */
static int fit_router(const mf_cli *cli, const char *out, fitted *ret)
{
    const char *router = mf_cli_text(cli, "router", NULL),
               *data = mf_cli_text(cli, "data", NULL);
    const char *run = mf_cli_operand(cli, 0);
    char *text = NULL, *path = data ? mf_strf("data.path=%s", data) : NULL;
    const mf_assignment set = {path, "--data"};
    if (!router) return data && !path ? MF_ENOMEM : MF_OK;
    if (strcmp(router, "linear") != 0) {
        mf_free(path);
        return mf_fail(MF_EUSAGE, "--router: expected linear, found '%s'", router);
    }
    int rc = data && !path ? MF_ENOMEM : mf_export_router(run, &text);
    if (rc == MF_OK && text && !(ret->run = mf_strf("%s.router", out))) rc = MF_ENOMEM;
    if (rc == MF_OK && text) {
        const mf_swap_options o = {.router = text,
                                   .match = mf_cli_int(cli, "match", 64),
                                   .match_lr = 0.01,
                                   .batches = 8,
                                   .fresh = true,
                                   .run = ret->run,
                                   .n_set = path ? 1 : 0,
                                   .set = &set};
        rc = mf_exists(ret->run) ? mf_fail(MF_EUSAGE, "%s: exists already", ret->run)
                                 : mf_swap(run, &o, &ret->report);
    }
    mf_free(text);
    mf_free(path);
    return rc;
}

static void remove_fitted(fitted *f)
{
    if (f->report) {
        const int rc = mf_error_code();
        char *why = rc != MF_OK ? mf_strdup(mf_error_message()) : NULL;
        mf_remove_tree(f->run);
        if (why) mf_fail(rc, "%s", why);
        mf_free(why);
    }
    mf_swap_report_free(f->report);
    mf_free(f->run);
}

/* Prints what was written, and the loss of a fitted router. */
static int tell(const mf_cli *cli, const char *path, const mf_swap_report *r)
{
    if (!r) return mf_cli_put_name(cli, "export", path);
    if (!mf_cli_json(cli)) {
        printf("router %s fitted on %lld batches: loss %.6f -> %.6f, KL of predictions %.6f\n",
               mf_shown(r->router), (long long)r->matched, r->loss_before, r->loss_after,
               r->kl_next_token);
        return mf_cli_put_name(cli, "export", path);
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "export", path);
    mf_jw_kv_string(w, "router", r->router);
    mf_jw_kv_int(w, "match", r->matched);
    mf_jw_kv_real(w, "loss_before", r->loss_before);
    mf_jw_kv_real(w, "loss_after", r->loss_after);
    mf_jw_kv_real(w, "kl_next_token", r->kl_next_token);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static int export_code(const mf_cli *cli, const char *out)
{
    static const char *const others[] = {"dtype", "as", "router", "data"};
    int64_t tensors;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (mf_cli_text(cli, others[i], NULL))
            return mf_fail(MF_EUSAGE, "--with-code goes without --%s", others[i]);
    if (mf_cli_flag(cli, "unmerged"))
        return mf_fail(MF_EUSAGE,
                       "--with-code goes without --unmerged: adapters stay as they are");
    const int rc = mf_export_code(mf_cli_operand(cli, 0), out,
                                  !mf_cli_flag(cli, "no-tokenizer"), &tensors);
    return rc == MF_OK ? mf_cli_put_name(cli, "export", out) : rc;
}

/* Exports to hf, gguf or peft, each with its own options. */
static int export_model(const mf_cli *cli)
{
    const char *out = mf_cli_text(cli, "out", NULL), *what = mf_cli_action(cli), *run;
    const bool unmerged = mf_cli_flag(cli, "unmerged"), gguf = strcmp(what, "gguf") == 0;
    mf_export_options o = {.adapters = unmerged ? MF_EXPORT_WITHOUT : MF_EXPORT_MERGED,
                           .as = mf_cli_text(cli, "as", NULL),
                           .no_tokenizer = mf_cli_flag(cli, "no-tokenizer")};
    fitted f = {.run = NULL};
    char *path = NULL;
    int64_t tensors = 0;
    if (!out)
        return mf_fail(MF_EUSAGE, "'moefw export %s' wants -o %s", what,
                       gguf ? "FILE.gguf, a new file, or -o FOLDER" : "FOLDER, a new folder");
    if (mf_cli_flag(cli, "with-code")) return export_code(cli, out);
    int rc = read_dtype(mf_cli_text(cli, "dtype", NULL), &o.dtype);
    if (rc == MF_OK && !gguf && mf_exists(out))
        rc = mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", out);
    if (rc == MF_OK) rc = fit_router(cli, out, &f);
    run = f.run ? f.run : mf_cli_operand(cli, 0);
    if (rc == MF_OK && gguf) rc = mf_export_gguf(run, out, &o, &path);
    if (rc == MF_OK && strcmp(what, "hf") == 0) rc = mf_export_hf(run, out, &o, &tensors);
    if (rc == MF_OK && strcmp(what, "peft") == 0) rc = mf_export_peft(run, out, &tensors);
    if (rc == MF_OK) rc = tell(cli, path ? path : out, f.report);
    remove_fitted(&f);
    mf_free(path);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *what = mf_cli_action(cli);
    if (strcmp(what, "hf") == 0 || strcmp(what, "peft") == 0 || strcmp(what, "gguf") == 0)
        return export_model(cli);
    if (strcmp(what, "result") == 0) return export_result(cli);
    return strcmp(what, "csv") == 0 ? export_csv(cli) : export_mlflow(cli);
}

const mf_verb mf_verb_export = {
    .name = "export",
    .brief = "write measurements or weights of runs for other tools",
    .forms = forms,
    .options = options,
    .run = run,
    .plain = true,
    .notes = "Numbers are named by the way to them in metrics.jsonl: moe.3.load.0 is the\n"
             "load of layer 3, expert 0; in MLflow SPLIT/NUMBER. Rows of validation have\n"
             "peak_rss_mib of memory.jsonl. What is at the target is never changed.\n"
             "MLflow 3 reads file stores with MLFLOW_ALLOW_FILE_STORE=true, or moves them\n"
             "into a database: mlflow migrate-filestore.\n"};
