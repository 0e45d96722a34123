/* What the experts compute for the same tokens: maps of cosines, and the distribution of the
 * layer's output. */
#include "report/analyze/parts.h"

static void cosines(const mf_report *p, const mf_analysis_layer *l)
{
    const mf_expert_outputs *o = &l->outputs;
    const int32_t E = o->experts;
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: cosine of outputs", (int)l->layer));
    mf_svg_heat(p->d, &(mf_heat){.title = "Cosine of the outputs of two experts",
                                 .x_label = "expert",
                                 .y_label = "expert",
                                 .scale_label = "mean cosine",
                                 .width = MF_FIGURE_WIDTH,
                                 .rows = E,
                                 .columns = E,
                                 .values = o->cosine,
                                 .lo = -1,
                                 .hi = 1,
                                 .diverging = true,
                                 .row_labels = mf_report_numbers(p, E),
                                 .column_labels = mf_report_numbers(p, E),
                                 .numbers = E <= 8});
    if (o->first < 0) {
        mf_html_figure_end(p->d, NULL);
        return;
    }
    mf_html_figure_end(
        p->d,
        mf_report_strf(p,
                       "Most alike: %d-%d, cosine %.3f, CKA %.3f. For other tokens: "
                       "cosine %.3f, CKA %.3f (mean of all pairs)",
                       (int)o->first, (int)o->second, o->cosine[o->first * E + o->second],
                       o->cka[o->first * E + o->second], o->cosine_chance, o->cka_chance));
}

static void histogram(const mf_report *p, const mf_analysis_layer *l)
{
    const mf_expert_outputs *o = &l->outputs;
    const double *values = o->values;
    const int n = o->n_values;
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: output of the layer", (int)l->layer));
    mf_svg_histogram(p->d, &(mf_histogram){.title = "Values of the layer's output",
                                           .x_label = "value",
                                           .y_label = "share",
                                           .width = MF_FIGURE_WIDTH,
                                           .height = 220,
                                           .n_series = 1,
                                           .values = &values,
                                           .n = &n});
    mf_html_figure_end(p->d, mf_report_strf(p, "%d values; standard deviation %s", n,
                                            mf_report_num(p, 3, o->sd)));
}

bool mf_analyze_has_outputs(const mf_analysis *a)
{
    for (int i = 0; i < a->n_layers && i < MF_ANALYZE_LAYERS; i++)
        if (a->layers[i].outputs.tokens > 0) return true;
    return false;
}

void mf_analyze_outputs(const mf_report *p, const mf_analysis *a)
{
    if (!mf_analyze_has_outputs(a)) return;
    mf_html_section(p->d, "outputs", "Outputs of the experts");
    mf_html_paragraph(
        p->d,
        "Every expert computed the same tokens of the first batch, without shared experts and "
        "gates. The cosine of two experts is the mean over tokens; 1: they compute the same. "
        "CKA is 1 if they do up to rotation and scale. Experts that always add the same vector "
        "are alike for other tokens, too.");
    mf_html_figures(p->d);
    for (int i = 0; i < a->n_layers && i < MF_ANALYZE_LAYERS; i++) {
        const mf_analysis_layer *l = &a->layers[i];
        if (l->outputs.tokens == 0) continue;
        if (l->experts <= MF_ANALYZE_EXPERTS) cosines(p, l);
        if (l->outputs.n_values > 0) histogram(p, l);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}
