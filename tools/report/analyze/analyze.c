/* The page of `moefw analyze`: a table of the layers, then figures. Sections without data are
 * skipped, and so are their entries in the table of contents. */
#include "report/analyze/analyze.h"

#include <math.h>

#include "base/error.h"
#include "base/file/io.h"
#include <moefw/version.h>
#include "report/analyze/parts.h"

static void table(const mf_report *p, const mf_analysis *a)
{
    enum { COLUMNS = 8 };
    static const char *const head[COLUMNS + 1] = {
        "layer", "entropy of loads",  "CV of loads (chance)", "top share",
        "dead",  "pairs over chance", "margin, median",       "margin below bf16",
        NULL};
    static const char *const align = "lrrrrrrr";
    mf_html_section(p->d, "table", "Layers");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < a->n_layers; i++) {
        const mf_analysis_layer *l = &a->layers[i];
        const mf_utilization *u = &l->use;
        const char *const cells[COLUMNS] = {
            mf_report_strf(p, "%d", (int)l->layer),
            mf_analyze_between(p, u->entropy, u->entropy_lo, u->entropy_hi),
            mf_report_strf(p, "%.3f (%.3f)", u->cv, u->cv_chance),
            mf_report_strf(p, "%.3f", u->top),
            mf_report_strf(p, "%d of %d", (int)u->dead, (int)l->experts),
            l->pairs.pairs == 0 ? "-"
                                : mf_report_strf(p, "%lld of %lld", (long long)l->pairs.over,
                                                 (long long)l->pairs.pairs),
            mf_report_num(p, 3, l->margin[2]),
            isnan(l->close) ? "-" : mf_report_strf(p, "%.2f %%", 100 * l->close)};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d, mf_report_strf(
                  p,
                  "Entropy of loads: divided by ln E. Dead: experts with less than a "
                  "hundredth of the even share. Margin: lowest score of a chosen expert "
                  "minus the highest other one; below bf16: less than 1/256 of that score. "
                  "Intervals are of 95 %%, by %s.",
                  a->routed.unit));
    if (a->routed.documents.n < MF_FEW_DOCUMENTS)
        mf_html_paragraph(p->d, mf_report_strf(p,
                                               "Few %s: the intervals are too short, and "
                                               "the figures that are held out too low.",
                                               a->routed.unit));
    mf_html_section_end(p->d);
}

static void page(const mf_report *p, const mf_analysis *a, const char *command)
{
    mf_html_entry entries[12];
    int n = 0;
    entries[n++] = (mf_html_entry){"table", "Layers"};
    entries[n++] = (mf_html_entry){"text", "Text"};
    entries[n++] = (mf_html_entry){"words", "Ids"};
    entries[n++] = (mf_html_entry){"loads", "Loads"};
    entries[n++] = (mf_html_entry){"decides", "What decides"};
    if (a->routed.labels > 0) entries[n++] = (mf_html_entry){"labels", "Labels"};
    entries[n++] = (mf_html_entry){"pairs", "Pairs"};
    if (a->n_then > 0) entries[n++] = (mf_html_entry){"then", "Saturation"};
    if (mf_analyze_has_outputs(a)) entries[n++] = (mf_html_entry){"outputs", "Outputs"};
    entries[n++] = (mf_html_entry){"tokens", "Tokens"};
    if (a->n_layers > 1) entries[n++] = (mf_html_entry){"moved", "From layer to layer"};
    entries[n++] = (mf_html_entry){"repeat", "How to repeat"};
    mf_html_begin(
        p->d, mf_report_strf(p, "Routing of %s", a->run),
        mf_report_strf(p,
                       "%lld steps; %lld tokens of %s in %d %s; loss %.4f; the routers' own "
                       "choice, before capacity",
                       (long long)a->step, (long long)a->tokens, a->text,
                       (int)a->routed.documents.n, a->routed.unit, a->loss),
        0);
    mf_html_contents(p->d, n, entries);
    table(p, a);
    mf_analyze_text(p, a);
    mf_analyze_words(p, a);
    mf_analyze_loads(p, a);
    mf_analyze_decides(p, a);
    mf_analyze_labels(p, a);
    mf_analyze_pairs(p, a);
    mf_analyze_then(p, a);
    mf_analyze_outputs(p, a);
    mf_analyze_tokens(p, a);
    mf_analyze_moved(p, a);
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_code(p->d, command);
    mf_html_section_end(p->d);
    mf_html_end(p->d, "moefw " MOEFW_VERSION ". One file, nothing loaded from elsewhere.");
}

int mf_report_analysis(const mf_analysis *a, const char *command, const char *out)
{
    mf_report p = {.arena = mf_arena_new(), .d = mf_doc_new()};
    size_t size;
    int rc = p.arena && p.d ? MF_OK : MF_ENOMEM;
    mf_error_clear();
    if (rc == MF_OK) page(&p, a, command);
    const char *text = rc == MF_OK ? mf_doc_string(p.d, &size) : NULL;
    if (!text || mf_error_code() == MF_ENOMEM)
        rc = mf_fail(MF_ENOMEM, "out of memory for %s", out);
    else
        rc = mf_write_file_atomic(out, text, size);
    mf_arena_free(p.arena);
    mf_doc_free(p.d);
    return rc;
}
