/* The section about the margin of `moefw compare --equivalent`: a table of the intervals that
 * show equality, and a figure with all single differences over the band of the margin. */
#include <math.h>
#include <string.h>

#include "report/compare/compare_data.h"

enum { MOST = 64, POINTS = 4096 };

static const mf_json *runs_of(const mf_comparison *c, const char *router)
{
    const mf_json *rows = mf_json_get(c->json, "rows");
    for (size_t i = 0; i < mf_json_size(rows); i++) {
        const mf_json *row = mf_json_at(rows, i);
        const char *label = mf_json_string(mf_json_get(row, "router"), NULL);
        if (label && strcmp(label, router) == 0) return mf_json_get(row, "runs");
    }
    return NULL;
}

static const char *baseline_label(const mf_comparison *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->rows[i].baseline) return c->rows[i].router;
    return "";
}

/* Writes the differences of a router's runs from those of the baseline with the same seed.
 * Returns their number, at most `most`. */
static int differences(const mf_comparison *c, const mf_cmp_row *row, double *ret, int most)
{
    const mf_json *mine = runs_of(c, row->router), *base = runs_of(c, baseline_label(c));
    int n = 0;
    for (size_t i = 0; i < mf_json_size(mine); i++)
        for (size_t k = 0; k < mf_json_size(base) && n < most; k++) {
            const mf_json *a = mf_json_at(mine, i), *b = mf_json_at(base, k);
            const double d =
                mf_json_real_or_nan(a, c->metric) - mf_json_real_or_nan(b, c->metric);
            if (mf_json_real_or_nan(a, "seed") == mf_json_real_or_nan(b, "seed") && isfinite(d))
                ret[n++] = d;
        }
    return n;
}

static void table(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    const char *const head[] = {"router", "verdict",
                                mf_report_strf(p, "%.4g %% interval", 100 * (1 - 2 * c->level)),
                                "p (Holm)", "a difference"};
    mf_html_table(p->d, "llrrl", head);
    for (int i = 0; i < c->n; i++) {
        const mf_cmp_row *r = &c->rows[i];
        if (r->baseline) continue;
        const char *const cells[] = {
            r->shown,
            strcmp(r->verdict, "equal") == 0 ? mf_report_strf(p, "equal within %.4g", c->margin)
                                             : r->verdict,
            isnan(r->equal_lo) ? "-"
                               : mf_report_strf(p, "%+.4f to %+.4f", r->equal_lo, r->equal_hi),
            r->p_margin < 0.0001 ? "< .0001" : mf_report_strf(p, "%.4f", r->p_margin),
            r->difference};
        mf_html_row(p->d, "llrrl", cells);
    }
    mf_html_table_end(p->d);
}

/* Writes a point with an interval for each router, its single differences beside it, and the
 * band of the margin behind them. */
static void figure(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    const int bytes = (int)sizeof(double) * POINTS;
    double *x = mf_arena_alloc(p->arena, (size_t)bytes),
           *y = mf_arena_alloc(p->arena, (size_t)bytes);
    double at[MOST], mean[MOST];
    mf_series s[2 * MOST + 1];
    int n = 0, used = 0, k = 0;
    if (!x || !y) return;
    double ends[2] = {0, 1};
    const double zero[2] = {0, 0};
    const double lo[2] = {-c->margin, -c->margin}, hi[2] = {c->margin, c->margin};
    s[n++] = (mf_series){.name = mf_report_strf(p, "margin %.4g", c->margin),
                         .n = 2,
                         .x = ends,
                         .y = zero,
                         .lo = lo,
                         .hi = hi,
                         .thin = true,
                         .ink = "#808080"};
    for (int i = 0; i < c->n && k < MOST; i++) {
        const mf_cmp_row *r = &c->rows[i];
        if (r->baseline || isnan(r->equal_lo)) continue;
        at[k] = k + 1;
        mean[k] = r->diff;
        s[n++] = (mf_series){.n = 1,
                             .x = &at[k],
                             .y = &mean[k],
                             .lo = &r->equal_lo,
                             .hi = &r->equal_hi,
                             .labels = &r->name,
                             .points = true,
                             .colour = i + 1};
        const int single = differences(c, r, y + used, POINTS - used);
        for (int j = 0; j < single; j++)
            x[used + j] = k + 0.75;
        s[n++] = (mf_series){.n = single,
                             .x = x + used,
                             .y = y + used,
                             .points = true,
                             .thin = true,
                             .colour = i + 1};
        used += single;
        k++;
    }
    if (k == 0) return;
    ends[1] = k + 1;
    const char *title = mf_report_strf(p, "Differences from %s and the margin", c->baseline);
    mf_html_figures(p->d);
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &(mf_plot){.title = title,
                                 .x_label = "router, in the order of the table",
                                 .y_label = mf_cmp_metric_label(c),
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 360,
                                 .n_series = n,
                                 .series = s});
    mf_html_figure_end(p->d,
                       "Grey: the margin. With a name: mean and interval; equality is shown if "
                       "the interval lies within the margin. Left of it: the single seeds.");
    mf_html_figures_end(p->d);
}

void mf_cmp_margin(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    if (isnan(c->margin)) return;
    mf_html_section(p->d, "margin", "Equal or not");
    mf_html_paragraph(
        p->d,
        mf_report_strf(
            p,
            "The verdicts are about a margin of %.4g. A router is equal to %s within the "
            "margin "
            "if two one-sided tests say so; better and worse mean by more than the margin. The "
            "three claims exclude one another, so each is tested at the level of the look, "
            "corrected by Holm over the routers. Whether there is any difference from 0 is "
            "another question, which the last column answers.",
            c->margin, c->baseline));
    table(c);
    figure(c);
    mf_html_section_end(p->d);
}
