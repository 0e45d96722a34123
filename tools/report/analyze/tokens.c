/* Single tokens: a map of their probabilities, bars of some of them, and the text coloured
 * by expert. */
#include <stdlib.h>
#include <string.h>

#include "report/analyze/parts.h"

enum { HUES = 8, BARS = 4 };

/* ---- probabilities ---- */

static void map(const mf_report *p, const mf_analysis *a, const mf_analysis_layer *l)
{
    const int32_t E = l->experts, n = a->map;
    const size_t cells = (size_t)E * (size_t)n;
    double *v = mf_arena_alloc(p->arena, cells * sizeof *v);
    unsigned char *marks = mf_arena_alloc(p->arena, cells);
    if (!v || !marks) return;
    for (int32_t e = 0; e < E; e++)
        for (int32_t t = 0; t < n; t++) {
            v[e * n + t] = (double)l->prob[t * E + e];
            marks[e * n + t] = l->marks[t * E + e];
        }
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: tokens and experts", (int)l->layer));
    mf_svg_heat(p->d, &(mf_heat){.title = "Probability of each expert for each token",
                                 .x_label = "token",
                                 .y_label = "expert",
                                 .scale_label = "probability",
                                 .width = MF_FIGURE_WIDTH,
                                 .rows = E,
                                 .columns = n,
                                 .values = v,
                                 .row_height = E <= 16 ? 18 : 8,
                                 .even = 1.0 / E,
                                 .row_labels = mf_report_numbers(p, E),
                                 .column_labels = a->piece,
                                 .marks = marks});
    mf_html_figure_end(p->d, "Dots: the chosen experts.");
}

static void bars(const mf_report *p, const mf_analysis *a, const mf_analysis_layer *l,
                 int token)
{
    const int32_t E = l->experts;
    double *v = mf_arena_alloc(p->arena, (size_t)E * sizeof *v);
    if (!v) return;
    for (int32_t e = 0; e < E; e++)
        v[e] = (double)l->prob[token * E + e];
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d, token %d: \"%s\"", (int)l->layer, token,
                                        a->piece[token]));
    mf_svg_bars(p->d, &(mf_bars){.title = "Probabilities of one token",
                                 .y_label = "probability",
                                 .group = "expert",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 180,
                                 .n_groups = E,
                                 .n_series = 1,
                                 .groups = mf_report_numbers(p, E),
                                 .values = v,
                                 .level = &(mf_level){1.0 / E, "1 / E"}});
    mf_html_figure_end(p->d, NULL);
}

void mf_analyze_tokens(const mf_report *p, const mf_analysis *a)
{
    const mf_analysis_layer *shown = NULL;
    for (int i = 0; i < a->n_layers; i++)
        if (a->layers[i].prob && a->layers[i].experts <= MF_ANALYZE_EXPERTS)
            shown = &a->layers[i];
    if (!shown) return;
    mf_html_section(p->d, "tokens", "Single tokens");
    mf_html_paragraph(p->d, "Probabilities of the first tokens, and of four of them. "
                            "The last layer is on top; the others have a map each.");
    mf_html_figures(p->d);
    map(p, a, shown);
    for (int i = 0; i < BARS && i < a->map; i++)
        bars(p, a, shown, i * a->map / BARS);
    for (const mf_analysis_layer *l = a->layers; l < shown && l - a->layers < MF_ANALYZE_LAYERS;
         l++)
        if (l->prob && l->experts <= MF_ANALYZE_EXPERTS) map(p, a, l);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- text ---- */

/* Gives the most used experts of the shown text a colour: hue[e] from 0, -1: grey. */
static bool choose_hues(const mf_analysis *a, const mf_analysis_layer *l, int *hue)
{
    int *n = mf_alloc((size_t)l->experts, sizeof *n);
    if (!n) return false;
    for (int32_t e = 0; e < l->experts; e++)
        hue[e] = -1;
    for (int i = 0; i < a->shown; i++)
        if (l->top[i] >= 0) n[l->top[i]]++;
    for (int h = 0; h < HUES; h++) {
        int32_t best = -1;
        for (int32_t e = 0; e < l->experts; e++)
            if (hue[e] < 0 && n[e] > 0 && (best < 0 || n[e] > n[best])) best = e;
        if (best >= 0) hue[best] = h;
    }
    mf_free(n);
    return true;
}

/* Appends the text. Where the expert changes, its number stands before the token, so that the
 * text can be read in print and without colours. */
static void coloured(const mf_report *p, const mf_analysis *a, const mf_analysis_layer *l)
{
    int *hue = mf_arena_alloc(p->arena, (size_t)l->experts * sizeof *hue);
    int32_t before = -2;
    if (!hue || !choose_hues(a, l, hue)) return;
    mf_doc_put(p->d, "<p style=\"max-width:none;line-height:2;white-space:pre-wrap\">");
    for (int i = 0; i < a->shown; i++) {
        const int32_t e = l->top[i];
        const char *ink = e < 0 || hue[e] < 0 ? "#8a8f98" : mf_colour(hue[e]);
        if (e != before && e >= 0)
            mf_doc_printf(p->d, "<sub style=\"color:%s;font-size:9px\">%d</sub>", ink, (int)e);
        mf_doc_printf(p->d,
                      "<span title=\"expert %d\" style=\"border-bottom:3px solid %s;background:"
                      "%s22\">",
                      (int)e, ink, ink);
        mf_doc_text(p->d, a->piece[i]);
        mf_doc_put(p->d, "</span>");
        before = e;
    }
    mf_doc_put(p->d, "</p>\n");
}

void mf_analyze_text(const mf_report *p, const mf_analysis *a)
{
    enum { SHOWN = 4 };
    mf_html_section(p->d, "text", "The text by expert");
    mf_html_paragraph(
        p->d,
        mf_report_strf(p,
                       "The first %d tokens. The colour and the small number are those of "
                       "the first expert of a token; the 8 most used experts have a "
                       "colour, the others are grey.",
                       a->shown));
    for (int i = 0; i < SHOWN && i < a->n_layers; i++) {
        const int at = a->n_layers <= SHOWN ? i : i * (a->n_layers - 1) / (SHOWN - 1);
        mf_doc_printf(p->d, "<h3>Layer %d</h3>\n", (int)a->layers[at].layer);
        coloured(p, a, &a->layers[at]);
    }
    mf_html_section_end(p->d);
}

/* ---- ids of each expert ---- */

/* The listed ids of an expert as text: "the" 1.00 (120), ... A blank is shown as such. */
static const char *words_of(const mf_report *p, const mf_expert_words *w, int32_t e)
{
    const char *text = "";
    for (int32_t i = 0; i < w->n[e]; i++) {
        const mf_expert_word *x = &w->words[e * MF_WORDS + i];
        const char *piece = w->piece[e * MF_WORDS + i];
        const char *name = strcmp(piece, "\n") == 0   ? "\\n"
                           : strcmp(piece, "\t") == 0 ? "\\t"
                                                      : piece;
        text = mf_report_strf(p, "%s%s\"%.40s\" %.2f (%d)", text, i > 0 ? ", " : "", name,
                              x->share, (int)x->tokens);
    }
    return text;
}

void mf_analyze_words(const mf_report *p, const mf_analysis *a)
{
    static const char *const head[] = {"expert", "load", "ids", NULL};
    const bool few = a->n_layers <= 4 && a->layers[0].experts <= 16;
    (few ? mf_html_section : mf_html_section_closed)(p->d, "words", "Ids of each expert");
    mf_html_paragraph(
        p->d,
        mf_report_strf(p,
                       "The ids of which the largest share of tokens chose the expert, among "
                       "ids with at least %d tokens: share (number of tokens).",
                       MF_WORD_TOKENS));
    for (int i = 0; i < a->n_layers && i < MF_ANALYZE_LAYERS; i++) {
        const mf_analysis_layer *l = &a->layers[i];
        mf_doc_printf(p->d, "<h3>Layer %d</h3>\n", (int)l->layer);
        mf_html_paragraph(
            p->d,
            mf_report_strf(p,
                           "The most used expert of an id has %s of its tokens (mean over "
                           "tokens); with ids exchanged at random %s.",
                           mf_report_num(p, 3, l->words.top_share),
                           mf_report_num(p, 3, l->words.top_share_shuffled)));
        mf_html_table(p->d, "rrl", head);
        for (int32_t e = 0; e < l->experts && e < MF_ANALYZE_EXPERTS; e++) {
            const char *const cells[] = {mf_report_strf(p, "%d", (int)e),
                                         mf_report_strf(p, "%.3f", l->use.load[e]),
                                         words_of(p, &l->words, e)};
            mf_html_row(p->d, "rrl", cells);
        }
        mf_html_table_end(p->d);
    }
    mf_html_section_end(p->d);
}
