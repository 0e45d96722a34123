/* The page of a folder of results: a table for each set of results that can be compared, with
 * intervals, ranges of ranks, and how far others have verified each result. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include <moefw/version.h>
#include "report/board/board.h"
#include "report/page/report_parts.h"

const char *mf_board_mark_text(const mf_board_mark *m, char *text, size_t size)
{
    const int repeated = m->same + m->rounded + m->different;
    size_t n;
    if (m->different > 0)
        snprintf(text, size, "DIFFERENT (%d of %d runs)", m->different, repeated);
    else if (m->rounded > 0)
        snprintf(text, size, "same within rounding (%d run%s)", repeated,
                 repeated == 1 ? "" : "s");
    else if (m->same > 0)
        snprintf(text, size, "same bits (%d run%s, %d whole)", m->same, m->same == 1 ? "" : "s",
                 m->whole);
    else
        snprintf(text, size, "checked only");
    n = strlen(text);
    if (m->fresh_wrong > 0)
        snprintf(text + n, size - n, "; FRESH SEEDS DISAGREE (%d)", m->fresh_wrong);
    else if (m->fresh > 0)
        snprintf(text + n, size - n, "; fresh seeds agree (%d)", m->fresh);
    return text;
}

static const char *mark_of(const mf_report *p, const mf_board_table *t, const char *file)
{
    char text[160];
    for (int i = 0; i < t->n_results; i++)
        if (strcmp(t->results[i].file, file) == 0)
            return mf_report_strf(p, "%s",
                                  mf_board_mark_text(&t->results[i].mark, text, sizeof text));
    return "";
}

static const char *signed_range(const mf_report *p, const mf_board_row *r)
{
    if (r->baseline || isnan(r->diff)) return "";
    if (isnan(r->lo)) return mf_report_strf(p, "%+.4f", r->diff);
    return mf_report_strf(p, "%+.4f [%+.4f, %+.4f]", r->diff, r->lo, r->hi);
}

static void rows(const mf_report *p, const mf_board_table *t)
{
    static const char align[] = "rllrrrrrll";
    const char *const head[] = {
        "rank",     "router",    "verdict", mf_report_strf(p, "difference to %s", t->baseline),
        t->metric,  "bits/byte", "seeds",   "parameters",
        "verified", "result"};
    mf_html_table(p->d, align, head);
    for (int i = 0; i < t->n; i++) {
        const mf_board_row *r = &t->rows[i];
        const char *const cells[] = {
            r->best == r->worst ? mf_report_strf(p, "%d", r->best)
                                : mf_report_strf(p, "%d\xe2\x80\x93%d", r->best, r->worst),
            r->router,
            r->baseline ? "baseline" : r->verdict,
            signed_range(p, r),
            isnan(r->half) ? mf_report_strf(p, "%.4f", r->mean)
                           : mf_report_strf(p, "%.4f \xc2\xb1 %.4f", r->mean, r->half),
            isnan(r->bits) ? "-" : mf_report_strf(p, "%.4f", r->bits),
            mf_report_strf(p, "%d", r->n),
            mf_report_strf(p, "%lld", (long long)r->params),
            mark_of(p, t, r->file),
            r->file};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
}

static void table(const mf_report *p, const mf_board_table *t, int number)
{
    const char *id = mf_report_strf(p, "table%d", number);
    mf_html_section(p->d, id,
                    mf_report_strf(p, "%s, %lld steps", t->data, (long long)t->steps));
    mf_html_paragraph(
        p->d,
        mf_report_strf(p,
                       "%d result%s of the same data, steps, metric and baseline; %s is "
                       "better. Rows are in the order of their differences from the "
                       "baseline of their own result. Rank: the best and the worst one "
                       "among the routers of its result that its seeds allow, by paired t "
                       "tests of all pairs after Holm's correction; where the ranges of "
                       "two routers overlap, no order of them is shown.",
                       t->n_results, t->n_results == 1 ? "" : "s",
                       t->higher_is_better ? "higher" : "lower"));
    rows(p, t);
    mf_html_section_end(p->d);
}

static void page(const mf_report *p, const mf_board *b, const char *folder)
{
    mf_html_entry entries[66];
    int n = 0;
    for (int i = 0; i < b->n && n < 64; i++)
        entries[n++] = (mf_html_entry){mf_report_strf(p, "table%d", i + 1),
                                       mf_report_strf(p, "%s, %lld steps", b->tables[i].data,
                                                      (long long)b->tables[i].steps)};
    entries[n++] = (mf_html_entry){"verify", "How to verify"};
    if (b->n_refused > 0) entries[n++] = (mf_html_entry){"refused", "Refused"};
    mf_html_begin(p->d, "Board of results",
                  mf_report_strf(p, "%s: %d table%s", folder, b->n, b->n == 1 ? "" : "s"), 0);
    mf_html_contents(p->d, n, entries);
    /* the page's script puts the filter here; without scripts all rows are shown */
    mf_doc_put(p->d,
               "<div class=\"filter\" hidden data-words=\"same bits|within rounding|fresh "
               "seeds agree|checked only\"></div>\n");
    for (int i = 0; i < b->n; i++)
        table(p, &b->tables[i], i + 1);
    mf_html_section(p->d, "verify", "How to verify");
    mf_html_paragraph(
        p->d,
        "Each result was read and its table computed again from its runs. \"Checked only\" "
        "says no more. Whoever has the data can repeat runs; put the verified.json that "
        "this writes into the folder, and the page shows it. A record names its result by "
        "hash; it is as credible as the person who gives it.");
    mf_html_code(p->d, "moefw verify RESULT.json --data FOLDER --seeds 2\n"
                       "moefw verify RESULT.json --data FOLDER --router ROUTER --fresh 3\n");
    mf_html_section_end(p->d);
    if (b->n_refused > 0) {
        mf_html_section(p->d, "refused", "Refused");
        for (int i = 0; i < b->n_refused; i++)
            mf_html_paragraph(p->d, b->refused[i]);
        mf_html_section_end(p->d);
    }
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_board(const mf_board *b, const char *folder, const char *out)
{
    mf_report p = {.arena = mf_arena_new(), .d = mf_doc_new()};
    size_t n;
    int rc = p.arena && p.d ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) {
        page(&p, b, folder);
        const char *text = mf_doc_string(p.d, &n);
        rc = text ? mf_write_file_atomic(out, text, n) : MF_ENOMEM;
    }
    mf_doc_free(p.d);
    mf_arena_free(p.arena);
    return rc;
}
