/* Figures of loads, of pairs, of what decides the experts, and of checkpoints. All layers have
 * one scale, so panels can be compared; each has its value by chance. */
#include <math.h>
#include <stdlib.h>

#include "report/analyze/parts.h"

static int layers_of(const mf_analysis *a)
{
    return a->n_layers < MF_ANALYZE_LAYERS ? a->n_layers : MF_ANALYZE_LAYERS;
}

static const char *const *layer_names(const mf_report *p, const mf_analysis *a)
{
    const char **names = mf_arena_alloc(p->arena, (size_t)a->n_layers * sizeof *names);
    for (int i = 0; names && i < a->n_layers; i++)
        names[i] = mf_report_strf(p, "%d", (int)a->layers[i].layer);
    return names;
}

/* ---- loads ---- */

void mf_analyze_loads(const mf_report *p, const mf_analysis *a)
{
    int32_t E = 0;
    for (int i = 0; i < layers_of(a); i++)
        if (a->layers[i].experts > E) E = a->layers[i].experts;
    const int n = layers_of(a);
    double *v = mf_arena_alloc(p->arena, (size_t)n * (size_t)E * sizeof *v);
    const char *const *names = layer_names(p, a);
    mf_html_section(p->d, "loads", "Loads");
    mf_html_paragraph(p->d,
                      "The share of the assignments that each expert has. " MF_SHARE_COLOURS);
    for (int i = 0; v && i < n; i++)
        for (int32_t e = 0; e < E; e++)
            v[i * E + e] = e < a->layers[i].experts ? a->layers[i].use.load[e] : (double)NAN;
    if (v && names && E <= MF_ANALYZE_EXPERTS) {
        mf_html_figures(p->d);
        mf_html_figure(p->d, "Share of assignments");
        mf_svg_heat(p->d, &(mf_heat){.title = "Loads of the experts",
                                     .x_label = "expert",
                                     .y_label = "layer",
                                     .scale_label = "share of assignments",
                                     .width = MF_FIGURE_WIDTH,
                                     .rows = n,
                                     .columns = E,
                                     .values = v,
                                     .row_height = 22,
                                     .even = 1.0 / E,
                                     .row_labels = names,
                                     .column_labels = mf_report_numbers(p, E),
                                     .numbers = E <= 8});
        mf_html_figure_end(p->d, NULL);
        mf_html_figures_end(p->d);
    }
    mf_html_section_end(p->d);
}

/* ---- what decides ---- */

enum { ID, NEXT, POSITION, LABEL, VALUES };

static const mf_information *value_of(const mf_analysis_layer *l, int value)
{
    return value == ID         ? &l->id
           : value == NEXT     ? &l->next
           : value == POSITION ? &l->position
                               : &l->labels.says;
}

static double rounded(double v)
{
    return fabs(v) < .0005 ? 0 : v; /* no "-0.000" */
}

const char *mf_analyze_between(const mf_report *p, double v, double lo, double hi)
{
    if (isnan(v)) return "-";
    if (isnan(lo)) return mf_report_strf(p, "%.3f", rounded(v));
    return mf_report_strf(p, "%.3f [%.3f, %.3f]", rounded(v), rounded(lo), rounded(hi));
}

/* Bounds of the truth, with a warning if there are too few tokens. */
static const char *bounds(const mf_report *p, const mf_information *i)
{
    if (isnan(i->plug_in)) return "-";
    return mf_report_strf(p, "%.3f to %.3f%s", rounded(i->shuffled), rounded(i->plug_in),
                          i->per_cell < MF_FEW_IN_CELL ? ", too few tokens" : "");
}

static void table(const mf_report *p, const mf_analysis *a, int series)
{
    static const char *const head[] = {
        "layer",      "most",        "by id",    "by id: shuffled to plug-in",
        "by next id", "by position", "by label", NULL};
    static const char *const aligns[] = {"lrrrrr", "lrrrrrr"};
    const bool labels = series == VALUES;
    const char *const without[] = {head[0], head[1], head[2], head[3], head[4], head[5], NULL};
    mf_html_table(p->d, aligns[labels], labels ? head : without);
    for (int i = 0; i < a->n_layers; i++) {
        const mf_analysis_layer *l = &a->layers[i];
        const char *cells[7] = {mf_report_strf(p, "%d", (int)l->layer),
                                mf_report_num(p, 3, l->id.most), "", bounds(p, &l->id)};
        for (int s = 0; s < series; s++) {
            const mf_information *x = value_of(l, s);
            cells[s == ID ? 2 : s + 3] = mf_analyze_between(p, x->held_out, x->lo, x->hi);
        }
        mf_html_row(p->d, aligns[labels], cells);
    }
    mf_html_table_end(p->d);
}

void mf_analyze_decides(const mf_report *p, const mf_analysis *a)
{
    static const char *const names[VALUES] = {"id", "next id", "position", "label"};
    const int n = layers_of(a), series = a->routed.labels > 0 ? VALUES : LABEL;
    double *v = mf_arena_alloc(p->arena, (size_t)(3 * VALUES * n) * sizeof *v), *lo, *hi;
    const char *const *groups = layer_names(p, a);
    if (!v || !groups) return;
    lo = v + VALUES * n;
    hi = lo + VALUES * n;
    for (int s = 0; s < series; s++)
        for (int i = 0; i < n; i++) {
            const mf_information *x = value_of(&a->layers[i], s);
            v[s * n + i] = x->held_out;
            lo[s * n + i] = x->lo;
            hi[s * n + i] = x->hi;
        }
    mf_html_section(p->d, "decides", "What decides the experts");
    table(p, a, series);
    mf_html_paragraph(
        p->d,
        "The share of the experts' entropy that a value of the token explains in texts that "
        "were not counted. By chance it is 0 or a little less. It is a lower bound: with "
        "few tokens for each value the truth can be higher; it is between the figure of "
        "shuffled values and the plug-in figure. Most: the largest possible share, since "
        "the k experts of a token have no order.");
    mf_html_figures(p->d);
    mf_html_figure(p->d, "Explained, held out");
    mf_svg_bars(p->d, &(mf_bars){.title = "Share of the experts' entropy that is explained",
                                 .y_label = "share of H(expert)",
                                 .group = "layer",
                                 .width = MF_FIGURE_WIDTH,
                                 .n_groups = n,
                                 .n_series = series,
                                 .groups = groups,
                                 .series = names,
                                 .values = v,
                                 .lo = lo,
                                 .hi = hi,
                                 .level = &(mf_level){a->layers[0].id.most, "most possible"}});
    mf_html_figure_end(p->d, mf_report_strf(p, "95 %% intervals by %s", a->routed.unit));
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- labels ---- */

void mf_analyze_labels(const mf_report *p, const mf_analysis *a)
{
    const int32_t L = a->routed.labels;
    if (L == 0) return;
    mf_html_section(p->d, "labels", "Labels");
    mf_html_paragraph(
        p->d,
        "The share of a label's tokens that use an expert; columns sum to k. Colours compare "
        "with the expert's share of all tokens: pale is equal, brown more, blue less.");
    mf_html_figures(p->d);
    for (int i = 0; i < layers_of(a) && L <= MF_ANALYZE_EXPERTS; i++) {
        const mf_analysis_layer *l = &a->layers[i];
        const int32_t E = l->experts;
        double *v = mf_arena_alloc(p->arena, (size_t)(E * L) * sizeof *v);
        if (!v || E > MF_ANALYZE_EXPERTS) continue;
        for (int32_t e = 0; e < E; e++)
            for (int32_t k = 0; k < L; k++)
                v[e * L + k] = l->labels.share[e * L + k] / (l->use.load[e] * l->use.mean_k);
        mf_html_figure(p->d, mf_report_strf(p, "Layer %d", (int)l->layer));
        mf_svg_heat(p->d, &(mf_heat){.title = "Use of experts by label",
                                     .x_label = "label",
                                     .y_label = "expert",
                                     .scale_label = "share / share of all tokens",
                                     .width = MF_FIGURE_WIDTH,
                                     .rows = E,
                                     .columns = L,
                                     .values = v,
                                     .even = 1,
                                     .row_height = E <= 16 ? 20 : 10,
                                     .row_labels = mf_report_numbers(p, E),
                                     .column_labels = a->label_names,
                                     .numbers = L <= 8 && E <= 16});
        mf_html_figure_end(
            p->d,
            mf_report_strf(
                p, "NMI %s (labels shuffled: %s); distance to the oracle %s [%s, %s]",
                mf_report_num(p, 3, l->labels.nmi), mf_report_num(p, 3, l->labels.nmi_random),
                mf_report_num(p, 3, l->labels.distance),
                mf_report_num(p, 3, l->labels.distance_lo),
                mf_report_num(p, 3, l->labels.distance_hi)));
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- pairs ---- */

static void pair_map(const mf_report *p, const mf_analysis_layer *l)
{
    enum { FEW = 30 };
    const mf_coactivation *c = &l->pairs;
    const int32_t E = c->experts;
    const size_t cells = (size_t)E * (size_t)E;
    int32_t *order = mf_arena_alloc(p->arena, (size_t)E * sizeof *order);
    double *v = mf_arena_alloc(p->arena, cells * sizeof *v);
    unsigned char *few = mf_arena_alloc(p->arena, cells);
    const char **names = mf_arena_alloc(p->arena, (size_t)E * sizeof *names);
    if (!order || !v || !few || !names || mf_coactivation_order(c, order) != MF_OK) return;
    for (int32_t i = 0; i < E; i++) {
        names[i] = mf_report_strf(p, "%d", (int)order[i]);
        for (int32_t j = 0; j < E; j++) {
            v[i * E + j] = c->lift[(int64_t)order[i] * E + order[j]];
            few[i * E + j] = i != j && c->count[(int64_t)order[i] * E + order[j]] < FEW;
        }
    }
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d", (int)l->layer));
    mf_svg_heat(p->d, &(mf_heat){.title = "Pairs of experts, lift over chance",
                                 .x_label = "expert",
                                 .y_label = "expert",
                                 .scale_label = "count / chance",
                                 .width = MF_FIGURE_WIDTH,
                                 .rows = E,
                                 .columns = E,
                                 .values = v,
                                 .even = 1,
                                 .row_labels = names,
                                 .column_labels = names,
                                 .marks = E <= 8 ? NULL : few, /* they would hide numbers */
                                 .numbers = E <= 8});
    mf_html_figure_end(
        p->d, c->first < 0
                  ? mf_report_strf(p, "%lld pairs, none over chance", (long long)c->pairs)
                  : mf_report_strf(p,
                                   "%lld of %lld pairs over chance; most %d-%d: x%s "
                                   "[%s, %s]",
                                   (long long)c->over, (long long)c->pairs, (int)c->first,
                                   (int)c->second,
                                   mf_report_num(p, 3, c->lift[c->first * E + c->second]),
                                   mf_report_num(p, 3, c->lo[c->first * E + c->second]),
                                   mf_report_num(p, 3, c->hi[c->first * E + c->second])));
}

void mf_analyze_pairs(const mf_report *p, const mf_analysis *a)
{
    bool any = false;
    for (int i = 0; i < layers_of(a); i++)
        any =
            any || (a->layers[i].pairs.pairs > 0 && a->layers[i].experts <= MF_ANALYZE_EXPERTS);
    if (!any) return;
    mf_html_section(p->d, "pairs", "Pairs of experts");
    mf_html_paragraph(
        p->d,
        "How many tokens chose both experts, over all pairs of a token's experts, divided by "
        "the count by chance with the same loads. Pale is chance, brown is more, up to 4 "
        "times, blue less, down to a quarter. In maps without numbers a dot marks fewer "
        "than 30 tokens. Experts that are chosen together are neighbours (average linkage "
        "of the same layer).");
    mf_html_figures(p->d);
    for (int i = 0; i < layers_of(a); i++)
        if (a->layers[i].pairs.pairs > 0 && a->layers[i].experts <= MF_ANALYZE_EXPERTS)
            pair_map(p, &a->layers[i]);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

void mf_analyze_moved(const mf_report *p, const mf_analysis *a)
{
    if (a->n_layers < 2) return;
    mf_html_section_closed(p->d, "moved", "From layer to layer");
    mf_html_paragraph(
        p->d,
        "How many tokens chose an expert in one layer (rows) and one in the next (columns), "
        "divided by the count if both choices were independent. The colours are those of "
        "the pairs.");
    mf_html_figures(p->d);
    for (int i = 0; i + 1 < layers_of(a); i++) {
        const mf_analysis_layer *l = &a->layers[i], *next = l + 1;
        if (!l->moved || l->experts > MF_ANALYZE_EXPERTS || next->experts > MF_ANALYZE_EXPERTS)
            continue;
        mf_html_figure(
            p->d, mf_report_strf(p, "Layer %d to layer %d", (int)l->layer, (int)next->layer));
        mf_svg_heat(
            p->d,
            &(mf_heat){.title = "Experts of two layers, lift",
                       .x_label = mf_report_strf(p, "expert of layer %d", (int)next->layer),
                       .y_label = mf_report_strf(p, "expert of layer %d", (int)l->layer),
                       .scale_label = "count / independent",
                       .width = MF_FIGURE_WIDTH,
                       .rows = l->experts,
                       .columns = next->experts,
                       .values = l->moved,
                       .even = 1,
                       .row_labels = mf_report_numbers(p, l->experts),
                       .column_labels = mf_report_numbers(p, next->experts),
                       .numbers = l->experts <= 8 && next->experts <= 8});
        mf_html_figure_end(p->d, NULL);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- checkpoints ---- */

static void then_plot(const mf_report *p, const mf_analysis *a, const mf_analysis_layer *l)
{
    const int n = a->n_then + 1;
    double *v = mf_arena_alloc(p->arena, (size_t)(5 * n) * sizeof *v);
    if (!v) return;
    double *x = v, *y = v + n, *lo = y + n, *hi = lo + n, *chance = hi + n;
    for (int i = 0; i < n - 1; i++) {
        x[i] = (double)l->then[i].step;
        y[i] = l->then[i].overlap.value;
        lo[i] = fmax(l->then[i].overlap.lo, 0);
        hi[i] = fmin(l->then[i].overlap.hi, 1);
        chance[i] = l->then[i].chance;
    }
    x[n - 1] = (double)a->step;
    y[n - 1] = lo[n - 1] = hi[n - 1] = 1;
    double squares = 0;
    for (int32_t e = 0; e < l->experts; e++)
        squares += l->use.load[e] * l->use.load[e];
    chance[n - 1] = squares * l->use.mean_k;
    const mf_series s[] = {
        {.name = "same as at the end", .n = n, .x = x, .y = y, .lo = lo, .hi = hi},
        {.name = "chance", .n = n, .x = x, .y = chance, .dashed = true}};
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d", (int)l->layer));
    mf_svg_plot(p->d, &(mf_plot){.title = "Saturation",
                                 .x_label = "step",
                                 .y_label = "share of choices",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 220,
                                 .y_lo = 0,
                                 .y_hi = 1,
                                 .n_series = 2,
                                 .series = s});
    mf_html_figure_end(p->d, NULL);
}

void mf_analyze_then(const mf_report *p, const mf_analysis *a)
{
    if (a->n_then == 0) return;
    mf_html_section(p->d, "then", "Saturation");
    mf_html_paragraph(
        p->d,
        "The share of the final choices that an earlier checkpoint already makes for the same "
        "tokens. The dashed line is the share if both choices were independent, with the "
        "loads of both: loads that become unequal raise it without any token being settled.");
    mf_html_figures(p->d);
    for (int i = 0; i < layers_of(a); i++)
        then_plot(p, a, &a->layers[i]);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}
