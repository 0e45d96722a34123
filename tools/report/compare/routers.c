/* The page of `moefw bench routers`: tables, bars of costs and choices, a heat map of loads.
 * Every router was measured on the same activations, so the figures can be compared. */
#include "report/compare/routers.h"

#include "base/file/io.h"
#include "base/mem.h"
#include "report/compare/routers_parts.h"
#include <moefw/version.h>

typedef double (*pick)(const mf_router_bench *r);

static double params(const mf_router_bench *r)
{
    return (double)r->params;
}
static double entropy_token(const mf_router_bench *r)
{
    return r->entropy_token;
}
static double entropy_load(const mf_router_bench *r)
{
    return r->entropy_load;
}
static double top_prob(const mf_router_bench *r)
{
    return r->top_prob;
}
static double ns_router(const mf_router_bench *r)
{
    return r->ns_router;
}
static double ns_layer(const mf_router_bench *r)
{
    return r->ns_layer;
}

static const char *nanoseconds(const mf_report *p, double v)
{
    return v == v ? mf_report_strf(p, "%.*f", v < 100 ? 1 : 0, v) : "-";
}

static void table(const mf_routers_page *b)
{
    enum { COLUMNS = 12 };
    static const char *const head[COLUMNS + 1] = {"router",
                                                  "parameters",
                                                  "H(token), nats",
                                                  "H(gates), nats",
                                                  "H(load), nats",
                                                  "top-k p",
                                                  "var(p)",
                                                  "output sd",
                                                  "router, ns/token",
                                                  "router, one token, ns",
                                                  "router and experts, ns/token",
                                                  "router and experts, one token, ns",
                                                  NULL};
    static const char *const align = "lrrrrrrrrrrr";
    const mf_report *p = &b->page;
    mf_html_section(p->d, "table", "Result");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < b->n; i++) {
        const mf_router_bench *r = &b->rows[i];
        const char *const cells[COLUMNS] = {r->router,
                                            mf_report_strf(p, "%lld", (long long)r->params),
                                            mf_report_num(p, 4, r->entropy_token),
                                            mf_report_num(p, 4, r->entropy_gate),
                                            mf_report_num(p, 4, r->entropy_load),
                                            mf_report_num(p, 4, r->top_prob),
                                            mf_report_num(p, 6, r->score_var),
                                            mf_report_num(p, 5, r->output_std),
                                            nanoseconds(p, r->ns_router),
                                            nanoseconds(p, r->ns_router_1),
                                            nanoseconds(p, r->ns_layer),
                                            nanoseconds(p, r->ns_layer_1)};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d,
        "H(token): mean over tokens of the entropy of their probabilities, in nats. H(gates): "
        "of "
        "the gates of the chosen experts, which sum to 1. H(load): "
        "entropy of the experts' shares of the assignments. top-k p: mean of the probabilities "
        "chosen. Times: medians, of a batch of all tokens and of one token alone; the router "
        "by itself, and with the chosen experts.");
    mf_html_section_end(p->d);
}

static void losses(const mf_routers_page *b)
{
    enum { MOST = 16 };
    const mf_report *p = &b->page;
    const int n = b->rows[0].n_losses < MOST ? b->rows[0].n_losses : MOST;
    const char *head[MOST + 2], *cells[MOST + 1];
    char align[MOST + 2] = "l";
    if (n == 0) return;
    head[0] = "router";
    for (int i = 0; i < n; i++) {
        head[i + 1] = b->rows[0].losses[i].name;
        align[i + 1] = 'r';
    }
    head[n + 1] = NULL;
    mf_html_section(p->d, "losses",
                    mf_report_strf(p, "Auxiliary losses, times %g", b->spec->alpha));
    mf_html_table(p->d, align, head);
    for (int r = 0; r < b->n; r++) {
        cells[0] = b->rows[r].router;
        for (int i = 0; i < n; i++)
            cells[i + 1] =
                i < b->rows[r].n_losses ? mf_report_num(p, 5, b->rows[r].losses[i].value) : "-";
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_section_end(p->d);
}

/* The routers in ascending order of a measure, [n]; unknown values come last. NULL:
 * no memory. */
static int *sorted(const mf_routers_page *b, pick of)
{
    int *order = mf_arena_alloc(b->page.arena, (size_t)b->n * sizeof *order);
    for (int i = 0; order && i < b->n; i++) {
        const double v = of(&b->rows[i]);
        int at = i;
        for (; at > 0 && v == v && !(of(&b->rows[order[at - 1]]) <= v); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

/* Draws a figure of all routers, sorted by the first measure. log: the axis is logarithmic, for
 * times, which differ by powers of ten. */
static void bars(const mf_routers_page *b, const char *title, const char *unit,
                 const char *caption, bool log, int n_series, const char *const *series,
                 const pick *of)
{
    const mf_report *p = &b->page;
    double *v = mf_arena_alloc(p->arena, (size_t)(n_series * b->n) * sizeof *v);
    const char **names = mf_arena_alloc(p->arena, (size_t)b->n * sizeof *names);
    const int *order = sorted(b, of[0]);
    bool any = false;
    if (!v || !names || !order) return;
    for (int s = 0; s < n_series; s++)
        for (int i = 0; i < b->n; i++) {
            names[i] = b->names[order[i]];
            v[s * b->n + i] = of[s](&b->rows[order[i]]);
            any = any || v[s * b->n + i] > 0;
        }
    if (!any) return;
    mf_html_figure(p->d, title);
    mf_svg_bars(p->d, &(mf_bars){.title = title,
                                 .y_label = unit,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .n_groups = b->n,
                                 .n_series = n_series,
                                 .groups = names,
                                 .series = n_series > 1 ? series : NULL,
                                 .values = v,
                                 .log = log});
    mf_html_figure_end(p->d, caption);
}

static void figures(const mf_routers_page *b)
{
    static const char *const entropies[] = {"of a token", "of the loads"};
    static const pick entropy[] = {entropy_token, entropy_load}, top[] = {top_prob},
                      alone[] = {ns_router}, layer[] = {ns_layer}, size[] = {params};
    const mf_report *p = &b->page;
    mf_html_section(p->d, "figures", "How they choose, and what they cost");
    mf_html_figures(p->d);
    const char *batch =
        mf_report_strf(p, "ns/token, batches of %d x %d tokens", b->spec->batch, b->spec->seq);
    bars(b, "Entropy, nats", "nats", "Even: ln of the number of experts.", false, 2, entropies,
         entropy);
    bars(b, "Probability of the chosen experts", "mean probability", NULL, false, 1, NULL, top);
    bars(b, mf_report_strf(p, "Time of the router, %s", batch), "ns/token", NULL, true, 1, NULL,
         alone);
    bars(b, mf_report_strf(p, "Time of router and experts, %s", batch), "ns/token", NULL, true,
         1, NULL, layer);
    bars(b, "Parameters of the router", "parameters", NULL, false, 1, NULL, size);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* Draws a heat map of the share of assignments of each expert. Each row is a router. */
static void loads(const mf_routers_page *b)
{
    const mf_report *p = &b->page;
    const int E = b->spec->experts;
    double *v = mf_arena_alloc(p->arena, (size_t)(b->n * E) * sizeof *v);
    if (!v) return;
    for (int i = 0; i < b->n; i++)
        for (int e = 0; e < E; e++)
            v[i * E + e] = (double)b->rows[i].load[e];
    mf_html_section(p->d, "load", "Load of the experts");
    mf_html_paragraph(p->d, MF_SHARE_COLOURS);
    mf_html_figures(p->d);
    mf_html_figure(p->d, "Share of assignments");
    mf_svg_heat(p->d, &(mf_heat){.title = "Load of the experts",
                                 .x_label = "expert",
                                 .scale_label = "share of assignments",
                                 .width = MF_FIGURE_WIDTH,
                                 .rows = b->n,
                                 .columns = E,
                                 .values = v,
                                 .row_height = 22,
                                 .even = 1.0 / E,
                                 .row_labels = b->names,
                                 .column_labels = mf_report_numbers(p, E),
                                 .numbers = E <= 16});
    mf_html_figure_end(p->d, NULL);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

static void page(const mf_routers_page *b, const char *command)
{
    static const mf_html_entry entries[] = {{"table", "Result"},
                                            {"figures", "Choice and cost"},
                                            {"load", "Load"},
                                            {"tokens", "Single tokens"},
                                            {"losses", "Auxiliary losses"},
                                            {"repeat", "How to repeat"}};
    const mf_router_bench_spec *s = b->spec;
    const mf_report *p = &b->page;
    mf_html_begin(
        p->d, "Routers on the same activations",
        mf_report_strf(p,
                       "%d wide, %d experts, top %d; %d x %d tokens, %s; %d thread%s; "
                       "means over %d seed%s",
                       s->dim, s->experts, s->top_k, s->batch, s->seq,
                       s->activations ? "recorded" : "N(0,1)", b->threads,
                       b->threads == 1 ? "" : "s", s->seeds, s->seeds == 1 ? "" : "s"),
        0);
    mf_html_contents(p->d, sizeof entries / sizeof *entries, entries);
    table(b);
    figures(b);
    loads(b);
    mf_routers_tokens(b);
    losses(b);
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_code(p->d, command);
    mf_html_section_end(p->d);
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_routers(const mf_router_bench_spec *spec, int n, const mf_router_bench *rows,
                      int threads, const char *command, const char *out)
{
    mf_routers_page b = {.spec = spec, .rows = rows, .n = n, .threads = threads};
    size_t size;
    int rc = MF_OK;
    b.page.d = mf_doc_new();
    b.page.arena = mf_arena_new();
    b.names = b.page.arena ? mf_arena_alloc(b.page.arena, (size_t)n * sizeof *b.names) : NULL;
    if (!b.page.d || !b.names) rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++)
        b.names[i] = rows[i].router;
    mf_error_clear();
    if (rc == MF_OK) page(&b, command);
    const char *text = rc == MF_OK ? mf_doc_string(b.page.d, &size) : NULL;
    if (!text || mf_error_code() == MF_ENOMEM)
        rc = mf_fail(MF_ENOMEM, "out of memory for %s", out);
    else
        rc = mf_write_file_atomic(out, text, size);
    mf_arena_free(b.page.arena);
    mf_doc_free(b.page.d);
    return rc;
}
