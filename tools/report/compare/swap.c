/* The page of `moefw swap`: cards for the whole model, then table, figures and loads by layer.
 * The numbers of a layer were measured on the inputs of its old router. */
#include "report/compare/swap.h"

#include "base/file/io.h"
#include "base/mem.h"
#include "report/page/report_parts.h"
#include <moefw/version.h>

typedef struct swap_page {
    mf_report page;
    const mf_swap_report *r;
    const char **layers; /* [n_layers] numbers of blocks */
} swap_page;

typedef double (*pick)(const mf_swap_layer *l);

static double overlap(const mf_swap_layer *l)
{
    return l->overlap;
}
static double kl(const mf_swap_layer *l)
{
    return l->kl;
}
static double kl_start(const mf_swap_layer *l)
{
    return l->kl_start;
}
static double mass_moved(const mf_swap_layer *l)
{
    return l->mass_moved;
}

static void cards(const swap_page *s)
{
    const mf_report *p = &s->page;
    const mf_swap_report *r = s->r;
    int swapped = 0;
    for (int32_t i = 0; i < r->n_layers; i++)
        swapped += r->layers[i].swapped;
    mf_html_cards(p->d);
    mf_html_card(p->d, mf_report_strf(p, "%.4f", r->loss_after), "loss after",
                 mf_report_strf(p, "before: %.4f", r->loss_before));
    mf_html_card(p->d, mf_report_num(p, 3, r->loss_after - r->loss_before),
                 "change of the loss",
                 mf_report_strf(p, "on %lld tokens", (long long)r->tokens));
    mf_html_card(p->d, mf_report_num(p, 3, r->kl_next_token), "KL of predictions, nats",
                 "mean over the predicted tokens");
    mf_html_card(p->d, mf_report_strf(p, "%d of %d", swapped, (int)r->n_layers),
                 "layers with the new router",
                 r->matched > 0
                     ? mf_report_strf(p, "fitted on %lld batches", (long long)r->matched)
                     : "not fitted");
    mf_html_cards_end(p->d);
}

/* The largest share of assignments of any expert. */
static double highest(const double *load, int32_t n)
{
    double most = 0;
    for (int32_t e = 0; e < n; e++)
        most = fmax(most, load[e]);
    return most;
}

static void table(const swap_page *s)
{
    enum { COLUMNS = 7 };
    static const char *const head[COLUMNS + 1] = {
        "layer",       "overlap",     "divergence", "before the fit",
        "gates moved", "load before", "load after", NULL};
    static const char *const align = "lrrrrrr";
    const mf_report *p = &s->page;
    mf_html_section(p->d, "table", "Each layer");
    mf_html_table(p->d, align, head);
    for (int32_t i = 0; i < s->r->n_layers; i++) {
        const mf_swap_layer *l = &s->r->layers[i];
        const char *const cells[COLUMNS] = {
            l->swapped ? s->layers[i] : mf_report_strf(p, "%s (not swapped)", s->layers[i]),
            mf_report_num(p, 3, l->overlap),
            mf_report_num(p, 3, l->kl),
            s->r->matched > 0 ? mf_report_num(p, 3, l->kl_start) : "-",
            mf_report_num(p, 3, l->mass_moved),
            mf_report_num(p, 3, highest(l->load_before, l->experts)),
            mf_report_num(p, 3, highest(l->load_after, l->experts))};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d,
        "Every layer is measured on the inputs that its old router gets, so layers before it "
        "count as unchanged. Overlap: mean over tokens of the experts that both routers "
        "choose, "
        "divided by those that either chooses. Divergence: mean over tokens of sum p ln(p / q) "
        "- p + "
        "q, "
        "old probabilities p, new ones q. Gates moved: mean over tokens of the share of the "
        "gates that went to other experts. Load: share of the assignments that the busiest "
        "expert has.");
    mf_html_section_end(p->d);
}

/* Draws bars for all layers. */
static void bars(const swap_page *s, const char *title, const char *unit, bool log,
                 int n_series, const char *const *series, const pick *of)
{
    const mf_report *p = &s->page;
    const int n = s->r->n_layers;
    double *v = mf_arena_alloc(p->arena, (size_t)(n_series * n) * sizeof *v);
    bool any = false;
    if (!v) return;
    for (int k = 0; k < n_series; k++)
        for (int i = 0; i < n; i++) {
            v[k * n + i] = of[k](&s->r->layers[i]);
            any = any || v[k * n + i] > 0;
        }
    if (!any) return;
    mf_html_figure(p->d, title);
    mf_svg_bars(p->d, &(mf_bars){.title = title,
                                 .y_label = unit,
                                 .group = "layer",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 280,
                                 .n_groups = n,
                                 .n_series = n_series,
                                 .groups = s->layers,
                                 .series = n_series > 1 ? series : NULL,
                                 .values = v,
                                 .log = log});
    mf_html_figure_end(p->d, NULL);
}

static void figures(const swap_page *s)
{
    static const char *const fits[] = {"after the fit", "before it"};
    static const pick divergence[] = {kl, kl_start}, same[] = {overlap}, moved[] = {mass_moved};
    const mf_report *p = &s->page;
    const bool fitted = s->r->matched > 0;
    mf_html_section(p->d, "figures", "What changes");
    mf_html_figures(p->d);
    bars(s, "Overlap of the chosen sets by layer", "share", false, 1, NULL, same);
    bars(s, "KL of the probabilities by layer, nats", "nats", fitted, fitted ? 2 : 1, fits,
         divergence);
    bars(s, "Gates that moved to other experts by layer", "share", false, 1, NULL, moved);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* Draws two rows for each layer: the load before and after the swap. */
static void loads(const swap_page *s)
{
    const mf_report *p = &s->page;
    const int n = s->r->n_layers, E = n > 0 ? s->r->layers[0].experts : 0;
    double *v = mf_arena_alloc(p->arena, (size_t)(2 * n * E) * sizeof *v);
    const char **names = mf_arena_alloc(p->arena, 2 * (size_t)n * sizeof *names);
    if (!v || !names) return;
    for (int i = 0; i < n; i++) {
        const mf_swap_layer *l = &s->r->layers[i];
        names[2 * i] = mf_report_strf(p, "%s before", s->layers[i]);
        names[2 * i + 1] = mf_report_strf(p, "%s after", s->layers[i]);
        for (int e = 0; e < E; e++) {
            v[2 * i * E + e] = l->load_before[e];
            v[(2 * i + 1) * E + e] = l->load_after[e];
        }
    }
    mf_html_section(p->d, "load", "Load of the experts");
    mf_html_paragraph(p->d, MF_SHARE_COLOURS);
    mf_html_figures(p->d);
    mf_html_figure(p->d, "Load of the experts by layer, before and after");
    mf_svg_heat(p->d, &(mf_heat){.title = "Load of the experts by layer, before and after",
                                 .width = MF_FIGURE_WIDTH,
                                 .x_label = "expert",
                                 .scale_label = "share of assignments",
                                 .rows = 2 * n,
                                 .columns = E,
                                 .values = v,
                                 .row_height = 22,
                                 .even = 1.0 / E,
                                 .row_labels = names,
                                 .column_labels = mf_report_numbers(p, E),
                                 .numbers = E <= 16});
    mf_html_figure_end(p->d, NULL);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

static void page(const swap_page *s, const char *from, const char *command)
{
    static const mf_html_entry entries[] = {{"table", "Each layer"},
                                            {"figures", "What changes"},
                                            {"load", "Load"},
                                            {"repeat", "How to repeat"}};
    const mf_report *p = &s->page;
    mf_html_begin(p->d, "Another router in a trained model",
                  mf_report_strf(p,
                                 "%s in %s; measured on %lld batch%s of the validation split",
                                 s->r->router, from, (long long)s->r->batches,
                                 s->r->batches == 1 ? "" : "es"),
                  0);
    mf_html_contents(p->d, sizeof entries / sizeof *entries, entries);
    cards(s);
    table(s);
    figures(s);
    loads(s);
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_code(p->d, command);
    mf_html_paragraph(p->d, mf_report_strf(p, "The new run is %s.", s->r->run));
    mf_html_section_end(p->d);
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_swap(const mf_swap_report *r, const char *from, const char *command,
                   const char *out)
{
    swap_page s = {.r = r};
    size_t size;
    s.page.d = mf_doc_new();
    s.page.arena = mf_arena_new();
    if (s.page.arena)
        s.layers = mf_arena_alloc(s.page.arena, ((size_t)r->n_layers + 1) * sizeof *s.layers);
    int rc = s.page.d && s.layers ? MF_OK : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < r->n_layers; i++)
        s.layers[i] = mf_report_strf(&s.page, "%d", (int)r->layers[i].layer);
    mf_error_clear();
    if (rc == MF_OK) page(&s, from, command);
    const char *text = rc == MF_OK ? mf_doc_string(s.page.d, &size) : NULL;
    if (!text || mf_error_code() == MF_ENOMEM)
        rc = mf_fail(MF_ENOMEM, "out of memory for %s", out);
    else
        rc = mf_write_file_atomic(out, text, size);
    mf_arena_free(s.page.arena);
    mf_doc_free(s.page.d);
    return rc;
}
