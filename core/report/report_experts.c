/* What the experts of one run took over time, and the options that were turned. */
#include "report/report_parts.h"

#include <string.h>

#define TIME_BINS   100
#define MAX_EXPERTS 512
#define MAX_LINES   16 /* experts that get a line of their own */

/* ---- load over time ---- */

typedef struct loads {
    int layer, experts, n; /* n records */
    double *x;             /* [n] steps */
    double *y;             /* [experts][n] */
} loads;

static bool collect(const mf_report *p, const mf_report_run *r, int layer, loads *out)
{
    const char *split = mf_report_layer_split(r);
    const mf_metrics_history *h = r->history;
    *out = (loads){.layer = -1};
    int n = 0;
    for (int i = 0; i < h->n; i++) {
        const mf_layer_stats *s = mf_report_layer(&h->records[i], layer);
        if (s == NULL || s->load == NULL || strcmp(h->records[i].split, split) != 0) continue;
        if (out->layer < 0) *out = (loads){.layer = s->layer, .experts = s->experts};
        if (s->experts == out->experts) n++;
    }
    if (n == 0 || out->experts == 0 || out->experts > MAX_EXPERTS) return false;
    out->x = mf_arena_alloc(p->arena, (size_t)n * sizeof *out->x);
    out->y = mf_arena_alloc(p->arena, (size_t)n * (size_t)out->experts * sizeof *out->y);
    if (out->x == NULL || out->y == NULL) return false;
    for (int i = 0; i < h->n; i++) {
        const mf_layer_stats *s = mf_report_layer(&h->records[i], layer);
        if (s == NULL || s->load == NULL || strcmp(h->records[i].split, split) != 0 ||
            s->experts != out->experts)
            continue;
        out->x[out->n] = (double)h->records[i].step;
        for (int e = 0; e < out->experts; e++)
            out->y[e * n + out->n] = (double)s->load[e];
        out->n++;
    }
    return true;
}

static void load_lines(const mf_report *p, const mf_report_run *r, const loads *l)
{
    mf_series s[MAX_LINES];
    const mf_level even = {1.0 / l->experts, "even share"};
    if (l->experts > MAX_LINES) return;
    for (int e = 0; e < l->experts; e++) {
        const mf_track t = mf_report_smooth(r, (mf_track){l->n, l->x, &l->y[e * l->n]}, 0.03);
        s[e] = (mf_series){.name = mf_report_strf(p, "%d", e), .n = t.n, .x = t.x, .y = t.y};
    }
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: load of each expert", l->layer));
    mf_svg_plot(p->d, &(mf_plot){.title = "load of each expert",
                                 .x_label = "step",
                                 .y_label = "share of rows",
                                 .width = 560,
                                 .height = 280,
                                 .from_zero = true,
                                 .n_series = l->experts,
                                 .series = s,
                                 .n_levels = 1,
                                 .levels = &even});
    mf_html_figure_end(p->d, NULL);
}

static double top_of(const loads *l)
{
    double top = 0;
    for (int i = 0; i < l->n * l->experts; i++)
        if (l->y[i] > top) top = l->y[i];
    return top;
}

static void load_heat(const mf_report *p, const loads *l, const char *title)
{
    const int bins = l->n < TIME_BINS ? l->n : TIME_BINS;
    double *v = mf_arena_alloc(p->arena, (size_t)bins * (size_t)l->experts * sizeof *v),
           x[TIME_BINS];
    if (v == NULL) return;
    for (int b = 0; b < bins; b++) {
        const int from = (int)((long)b * l->n / bins), to = (int)((long)(b + 1) * l->n / bins);
        x[b] = l->x[from];
        for (int e = 0; e < l->experts; e++) {
            double sum = 0;
            for (int i = from; i < to; i++)
                sum += l->y[e * l->n + i];
            v[e * bins + b] = sum / (to - from);
        }
    }
    mf_html_figure(p->d, title);
    mf_svg_heat(p->d, &(mf_heat){.title = "load over time",
                                 .x_label = "step",
                                 .y_label = "expert",
                                 .scale_label = "share of rows",
                                 .width = 560,
                                 .height = 280,
                                 .rows = l->experts,
                                 .columns = bins,
                                 .values = v,
                                 .lo = 0,
                                 .hi = fmax(top_of(l), 1.5 / l->experts),
                                 .row_labels = mf_report_numbers(p, l->experts),
                                 .x = bins > 1 ? x : NULL});
    mf_html_figure_end(p->d, NULL);
}

/* Shares at the start and at the end: means over the first and the last tenth of the records. */
static void load_bars(const mf_report *p, const loads *l)
{
    static const char *const names[] = {"at the start", "at the end"};
    const mf_level even = {1.0 / l->experts, "even share"};
    const int part = l->n / 10 > 0 ? l->n / 10 : 1;
    double *v = mf_arena_alloc(p->arena, 2 * (size_t)l->experts * sizeof *v);
    if (v == NULL || l->experts > 64 || l->n < 2) return;
    for (int e = 0; e < l->experts; e++)
        for (int i = 0; i < part; i++) {
            v[e] += l->y[e * l->n + i] / part;
            v[l->experts + e] += l->y[e * l->n + l->n - 1 - i] / part;
        }
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: start and end", l->layer));
    mf_svg_bars(p->d, &(mf_bars){.title = "load at the start and at the end",
                                 .y_label = "share of rows",
                                 .width = 560,
                                 .height = 280,
                                 .n_groups = l->experts,
                                 .n_series = 2,
                                 .groups = mf_report_numbers(p, l->experts),
                                 .series = names,
                                 .values = v,
                                 .level = &even});
    mf_html_figure_end(p->d, "Means over the first and the last tenth of the measurements.");
}

void mf_report_load_heat(const mf_report *p, const mf_report_run *r, int layer,
                         const char *title)
{
    loads l;
    if (collect(p, r, layer, &l)) load_heat(p, &l, title);
}

void mf_report_load(const mf_report *p, const mf_report_run *r)
{
    if (r->n_layers == 0) return;
    mf_html_section(p->d, "load", "Load of the experts");
    mf_html_figures(p->d);
    for (int i = 0; i < r->n_layers; i++) {
        loads l;
        if (!collect(p, r, i, &l)) continue;
        if (r->n_layers <= 8) load_lines(p, r, &l);
        load_heat(p, &l, mf_report_strf(p, "Layer %d: load over time", l.layer));
        if (r->n_layers <= 8) load_bars(p, &l);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- turned knobs ---- */

bool mf_report_has_turns(const mf_report_run *r)
{
    for (int i = 0; i < r->history->n; i++)
        if (r->history->records[i].n_turns > 0) return true;
    return false;
}

void mf_report_turns(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"option", "step", "from", "to", "by", "reason"};
    const int shown = 40;
    int n = 0;
    if (!mf_report_has_turns(r)) return;
    mf_html_section(p->d, "turns", "Options turned while training");
    mf_html_table(p->d, "lrrrll", head);
    for (int i = 0; i < r->history->n; i++)
        for (int k = 0; k < r->history->records[i].n_turns; k++, n++) {
            const mf_turn *t = &r->history->records[i].turns[k];
            const char *const cells[] = {t->option,
                                         mf_report_strf(p, "%lld", (long long)t->step),
                                         mf_report_num(p, 5, t->from),
                                         mf_report_num(p, 5, t->to),
                                         t->by,
                                         t->reason};
            if (n < shown) mf_html_row(p->d, "lrrrll", cells);
        }
    mf_html_table_end(p->d);
    if (n > shown)
        mf_html_paragraph(
            p->d, mf_report_strf(p, "The first %d of %d; all are in metrics.jsonl.", shown, n));
    mf_html_section_end(p->d);
}
