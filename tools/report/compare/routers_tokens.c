/* Single tokens on the page of `moefw bench routers`: probabilities and outputs of the first
 * seed. All routers saw the same tokens, so their figures can be compared. The outputs have one
 * scale, which is as wide as that of the router with the widest ones. */
#include <math.h>

#include "report/compare/routers_parts.h"

enum { BARS = 4, BINS = 40 };

static void map(const mf_routers_page *b, const mf_router_bench *r)
{
    const mf_report *p = &b->page;
    const int E = b->spec->experts, n = r->n_tokens;
    double *v = mf_arena_alloc(p->arena, (size_t)(n * E) * sizeof *v);
    if (!v || n == 0) return;
    for (int i = 0; i < n * E; i++)
        v[i] = (double)r->prob[i];
    mf_html_figure(p->d, mf_report_strf(p, "%s: tokens and experts", r->router));
    mf_svg_heat(p->d, &(mf_heat){.title = "Probability of each expert for each token",
                                 .x_label = "expert",
                                 .y_label = "token",
                                 .scale_label = "probability",
                                 .width = MF_FIGURE_WIDTH,
                                 .rows = n,
                                 .columns = E,
                                 .values = v,
                                 .row_height = 8,
                                 .even = 1.0 / E,
                                 .row_labels = mf_report_numbers(p, n),
                                 .column_labels = mf_report_numbers(p, E)});
    mf_html_figure_end(p->d, NULL);
}

static void bars(const mf_routers_page *b, const mf_router_bench *r)
{
    static const char *const names[BARS] = {"token 0", "token 1", "token 2", "token 3"};
    const mf_report *p = &b->page;
    const int E = b->spec->experts, n = r->n_tokens < BARS ? r->n_tokens : BARS;
    double *v = mf_arena_alloc(p->arena, (size_t)(BARS * E) * sizeof *v);
    if (!v || n == 0 || E > 16) return;
    for (int i = 0; i < n * E; i++)
        v[i] = (double)r->prob[i];
    mf_html_figure(p->d, mf_report_strf(p, "%s: single tokens", r->router));
    mf_svg_bars(p->d, &(mf_bars){.title = "Probabilities of single tokens",
                                 .y_label = "probability",
                                 .group = "expert",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 200,
                                 .n_groups = E,
                                 .n_series = n,
                                 .groups = mf_report_numbers(p, E),
                                 .series = names,
                                 .values = v,
                                 .level = &(mf_level){1.0 / E, "1 / E"}});
    mf_html_figure_end(p->d, NULL);
}

/* The shares of the outputs in bins of equal width from -most to most, as a line. */
static void outputs(const mf_routers_page *b, const mf_router_bench *r, double most)
{
    const mf_report *p = &b->page;
    double *x = mf_arena_alloc(p->arena, (size_t)(2 * BINS) * sizeof *x),
           *y = x ? x + BINS : NULL;
    if (!x || r->n_outputs == 0) return;
    for (int i = 0; i < BINS; i++)
        x[i] = most * (2 * (i + .5) / BINS - 1);
    for (int i = 0; i < r->n_outputs; i++) {
        const int bin = (int)floor((r->outputs[i] / most + 1) / 2 * BINS);
        y[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin] += 1.0 / r->n_outputs;
    }
    mf_html_figure(p->d, mf_report_strf(p, "%s: output of the layer", r->router));
    mf_svg_plot(p->d, &(mf_plot){.title = "Values of the layer's output",
                                 .x_label = "value",
                                 .y_label = "share",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 200,
                                 .from_zero = true,
                                 .n_series = 1,
                                 .series = &(mf_series){.n = BINS, .x = x, .y = y}});
    mf_html_figure_end(p->d,
                       mf_report_strf(p, "%d values; standard deviation %s over all seeds",
                                      r->n_outputs, mf_report_num(p, 3, r->output_std)));
}

/* Four standard deviations of the router with the widest outputs. */
static double widest(const mf_routers_page *b)
{
    double most = 0;
    for (int i = 0; i < b->n; i++)
        most = fmax(most, 4 * b->rows[i].output_std);
    return most;
}

void mf_routers_tokens(const mf_routers_page *b)
{
    const mf_report *p = &b->page;
    const double most = widest(b);
    bool any = false;
    for (int i = 0; i < b->n; i++)
        any = any || b->rows[i].n_tokens > 0 || b->rows[i].n_outputs > 0;
    if (!any) return;
    if (b->n > 8)
        mf_html_section_closed(p->d, "tokens", "Single tokens");
    else
        mf_html_section(p->d, "tokens", "Single tokens");
    mf_html_paragraph(
        p->d,
        "Of the first seed: the probabilities of the first tokens, which are the same for "
        "all routers, and the values of the layer's output. " MF_SHARE_COLOURS);
    mf_html_figures(p->d);
    for (int i = 0; i < b->n; i++) {
        map(b, &b->rows[i]);
        bars(b, &b->rows[i]);
        if (most > 0) outputs(b, &b->rows[i], most);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}
