/* Distribution of assignments and gates over the experts at each step. If no record contains a
 * measure, its figure is omitted. */
#include "report/page/report_curves.h"

#include <stdlib.h>

/* ---- measures of layers ---- */

double mf_pick_layer(const mf_metrics_record *m, const void *arg)
{
    const mf_layer_pick *p = arg;
    double sum = 0;
    if (p->layer >= 0) return p->layer < m->n_layers ? p->of(&m->layers[p->layer]) : NAN;
    for (int i = 0; i < m->n_layers; i++)
        sum += p->of(&m->layers[i]);
    return m->n_layers > 0 ? sum / m->n_layers : NAN;
}

#define MEASURE(field)                                                                         \
    static double measure_##field(const mf_layer_stats *s)                                     \
    {                                                                                          \
        return s->field;                                                                       \
    }
MEASURE(entropy)
MEASURE(top_prob)
MEASURE(load_cv)
MEASURE(drop_rate)
MEASURE(nmi)
MEASURE(reassigned)
MEASURE(gate_entropy)

static double balance_kl(const mf_layer_stats *s)
{
    return mf_from_even(s->experts, s->importance, true);
}

const mf_measure mf_report_measures[] = {
    {measure_entropy, "Routing entropy", "nats",
     "Of a token's probabilities, mean over tokens. Even: ln of the number of experts.", true,
     false},
    {measure_gate_entropy, "Gate entropy", "nats",
     "Of the gates of a token's chosen experts, mean over tokens. At most ln k of k experts.",
     true, true},
    {measure_top_prob, "Probability of the chosen experts", "mean probability", NULL, false,
     false},
    {measure_load_cv, "Load imbalance", "standard deviation / mean",
     "Of the experts' loads; 0: all alike.", true, false},
    {balance_kl, "Distance of the mean gates from even", "nats",
     "Divergence of each expert's share of all gates from 1 / E; 0: all alike.", true, true},
    {measure_drop_rate, "Drop rate", "share of assignments",
     "Assignments over capacity that were dropped.", true, true},
    {measure_reassigned, "Reassigned", "assignments",
     "Assignments over capacity that went to another expert.", true, true},
    {measure_nmi, "Experts and labels", "NMI(expert, label)",
     "0: experts and labels are independent; 1: each determines the other.", true, false},
    {NULL, NULL, NULL, NULL, false, false},
};

double mf_report_pick_measure(const mf_metrics_record *m, const void *measure)
{
    const mf_layer_pick all = {((const mf_measure *)measure)->of, -1};
    return mf_pick_layer(m, &all);
}

static bool all_zero(const mf_curves *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->s[i].n; k++)
            if (c->s[i].y[k] != 0) return false;
    return true;
}

/* The colour of layer i of n. With more than 8 layers, colours change gradually in
 * layer order. */
static const char *layer_ink(const mf_report *p, int i, int n)
{
    char ink[8];
    if (n <= 8) return mf_colour(i);
    mf_colour_scale(0.2 + 0.65 * i / (n - 1), ink);
    return mf_report_strf(p, "%s", ink);
}

static void layers_of(const mf_report *p, const mf_report_run *r, const mf_measure *m,
                      mf_curves *c)
{
    const char *split = mf_report_layer_split(r);
    for (int l = 0; l < r->n_layers && l < MF_CURVES_MAX; l++) {
        const mf_layer_pick pick = {m->of, l};
        mf_track t = mf_report_smooth(r, mf_report_track(r, split, mf_pick_layer, &pick), 0.02);
        int block = l;
        for (int i = 0; i < r->history->n; i++) {
            const mf_layer_stats *s = mf_report_layer(&r->history->records[i], l);
            if (s) block = s->layer;
        }
        mf_series *s = mf_curves_add(c, mf_report_strf(p, "layer %d", block), t);
        if (s) s->ink = layer_ink(p, l, r->n_layers);
    }
}

static void runs_of(const mf_report *p, const mf_measure *m, mf_curves *c)
{
    const mf_layer_pick pick = {m->of, -1};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        mf_track t = mf_report_track(r, mf_report_layer_split(r), mf_pick_layer, &pick);
        mf_series *s = mf_curves_add(c, r->name, mf_report_smooth(r, t, 0.02));
        if (s) s->colour = s->run = i + 1;
    }
}

void mf_report_balance(const mf_report *p)
{
    mf_html_section(p->d, "balance", "Routing over time");
    if (p->n > 1) mf_html_paragraph(p->d, "Means over the layers of each run.");
    mf_html_figures(p->d);
    for (const mf_measure *m = mf_report_measures; m->title != NULL; m++) {
        /* the measure's value for equal probabilities or gates; NaN: not known */
        mf_level even = {NAN, "even"};
        mf_curves c = {0};
        if (p->n == 1)
            layers_of(p, p->runs[0], m, &c);
        else
            runs_of(p, m, &c);
        if (m->hide_zero && all_zero(&c)) continue;
        const mf_layer_stats *s =
            mf_report_layer(mf_report_last(p->runs[0], mf_report_layer_split(p->runs[0])), 0);
        if (m->of == measure_entropy && s && s->experts > 1) even.y = log(s->experts);
        if (m->of == measure_gate_entropy && p->n == 1) {
            even.y = log(atof(mf_report_moe(p->runs[0], s ? s->layer : -1, "top_k", "1")));
            even.name = "even gates: ln k";
        }
        mf_curves_figure(p, m->title, m->caption,
                         (mf_plot){.y_label = m->y_label,
                                   .from_zero = m->from_zero,
                                   .n_levels = isnan(even.y) ? 0 : 1,
                                   .levels = &even},
                         &c);
    }
    mf_html_figures_end(p->d);
    mf_report_skew(p);
    mf_html_section_end(p->d);
}
