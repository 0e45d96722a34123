/* The page of `moefw probe`: a figure for each layer and kind of change, all on one scale, maps
 * of labels, and the table of all rows. */
#include "report/compare/probe.h"

#include "base/file/io.h"
#include "base/mem.h"
#include "report/page/report_parts.h"
#include <math.h>
#include <moefw/version.h>

typedef struct probe_page {
    mf_report page;
    const mf_model *model;
    const mf_probe_report *r;
    const mf_probe_options *o;
    const char *const *label; /* [labels] */
    double lo, hi;            /* ends of the scale of all figures */
    double largest;           /* largest change of a label, without its sign */
} probe_page;

static void cards(const probe_page *s)
{
    const mf_report *p = &s->page;
    const mf_probe_report *r = s->r;
    int n[4] = {0};
    for (int i = 0; i < r->n; i++)
        n[r->row[i].verdict]++;
    mf_html_cards(p->d);
    mf_html_card(p->d, mf_report_strf(p, "%.4f", r->base.mean),
                 mf_report_strf(p, "loss without a change, nats/%s", r->loss_of),
                 mf_report_strf(p, "%.0f %ss in %lld %s", r->base.tokens, r->loss_of,
                                (long long)r->base.clusters, r->unit));
    mf_html_card(p->d, mf_report_strf(p, "%d of %d", n[MF_PROBE_MATTERS], r->n), "matter",
                 mf_report_strf(p, "the loss rises by more than %g", s->o->margin));
    mf_html_card(p->d, mf_report_strf(p, "%d of %d", n[MF_PROBE_REDUNDANT], r->n), "redundant",
                 mf_report_strf(p, "the change lies within %g", s->o->margin));
    mf_html_card(p->d, mf_report_strf(p, "%d of %d", n[MF_PROBE_HURTS], r->n), "hurt",
                 mf_report_strf(p, "the loss falls by more than %g", s->o->margin));
    mf_html_cards_end(p->d);
}

static bool drawn(const mf_probe_row *x, int32_t at, mf_probe_kind kind)
{
    return x->change->at == at && x->change->kind == kind;
}

/* Points with intervals for the rows of one layer and kind. */
static void points(const probe_page *s, int32_t at, mf_probe_kind kind, int n)
{
    const mf_report *p = &s->page;
    double *v = mf_arena_alloc(p->arena, 4 * (size_t)n * sizeof *v);
    const char **names = mf_arena_alloc(p->arena, (size_t)n * sizeof *names);
    int k = 0;
    if (!v || !names) return;
    for (int i = 0; i < s->r->n; i++) {
        const mf_probe_row *x = &s->r->row[i];
        if (!drawn(x, at, kind)) continue;
        v[k] = x->change->a;
        v[n + k] = x->all.mean;
        v[2 * n + k] = x->all.lo == x->all.lo ? x->all.lo : x->all.mean;
        v[3 * n + k] = x->all.hi == x->all.hi ? x->all.hi : x->all.mean;
        names[k++] = x->change->name;
    }
    const char *title =
        mf_report_strf(p, "Layer %d, %s", (int)s->model->moe[at].layer, mf_probe_kinds[kind]);
    const mf_level levels[] = {{s->o->margin, "margin"}, {-s->o->margin, NULL}};
    const mf_series series = {.n = n,
                              .x = v,
                              .y = v + n,
                              .lo = v + 2 * n,
                              .hi = v + 3 * n,
                              .labels = n <= 16 ? names : NULL,
                              .points = true};
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &(mf_plot){.title = title,
                                 .x_label = "expert",
                                 .y_label = "change of the loss, nats",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 280,
                                 .y_lo = s->lo,
                                 .y_hi = s->hi,
                                 .n_series = 1,
                                 .series = &series,
                                 .n_levels = 2,
                                 .levels = levels});
    mf_html_figure_end(p->d, NULL);
}

static int count(const probe_page *s, int32_t at, mf_probe_kind kind)
{
    int n = 0;
    for (int i = 0; i < s->r->n; i++)
        n += drawn(&s->r->row[i], at, kind);
    return n;
}

/* Whether rows of this kind stand for the experts of a layer. The table has the others. */
static bool is_drawn(int kind)
{
    return kind == MF_PROBE_NEXT || kind == MF_PROBE_DROP || kind == MF_PROBE_BIAS;
}

static bool has_figures(const probe_page *s)
{
    for (int i = 0; i < s->r->n; i++)
        if (is_drawn((int)s->r->row[i].change->kind)) return true;
    return false;
}

static void figures(const probe_page *s)
{
    const mf_report *p = &s->page;
    mf_html_section(p->d, "figures", "Layer by layer");
    mf_html_paragraph(p->d, "Means with 95 % intervals. All figures have one scale, so layers "
                            "can be compared.");
    mf_html_figures(p->d);
    for (int k = 0; k < MF_PROBE_KINDS; k++)
        for (int32_t i = 0; i < s->model->n_moe; i++) {
            const int n = is_drawn(k) ? count(s, i, (mf_probe_kind)k) : 0;
            if (n > 0) points(s, i, (mf_probe_kind)k, n);
        }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* A map of changes by label for the rows of one layer and kind. */
static void map(const probe_page *s, int32_t at, mf_probe_kind kind, int n)
{
    const mf_report *p = &s->page;
    const int L = s->r->labels;
    double *v = mf_arena_alloc(p->arena, (size_t)n * (size_t)L * sizeof *v);
    const char **names = mf_arena_alloc(p->arena, (size_t)n * sizeof *names);
    int k = 0;
    if (!v || !names) return;
    for (int i = 0; i < s->r->n; i++) {
        const mf_probe_row *x = &s->r->row[i];
        if (!drawn(x, at, kind)) continue;
        for (int l = 0; l < L; l++)
            v[k * L + l] = x->label[l].mean;
        names[k++] = x->change->name;
    }
    const char *title = mf_report_strf(p, "Layer %d, %s, by label",
                                       (int)s->model->moe[at].layer, mf_probe_kinds[kind]);
    mf_html_figure(p->d, title);
    mf_svg_heat(p->d, &(mf_heat){.title = title,
                                 .width = MF_FIGURE_WIDTH,
                                 .x_label = "label",
                                 .scale_label = "change of the loss, nats",
                                 .rows = n,
                                 .columns = L,
                                 .values = v,
                                 .row_height = 22,
                                 .lo = -s->largest,
                                 .hi = s->largest,
                                 .row_labels = names,
                                 .column_labels = s->label ? s->label : mf_report_numbers(p, L),
                                 .numbers = L <= 8,
                                 .diverging = true});
    mf_html_figure_end(p->d, NULL);
}

static void labels(const probe_page *s)
{
    const mf_report *p = &s->page;
    mf_html_section(p->d, "labels", "By label");
    mf_html_paragraph(p->d,
                      "Mean change over the tokens, or examples, of each label. Blue: the "
                      "loss falls, brown: it rises; one scale for all maps. An empty cell "
                      "has no tokens.");
    mf_html_figures(p->d);
    for (int k = 0; k < MF_PROBE_KINDS; k++)
        for (int32_t i = 0; i < s->model->n_moe; i++) {
            const int n = count(s, i, (mf_probe_kind)k);
            if (n > 0) map(s, i, (mf_probe_kind)k, n);
        }
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

static void table(const probe_page *s)
{
    enum { COLUMNS = 7 };
    static const char *const head[COLUMNS + 1] = {"change",        "kind", "share",   "mean",
                                                  "95 % interval", "p",    "verdict", NULL};
    static const char *const align = "llrrrrl";
    const mf_report *p = &s->page;
    mf_html_section(p->d, "table", "All rows");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < s->r->n; i++) {
        const mf_probe_row *x = &s->r->row[i];
        const bool range = x->all.lo == x->all.lo;
        const char *const cells[COLUMNS] = {
            x->change->name,
            mf_probe_kinds[x->change->kind],
            x->share == x->share ? mf_report_strf(p, "%.3f", x->share) : "-",
            mf_report_strf(p, "%+.4f", x->all.mean),
            range ? mf_report_strf(p, "%+.4f to %+.4f", x->all.lo, x->all.hi) : "-",
            mf_report_num(p, 2, x->p),
            mf_probe_verdicts[x->verdict]};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d,
        mf_report_strf(
            p,
            "Change of the loss in nats, on the same tokens; LAYER.EXPERT names an expert. "
            "next: the next choice comes in, as if the expert did not exist; drop: its output "
            "is 0, the other gates stay. Share: of the tokens that use the expert. Intervals "
            "take %s as the sample. p: of the likeliest of three claims (within %g, above, "
            "below), corrected by Holm over %d rows; a verdict holds at .05. It is about "
            "texts, "
            "for this model: other seeds learn other experts.",
            s->r->unit, s->o->margin, s->r->n));
    mf_html_section_end(p->d);
}

static void scales(probe_page *s)
{
    s->lo = -s->o->margin;
    s->hi = s->o->margin;
    for (int i = 0; i < s->r->n; i++) {
        const mf_probe_row *x = &s->r->row[i];
        s->lo = fmin(s->lo, fmin(x->all.mean, x->all.lo)); /* fmin ignores NaN */
        s->hi = fmax(s->hi, fmax(x->all.mean, x->all.hi));
        for (int32_t l = 0; l < s->r->labels; l++)
            if (x->label[l].clusters > 0) s->largest = fmax(s->largest, fabs(x->label[l].mean));
    }
    const double room = 0.04 * (s->hi - s->lo);
    s->lo -= room;
    s->hi += room;
    if (s->largest <= 0) s->largest = s->o->margin;
}

static void page(const probe_page *s, const char *run, const char *command)
{
    const mf_report *p = &s->page;
    mf_html_entry entries[4];
    int n = 0;
    if (has_figures(s)) entries[n++] = (mf_html_entry){"figures", "Layer by layer"};
    entries[n++] = (mf_html_entry){"table", "All rows"};
    if (s->r->labels > 0) entries[n++] = (mf_html_entry){"labels", "By label"};
    entries[n++] = (mf_html_entry){"repeat", "How to repeat"};
    mf_html_begin(p->d, "What each expert does for the loss",
                  mf_report_strf(p, "%s after %lld steps, %s of %s; %lld of %lld batches", run,
                                 (long long)s->o->step, mf_split_name(s->o->split), s->r->text,
                                 (long long)s->r->batches, (long long)s->r->of),
                  0);
    mf_html_contents(p->d, n, entries);
    cards(s);
    if (has_figures(s)) figures(s);
    table(s);
    if (s->r->labels > 0) labels(s);
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_code(p->d, command);
    mf_html_section_end(p->d);
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_probe(const mf_model *m, const mf_probe_report *r, const mf_probe_options *o,
                    const char *run, const char *command, const char *const *label,
                    const char *out)
{
    probe_page s = {.model = m, .r = r, .o = o, .label = label};
    size_t size;
    s.page.d = mf_doc_new();
    s.page.arena = mf_arena_new();
    int rc = s.page.d && s.page.arena ? MF_OK : MF_ENOMEM;
    mf_error_clear();
    if (rc == MF_OK) scales(&s);
    if (rc == MF_OK) page(&s, run, command);
    const char *text = rc == MF_OK ? mf_doc_string(s.page.d, &size) : NULL;
    if (!text || mf_error_code() == MF_ENOMEM)
        rc = mf_fail(MF_ENOMEM, "out of memory for %s", out);
    else
        rc = mf_write_file_atomic(out, text, size);
    mf_arena_free(s.page.arena);
    mf_doc_free(s.page.d);
    return rc;
}
