/* Shows routing_sample.json of a run: labels of each expert, and the routing of one recorded
 * sequence. A part that is missing in the file is omitted. */
#include "report/page/report_parts.h"

#include <string.h>

#define MAX_EXPERTS 512
#define MAX_TOKENS  96
#define MAX_SERIES  32

const char *const *mf_report_numbers(const mf_report *p, int n)
{
    const char **out = mf_arena_alloc(p->arena, ((size_t)n + 1) * sizeof *out);
    for (int i = 0; out && i < n; i++)
        out[i] = mf_report_strf(p, "%d", i);
    return out;
}

/* ---- labels ---- */

bool mf_report_has_labels(const mf_report_run *r)
{
    for (int i = 0; r->sample && i < r->sample->n_layers; i++)
        if (r->sample->layers[i].by_label || !isnan(r->sample->layers[i].nmi)) return true;
    return false;
}

static void nmi_bars(const mf_report *p, const mf_sample *s)
{
    static const char *const series[] = {"this run", "random routing"};
    const int n = s->n_layers;
    double *v = mf_arena_alloc(p->arena, 2 * (size_t)n * sizeof *v);
    const char **groups = mf_arena_alloc(p->arena, (size_t)n * sizeof *groups);
    if (!v || !groups) return;
    for (int i = 0; i < n; i++) {
        v[i] = s->layers[i].nmi;
        v[n + i] = s->layers[i].nmi_random;
        groups[i] = mf_report_strf(p, "layer %d", s->layers[i].layer);
    }
    mf_html_figure(p->d, "Dependence of experts and labels");
    mf_svg_bars(p->d, &(mf_bars){.title = "NMI of expert and label",
                                 .y_label = "NMI(expert, label)",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 300,
                                 .n_groups = n,
                                 .n_series = 2,
                                 .groups = groups,
                                 .series = series,
                                 .values = v});
    mf_html_figure_end(p->d, "0: independent; 1: each determines the other. Beside it the "
                             "value of experts drawn at random.");
}

/* Draws, for each label, the share of its assignments that went to each expert. */
void mf_report_label_matrix(const mf_report *p, const mf_report_run *r, int layer,
                            const char *title)
{
    const mf_sample *s = r->sample;
    if (!s || layer < 0 || layer >= s->n_layers) return;
    const mf_sample_layer *l = &s->layers[layer];
    if (!l->by_label || s->n_labels == 0 || l->experts > 64 || s->n_labels > 64) return;
    double *v = mf_arena_alloc(p->arena, (size_t)l->experts * (size_t)s->n_labels * sizeof *v);
    if (!v) return;
    for (int t = 0; t < s->n_labels; t++) {
        double sum = 0;
        for (int e = 0; e < l->experts; e++)
            sum += l->by_label[e * s->n_labels + t];
        for (int e = 0; e < l->experts; e++)
            v[e * s->n_labels + t] = sum > 0 ? l->by_label[e * s->n_labels + t] / sum : NAN;
    }
    if (!isnan(l->nmi)) title = mf_report_strf(p, "%s: NMI %.3f", title, l->nmi);
    mf_html_figure(p->d, title);
    mf_svg_heat(p->d, &(mf_heat){.title = title,
                                 .x_label = "label",
                                 .y_label = "expert",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 340,
                                 .rows = l->experts,
                                 .columns = s->n_labels,
                                 .values = v,
                                 .scale_label = "share of the label",
                                 .even = 1.0 / l->experts,
                                 .row_labels = mf_report_numbers(p, l->experts),
                                 .column_labels = s->labels,
                                 .numbers = true});
    mf_html_figure_end(p->d, NULL);
}

void mf_report_labels(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_labels(r)) return;
    mf_html_section(p->d, "labels", "Experts and labels");
    mf_html_paragraph(
        p->d, "The corpus knows the labels of its tokens: domains of data.labels, or topics "
              "of builtin:topics. Each column of a matrix shows to which experts the "
              "assignments of one label went; a column sums to 1.");
    mf_html_figures(p->d);
    nmi_bars(p, r->sample);
    for (int i = 0; i < r->sample->n_layers; i++)
        mf_report_label_matrix(p, r, i,
                               mf_report_strf(p, "Layer %d", r->sample->layers[i].layer));
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- one text ---- */

/* Makes a line end, a tab, a blank or a leading blank of a token visible. */
static const char *shown_token(const mf_report *p, const char *token)
{
    if (strcmp(token, " ") == 0) return "\xe2\x90\xa3";
    if (strcmp(token, "\n") == 0) return "\xe2\x8f\x8e";
    if (strcmp(token, "\t") == 0) return "\xe2\x87\xa5";
    if (token[0] == ' ') return mf_report_strf(p, "\xe2\x90\xa3%s", token + 1);
    return token;
}

const char *const *mf_report_token_names(const mf_report *p, const mf_sample *s, int n)
{
    const char **names = mf_arena_alloc(p->arena, (size_t)n * sizeof *names);
    for (int t = 0; names && t < n; t++)
        names[t] = shown_token(p, s->tokens[t]);
    return names;
}

void mf_report_router_heat(const mf_report *p, const mf_report_run *r, int layer,
                           const char *title)
{
    const mf_sample *s = r->sample;
    if (!s || layer < 0 || layer >= s->n_layers || s->n_tokens == 0) return;
    const mf_sample_layer *l = &s->layers[layer];
    const int tokens = s->n_tokens < MAX_TOKENS ? s->n_tokens : MAX_TOKENS;
    const char *const *columns = mf_report_token_names(p, s, tokens);
    const int experts = l->experts;
    const size_t cells = (size_t)experts * (size_t)tokens;
    if (experts == 0 || experts > MAX_EXPERTS || (!l->prob && !l->chosen)) return;
    if (!columns) return;
    double *v = mf_arena_alloc(p->arena, cells * sizeof *v);
    unsigned char *marks = mf_arena_alloc(p->arena, cells);
    if (!v || !marks) return;
    for (int t = 0; t < tokens; t++) {
        for (int e = 0; e < experts; e++)
            v[e * tokens + t] = l->prob ? (double)l->prob[t * experts + e] : 0;
        for (int k = 0; l->chosen && k < l->top_k; k++) {
            const int e = l->chosen[t * l->top_k + k];
            if (e < 0 || e >= experts) continue;
            if (l->prob)
                marks[e * tokens + t] = 1;
            else
                v[e * tokens + t] = 1;
        }
    }
    mf_html_figure(p->d, title);
    mf_svg_heat(p->d, &(mf_heat){.title = title,
                                 .x_label = "token",
                                 .y_label = "expert",
                                 .scale_label = l->prob ? "probability" : "chosen",
                                 .width = MF_FIGURE_WIDTH,
                                 .row_height = experts > 8 ? 12 : 18,
                                 .rows = experts,
                                 .columns = tokens,
                                 .values = v,
                                 .even = 1.0 / experts,
                                 .row_labels = mf_report_numbers(p, experts),
                                 .column_labels = columns,
                                 .marks = marks,
                                 .column_groups = s->token_labels,
                                 .n_groups = s->n_labels,
                                 .groups = s->labels});
    mf_html_figure_end(p->d, NULL);
}

/* ---- certainty of the router ---- */

/* Sets *ret to the router's probabilities of the chosen experts of all tokens. Returns
 * their number. */
static int chosen_probabilities(const mf_report *p, const mf_sample *s,
                                const mf_sample_layer *l, const double **ret)
{
    *ret = NULL;
    /* no choices were read, so top_k has no meaning */
    if (!l->prob || !l->chosen) return 0;
    const int room = s->n_tokens * l->top_k;
    double *v = mf_arena_alloc(p->arena, ((size_t)room + 1) * sizeof *v);
    int n = 0;
    *ret = v;
    if (!v) return 0;
    for (int i = 0; i < room; i++) {
        const int e = l->chosen[i];
        if (e >= 0 && e < l->experts) v[n++] = (double)l->prob[i / l->top_k * l->experts + e];
    }
    return n;
}

void mf_report_gate_histogram(const mf_report *p, int n_runs, mf_report_run *const *runs,
                              const int *layers, const char *const *names)
{
    const double *values[MAX_SERIES];
    const char *used[MAX_SERIES];
    int n[MAX_SERIES], count = 0;
    for (int i = 0; i < n_runs && count < MAX_SERIES; i++) {
        const mf_sample *s = runs[i]->sample;
        if (!s || layers[i] < 0 || layers[i] >= s->n_layers) continue;
        n[count] = chosen_probabilities(p, s, &s->layers[layers[i]], &values[count]);
        used[count] = names[i];
        count += n[count] > 0;
    }
    if (count == 0) return;
    mf_html_figure(p->d, "How sure the choice is");
    mf_svg_histogram(p->d, &(mf_histogram){.title = "probabilities of chosen experts",
                                           .x_label = "probability of a chosen expert",
                                           .y_label = "share of assignments",
                                           .width = MF_FIGURE_WIDTH,
                                           .height = 300,
                                           .bins = 25,
                                           .n_series = count,
                                           .names = used,
                                           .values = values,
                                           .n = n});
    mf_html_figure_end(p->d, NULL);
}

/* Draws bars of all experts' probabilities for a few tokens, evenly spaced in the sample. */
static void token_bars(const mf_report *p, const mf_sample *s, const mf_sample_layer *l)
{
    const int shown = s->n_tokens < 6 ? s->n_tokens : 6;
    if (!l->prob || l->experts == 0 || l->experts > 16) return;
    double *v = mf_arena_alloc(p->arena, (size_t)shown * (size_t)l->experts * sizeof *v);
    const char *names[6];
    if (!v) return;
    for (int i = 0; i < shown; i++) {
        const int t = i * s->n_tokens / shown;
        names[i] = mf_report_strf(p, "%d: %s", t, shown_token(p, s->tokens[t]));
        for (int e = 0; e < l->experts; e++)
            v[i * l->experts + e] = (double)l->prob[t * l->experts + e];
    }
    mf_html_figure(p->d, mf_report_strf(p, "Single tokens in layer %d", l->layer));
    mf_svg_bars(p->d, &(mf_bars){.title = "single tokens",
                                 .y_label = "probability",
                                 .group = "expert",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 300,
                                 .n_groups = l->experts,
                                 .n_series = shown,
                                 .groups = mf_report_numbers(p, l->experts),
                                 .series = names,
                                 .values = v});
    mf_html_figure_end(p->d, "A colour is a token: its place in the text, and what it is.");
}

void mf_report_routing(const mf_report *p, const mf_report_run *r)
{
    const mf_sample *s = r->sample;
    if (!s || s->n_tokens == 0 || s->n_layers == 0) return;
    mf_html_section(p->d, "routing", "How one text is routed");
    mf_html_paragraph(
        p->d,
        mf_report_strf(
            p,
            "%d tokens of the validation text at step %lld; if labels are known, a stretch in "
            "which they change. Dots: the experts that were chosen.",
            s->n_tokens < MAX_TOKENS ? s->n_tokens : MAX_TOKENS, (long long)s->step));
    mf_html_figures(p->d);
    for (int i = 0; i < s->n_layers; i++)
        mf_report_router_heat(
            p, r, i,
            mf_report_strf(p, "Layer %d: probability of each expert", s->layers[i].layer));
    mf_report_gate_table(p, s, 0);
    mf_html_figures_end(p->d);
    mf_report_run *runs[MAX_SERIES];
    const char *names[MAX_SERIES];
    int layers[MAX_SERIES], n = s->n_layers < 8 ? s->n_layers : 8;
    for (int i = 0; i < n; i++) {
        runs[i] = (mf_report_run *)r;
        layers[i] = i;
        names[i] = mf_report_strf(p, "layer %d", s->layers[i].layer);
    }
    mf_html_figures(p->d);
    mf_report_gate_histogram(p, n, runs, layers, names);
    token_bars(p, s, &s->layers[s->n_layers - 1]);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}
