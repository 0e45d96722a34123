/* moefw report RUN...: writes one page about a run, or about several in the same figures. The
 * page is written completely or not at all. */
#include "cli/cli.h"
#include "report/report.h"

#include "base/file/io.h"
#include "base/mem.h"

#include <stdio.h>

static int run(const mf_cli *cli)
{
    const char *runs[64], *out = mf_cli_text(cli, "out", NULL);
    const int n = mf_cli_operands(cli);
    char *path = NULL;
    if (n > 64) return mf_fail(MF_EUSAGE, "'moefw report' takes 64 runs at most, not %d", n);
    for (int i = 0; i < n; i++)
        runs[i] = mf_cli_operand(cli, i);
    path = out      ? mf_strdup(out)
           : n == 1 ? mf_path_join(runs[0], "report.html")
                    : mf_strdup("report.html");
    if (!path) return MF_ENOMEM;
    int rc = mf_report_write(n, runs, path);
    if (rc == MF_OK) rc = mf_cli_put_name(cli, "report", path);
    mf_free(path);
    return rc;
}

static const mf_cli_form forms[] = {
    {NULL, "RUN...", 1, -1, "one run, several over one another, or the folder of a comparison"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .arg = "FILE",
     .kind = MF_CLI_TEXT,
     .help = "the page; else report.html in the run, or here for several runs"},
    MF_CLI_END};

const mf_verb mf_verb_report = {
    .name = "report",
    .brief = "write a page with all curves and pictures of a run",
    .forms = forms,
    .options = options,
    .run = run,
};
