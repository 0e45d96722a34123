/* What the experts of one run do: load over time, topics, one stretch of text, turned knobs. */
#include "report/report_parts.h"

#include <string.h>

#define TIME_BINS   100
#define MAX_EXPERTS 512
#define MAX_LINES   16 /* experts that get a line of their own */
#define MAX_TOKENS  96

/* Names 0, 1, ... for rows of experts. */
static const char *const *numbers(const mf_report *p, int n)
{
    const char **out = mf_arena_alloc(p->arena, ((size_t)n + 1) * sizeof *out);
    for (int i = 0; out != NULL && i < n; i++)
        out[i] = mf_report_strf(p, "%d", i);
    return out;
}

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

static void load_heat(const mf_report *p, const loads *l)
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
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d: load over time", l->layer));
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
                                 .row_labels = numbers(p, l->experts),
                                 .x = bins > 1 ? x : NULL});
    mf_html_figure_end(p->d, NULL);
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
        load_heat(p, &l);
    }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- topics ---- */

bool mf_report_has_topics(const mf_report_run *r)
{
    for (int i = 0; r->sample != NULL && i < r->sample->n_layers; i++)
        if (r->sample->layers[i].by_label != NULL || !isnan(r->sample->layers[i].nmi))
            return true;
    return false;
}

static void nmi_bars(const mf_report *p, const mf_sample *s)
{
    static const char *const series[] = {"this run", "random routing"};
    const int n = s->n_layers;
    double *v = mf_arena_alloc(p->arena, 2 * (size_t)n * sizeof *v);
    const char **groups = mf_arena_alloc(p->arena, (size_t)n * sizeof *groups);
    if (v == NULL || groups == NULL) return;
    for (int i = 0; i < n; i++) {
        v[i] = s->layers[i].nmi;
        v[n + i] = s->layers[i].nmi_random;
        groups[i] = mf_report_strf(p, "layer %d", s->layers[i].layer);
    }
    mf_html_figure(p->d, "How much experts and topics tell of one another");
    mf_svg_bars(p->d, &(mf_bars){.title = "NMI of expert and topic",
                                 .y_label = "NMI(expert, topic)",
                                 .width = 560,
                                 .height = 300,
                                 .n_groups = n,
                                 .n_series = 2,
                                 .groups = groups,
                                 .series = series,
                                 .values = v});
    mf_html_figure_end(p->d, "0: nothing; 1: each tells the other. Beside it what experts "
                             "drawn at random give on as many rows.");
}

/* Share of each topic's rows that each expert got. */
static void topic_matrix(const mf_report *p, const mf_sample *s, const mf_sample_layer *l)
{
    if (l->by_label == NULL || s->n_labels == 0 || l->experts > 64 || s->n_labels > 64) return;
    double *v = mf_arena_alloc(p->arena, (size_t)l->experts * (size_t)s->n_labels * sizeof *v);
    if (v == NULL) return;
    for (int t = 0; t < s->n_labels; t++) {
        double sum = 0;
        for (int e = 0; e < l->experts; e++)
            sum += l->by_label[e * s->n_labels + t];
        for (int e = 0; e < l->experts; e++)
            v[e * s->n_labels + t] = sum > 0 ? l->by_label[e * s->n_labels + t] / sum : NAN;
    }
    mf_html_figure(p->d, isnan(l->nmi)
                             ? mf_report_strf(p, "Layer %d", l->layer)
                             : mf_report_strf(p, "Layer %d: NMI %.3f", l->layer, l->nmi));
    mf_svg_heat(p->d, &(mf_heat){.title = "expert by topic",
                                 .x_label = "topic",
                                 .y_label = "expert",
                                 .width = 560,
                                 .height = 340,
                                 .rows = l->experts,
                                 .columns = s->n_labels,
                                 .values = v,
                                 .lo = 0,
                                 .hi = 1,
                                 .row_labels = numbers(p, l->experts),
                                 .column_labels = s->labels,
                                 .numbers = true});
    mf_html_figure_end(p->d, NULL);
}

void mf_report_topics(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_topics(r)) return;
    mf_html_section(p->d, "topics", "Experts and topics");
    mf_html_paragraph(
        p->d, "The corpus knows the topic of every token. Each column of a matrix shows to "
              "which experts the rows of one topic went; a column sums to 1.");
    mf_html_figures(p->d);
    nmi_bars(p, r->sample);
    for (int i = 0; i < r->sample->n_layers; i++)
        topic_matrix(p, r->sample, &r->sample->layers[i]);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- one stretch of text ---- */

/* Blanks and line ends made visible. */
static const char *shown_token(const mf_report *p, const char *token)
{
    if (strcmp(token, " ") == 0) return "\xe2\x90\xa3";
    if (strcmp(token, "\n") == 0) return "\xe2\x8f\x8e";
    if (strcmp(token, "\t") == 0) return "\xe2\x87\xa5";
    if (token[0] == ' ') return mf_report_strf(p, "\xe2\x90\xa3%s", token + 1);
    return token;
}

static void router_heat(const mf_report *p, const mf_sample *s, const mf_sample_layer *l,
                        int tokens, const char *const *columns)
{
    const int experts = l->experts;
    const size_t cells = (size_t)experts * (size_t)tokens;
    if (experts == 0 || experts > MAX_EXPERTS || (l->prob == NULL && l->chosen == NULL)) return;
    double *v = mf_arena_alloc(p->arena, cells * sizeof *v);
    unsigned char *marks = mf_arena_alloc(p->arena, cells);
    if (v == NULL || marks == NULL) return;
    for (int t = 0; t < tokens; t++) {
        for (int e = 0; e < experts; e++)
            v[e * tokens + t] = l->prob != NULL ? (double)l->prob[t * experts + e] : 0;
        for (int k = 0; l->chosen != NULL && k < l->top_k; k++) {
            const int e = l->chosen[t * l->top_k + k];
            if (e < 0 || e >= experts) continue;
            if (l->prob != NULL)
                marks[e * tokens + t] = 1;
            else
                v[e * tokens + t] = 1;
        }
    }
    mf_html_figure(p->d, mf_report_strf(p, "Layer %d", l->layer));
    mf_svg_heat(p->d, &(mf_heat){.title = "probability of each expert for each token",
                                 .x_label = "token",
                                 .y_label = "expert",
                                 .scale_label = l->prob != NULL ? "probability" : "chosen",
                                 .width = 1140,
                                 .height = 90 + (experts > 8 ? 12 * experts : 16 * experts) +
                                           (s->token_labels != NULL ? 30 : 0),
                                 .rows = experts,
                                 .columns = tokens,
                                 .values = v,
                                 .lo = 0,
                                 .hi = 1,
                                 .row_labels = numbers(p, experts),
                                 .column_labels = columns,
                                 .marks = marks,
                                 .column_groups = s->token_labels,
                                 .n_groups = s->n_labels,
                                 .groups = s->labels});
    mf_html_figure_end(p->d, NULL);
}

void mf_report_routing(const mf_report *p, const mf_report_run *r)
{
    const mf_sample *s = r->sample;
    if (s == NULL || s->n_tokens == 0 || s->n_layers == 0) return;
    const int tokens = s->n_tokens < MAX_TOKENS ? s->n_tokens : MAX_TOKENS;
    const char **columns = mf_arena_alloc(p->arena, (size_t)tokens * sizeof *columns);
    if (columns == NULL) return;
    for (int t = 0; t < tokens; t++)
        columns[t] = shown_token(p, s->tokens[t]);
    mf_html_section(p->d, "routing", "How one stretch of text is routed");
    mf_html_paragraph(
        p->d,
        mf_report_strf(
            p,
            "The first %d tokens of the validation text at step %lld. Frames: the experts that "
            "were chosen.",
            tokens, (long long)s->step));
    for (int i = 0; i < s->n_layers; i++)
        router_heat(p, s, &s->layers[i], tokens, columns);
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
