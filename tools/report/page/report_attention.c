/* Heat maps of attention weights between the tokens of the recorded sequence: for heads of
 * the blocks, and for experts that use attention. All maps of the same kind share a
 * colour scale. */
#include "report/page/report_parts.h"

static const char *title_of(const mf_report *p, const mf_sample_head *h)
{
    if (h->expert < 0) return mf_report_strf(p, "Layer %d, head %d", h->layer, h->head);
    return mf_report_strf(p, "Layer %d, expert %d, head %d", h->layer, h->expert, h->head);
}

enum { MOST_MAPS = 4 }; /* number of maps of blocks; more would make the page too large */

/* Whether map i of n is shown. The shown maps are evenly spaced. */
static bool is_shown(int i, int n)
{
    return n <= MOST_MAPS || (i + 1) * MOST_MAPS / n > i * MOST_MAPS / n;
}

static int count(const mf_sample *s, bool of_experts)
{
    int n = 0;
    for (int i = 0; i < s->n_heads; i++)
        n += (s->heads[i].expert >= 0) == of_experts;
    return n;
}

/* The largest weight, but at least 0.1. It is the end of the shared scale. Weights that are
 * spread over many tokens are small, so with a fixed end of 1 they would be invisible. */
static double largest(const mf_sample *s, bool of_experts)
{
    double top = 0.1;
    for (int i = 0; i < s->n_heads; i++)
        for (int k = 0; k < s->n_seen * s->n_seen; k++)
            if ((s->heads[i].expert >= 0) == of_experts && (double)s->heads[i].prob[k] > top)
                top = (double)s->heads[i].prob[k];
    return top;
}

static void maps(const mf_report *p, const mf_sample *s, bool of_experts)
{
    const int n = s->n_seen, all = count(s, of_experts);
    int at = 0;
    const double top = largest(s, of_experts);
    const char *const *tokens = mf_report_token_names(p, s, n);
    mf_html_figures(p->d);
    for (int i = 0; i < s->n_heads && tokens; i++) {
        const mf_sample_head *h = &s->heads[i];
        if ((h->expert >= 0) != of_experts || (!of_experts && !is_shown(at++, all))) continue;
        double *v = mf_arena_alloc(p->arena, ((size_t)(n * n) + 1) * sizeof *v);
        if (!v) break;
        for (int k = 0; k < n * n; k++)
            v[k] = (double)h->prob[k];
        mf_html_figure(p->d, title_of(p, h));
        mf_svg_heat(p->d, &(mf_heat){.title = title_of(p, h),
                                     .x_label = "token looked at",
                                     .y_label = "token",
                                     .scale_label = "weight",
                                     .width = MF_FIGURE_WIDTH,
                                     .row_height = n > 12 ? 14 : 22,
                                     .rows = n,
                                     .columns = n,
                                     .values = v,
                                     .lo = 0,
                                     .hi = top,
                                     .row_labels = tokens,
                                     .column_labels = tokens});
        mf_html_figure_end(p->d, NULL);
    }
    mf_html_figures_end(p->d);
}

bool mf_report_has_attention(const mf_report_run *r)
{
    return r->sample && r->sample->n_heads > 0 && r->sample->n_seen > 0;
}

void mf_report_attention(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_attention(r)) return;
    const mf_sample *s = r->sample;
    mf_html_section_closed(p->d, "attention", "Attention weights");
    mf_html_paragraph(
        p->d, mf_report_strf(p,
                             "The first %d tokens of the text above at step %lld; a row sums "
                             "to 1. Some heads of some layers, evenly spread.",
                             s->n_seen, (long long)s->step));
    if (count(s, false) > 0) maps(p, s, false);
    if (count(s, true) > 0) {
        mf_html_paragraph(
            p->d, "Experts that attend. Empty rows: tokens that were not "
                  "routed to the expert. It may attend to tokens that are not shown, too.");
        maps(p, s, true);
    }
    mf_html_section_end(p->d);
}
