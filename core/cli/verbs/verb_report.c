/* moefw report RUN...: writes one page about a run, or about several in the same figures. A
 * folder stands for all runs in it. The page is written completely or not at all. */
#include "cli/cli.h"
#include "report/compare/compare.h"
#include "report/report.h"
#include "report/runs/runs.h"
#include "train/run/rundir.h"

#include "base/file/io.h"
#include "base/mem.h"

#include <stdio.h>

enum { RUNS_MAX = 64 };

/* Whether the operand stands for the runs in a folder. A folder with metrics.jsonl is a run
 * itself, because a page needs nothing else. */
static bool is_folder(const char *what)
{
    if (!mf_is_dir(what) || mf_rundir_is(what) || mf_report_is_comparison(what)) return false;
    char *metrics = mf_path_join(what, "metrics.jsonl");
    const bool run = metrics && mf_exists(metrics);
    mf_free(metrics);
    return !run;
}

/* Adds the operand, or the runs in the folder that it is, to runs [RUNS_MAX]. Names of runs in
 * folders belong to the list. */
static int add(const char *what, mf_listed_runs *list, const char **runs, int *n)
{
    const int had = list->n;
    int rc = is_folder(what) ? mf_listed_runs_add(list, what) : MF_OK;
    const int more = is_folder(what) ? list->n - had : 1;
    if (rc == MF_OK && *n + more > RUNS_MAX)
        rc = mf_fail(MF_EUSAGE, "'moefw report' takes %d runs at most, not %d", RUNS_MAX,
                     *n + more);
    for (int i = 0; rc == MF_OK && i < more; i++)
        runs[(*n)++] = is_folder(what) ? list->run[had + i].dir : what;
    return rc;
}

/* Where the page is written unless the user says it; the caller frees it. */
static char *usual_path(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    return mf_cli_operands(cli) == 1 && mf_is_dir(what) ? mf_path_join(what, "report.html")
                                                        : mf_strdup("report.html");
}

static int run(const mf_cli *cli)
{
    const char *runs[RUNS_MAX], *out = mf_cli_text(cli, "out", NULL);
    mf_listed_runs list = {0};
    int n = 0, rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_cli_operands(cli); i++)
        rc = add(mf_cli_operand(cli, i), &list, runs, &n);
    char *path = out ? mf_strdup(out) : usual_path(cli);
    if (rc == MF_OK && !path) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_report_write(n, runs, path);
    if (rc == MF_OK) rc = mf_cli_put_name(cli, "report", path);
    mf_free(path);
    mf_listed_runs_free(&list);
    return rc;
}

static const mf_cli_form forms[] = {
    {NULL, "RUN|DIR...", 1, -1,
     "one run, several over one another, all runs of a folder, or the folder of a comparison"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .arg = "FILE",
     .kind = MF_CLI_TEXT,
     .help = "the page; else report.html in the run or folder, or here for several"},
    MF_CLI_END};

const mf_verb mf_verb_report = {
    .name = "report",
    .brief = "write a page with all curves and pictures of a run",
    .forms = forms,
    .options = options,
    .run = run,
};
