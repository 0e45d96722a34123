/* Shares of the assignments and of the gates of each expert over the steps, for one run. The
 * gates are omitted if the two shares are equal. */
#include "report/page/report_parts.h"

#include <string.h>

#define TIME_BINS   48
#define MAX_EXPERTS 512
#define MAX_LINES   16 /* number of experts up to which curves are drawn */

/* ---- an expert's share over time ---- */

/* One kind of share, with the titles of its figures. */
typedef struct share {
    const float *(*of)(const mf_layer_stats *s);
    const char *lines, *heat, *bars, *label;
} share;

static const float *load_of(const mf_layer_stats *s)
{
    return s->load;
}

static const float *gates_of(const mf_layer_stats *s)
{
    return s->importance;
}

static const share rows_taken = {load_of, "load of each expert", "load over time",
                                 "start and end", "share of assignments"},
                   mean_gates = {gates_of, "mean gate of each expert", "mean gates over time",
                                 "mean gates at the start and at the end",
                                 "share of all gates"};

typedef struct loads {
    const share *what;
    int layer, experts, n; /* n: number of records */
    double *x;             /* [n] steps */
    double *y;             /* [experts][n] */
} loads;

static const mf_layer_stats *with_share(const mf_metrics_record *m, const char *split,
                                        int layer, const share *what)
{
    const mf_layer_stats *s = mf_report_layer(m, layer);
    return s && what->of(s) && strcmp(m->split, split) == 0 ? s : NULL;
}

static bool collect(const mf_report *p, const mf_report_run *r, const char *split, int layer,
                    const share *what, loads *out)
{
    const mf_metrics_history *h = r->history;
    *out = (loads){.what = what, .layer = -1};
    int n = 0;
    for (int i = 0; i < h->n; i++) {
        const mf_layer_stats *s = with_share(&h->records[i], split, layer, what);
        if (!s) continue;
        if (out->layer < 0)
            *out = (loads){.what = what, .layer = s->layer, .experts = s->experts};
        if (s->experts == out->experts) n++;
    }
    if (n == 0 || out->experts == 0 || out->experts > MAX_EXPERTS) return false;
    out->x = mf_arena_alloc(p->arena, (size_t)n * sizeof *out->x);
    out->y = mf_arena_alloc(p->arena, (size_t)n * (size_t)out->experts * sizeof *out->y);
    if (!out->x || !out->y) return false;
    for (int i = 0; i < h->n; i++) {
        const mf_layer_stats *s = with_share(&h->records[i], split, layer, what);
        if (!s || s->experts != out->experts) continue;
        out->x[out->n] = (double)h->records[i].step;
        for (int e = 0; e < out->experts; e++)
            out->y[e * n + out->n] = (double)what->of(s)[e];
        out->n++;
    }
    return true;
}

static const char *title_of(const mf_report *p, const loads *l, const char *what)
{
    return mf_report_strf(p, "Layer %d: %s", l->layer, what);
}

static void share_lines(const mf_report *p, const mf_report_run *r, const loads *l)
{
    mf_series s[MAX_LINES];
    const mf_level even = {1.0 / l->experts, "even share"};
    if (l->experts > MAX_LINES) return;
    for (int e = 0; e < l->experts; e++) {
        const mf_track t = mf_report_smooth(r, (mf_track){l->n, l->x, &l->y[e * l->n]}, 0.03);
        s[e] = (mf_series){.name = mf_report_strf(p, "%d", e), .n = t.n, .x = t.x, .y = t.y};
    }
    mf_html_figure(p->d, title_of(p, l, l->what->lines));
    mf_svg_plot(p->d, &(mf_plot){.title = l->what->lines,
                                 .kind = "expert",
                                 .x_label = "step",
                                 .y_label = l->what->label,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 280,
                                 .from_zero = true,
                                 .n_series = l->experts,
                                 .series = s,
                                 .n_levels = 1,
                                 .levels = &even});
    mf_html_figure_end(p->d, NULL);
}

static void share_heat(const mf_report *p, const loads *l, const char *title)
{
    const int bins = l->n < TIME_BINS ? l->n : TIME_BINS;
    double *v = mf_arena_alloc(p->arena, (size_t)bins * (size_t)l->experts * sizeof *v),
           x[TIME_BINS];
    if (!v) return;
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
    mf_svg_heat(p->d, &(mf_heat){.title = title,
                                 .x_label = "step",
                                 .y_label = "expert",
                                 .scale_label = l->what->label,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 280,
                                 .rows = l->experts,
                                 .columns = bins,
                                 .values = v,
                                 .even = 1.0 / l->experts,
                                 .row_labels = mf_report_numbers(p, l->experts),
                                 .x = bins > 1 ? x : NULL,
                                 .numbers = bins <= 12 && l->experts <= 16});
    mf_html_figure_end(p->d, NULL);
}

/* Draws shares at the start and at the end: means over the first and the last 10 %
 * of records. */
static void share_bars(const mf_report *p, const loads *l)
{
    static const char *const names[] = {"at the start", "at the end"};
    const mf_level even = {1.0 / l->experts, "even share"};
    const int part = l->n / 10 > 0 ? l->n / 10 : 1;
    double *v = mf_arena_alloc(p->arena, 2 * (size_t)l->experts * sizeof *v);
    if (!v || l->experts > 64 || l->n < 2) return;
    for (int e = 0; e < l->experts; e++)
        for (int i = 0; i < part; i++) {
            v[e] += l->y[e * l->n + i] / part;
            v[l->experts + e] += l->y[e * l->n + l->n - 1 - i] / part;
        }
    mf_html_figure(p->d, title_of(p, l, l->what->bars));
    mf_svg_bars(p->d, &(mf_bars){.title = l->what->bars,
                                 .y_label = l->what->label,
                                 .group = "expert",
                                 .width = MF_FIGURE_WIDTH,
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
    if (collect(p, r, mf_report_layer_split(r), layer, &rows_taken, &l))
        share_heat(p, &l, title);
}

static void figures_of(const mf_report *p, const mf_report_run *r, const char *split,
                       const share *what)
{
    mf_html_figures(p->d);
    for (int i = 0; i < r->n_layers; i++) {
        loads l;
        if (!collect(p, r, split, i, what, &l)) continue;
        /* Maps are drawn only for the assignments, because those of the gates look nearly
         * the same. */
        if (what == &mean_gates && r->n_layers <= 8) share_lines(p, r, &l);
        if (what == &mean_gates && r->n_layers <= 8) continue;
        share_heat(p, &l, title_of(p, &l, what->heat));
        if (r->n_layers <= 8) share_bars(p, &l);
    }
    mf_html_figures_end(p->d);
}

/* Whether an expert's share of the gates ever differs from its share of the assignments. They
 * are equal if all gates are equal, for example always 1. */
static bool gates_differ(const mf_report_run *r)
{
    for (int i = 0; i < r->history->n; i++)
        for (int l = 0; l < r->history->records[i].n_layers; l++) {
            const mf_layer_stats *s = mf_report_layer(&r->history->records[i], l);
            for (int e = 0; s->load && s->importance && e < s->experts; e++)
                if (fabs((double)(s->load[e] - s->importance[e])) > 1e-3) return true;
        }
    return false;
}

/* The split whose mean gates are shown. It is the validation split if at least 3 of its records
 * contain mean gates, because published balance vectors are computed from it. Otherwise it is
 * the split with more records. */
static const char *gates_split(const mf_report_run *r)
{
    int n = 0;
    for (int i = 0; i < r->history->n; i++)
        n += with_share(&r->history->records[i], "val", 0, &mean_gates) != NULL;
    return n >= 3 ? "val" : mf_report_layer_split(r);
}

void mf_report_load(const mf_report *p, const mf_report_run *r)
{
    if (r->n_layers == 0) return;
    mf_html_section(p->d, "load", "Load of the experts");
    mf_html_paragraph(p->d, MF_SHARE_COLOURS);
    figures_of(p, r, mf_report_layer_split(r), &rows_taken);
    if (gates_differ(r)) {
        const char *split = gates_split(r);
        mf_html_paragraph(
            p->d,
            mf_report_strf(
                p,
                "Load counts the assignments to an expert; mean gates weight them by their "
                "gates: the balance vector u, of the %s.",
                strcmp(split, "val") == 0 ? "validation split" : "training batches"));
        figures_of(p, r, split, &mean_gates);
    }
    mf_html_section_end(p->d);
}
