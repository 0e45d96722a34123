/* moefw report RUN...: writes one page about a run, or about several runs in the same figures.
 * A folder as an operand means all runs in it. The page is written completely or not at all. */
#include "cli/cli.h"
#include "report/compare/compare.h"
#include "report/report.h"
#include "report/runs/runs.h"
#include "run/folder/rundir.h"

#include "base/file/io.h"
#include "base/mem.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 64, WATCH_EVERY = 10 };

/* Whether the operand is a folder of runs. A folder with metrics.jsonl counts as a run, because
 * a page needs no other file. */
static bool is_folder(const char *what)
{
    if (!mf_is_dir(what) || mf_rundir_is(what) || mf_report_is_comparison(what)) return false;
    char *metrics = mf_path_join(what, "metrics.jsonl");
    const bool run = metrics && mf_exists(metrics);
    mf_free(metrics);
    return !run;
}

/* Adds the operand to runs [RUNS_MAX]; if it is a folder of runs, adds these runs instead. The
 * list owns the names of runs in folders. */
static int add(const char *what, mf_listed_runs *list, const char **runs, int *n)
{
    const int had = list->n;
    const bool folder = is_folder(what);
    int rc = folder ? mf_listed_runs_add(list, what) : MF_OK;
    const int more = folder ? list->n - had : 1;
    if (rc == MF_OK && *n + more > RUNS_MAX)
        rc = mf_fail(MF_EUSAGE, "'moefw report' takes %d runs at most, not %d", RUNS_MAX,
                     *n + more);
    for (int i = 0; rc == MF_OK && i < more; i++)
        runs[(*n)++] = folder ? list->run[had + i].dir : what;
    return rc;
}

/* The path of the page if the user names none. The caller frees it. */
static char *usual_path(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    return mf_cli_operands(cli) == 1 && mf_is_dir(what) ? mf_path_join(what, "report.html")
                                                        : mf_strdup("report.html");
}

/* Total size of metrics.jsonl of all runs in bytes. If it has grown, there are
 * new measurements. */
static int64_t measured(int n, const char *const *runs)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        struct stat s;
        char *path = mf_path_join(runs[i], "metrics.jsonl");
        if (path && stat(path, &s) == 0) sum += (int64_t)s.st_size;
        mf_free(path);
    }
    return sum;
}

static bool any_busy(int n, const char *const *runs)
{
    for (int i = 0; i < n; i++)
        if (mf_rundir_busy(runs[i])) return true;
    return false;
}

/* Writes the page again whenever a run has new measurements, until no process writes to any
 * of the runs. Waits for a run that has no measurements yet. The last page does not
 * reload itself. */
static int watch(int n, const char *const *runs, const char *path, int every)
{
    int64_t had = -1;
    int rc = MF_OK;
    while (rc == MF_OK && any_busy(n, runs)) {
        const int64_t now = measured(n, runs);
        if (now > 0 && now != had) {
            rc = mf_report_write_live(n, runs, path, every);
            /* not an error: the first line is not complete yet */
            if (rc == MF_EINPUT) rc = MF_OK;
            had = now;
        }
        for (int s = 0; rc == MF_OK && s < every && any_busy(n, runs); s++)
            sleep(1);
    }
    return rc == MF_OK ? mf_report_write(n, runs, path) : rc;
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
    if (rc == MF_OK) rc = mf_cli_new_file(cli, path);
    if (rc == MF_OK && mf_cli_flag(cli, "watch"))
        rc = watch(n, runs, path, (int)mf_cli_int(cli, "every", WATCH_EVERY));
    else if (rc == MF_OK)
        rc = mf_report_write(n, runs, path);
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
    {.name = "watch",
     .kind = MF_CLI_FLAG,
     .help = "write the page again while the runs go on; it loads itself again"},
    {.name = "every",
     .kind = MF_CLI_INT,
     .arg = "SECONDS",
     .lo = 1,
     .hi = 86400,
     .help = "between two writes of --watch (10)"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

const mf_verb mf_verb_report = {
    .name = "report",
    .brief = "write a page with all curves and pictures of a run",
    .forms = forms,
    .options = options,
    .run = run,
    .plain = true,
};
