/* moefw board: a page of a folder of results. The verb only parses and prints; lab/result/board
 * reads, report/board writes the page. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "report/board/board.h"

static const mf_cli_form forms[] = {
    {NULL, "DIR", 1, 1,
     "write a page of all result.json in a folder, with records of moefw verify"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "a new file for the page (DIR/board.html, which is replaced)"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

static void print(const mf_board *b)
{
    char mark[160];
    for (int i = 0; i < b->n; i++) {
        const mf_board_table *t = &b->tables[i];
        printf("%s, %lld steps: %d routers in %d result%s, baseline %s\n", mf_shown(t->data),
               (long long)t->steps, t->n, t->n_results, t->n_results == 1 ? "" : "s",
               mf_shown(t->baseline));
        for (int k = 0; k < t->n; k++) {
            const mf_board_row *r = &t->rows[k];
            printf("  %3d-%-3d %-28s %+.4f [%+.4f,%+.4f]  %s\n", r->best, r->worst,
                   mf_shown(r->router), r->diff, r->lo, r->hi,
                   r->baseline ? "baseline" : r->verdict);
        }
        for (int k = 0; k < t->n_results; k++)
            printf("  %s: %s\n", mf_shown(t->results[k].file),
                   mf_board_mark_text(&t->results[k].mark, mark, sizeof mark));
    }
    for (int i = 0; i < b->n_refused; i++)
        printf("refused: %s\n", mf_shown(b->refused[i]));
}

static void put(mf_jw *w, const mf_board *b)
{
    mf_jw_object(w);
    mf_jw_key(w, "tables");
    mf_jw_array(w);
    for (int i = 0; i < b->n; i++) {
        const mf_board_table *t = &b->tables[i];
        mf_jw_object(w);
        mf_jw_kv_string(w, "data", t->data);
        mf_jw_kv_string(w, "metric", t->metric);
        mf_jw_kv_string(w, "baseline", t->baseline);
        mf_jw_kv_int(w, "steps", t->steps);
        mf_jw_key(w, "rows");
        mf_jw_array(w);
        for (int k = 0; k < t->n; k++) {
            const mf_board_row *r = &t->rows[k];
            mf_jw_object(w);
            mf_jw_kv_string(w, "router", r->router);
            mf_jw_kv_string(w, "result", r->file);
            mf_jw_kv_int(w, "n", r->n);
            mf_jw_kv_int(w, "best", r->best);
            mf_jw_kv_int(w, "worst", r->worst);
            mf_jw_kv_real(w, "mean", r->mean);
            mf_jw_kv_real(w, "diff", r->diff);
            mf_jw_kv_string(w, "verdict", r->verdict);
            mf_jw_end(w);
        }
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_int(w, "refused", b->n_refused);
    mf_jw_end(w);
}

static int show(const mf_cli *cli, const mf_board *b)
{
    if (!mf_cli_json(cli)) {
        print(b);
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (w) put(w, b);
    const char *text = w ? mf_jw_text(w, NULL) : NULL;
    if (text) puts(text);
    mf_jw_free(w);
    return text ? MF_OK : MF_ENOMEM;
}

static int run(const mf_cli *cli)
{
    const char *folder = mf_cli_operand(cli, 0), *out = mf_cli_text(cli, "out", NULL);
    char *own = out ? NULL : mf_path_join(folder, "board.html");
    mf_board *b = NULL;
    int rc = out ? mf_cli_new_file(cli, out) : own ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_board_read(folder, &b);
    if (rc == MF_OK) rc = mf_report_board(b, folder, out ? out : own);
    if (rc == MF_OK) rc = show(cli, b);
    if (rc == MF_OK && !mf_cli_json(cli)) puts(mf_shown_on(stdout, out ? out : own));
    mf_board_free(b);
    mf_free(own);
    return rc;
}

const mf_verb mf_verb_board = {.name = "board",
                               .brief = "a page of results that others can verify",
                               .forms = forms,
                               .options = options,
                               .run = run};
