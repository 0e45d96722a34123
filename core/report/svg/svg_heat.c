/* Heat maps. Neighbouring cells of one colour become one path, which keeps large maps small;
 * the picture is the same as with one rectangle for each cell. */
#include "report/svg/svg_parts.h"

#include <stdio.h>
#include <string.h>

#define LEVELS     64 /* colours of the scale */
#define BAR_WIDTH  12.0
#define MAX_GROUPS 16

typedef struct heat {
    mf_doc *d;
    const mf_heat *h;
    mf_box box;
    double cell_w, cell_h, lo, hi;
} heat;

static void find_scale(heat *t)
{
    const mf_heat *h = t->h;
    mf_range r = mf_range_empty();
    t->lo = h->lo;
    t->hi = h->hi;
    if (h->lo < h->hi) return;
    for (int i = 0; i < h->rows * h->columns; i++)
        mf_range_add(&r, h->values[i]);
    t->lo = r.lo <= r.hi ? r.lo : 0;
    t->hi = r.lo < r.hi ? r.hi : t->lo + 1;
}

static double level_of(const heat *t, double v)
{
    const double x = (v - t->lo) / (t->hi - t->lo);
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void colour_of(const heat *t, double x, char out[8])
{
    if (t->h->diverging)
        mf_colour_diverging(x, out);
    else
        mf_colour_scale(x, out);
}

static double row_top(const heat *t, int row)
{
    return t->box.top + (t->h->y_up ? t->h->rows - 1 - row : row) * t->cell_h;
}

/* ---- groups of columns: a band above the cells ---- */

#define BAND 7.0

/* The groups that occur in the columns, for the legend. */
static int groups_shown(const mf_heat *h, mf_legend_item out[MAX_GROUPS])
{
    int n = 0;
    for (int g = 0; h->column_groups && h->groups && g < h->n_groups && n < MAX_GROUPS; g++) {
        bool used = false;
        for (int c = 0; c < h->columns; c++)
            if (h->column_groups[c] == g) used = true;
        if (used) out[n++] = (mf_legend_item){h->groups[g], mf_colour(g), false, true};
    }
    return n;
}

static double band_height(const mf_heat *h, double width)
{
    mf_legend_item items[MAX_GROUPS];
    const int n = groups_shown(h, items);
    return n > 0 ? mf_svg_legend(NULL, 0, 0, width, n, items) + BAND + 5 : 0;
}

static void put_band(heat *t)
{
    mf_legend_item items[MAX_GROUPS];
    const mf_heat *h = t->h;
    const int n = groups_shown(h, items);
    if (n == 0) return;
    mf_svg_legend(t->d, t->box.left, 2, t->box.right - t->box.left, n, items);
    for (int c = 0; c < h->columns;) {
        const int group = h->column_groups[c];
        int run = 1;
        while (c + run < h->columns && h->column_groups[c + run] == group)
            run++;
        if (group >= 0 && group < h->n_groups)
            mf_doc_printf(
                t->d,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\"/>\n",
                t->box.left + c * t->cell_w, t->box.top - BAND - 2, run * t->cell_w, BAND,
                mf_colour(group));
        c += run;
    }
}

/* ---- layout ---- */

static double widest(int n, const char *const *labels)
{
    double w = 0;
    for (int i = 0; labels && i < n; i++)
        w = fmax(w, mf_text_width(labels[i]));
    return fmin(w, 160);
}

/* Column labels are vertical if one of them is wider than a cell. */
static bool upright(const heat *t)
{
    return widest(t->h->columns, t->h->column_labels) > t->cell_w - 2;
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void lay_out(heat *t, double *width, double *height)
{
    const mf_heat *h = t->h;
    const int rows = h->rows > 0 ? h->rows : 1, columns = h->columns > 0 ? h->columns : 1;
    double left = 8 + (h->y_label ? MF_LINE : 0), right = 8 + 2 * BAR_WIDTH + 36;
    left += h->row_labels ? widest(rows, h->row_labels) + 6 : h->y ? 40 : 0;
    if (h->scale_label) right += MF_LINE;
    *width = h->width > 0 ? h->width : left + right + columns * clamp(520.0 / columns, 1, 44);
    t->cell_w = (*width - left - right) / columns;
    double bottom = 6 + (h->x_label ? MF_LINE : 0) + (h->x ? MF_LINE : 0);
    if (h->column_labels)
        bottom += upright(t) ? widest(columns, h->column_labels) + 8 : MF_LINE;
    const double top = 10 + band_height(h, *width - left - right);
    const double each = h->row_height > 0 ? h->row_height : clamp(220.0 / rows, 3, 26);
    *height = h->height > 0 ? h->height : top + bottom + rows * each;
    t->cell_h = (*height - top - bottom) / rows;
    t->box = (mf_box){left, top, *width - right, *height - bottom};
}

/* ---- cells ---- */

static void put_cells(heat *t)
{
    const mf_heat *h = t->h;
    for (int level = 0; level < LEVELS; level++) {
        bool any = false;
        for (int r = 0; r < h->rows; r++)
            for (int c = 0; c < h->columns; c++) {
                const double v = h->values[r * h->columns + c];
                if (!isfinite(v) || (int)(level_of(t, v) * (LEVELS - 1) + 0.5) != level)
                    continue;
                int run = 1; /* neighbours of the same colour are one rectangle */
                while (c + run < h->columns && isfinite(h->values[r * h->columns + c + run]) &&
                       (int)(level_of(t, h->values[r * h->columns + c + run]) * (LEVELS - 1) +
                             0.5) == level)
                    run++;
                mf_doc_put(t->d, any ? "M" : "<path d=\"M");
                any = true;
                mf_doc_number(t->d, t->box.left + c * t->cell_w);
                mf_doc_put(t->d, " ");
                mf_doc_number(t->d, row_top(t, r));
                mf_doc_put(t->d, "h");
                /* Overlaps the next cell a little, because rounding would leave a
                 * visible gap. */
                const double w = run * t->cell_w + (c + run < h->columns ? 0.4 : 0);
                mf_doc_number(t->d, w);
                mf_doc_put(t->d, "v");
                mf_doc_number(t->d, t->cell_h);
                mf_doc_put(t->d, "h");
                mf_doc_number(t->d, -w);
                mf_doc_put(t->d, "z");
                c += run - 1;
            }
        if (any) {
            char ink[8];
            colour_of(t, (double)level / (LEVELS - 1), ink);
            mf_doc_printf(t->d, "\" fill=\"%s\" shape-rendering=\"crispEdges\"/>\n", ink);
        }
    }
}

static void put_marks(heat *t)
{
    const mf_heat *h = t->h;
    if (!h->marks) return;
    mf_doc_put(t->d, "<path d=\"");
    for (int i = 0; i < h->rows * h->columns; i++)
        if (h->marks[i])
            mf_doc_printf(t->d, "M%.1f %.1fh%.1fv%.1fh%.1fz",
                          t->box.left + (i % h->columns) * t->cell_w + 1,
                          row_top(t, i / h->columns) + 1, t->cell_w - 2, t->cell_h - 2,
                          2 - t->cell_w);
    mf_doc_put(t->d, "\" stroke=\"#ff5a36\" stroke-width=\"1.5\"/>\n");
}

/* Relative luminance of "#rrggbb", 0 .. 1 (sRGB; WCAG 2.1). */
static double luminance(const char *ink)
{
    static const double share[] = {0.2126, 0.7152, 0.0722};
    unsigned c[3] = {0, 0, 0};
    double sum = 0;
    sscanf(ink, "#%2x%2x%2x", &c[0], &c[1], &c[2]);
    for (int i = 0; i < 3; i++) {
        const double v = c[i] / 255.0;
        sum += share[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

/* Black or white, whichever has the higher contrast on the cell. A contrast is (a + .05) / (b +
 * .05), so both are equal at a luminance of sqrt(1.05 x .05) - .05. */
static const char *ink_on(const heat *t, double x)
{
    char ink[8];
    colour_of(t, x, ink);
    return luminance(ink) + 0.05 > 0.2291 ? "#000" : "#fff";
}

static void put_numbers(heat *t)
{
    const mf_heat *h = t->h;
    if (!h->numbers) return;
    const double size = clamp(fmin(t->cell_h * 0.55, t->cell_w * 0.34), 4, 11);
    mf_doc_printf(t->d, "<g font-size=\"%.1f\" text-anchor=\"middle\">\n", size);
    for (int i = 0; i < h->rows * h->columns; i++) {
        char text[24];
        if (!isfinite(h->values[i])) continue;
        snprintf(text, sizeof text, fabs(h->values[i]) < 1 ? "%.2f" : "%.3g", h->values[i]);
        const char *shown = strncmp(text, "0.", 2) == 0 ? text + 1 : text;
        mf_doc_printf(t->d, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n",
                      t->box.left + (i % h->columns + 0.5) * t->cell_w,
                      row_top(t, i / h->columns) + t->cell_h / 2 + size * 0.35,
                      ink_on(t, level_of(t, h->values[i])), shown);
    }
    mf_doc_put(t->d, "</g>\n");
}

/* ---- labels ---- */

static void number_axes(heat *t)
{
    const mf_heat *h = t->h;
    if (h->x && h->columns > 0) {
        mf_scale s =
            mf_scale_make((mf_range){h->x[0], h->x[h->columns - 1]}, false, true, true, 6);
        s.from = t->box.left + t->cell_w / 2;
        s.to = t->box.right - t->cell_w / 2;
        mf_svg_axis_x(t->d, &t->box, &s, NULL);
    }
    if (h->y && h->rows > 0) {
        mf_scale s =
            mf_scale_make((mf_range){h->y[0], h->y[h->rows - 1]}, false, true, true, 5);
        char text[24];
        for (int i = 0; i < s.n_ticks; i++) {
            const double share = (s.tick[i] - s.lo) / (s.hi - s.lo);
            const double y = row_top(t, 0) + t->cell_h / 2 +
                             share * (row_top(t, h->rows - 1) - row_top(t, 0));
            mf_svg_text(t->d, t->box.left - 6, y + MF_FONT * 0.35, "end",
                        mf_tick_text(&s, s.tick[i], text));
        }
    }
}

/* If the cells are too low for all labels, only every second, third, ... label is written. */
static void put_labels(heat *t)
{
    const mf_heat *h = t->h;
    const mf_box *b = &t->box;
    const int every = (int)ceil(MF_FONT / t->cell_h),
              every_column = (int)ceil((MF_FONT - 1) / t->cell_w);
    for (int r = 0; h->row_labels && r < h->rows; r += every)
        mf_svg_text(t->d, b->left - 6, row_top(t, r) + t->cell_h / 2 + MF_FONT * 0.35, "end",
                    h->row_labels[r]);
    for (int c = 0; h->column_labels && c < h->columns; c++) {
        const double x = b->left + (c + 0.5) * t->cell_w;
        if (!upright(t)) {
            mf_svg_text(t->d, x, b->bottom + 3 + MF_FONT, "middle", h->column_labels[c]);
            continue;
        }
        if (c % every_column != 0) continue;
        mf_doc_printf(t->d,
                      "<text transform=\"translate(%.1f %.1f) rotate(-90)\" "
                      "fill=\"currentColor\" text-anchor=\"end\">",
                      x + MF_FONT * 0.35, b->bottom + 5);
        mf_doc_text(t->d, h->column_labels[c]);
        mf_doc_put(t->d, "</text>\n");
    }
    number_axes(t);
}

static void axis_labels(heat *t, double height)
{
    const mf_heat *h = t->h;
    if (h->x_label)
        mf_svg_text(t->d, (t->box.left + t->box.right) / 2, height - 5, "middle", h->x_label);
    if (h->y_label)
        mf_svg_text_up(t->d, MF_FONT + 2, (t->box.top + t->box.bottom) / 2, h->y_label);
}

static void colour_bar(heat *t)
{
    const mf_box *b = &t->box;
    const double x = b->right + BAR_WIDTH, height = fmin(b->bottom - b->top, 160);
    const int steps = 32;
    char ink[8], text[24];
    for (int i = 0; i < steps; i++) {
        colour_of(t, (i + 0.5) / steps, ink);
        mf_doc_printf(t->d,
                      "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.0f\" height=\"%.2f\" fill=\"%s\" "
                      "shape-rendering=\"crispEdges\"/>\n",
                      x, b->top + height * (1 - (i + 1.0) / steps), BAR_WIDTH,
                      height / steps + 0.3, ink);
    }
    mf_scale s =
        mf_scale_make((mf_range){t->lo, t->hi}, false, true, true, height < 60 ? 2 : 4);
    s.from = b->top + height;
    s.to = b->top;
    for (int i = 0; i < s.n_ticks; i++)
        mf_svg_text(t->d, x + BAR_WIDTH + 5, mf_scale_position(&s, s.tick[i]) + MF_FONT * 0.35,
                    "start", mf_tick_text(&s, s.tick[i], text));
    if (t->h->scale_label)
        mf_svg_text_up(t->d, x + BAR_WIDTH + 44 + MF_FONT, b->top + height / 2,
                       t->h->scale_label);
}

void mf_svg_heat(mf_doc *d, const mf_heat *h)
{
    heat t = {.d = d, .h = h};
    double width, height;
    find_scale(&t);
    lay_out(&t, &width, &height);
    mf_svg_begin(d, width, height, h->title);
    put_band(&t);
    put_cells(&t);
    put_numbers(&t);
    put_marks(&t);
    put_labels(&t);
    axis_labels(&t, height);
    colour_bar(&t);
    mf_svg_end(d);
}
