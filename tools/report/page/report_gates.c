/* Gates of the tokens of a recorded sequence, as numbers, and at several evaluations. With one
 * expert per token, the router's probabilities are shown instead, if they are known. */
#include "report/page/report_parts.h"

#include <string.h>

#define MOST_EXPERTS  512
#define MOST_NUMBERED 32 /* number of experts up to which cells show numbers */
#define FIRST_TOKENS  20

/* Whether gates are shown. With one expert per token the gate may always be 1, so the
 * probabilities are shown if they are known. */
static bool has_gates(const mf_sample_layer *l)
{
    return l->gate && l->chosen && (l->top_k > 1 || !l->prob);
}

/* The gates of the first tokens, [experts, tokens], with `none` where an expert was not chosen.
 * If gates are not shown (has_gates), the probabilities. NULL if the layer has neither. */
static double *cells_of(const mf_report *p, const mf_sample_layer *l, int tokens, double none)
{
    const size_t n = (size_t)l->experts * (size_t)tokens;
    double *v = mf_arena_alloc(p->arena, (n + 1) * sizeof *v);
    if (!v || l->experts == 0 || (!l->prob && !has_gates(l))) return NULL;
    for (int t = 0; t < tokens; t++) {
        for (int e = 0; e < l->experts; e++)
            v[e * tokens + t] = has_gates(l) ? none : (double)l->prob[t * l->experts + e];
        for (int k = 0; has_gates(l) && k < l->top_k; k++) {
            const int e = l->chosen[t * l->top_k + k];
            if (e < 0 || e >= l->experts) continue;
            double *cell = &v[e * tokens + t];
            *cell = (isnan(*cell) ? 0 : *cell) + (double)l->gate[t * l->top_k + k];
        }
    }
    return v;
}

/* The gate of each chosen expert if the gates of a token are equal. The gates of a token sum to
 * 1 if the run renormalizes them; otherwise their mean sum is used. */
static double even_gate(const mf_sample *s, const mf_sample_layer *l)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->n_tokens * l->top_k; i++) {
        if (l->chosen[i] < 0 || l->chosen[i] >= l->experts) continue;
        sum += (double)l->gate[i];
        n++;
    }
    return n > 0 && sum > 0 ? sum / n : 1.0 / l->top_k;
}

/* Sets the meaning of the colours of a map. Probabilities are coloured like all shares of
 * experts. Gates are coloured from 0 to twice the even gate. */
static mf_heat coloured(const mf_sample *s, const mf_sample_layer *l)
{
    if (!has_gates(l)) return (mf_heat){.even = 1.0 / l->experts, .scale_label = "probability"};
    return (mf_heat){
        .lo = 0, .hi = 2 * even_gate(s, l), .diverging = true, .scale_label = "gate"};
}

static const char *gate_caption(const mf_report *p, const mf_sample *s,
                                const mf_sample_layer *l)
{
    if (!has_gates(l)) return NULL;
    return mf_report_strf(p, "Empty: not chosen. Pale is the even gate of %d experts, %.3g.",
                          l->top_k, even_gate(s, l));
}

void mf_report_gate_table(const mf_report *p, const mf_sample *s, int layer)
{
    const mf_sample_layer *l = &s->layers[layer];
    const int tokens = s->n_tokens < FIRST_TOKENS ? s->n_tokens : FIRST_TOKENS;
    if (l->experts > MOST_NUMBERED || tokens == 0) return;
    const double *by_expert = cells_of(p, l, tokens, NAN);
    const char *const *names = mf_report_token_names(p, s, tokens);
    double *v = mf_arena_alloc(p->arena, (size_t)(tokens * l->experts + 1) * sizeof *v);
    if (!by_expert || !names || !v) return;
    /* each row is a token, so that numbers have enough width */
    for (int t = 0; t < tokens; t++)
        for (int e = 0; e < l->experts; e++)
            v[t * l->experts + e] = by_expert[e * tokens + t];
    const bool gates = has_gates(l);
    mf_heat map = coloured(s, l);
    mf_html_figure(p->d,
                   mf_report_strf(p, "Layer %d: the %s of the first %d tokens, in numbers",
                                  l->layer, gates ? "gates" : "probabilities", tokens));
    map.title = "gates in numbers";
    map.x_label = "expert";
    map.y_label = "token";
    map.width = MF_FIGURE_WIDTH;
    map.row_height = 15;
    map.rows = tokens;
    map.columns = l->experts;
    map.values = v;
    map.row_labels = names;
    map.column_labels = mf_report_numbers(p, l->experts);
    map.numbers = true;
    mf_svg_heat(p->d, &map);
    mf_html_figure_end(p->d, gate_caption(p, s, l));
}

/* ---- at several evaluations ---- */

static const char *moment(const mf_report *p, const mf_sample *s)
{
    if (s->evaluation < 1) return mf_report_strf(p, "step %lld", (long long)s->step);
    return mf_report_strf(p, "evaluation %lld of %lld, step %lld", (long long)s->evaluation,
                          (long long)s->evaluations, (long long)s->step);
}

static void heat_at(const mf_report *p, const mf_sample *s, const mf_sample_layer *l)
{
    const double *v = l->experts <= MOST_EXPERTS ? cells_of(p, l, s->n_tokens, NAN) : NULL;
    double *x = mf_arena_alloc(p->arena, ((size_t)s->n_tokens + 1) * sizeof *x);
    if (!v || !x || s->n_tokens == 0) return;
    for (int t = 0; t < s->n_tokens; t++)
        x[t] = t;
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d, %s", l->layer, moment(p, s)));
    mf_heat map = coloured(s, l);
    map.title = "gates of each token";
    map.x_label = "token";
    map.y_label = "expert";
    map.width = MF_FIGURE_WIDTH;
    map.row_height = l->experts > 8 ? 10 : 18;
    map.rows = l->experts;
    map.columns = s->n_tokens;
    map.values = v;
    map.row_labels = mf_report_numbers(p, l->experts);
    map.x = s->n_tokens > 1 ? x : NULL;
    mf_svg_heat(p->d, &map);
    mf_html_figure_end(p->d, gate_caption(p, s, l));
}

/* Sets *ret to the gates (or probabilities) of the chosen experts of all tokens. Returns
 * their number. */
static int chosen_values(const mf_report *p, const mf_sample *s, const mf_sample_layer *l,
                         const double **ret)
{
    *ret = NULL;
    if (!l->chosen) return 0; /* no choices were read, so top_k has no meaning */
    const int room = s->n_tokens * l->top_k;
    double *v = mf_arena_alloc(p->arena, ((size_t)room + 1) * sizeof *v);
    int n = 0;
    *ret = v;
    if (!v) return 0;
    for (int i = 0; i < room; i++) {
        const int e = l->chosen[i];
        if (e < 0 || e >= l->experts) continue;
        if (has_gates(l))
            v[n++] = (double)l->gate[i];
        else if (l->prob)
            v[n++] = (double)l->prob[i / l->top_k * l->experts + e];
    }
    return n;
}

static void histogram(const mf_report *p, const mf_report_run *r, int layer)
{
    const double *values[MF_REPORT_TAKEN];
    const char *names[MF_REPORT_TAKEN];
    int n[MF_REPORT_TAKEN], count = 0, block = layer;
    bool gates = false;
    for (int i = 0; i < r->n_taken; i++) {
        const mf_sample *s = r->taken[i];
        if (layer >= s->n_layers) continue;
        n[count] = chosen_values(p, s, &s->layers[layer], &values[count]);
        names[count] = mf_report_strf(p, "step %lld", (long long)s->step);
        gates = has_gates(&s->layers[layer]);
        block = s->layers[layer].layer;
        count += n[count] > 0;
    }
    if (count < 2) return;
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: %s of the chosen experts", block,
                                        gates ? "gates" : "probabilities"));
    mf_svg_histogram(p->d, &(mf_histogram){.title = "gates of chosen experts by step",
                                           .x_label = gates ? "gate of a chosen expert"
                                                            : "probability of a chosen expert",
                                           .y_label = "share of assignments",
                                           .width = MF_FIGURE_WIDTH,
                                           .height = 300,
                                           .bins = 20,
                                           .n_series = count,
                                           .names = names,
                                           .values = values,
                                           .n = n});
    mf_html_figure_end(p->d, NULL);
}

bool mf_report_has_steps(const mf_report_run *r)
{
    return r->n_taken > 1 && r->taken[0]->n_layers > 0;
}

void mf_report_steps(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_steps(r)) return;
    const int layers = r->taken[0]->n_layers, stride = layers > 1 ? layers - 1 : 1;
    mf_html_section_closed(p->d, "evaluations", "The same text at several evaluations");
    mf_html_paragraph(
        p->d, mf_report_strf(p,
                             "How the same %d tokens of the validation text were routed while "
                             "training went on%s.",
                             r->taken[0]->n_tokens,
                             layers > 2 ? ", in the first and the last layer of experts" : ""));
    for (int i = 0; i < layers; i += stride) {
        mf_html_figures(p->d);
        for (int k = 0; k < r->n_taken; k++)
            if (i < r->taken[k]->n_layers) heat_at(p, r->taken[k], &r->taken[k]->layers[i]);
        histogram(p, r, i);
        mf_html_figures_end(p->d);
    }
    mf_html_section_end(p->d);
}
