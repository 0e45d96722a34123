/* The section of a comparison's page about the search that found its routers' settings: every
 * trial with its result. Without a search there is no section. */
#include <math.h>
#include <string.h>
#include "report/compare/compare_data.h"

/* Number of trials that the page lists at most. The other trials are in search.json. */
enum { SHOWN = 200 };

static void trial(const mf_report *p, const char *align, const mf_json *t, const char *rung,
                  bool last)
{
    double mean = (double)NAN, n = 0;
    bool kept = false;
    int64_t number = 0;
    mf_json_real(mf_json_get(t, "mean"), &mean);
    mf_json_real(mf_json_get(t, "n"), &n);
    mf_json_bool(mf_json_get(t, "kept"), &kept);
    mf_json_int(mf_json_get(t, "trial"), &number);
    const char *router = mf_json_string(mf_json_get(t, "router"), NULL);
    const char *settings = mf_json_string(mf_json_get(t, "settings"), NULL);
    const char *const cells[] = {rung,
                                 mf_report_strf(p, "%lld", (long long)number),
                                 router ? router : "-",
                                 settings ? settings : "-",
                                 isnan(mean) ? "failed" : mf_report_strf(p, "%.4f", mean),
                                 mf_report_strf(p, "%.0f", n),
                                 !kept  ? ""
                                 : last ? "winner: ran again"
                                        : "next rung"};
    mf_html_row(p->d, align, cells);
}

void mf_cmp_search(const mf_comparison *c)
{
    static const char align[] = "rrllrrl";
    const mf_report *p = &c->page;
    const mf_json *s = mf_json_get(c->json, "search"), *rungs = mf_json_get(s, "rungs");
    const size_t n = mf_json_size(rungs);
    const char *const head[] = {"rung", "trial", "router", "settings", c->metric, "runs", ""};
    int64_t tried = 0, runs = 0;
    int shown = 0, all = 0;
    if (!s) return;
    mf_json_int(mf_json_get(s, "tried"), &tried);
    mf_json_int(mf_json_get(s, "runs"), &runs);
    mf_html_section(p->d, "tried", "What was tried");
    mf_html_paragraph(
        p->d, mf_report_strf(p,
                             "%lld settings, %lld runs. The best of many trials looks better "
                             "than it is, so the winners ran again with new seeds; the result "
                             "above is of these runs alone.",
                             (long long)tried, (long long)runs));
    mf_html_table(p->d, align, head);
    for (size_t i = 0; i < n; i++) {
        const mf_json *trials = mf_json_get(mf_json_at(rungs, i), "trials");
        int64_t steps = 0;
        mf_json_int(mf_json_get(mf_json_at(rungs, i), "steps"), &steps);
        const char *rung =
            steps > 0 ? mf_report_strf(p, "%d (%lld steps)", (int)i + 1, (long long)steps)
                      : "1";
        for (size_t j = 0; j < mf_json_size(trials); j++, all++)
            if (shown < SHOWN) {
                trial(p, align, mf_json_at(trials, j), rung, i + 1 == n);
                shown++;
            }
    }
    mf_html_table_end(p->d);
    if (shown < all)
        mf_html_paragraph(p->d, mf_report_strf(p, "%d more are in search.json.", all - shown));
    mf_html_section_end(p->d);
}
