/* Grouped bars, and histograms. The y axis of bars always includes 0, so the length of a bar is
 * its value. A logarithmic axis has no 0, so points replace the bars. A histogram shows shares
 * of each series, so series of different sizes are comparable. */
#include "base/mem.h"
#include "report/svg/svg_parts.h"

#include <stdio.h>

#define MAX_SERIES 32

static void error_bar(mf_doc *d, double x, double lo, double hi)
{
    mf_doc_printf(d,
                  "<path d=\"M%.1f %.1fV%.1fM%.1f %.1fh6M%.1f %.1fh6\" stroke=\"currentColor\" "
                  "stroke-width=\"1.2\"/>\n",
                  x, lo, hi, x - 3, lo, x - 3, hi);
}

/* Writes the names below the axis: horizontally if they fit, else slanted. */
static void group_names(mf_doc *d, const mf_bars *b, const mf_box *box, double step,
                        bool slanted)
{
    for (int g = 0; g < b->n_groups; g++) {
        const double x = box->left + (g + 0.5) * step;
        if (!slanted) {
            mf_svg_text(d, x, box->bottom + 4 + MF_FONT, "middle", b->groups[g]);
            continue;
        }
        mf_doc_printf(d,
                      "<text transform=\"translate(%.1f %.1f) rotate(-35)\" "
                      "text-anchor=\"end\">",
                      x + 4, box->bottom + 12);
        char text[MF_FIT];
        mf_doc_text(d, mf_text_fit(b->groups[g], (x + 2) / 0.82, text)); /* cos 35 degrees */
        mf_doc_put(d, "</text>\n");
    }
}

static mf_scale value_scale(const mf_bars *b)
{
    mf_range r = b->log ? mf_range_empty() : (mf_range){0, 0};
    for (int i = 0; i < b->n_series * b->n_groups; i++) {
        if (b->log && b->values[i] <= 0) continue;
        mf_range_add(&r, b->values[i]);
        if (b->lo) mf_range_add(&r, b->lo[i]);
        if (b->hi) mf_range_add(&r, b->hi[i]);
    }
    if (b->level) mf_range_add(&r, b->level->y);
    return mf_scale_make(r, b->log, false, false, 5);
}

static void put_bar(mf_doc *d, double x, double width, double top, double zero, const char *ink)
{
    mf_doc_printf(d,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                  "fill=\"%s\">",
                  x, fmin(top, zero), fmax(width - 1, 0.5), fmax(fabs(top - zero), 0.3), ink);
}

static void put_point(mf_doc *d, double x, double y, const char *ink)
{
    mf_doc_printf(d, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"%s\">", x, y, ink);
}

static void put_bars(mf_doc *d, const mf_bars *b, const mf_box *box, const mf_scale *y,
                     double step)
{
    const double gap = step * 0.16, w = (step - gap) / b->n_series,
                 zero = mf_scale_position(y, 0);
    for (int s = 0; s < b->n_series; s++)
        for (int g = 0; g < b->n_groups; g++) {
            const int at = s * b->n_groups + g;
            if (!isfinite(b->values[at]) || (b->log && b->values[at] <= 0)) continue;
            const char *ink = mf_colour(b->by_group ? g : s);
            const double x = box->left + g * step + gap / 2 + s * w;
            const double top = mf_scale_position(y, b->values[at]);
            if (b->log)
                put_point(d, x + w / 2, top, ink);
            else
                put_bar(d, x, w, top, zero, ink);
            const char *name = b->series ? b->series[s] : b->y_label;
            mf_doc_put(d, "<title>");
            if (b->group) mf_doc_printf(d, "%s ", b->group);
            mf_doc_text(d, b->groups[g]);
            mf_doc_put(d, ": ");
            mf_doc_text(d, name ? name : "");
            mf_doc_printf(d, " %.5g</title>", b->values[at]);
            mf_doc_put(d, b->log ? "</circle>\n" : "</rect>\n");
            if (b->lo && b->hi && isfinite(b->lo[at]) && isfinite(b->hi[at]))
                error_bar(d, x + w / 2, mf_scale_position(y, b->lo[at]),
                          mf_scale_position(y, b->hi[at]));
        }
}

void mf_svg_bars(mf_doc *d, const mf_bars *b)
{
    const double width = b->width > 0 ? b->width : 640,
                 height = b->height > 0 ? b->height : 260;
    mf_legend_item legend[MAX_SERIES + 1];
    int n_legend = 0;
    mf_scale y = value_scale(b);
    mf_box box = {.left = 10 + mf_ticks_width(&y) + (b->y_label ? MF_LINE : 0),
                  .right = width - 10};
    const double step = (box.right - box.left) / (b->n_groups > 0 ? b->n_groups : 1);
    double widest = 0;
    for (int g = 0; g < b->n_groups; g++)
        widest = fmax(widest, mf_text_width(b->groups[g]));
    const bool slanted = widest > step - 4;
    for (int s = 0; b->series && s < b->n_series && s < MAX_SERIES; s++)
        legend[n_legend++] = (mf_legend_item){b->series[s], mf_colour(s), false, true};
    if (b->level)
        legend[n_legend++] = (mf_legend_item){b->level->name, "currentColor", true, false};
    box.top = 10 + mf_svg_legend(NULL, 0, 0, box.right - box.left, n_legend, legend);
    box.bottom = height - 8 - (slanted ? fmin(widest * 0.58 + MF_LINE, height / 2) : MF_LINE) -
                 (b->group ? MF_LINE : 0);
    y.from = box.bottom;
    y.to = box.top;
    mf_svg_begin(d, width, height, b->title);
    mf_svg_legend(d, box.left, 2, box.right - box.left, n_legend, legend);
    mf_svg_axis_y(d, &box, &y, b->y_label);
    put_bars(d, b, &box, &y, step);
    mf_svg_line(d, box.left, mf_scale_position(&y, 0), box.right, mf_scale_position(&y, 0),
                "stroke=\"currentColor\" stroke-opacity=\".55\"");
    if (b->level && isfinite(b->level->y))
        mf_svg_line(d, box.left, mf_scale_position(&y, b->level->y), box.right,
                    mf_scale_position(&y, b->level->y),
                    "stroke=\"currentColor\" stroke-width=\"1.4\" stroke-dasharray=\"5 3\"");
    group_names(d, b, &box, step, slanted);
    if (b->group) mf_svg_text(d, (box.left + box.right) / 2, height - 6, "middle", b->group);
    mf_svg_end(d);
}

/* ---- histograms ---- */

static mf_range value_range(const mf_histogram *h)
{
    mf_range r = mf_range_empty();
    for (int s = 0; s < h->n_series; s++)
        for (int i = 0; i < h->n[s]; i++)
            mf_range_add(&r, h->values[s][i]);
    if (r.lo == r.hi) r.hi = r.lo + 1;
    return r;
}

/* Computes the outline of one series with 2 bins + 2 points. y is the share of the series'
 * values in a bin. */
static void steps_of(const mf_histogram *h, int s, mf_range r, int bins, double *x, double *y)
{
    const double w = (r.hi - r.lo) / bins;
    int total = 0;
    for (int i = 0; i < 2 * bins + 2; i++) {
        x[i] = r.lo + w * (i / 2);
        y[i] = 0;
    }
    for (int i = 0; i < h->n[s]; i++) {
        const double v = h->values[s][i];
        if (!isfinite(v)) continue;
        int bin = (int)((v - r.lo) / w);
        if (bin >= bins) bin = bins - 1;
        y[2 * bin + 1]++;
        total++;
    }
    for (int b = 0; b < bins; b++) {
        y[2 * b + 1] /= total > 0 ? total : 1;
        y[2 * b + 2] = y[2 * b + 1];
    }
}

void mf_svg_histogram(mf_doc *d, const mf_histogram *h)
{
    const int bins = h->bins > 0 ? h->bins : 40, points = 2 * bins + 2;
    const int n = h->n_series < MAX_SERIES ? h->n_series : MAX_SERIES;
    double *numbers = mf_alloc((size_t)points * 2 * (size_t)(n > 0 ? n : 1), sizeof *numbers);
    mf_series series[MAX_SERIES] = {0};
    const mf_range r = value_range(h);
    for (int s = 0; numbers && s < n; s++) {
        double *x = numbers + 2 * points * s, *y = x + points;
        if (r.lo < r.hi) steps_of(h, s, r, bins, x, y);
        series[s] = (mf_series){
            .name = h->names ? h->names[s] : NULL, .n = points, .x = x, .y = y, .filled = true};
    }
    const mf_plot p = {.title = h->title,
                       .x_label = h->x_label,
                       .y_label = h->y_label,
                       .width = h->width,
                       .height = h->height,
                       .from_zero = true,
                       .n_series = numbers ? n : 0,
                       .series = series};
    mf_svg_plot(d, &p);
    mf_free(numbers);
}
