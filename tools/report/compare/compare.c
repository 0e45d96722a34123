/* The page of a comparison: the compared routers, the table of results, figures, and the
 * command that repeats it. The table needs only comparison.json. A missing run is only absent
 * from the figures. */
#include "report/compare/compare.h"

#include "base/file/io.h"
#include "lab/stats.h"
#include "report/compare/compare_data.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool mf_report_is_comparison(const char *folder)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/comparison.json", folder);
    return n > 0 && (size_t)n < sizeof path && mf_exists(path);
}

/* Formats a value with half the width of its interval, or alone if the interval is not known;
 * "-" if the value is NaN. sign: also writes a plus. */
static const char *with_range(const mf_report *p, bool sign, double v, double lo, double hi)
{
    if (isnan(v)) return "-";
    if (isnan(lo) || isnan(hi)) return mf_report_strf(p, sign ? "%+.4f" : "%.4f", v);
    return mf_report_strf(p, sign ? "%+.4f \xc2\xb1 %.4f" : "%.4f \xc2\xb1 %.4f", v,
                          (hi - lo) / 2);
}

static const char *p_text(const mf_report *p, double v)
{
    return isnan(v) ? "-" : v < 0.0001 ? "< .0001" : mf_report_strf(p, "%.4f", v);
}

static const char *count_text(const mf_report *p, double n)
{
    if (isnan(n)) return "-";
    return n >= 1e6 ? mf_report_strf(p, "%.2f M", n / 1e6) : mf_report_strf(p, "%.0f", n);
}

/* Says how much stricter the verdicts are because results were shown before more seeds
 * were added. */
static void looks(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    const mf_json *earlier = mf_json_get(c->json, "earlier_looks");
    const size_t n = mf_json_typeof(earlier) == MF_JSON_ARRAY ? mf_json_size(earlier) : 0;
    if (isnan(c->level) || isnan(c->level_total) || n == 0) return;
    mf_html_paragraph(
        p->d,
        mf_report_strf(p,
                       "Results were shown %zu time%s before, with other numbers of seeds. So "
                       "verdicts need p below %.4g; all looks together find a "
                       "difference in at most %.3g %% of comparisons of equal routers.",
                       n, n == 1 ? "" : "s", c->level, 100 * c->level_total));
}

static void table(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    const double delta = mf_json_real_or_nan(c->json, "delta");
    const char *const align = isnan(delta) ? "rllrrrrrrrrrr" : "rllrrrrrrrrrrr";
    const char *const head[] = {"rank",
                                "router",
                                "verdict",
                                c->metric,
                                mf_report_strf(p, "difference to %s", c->baseline),
                                "p (Holm)",
                                "p by signs",
                                "NMI, best layer",
                                "load CV",
                                "drop rate",
                                "tokens/s",
                                "router parameters",
                                "runs",
                                mf_report_strf(p, "P(better by > %g)", delta)};
    mf_html_section(p->d, "table", "Result");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < c->n; i++) {
        const mf_cmp_row *r = &c->rows[i];
        const char *const cells[] = {
            r->rank > 0 ? mf_report_strf(p, "%d", r->rank) : "-",
            r->shown,
            r->baseline ? "baseline" : r->verdict,
            with_range(p, false, r->mean, r->lo, r->hi),
            r->baseline ? "" : with_range(p, true, r->diff, r->diff_lo, r->diff_hi),
            r->baseline ? "" : p_text(p, r->p_holm),
            r->baseline ? "" : p_text(p, r->p_flip),
            mf_report_num(p, 3, r->nmi_best),
            mf_report_num(p, 3, r->load_cv),
            mf_report_num(p, 3, r->drop_rate),
            count_text(p, r->tokens_per_s),
            count_text(p, r->params_router),
            r->failed > 0 ? mf_report_strf(p, "%d, %d failed", r->n, r->failed)
                          : mf_report_strf(p, "%d", r->n),
            r->baseline ? "" : mf_report_num(p, 3, r->p_better)};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d, "\xc2\xb1: half the 95 % interval over seeds. Differences are taken within "
              "seeds, whose runs see the same "
              "data in the same order and begin with the same weights outside "
              "the router; p of the paired t "
              "test, corrected by Holm for all routers compared. \"No difference "
              "shown\" is not \"equal\". p by signs: of the exact test that changes signs of "
              "differences, from 6 seeds on; it assumes no distribution.");
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->rows[i].shown, c->rows[i].router) != 0)
            mf_html_paragraph(p->d, mf_report_strf(p, "%s is the plugin of %s.",
                                                   c->rows[i].shown, c->rows[i].router));
    if (c->seeds < MF_VERDICT_SEEDS)
        mf_html_paragraph(p->d, mf_report_strf(p,
                                               "With fewer than %d seeds nothing can be shown, "
                                               "so there is no verdict.",
                                               MF_VERDICT_SEEDS));
    looks(c);
    if (!c->complete)
        mf_html_paragraph(p->d, "Not all runs have ended; this page shows those that have.");
    const mf_json *skipped = mf_json_get(c->json, "skipped");
    for (size_t i = 0; i < mf_json_size(skipped); i++) {
        const char *router =
            mf_json_string(mf_json_get(mf_json_at(skipped, i), "router"), NULL);
        const char *reason =
            mf_json_string(mf_json_get(mf_json_at(skipped, i), "reason"), NULL);
        if (router && reason)
            mf_html_paragraph(p->d, mf_report_strf(p, "Skipped: %s. %s", router, reason));
    }
    mf_html_section_end(p->d);
}

static void repeat(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_paragraph(p->d, "Each router's config.ini holds every key, resolved; each run can "
                            "be repeated by itself, bit for bit "
                            "on the same machine.");
    mf_doc *text = mf_doc_new();
    for (int i = 0; text && i < c->n; i++)
        if (c->rows[i].n_runs > 0) {
            mf_doc_put(text, "moefw train ");
            mf_doc_put_path(text, mf_report_strf(p, "%s/config.ini", c->rows[i].runs[0]->dir));
            mf_doc_put(text, "\n");
        }
    if (text) {
        mf_doc_put(text, "moefw report ");
        mf_doc_put_path(text, c->folder);
        if (mf_doc_string(text, NULL)) mf_html_code(p->d, mf_doc_string(text, NULL));
    }
    mf_doc_free(text);
    if (c->plan) mf_html_details(p->d, "plan.json", c->plan);
    for (int i = 0; i < c->n; i++)
        if (c->rows[i].n_runs > 0 && c->rows[i].baseline && c->rows[i].runs[0]->config_text)
            mf_html_details(p->d, mf_report_strf(p, "config.ini of %s", c->rows[i].router),
                            c->rows[i].runs[0]->config_text);
    mf_html_section_end(p->d);
}

/* "INCOMPLETE, 1 router without a result (NAME): ", or "" if no requested router is missing. */
static const char *lacking(const mf_comparison *c)
{
    const double n = mf_json_real_or_nan(c->json, "lacks");
    const char *name = mf_json_string(mf_json_get(c->json, "lacks_first"), NULL);
    if (!(n > 0) || !name) return "";
    return mf_report_strf(&c->page, "INCOMPLETE, %g router%s without a result (%s%s): ", n,
                          n > 1 ? "s" : "", name, n > 1 ? ", ..." : "");
}

static void page(const mf_comparison *c)
{
    mf_html_entry entries[8];
    int n = 0;
    const mf_report *p = &c->page;
    entries[n++] = (mf_html_entry){"table", "Result"};
    if (mf_json_get(c->json, "search"))
        entries[n++] = (mf_html_entry){"tried", "What was tried"};
    if (!isnan(c->margin)) entries[n++] = (mf_html_entry){"margin", "Equal or not"};
    entries[n++] = (mf_html_entry){"quality", "Quality and cost"};
    entries[n++] = (mf_html_entry){"curves", "Over the steps"};
    entries[n++] = (mf_html_entry){"load", "Load"};
    if (mf_cmp_has_labels(c)) entries[n++] = (mf_html_entry){"labels", "Experts and labels"};
    entries[n++] = (mf_html_entry){"routing", "One text"};
    entries[n++] = (mf_html_entry){"repeat", "How to repeat"};
    mf_html_begin(
        p->d, mf_report_strf(p, "Routers compared: %s", c->name),
        mf_report_strf(p, "%s%d router%s, %lld seed%s, %lld steps each; equal %s; baseline %s",
                       lacking(c), c->n, c->n == 1 ? "" : "s", (long long)c->seeds,
                       c->seeds == 1 ? "" : "s", (long long)c->steps, c->equal, c->baseline),
        0);
    mf_html_contents(p->d, n, entries);
    table(c);
    mf_cmp_margin(c);
    mf_cmp_search(c);
    mf_cmp_quality(c);
    mf_cmp_curves(c);
    mf_cmp_pictures(c);
    repeat(c);
    const mf_report_run *first = c->rows[0].n_runs > 0 ? c->rows[0].runs[0] : NULL;
    mf_html_end(p->d, mf_report_strf(p, "moefw %s. One file, nothing loaded from elsewhere.",
                                     first ? mf_report_manifest(first, "moefw", "") : ""));
}

int mf_report_comparison(const char *folder, const char *out)
{
    mf_comparison *c;
    size_t n;
    int rc = mf_comparison_open(folder, &c);
    if (rc != MF_OK) return rc;
    page(c);
    const char *text = mf_doc_string(c->page.d, &n);
    if (!text || mf_error_code() == MF_ENOMEM)
        rc = mf_fail(MF_ENOMEM, "out of memory for %s", out);
    else
        rc = mf_write_file_atomic(out, text, n);
    mf_comparison_close(c);
    return rc;
}
