/* Figures of a comparison of routers. A router's position in the table decides its colour,
 * which is the same in all figures. */
#include "report/compare/compare_data.h"

#include <math.h>
#include <string.h>

#define MAX_ROUTERS 64

static int shown(const mf_comparison *c)
{
    return c->n < MAX_ROUTERS ? c->n : MAX_ROUTERS;
}

/* Whether the runs have different tokenizers, so that losses per token cannot be compared. */
static bool by_bits(const mf_comparison *c)
{
    return strcmp(c->metric, "bits_per_byte") == 0;
}

const char *mf_cmp_metric_label(const mf_comparison *c)
{
    if (strcmp(c->metric, "mse") == 0) return "validation mean squared error";
    if (by_bits(c)) return "validation loss, bits/byte";
    return strcmp(c->metric, "accuracy") == 0 ? "validation accuracy"
                                              : "validation loss, nats/token";
}

/* ---- quality against cost ---- */

typedef struct points {
    double x[MAX_ROUTERS], y[MAX_ROUTERS], lo[MAX_ROUTERS], hi[MAX_ROUTERS];
    const char *names[MAX_ROUTERS];
    int n;
} points;

static void quality_against(const mf_comparison *c, const char *title, const char *x_label,
                            bool log_x, double (*cost)(const mf_cmp_row *row))
{
    const mf_report *p = &c->page;
    mf_series s[MAX_ROUTERS];
    points at = {.n = 0};
    for (int i = 0; i < shown(c); i++) {
        const mf_cmp_row *row = &c->rows[i];
        const int k = at.n;
        at.x[k] = cost(row);
        at.y[k] = row->mean;
        if (!isfinite(at.x[k]) || !isfinite(at.y[k])) continue;
        at.lo[k] = row->lo;
        at.hi[k] = row->hi;
        at.names[k] = row->name;
        s[k] = (mf_series){.n = 1,
                           .x = &at.x[k],
                           .y = &at.y[k],
                           .lo = &at.lo[k],
                           .hi = &at.hi[k],
                           .points = true,
                           .labels = &at.names[k],
                           .colour = i + 1};
        at.n++;
    }
    if (at.n == 0) return;
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &(mf_plot){.title = title,
                                 .x_label = x_label,
                                 .y_label = mf_cmp_metric_label(c),
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 360,
                                 .log_x = log_x,
                                 .n_series = at.n,
                                 .series = s});
    mf_html_figure_end(p->d,
                       c->seeds > 1 ? "Bars: 95 % interval of the mean over seeds." : NULL);
}

static double time_a_token(const mf_cmp_row *row)
{
    return row->tokens_per_s > 0 ? 1e6 / row->tokens_per_s : NAN;
}

static double params_of_router(const mf_cmp_row *row)
{
    return row->params_router;
}

/* Draws one bar for each router. lo and hi may be NULL: no error bars. */
static void bars(const mf_comparison *c, const char *title, const char *y_label,
                 const char *caption, const double *v, const double *lo, const double *hi,
                 const mf_level *level)
{
    const mf_report *p = &c->page;
    const char *names[MAX_ROUTERS];
    bool any = false;
    for (int i = 0; i < shown(c); i++) {
        names[i] = c->rows[i].name;
        if (isfinite(v[i]) && v[i] != 0) any = true;
    }
    if (!any) return;
    mf_html_figure(p->d, title);
    mf_svg_bars(p->d, &(mf_bars){.title = title,
                                 .y_label = y_label,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .n_groups = shown(c),
                                 .n_series = 1,
                                 .groups = names,
                                 .values = v,
                                 .lo = lo,
                                 .hi = hi,
                                 .level = level,
                                 .by_group = true});
    mf_html_figure_end(p->d, caption);
}

void mf_cmp_quality(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    double v[MAX_ROUTERS], lo[MAX_ROUTERS], hi[MAX_ROUTERS];
    mf_html_section(p->d, "quality", "Quality and what it costs");
    for (int i = 0; i < shown(c); i++)
        if (c->rows[i].name != c->rows[i].shown)
            mf_html_paragraph(p->d, mf_report_strf(p, "In figures %s stands for %s.",
                                                   c->rows[i].name, c->rows[i].shown));
    mf_html_figures(p->d);
    quality_against(c, "Quality against time", "training, microseconds/token", false,
                    time_a_token);
    quality_against(c, "Quality against size", "parameters of the routers", true,
                    params_of_router);
    for (int i = 0; i < shown(c); i++) {
        v[i] = c->rows[i].baseline ? NAN : c->rows[i].diff;
        lo[i] = c->rows[i].diff_lo;
        hi[i] = c->rows[i].diff_hi;
    }
    bars(c, mf_report_strf(p, "Difference to %s", c->baseline), mf_cmp_metric_label(c),
         c->higher_is_better ? "Paired within seeds, with 95 % intervals. Above 0: better."
                             : "Paired within seeds, with 95 % intervals. Below 0: better.",
         v, lo, hi, NULL);
    for (int i = 0; i < shown(c); i++) {
        v[i] = c->rows[i].nmi_best;
        lo[i] = c->rows[i].nmi_lo;
        hi[i] = c->rows[i].nmi_hi;
    }
    bars(c, "Experts and labels", "NMI(expert, label), best layer",
         "Bars: lowest and highest of the seeds.", v, lo, hi, NULL);
    for (int i = 0; i < shown(c); i++)
        v[i] = c->rows[i].load_cv;
    bars(c, "Load imbalance", "CV of the loads", NULL, v, NULL, NULL, NULL);
    for (int i = 0; i < shown(c); i++)
        v[i] = c->rows[i].drop_rate;
    bars(c, "Drop rate", "share of assignments", NULL, v, NULL, NULL, NULL);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- curves ---- */

/* Adds the values of a run's track to the mean. Steps that the run's track does not have are
 * removed from the mean. Returns the number of remaining steps. Tracks contain only finite
 * values, so their steps may differ. */
static int add_track(mf_track *mean, const mf_track *t, double *lo, double *hi)
{
    int n = 0;
    for (int i = 0, k = 0; i < mean->n; i++) {
        while (k < t->n && t->x[k] < mean->x[i])
            k++;
        if (k == t->n || t->x[k] != mean->x[i]) continue;
        mean->x[n] = mean->x[i];
        mean->y[n] = mean->y[i] + t->y[k];
        lo[n] = fmin(lo[i], t->y[k]);
        hi[n++] = fmax(hi[i], t->y[k++]);
    }
    return n;
}

/* Mean over the router's runs at the steps at which all of them have a value. *lo, *hi: the
 * lowest and the highest value of the runs. */
static mf_track mean_track(const mf_comparison *c, const mf_cmp_row *row, const char *split,
                           mf_pick pick, const void *arg, double **lo, double **hi)
{
    const mf_track first = mf_report_track(row->runs[0], split, pick, arg);
    const size_t bytes = ((size_t)first.n + 1) * sizeof(double);
    mf_track mean = {first.n, mf_arena_alloc(c->page.arena, bytes),
                     mf_arena_alloc(c->page.arena, bytes)};
    *lo = mf_arena_alloc(c->page.arena, bytes);
    *hi = mf_arena_alloc(c->page.arena, bytes);
    if (!mean.x || !mean.y || !*lo || !*hi) return (mf_track){0};
    for (int i = 0; i < first.n; i++) {
        mean.x[i] = first.x[i];
        mean.y[i] = (*lo)[i] = (*hi)[i] = first.y[i];
    }
    for (int k = 1; k < row->n_runs; k++) {
        const mf_track t = mf_report_track(row->runs[k], split, pick, arg);
        mean.n = add_track(&mean, &t, *lo, *hi);
    }
    for (int i = 0; i < mean.n; i++)
        mean.y[i] /= row->n_runs;
    return mean;
}

typedef struct curve_figure {
    const char *title, *y_label, *caption;
    bool from_zero, hide_zero, zoom; /* zoom: omits the first quarter of the steps */
    const mf_level *level;
} curve_figure;

static void curves(const mf_comparison *c, const char *(*split)(const mf_report_run *r),
                   mf_pick pick, const void *arg, const curve_figure *f)
{
    const mf_report *p = &c->page;
    mf_series s[MAX_ROUTERS];
    int n = 0, longest = 0;
    bool zero = true;
    for (int i = 0; i < shown(c); i++) {
        const mf_cmp_row *row = &c->rows[i];
        double *lo = NULL, *hi = NULL;
        if (row->n_runs == 0) continue;
        mf_track t = mean_track(c, row, split(row->runs[0]), pick, arg, &lo, &hi);
        for (; f->zoom && t.n > 0 && t.x[0] < 0.25 * (double)c->steps; t.n--) {
            t.x++;
            t.y++;
            lo++;
            hi++;
        }
        if (t.n == 0) continue;
        if (t.n > longest) longest = t.n;
        for (int k = 0; k < t.n; k++)
            if (t.y[k] != 0) zero = false;
        const bool bands = row->n_runs > 1 && c->n <= 8; /* with more routers, bands would hide
                                                          * one another */
        s[n++] = (mf_series){.name = row->name,
                             .n = t.n,
                             .x = t.x,
                             .y = t.y,
                             .lo = bands ? lo : NULL,
                             .hi = bands ? hi : NULL,
                             .colour = i + 1,
                             .dashed = i >= 8};
    }
    /* a single point is no curve, and the table shows its value */
    if (longest < 2 || (zero && f->hide_zero)) return;
    mf_html_figure(p->d, f->title);
    mf_svg_plot(p->d, &(mf_plot){.title = f->title,
                                 .x_label = "step",
                                 .y_label = f->y_label,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .from_zero = f->from_zero,
                                 .n_series = n,
                                 .series = s,
                                 .n_levels = f->level ? 1 : 0,
                                 .levels = f->level});
    mf_html_figure_end(p->d, f->caption);
}

static const char *val_split(const mf_report_run *r)
{
    return mf_report_last(r, "val") ? "val" : "train";
}

void mf_cmp_curves(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    const mf_level floor = {c->floor, "entropy floor"};
    curve_figure loss = {.title = "Validation loss",
                         .y_label = by_bits(c) ? "bits/byte" : "nats/token",
                         .level = isnan(c->floor) || by_bits(c) ? NULL : &floor};
    const mf_pick pick = by_bits(c) ? mf_report_pick_bits : mf_report_pick_loss;
    mf_html_section(p->d, "curves", "Over the steps");
    mf_html_paragraph(
        p->d, c->seeds > 1
                  ? "Means over the seeds and layers; bands: lowest and highest of the seeds."
                  : "Means over the layers.");
    mf_html_figures(p->d);
    curves(c, val_split, pick, NULL, &loss);
    loss.title =
        mf_report_strf(p, "Validation loss from step %.0f on", ceil(0.25 * (double)c->steps));
    loss.zoom = true;
    loss.level = NULL;
    curves(c, val_split, pick, NULL, &loss);
    for (const mf_measure *m = mf_report_measures; m->title != NULL; m++) {
        const curve_figure f = {m->title,     m->y_label, m->caption, m->from_zero,
                                m->hide_zero, false,      NULL};
        curves(c, mf_report_layer_split, mf_report_pick_measure, m, &f);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- pictures of single routers ---- */

static const char *picture_title(const mf_comparison *c, const mf_cmp_row *row)
{
    const mf_report_run *r = row->runs[0];
    const int layer = r->sample && row->layer < r->sample->n_layers
                          ? r->sample->layers[row->layer].layer
                          : row->layer;
    return mf_report_strf(&c->page, "%s, layer %d", row->name, layer);
}

bool mf_cmp_has_labels(const mf_comparison *c)
{
    for (int i = 0; i < shown(c); i++)
        if (c->rows[i].n_runs > 0 && mf_report_has_labels(c->rows[i].runs[0])) return true;
    return false;
}

static void gates(const mf_comparison *c)
{
    mf_report_run *runs[MAX_ROUTERS];
    const char *names[MAX_ROUTERS];
    int layers[MAX_ROUTERS], n = 0;
    for (int i = 0; i < shown(c); i++)
        if (c->rows[i].n_runs > 0) {
            runs[n] = c->rows[i].runs[0];
            layers[n] = c->rows[i].layer;
            names[n++] = c->rows[i].name;
        }
    mf_report_gate_histogram(&c->page, n, runs, layers, names);
}

void mf_cmp_pictures(const mf_comparison *c)
{
    const mf_report *p = &c->page;
    mf_html_section(p->d, "load", "Load of the experts over time");
    mf_html_paragraph(
        p->d,
        "The first seed's run of each router, in the layer with the highest NMI(expert, "
        "label), or the last one. The sections below show the same layer. " MF_SHARE_COLOURS);
    mf_html_figures(p->d);
    for (int i = 0; i < shown(c); i++)
        if (c->rows[i].n_runs > 0)
            mf_report_load_heat(p, c->rows[i].runs[0], c->rows[i].layer,
                                picture_title(c, &c->rows[i]));
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
    if (mf_cmp_has_labels(c)) {
        mf_html_section(p->d, "labels", "Experts and labels");
        mf_html_paragraph(p->d,
                          "To which experts the assignments of each label went; a column sums "
                          "to 1.");
        mf_html_figures(p->d);
        for (int i = 0; i < shown(c); i++)
            if (c->rows[i].n_runs > 0)
                mf_report_label_matrix(p, c->rows[i].runs[0], c->rows[i].layer,
                                       picture_title(c, &c->rows[i]));
        mf_html_figures_end(p->d);
        mf_html_section_end(p->d);
    }
    mf_html_section(p->d, "routing", "How one text is routed");
    mf_html_paragraph(p->d, "The same tokens for all. Dots: the experts that were chosen.");
    mf_html_figures(p->d);
    for (int i = 0; i < shown(c); i++)
        if (c->rows[i].n_runs > 0)
            mf_report_router_heat(p, c->rows[i].runs[0], c->rows[i].layer,
                                  picture_title(c, &c->rows[i]));
    gates(c);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}
