/* Heat maps. All cells of one colour become one path. Neighbouring cells become one line, and
 * coordinates count cells. This keeps large maps small. */
#include "report/svg/svg_parts.h"

#include <stdio.h>
#include <string.h>

/* number of colours of the scale; odd, so that one colour is the middle */
#define LEVELS     17
#define RATIO      4.0 /* ratio of the ends of a scale of shares to the even share */
#define BAR_WIDTH  12.0
#define MAX_GROUPS 16
#define NUMBER     11.0 /* font size of values in cells */

typedef struct heat {
    bool label_above; /* the title of the scale is too long for a place beside the map */
    mf_doc *d;
    const mf_heat *h;
    mf_box box;
    double cell_w, cell_h, lo, hi, width;
} heat;

static void find_scale(heat *t)
{
    const mf_heat *h = t->h;
    mf_range r = mf_range_empty();
    t->lo = h->lo;
    t->hi = h->hi;
    if (h->even > 0) {
        t->lo = h->even / RATIO;
        t->hi = h->even * RATIO;
    }
    if (t->lo < t->hi) return;
    for (int i = 0; i < h->rows * h->columns; i++)
        mf_range_add(&r, h->values[i]);
    t->lo = r.lo <= r.hi ? r.lo : 0;
    t->hi = r.lo < r.hi ? r.hi : t->lo + 1;
}

static double level_of(const heat *t, double v)
{
    const bool ratio = t->h->even > 0;
    if (ratio && v <= t->lo) return 0;
    const double x =
        ratio ? 0.5 + 0.5 * log(v / t->h->even) / log(RATIO) : (v - t->lo) / (t->hi - t->lo);
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void colour_of(const heat *t, double x, char out[8])
{
    if (t->h->diverging || t->h->even > 0)
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
    mf_svg_legend(t->d, t->box.left, t->label_above ? 2 + MF_LINE : 2,
                  t->box.right - t->box.left, n, items);
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

/* Whether column labels are vertical. They are vertical if one of them is wider than a cell. */
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
    const double each = h->row_height > 0 ? h->row_height : clamp(220.0 / rows, 3, 26);
    t->label_above = h->scale_label && mf_text_width(h->scale_label) >
                                           (h->height > 0 ? h->height - 60 : rows * each);
    if (h->scale_label && !t->label_above) right += MF_LINE;
    *width = h->width > 0 ? h->width : left + right + columns * clamp(520.0 / columns, 1, 44);
    t->cell_w = (*width - left - right) / columns;
    double bottom = 6 + (h->x_label ? MF_LINE : 0) + (h->x ? MF_LINE : 0);
    if (h->column_labels)
        bottom += upright(t) ? widest(columns, h->column_labels) + 8 : MF_LINE;
    const double top =
        10 + band_height(h, *width - left - right) + (t->label_above ? MF_LINE : 0);
    *height = h->height > 0 ? h->height : top + bottom + rows * each;
    t->cell_h = (*height - top - bottom) / rows;
    t->box = (mf_box){left, top, *width - right, *height - bottom};
}

/* ---- cells ---- */

/* Whether values are written into the cells. They are omitted if they would be too small on
 * a telephone. */
static bool has_numbers(const heat *t)
{
    return t->h->numbers && t->cell_h >= NUMBER + 1 && t->cell_w >= 2.1 * NUMBER;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Writes an attribute with one label per line. A line break within a label becomes a blank. */
static void put_list(heat *t, const char *name, int n, const char *const *labels)
{
    mf_doc_printf(t->d, " %s=\"", name);
    for (int i = 0; i < n; i++) {
        char label[80];
        snprintf(label, sizeof label, "%s", labels[i] ? labels[i] : "");
        for (char *c = label; *c; c++)
            if (*c == '\n') *c = ' ';
        if (i > 0) mf_doc_put(t->d, "\n");
        mf_doc_text(t->d, label);
    }
    mf_doc_put(t->d, "\"");
}

/* Whether the labels differ from the numbers 0, 1, ... */
static bool named(int n, const char *const *labels)
{
    char number[16];
    for (int i = 0; labels && i < n; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(labels[i], number) != 0) return true;
    }
    return false;
}

static void put_axis_values(heat *t, const char *name, int n, const double *values)
{
    mf_doc_printf(t->d, " %s=\"", name);
    for (int i = 0; i < n; i++)
        mf_doc_printf(t->d, i > 0 ? "\n%.6g" : "%.6g", values[i]);
    mf_doc_put(t->d, "\"");
}

/* Writes the names of groups of columns, each with its number of columns, in order. */
static void put_groups(heat *t)
{
    const mf_heat *h = t->h;
    mf_doc_put(t->d, " data-g=\"");
    for (int c = 0; c < h->columns;) {
        const int group = h->column_groups[c], from = c;
        while (c < h->columns && h->column_groups[c] == group)
            c++;
        if (from > 0) mf_doc_put(t->d, "\n");
        if (group >= 0 && group < h->n_groups) mf_doc_text(t->d, h->groups[group]);
        mf_doc_printf(t->d, " %d", c - from);
    }
    mf_doc_put(t->d, "\"");
}

/* Writes the data from which the page's script names a cell and its value. data-h contains
 * rows, columns, whether row 0 is at the bottom, and the ends of the values. data-v contains
 * two digits of base 64 for each cell, which are a number between these ends. A single point
 * means the lowest value, a single blank no value. */
static void put_values(heat *t)
{
    const mf_heat *h = t->h;
    mf_range r = mf_range_empty();
    const char *const labels[] = {h->x_label, h->y_label, h->scale_label};
    for (int i = 0; i < h->rows * h->columns; i++)
        mf_range_add(&r, h->values[i]);
    if (r.lo > r.hi) r.lo = r.hi = 0;
    const double step = r.hi > r.lo ? 4095 / (r.hi - r.lo) : 0;
    mf_doc_printf(t->d, " data-h=\"%d %d %d %.7g %.7g\" data-v=\"", h->rows, h->columns,
                  h->y_up, r.lo, r.hi);
    for (int i = 0; i < h->rows * h->columns; i++) {
        const int q = isfinite(h->values[i]) ? (int)((h->values[i] - r.lo) * step + 0.5) : -1;
        if (q <= 0)
            mf_doc_put(t->d, q < 0 ? " " : ".");
        else
            mf_doc_printf(t->d, "%c%c", digits[q >> 6 & 63], digits[q & 63]);
    }
    mf_doc_put(t->d, "\"");
    put_list(t, "data-l", 3, labels);
    if (named(h->rows, h->row_labels)) put_list(t, "data-r", h->rows, h->row_labels);
    if (!h->row_labels && h->y) put_axis_values(t, "data-r", h->rows, h->y);
    if (named(h->columns, h->column_labels))
        put_list(t, "data-c", h->columns, h->column_labels);
    if (!h->column_labels && h->x) put_axis_values(t, "data-c", h->columns, h->x);
    if (h->column_groups && h->groups) put_groups(t);
}

/* The lowest value with this level of colour. For level LEVELS: the highest value of all. */
static double level_begin(const heat *t, int level)
{
    const double x = ((double)level - 0.5) / (LEVELS - 1), in = x < 0 ? 0 : x > 1 ? 1 : x;
    return t->h->even > 0 ? t->h->even * pow(RATIO, 2 * in - 1) : t->lo + in * (t->hi - t->lo);
}

/* Whether the cell has a value. *ret: its colour among LEVELS. */
static bool level_at(const heat *t, int row, int column, int *ret)
{
    const double v = t->h->values[row * t->h->columns + column];
    if (!isfinite(v)) return false;
    *ret = (int)(level_of(t, v) * (LEVELS - 1) + 0.5);
    return true;
}

/* Opens a group in which a cell is 1 wide and 1 high, and (0, 0) is `down` cells below the
 * upper left corner of the map. Coordinates are then whole numbers, which keeps large
 * maps small. */
static void open_grid(heat *t, double down)
{
    mf_doc_printf(t->d, "<g transform=\"translate(%.2f %.2f) scale(%.5f %.5f)\"", t->box.left,
                  t->box.top + down * t->cell_h, t->cell_w, t->cell_h);
}

static int row_at(const heat *t, int row)
{
    return t->h->y_up ? t->h->rows - 1 - row : row;
}

/* Whether row r has the colour at column c. *ret_run: the number of equal columns from c on, at
 * least 1. */
static bool run_of(const heat *t, int level, int r, int c, int *ret_run)
{
    int other, run = 0;
    while (c + run < t->h->columns && level_at(t, r, c + run, &other) && other == level)
        run++;
    *ret_run = run > 0 ? run : 1;
    return run > 0;
}

/* The number of lines that a colour needs. level < 0: the number of cells without a value. */
static int lines_of(const heat *t, int level)
{
    int n = 0, run, other;
    for (int r = 0; r < t->h->rows; r++)
        for (int c = 0; c < t->h->columns; c += run) {
            run = 1;
            n += level < 0 ? !level_at(t, r, c, &other) : run_of(t, level, r, c, &run);
        }
    return n;
}

/* The colour that is drawn under all others, as whole rows, because it would need the most
 * lines. -1: none, because some cell has no value, or no colour needs more lines than there
 * are rows. */
static int ground_of(const heat *t)
{
    int best = -1, most = t->h->rows;
    if (lines_of(t, -1) > 0) return -1;
    for (int level = 0; level < LEVELS; level++) {
        const int n = lines_of(t, level);
        if (n > most) {
            best = level;
            most = n;
        }
    }
    return best;
}

/* Appends all cells of a colour as one path of horizontal lines, which are as thick as a cell
 * is high. For the colour of the ground, whole rows are drawn. */
static void put_level(heat *t, int level, bool ground)
{
    const mf_heat *h = t->h;
    int found = 0, run;
    char ink[8];
    colour_of(t, (double)level / (LEVELS - 1), ink);
    for (int r = 0; r < h->rows; r++)
        for (int c = 0; c < h->columns; c += run) {
            /* neighbours of the same colour become one line */
            if (!run_of(t, level, r, c, &run) && !ground) continue;
            if (ground) run = h->columns;
            if (found++ == 0) mf_doc_printf(t->d, "<path stroke=\"%s\" d=\"", ink);
            mf_doc_printf(t->d, "M%d %dh%d", c, row_at(t, r), run);
        }
    if (found == 0) return;
    if (has_numbers(t)) /* the numbers in the cells already show the values */
        mf_doc_put(t->d, "\"/>\n");
    else
        mf_doc_printf(t->d, "\"><title>%.2g to %.2g</title></path>\n", level_begin(t, level),
                      level_begin(t, level + 1));
}

static void put_cells(heat *t)
{
    open_grid(t, 0.5);
    mf_doc_put(t->d, " shape-rendering=\"crispEdges\"");
    put_values(t);
    mf_doc_put(t->d, ">\n");
    const int ground = ground_of(t);
    if (ground >= 0) put_level(t, ground, true);
    for (int level = 0; level < LEVELS; level++)
        if (level != ground) put_level(t, level, false);
    mf_doc_put(t->d, "</g>\n");
}

static void put_marks(heat *t)
{
    const mf_heat *h = t->h;
    if (!h->marks) return;
    open_grid(t, 0.5);
    mf_doc_put(t->d, "><path d=\"");
    for (int i = 0; i < h->rows * h->columns; i++)
        if (h->marks[i])
            mf_doc_printf(t->d, "M%d.5 %dh0", i % h->columns, row_at(t, i / h->columns));
    mf_doc_put(t->d, "\" stroke=\"#000\" stroke-width=\"3\" stroke-linecap=\"round\" "
                     "vector-effect=\"non-scaling-stroke\"/></g>\n");
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

/* Black or white, whichever has the higher contrast on the cell: (a + .05) / (b + .05) for
 * luminances a >= b. Both have the same contrast at a luminance of sqrt(1.05 x .05) - .05. */
static const char *ink_on(const heat *t, int level)
{
    char ink[8];
    colour_of(t, (double)level / (LEVELS - 1), ink);
    return luminance(ink) + 0.05 > 0.2291 ? "#000" : "#fff";
}

static void put_numbers(heat *t)
{
    const mf_heat *h = t->h;
    const double size = NUMBER;
    if (!has_numbers(t)) return;
    for (int white = 0; white < 2; white++) {
        mf_doc_printf(t->d, "<g font-size=\"%.0f\" text-anchor=\"middle\" fill=\"%s\">\n", size,
                      white ? "#fff" : "#000");
        for (int i = 0; i < h->rows * h->columns; i++) {
            char text[24];
            const double v = h->values[i];
            int level;
            if (!level_at(t, i / h->columns, i % h->columns, &level) ||
                white != (strcmp(ink_on(t, level), "#fff") == 0))
                continue;
            snprintf(text, sizeof text, fabs(v) < 1 ? "%.2f" : "%.3g", v);
            mf_doc_printf(t->d, "<text x=\"%.4g\" y=\"%.4g\">%s</text>\n",
                          t->box.left + (i % h->columns + 0.5) * t->cell_w,
                          row_top(t, i / h->columns) + t->cell_h / 2 + size * 0.35,
                          strncmp(text, "0.", 2) == 0 ? text + 1 : text);
        }
        mf_doc_put(t->d, "</g>\n");
    }
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

/* Writes the labels. If the cells are too small for all labels, only every second, third, ...
 * label is written. Horizontal column labels always fit. */
static void put_labels(heat *t)
{
    const mf_heat *h = t->h;
    const mf_box *b = &t->box;
    const int every = (int)ceil(MF_FONT / t->cell_h),
              every_column = (int)ceil((MF_FONT - 1) / t->cell_w);
    mf_doc_put(t->d, "<g text-anchor=\"end\">\n");
    /* "start" writes no anchor attribute, so the anchor of the group applies */
    for (int r = 0; h->row_labels && r < h->rows; r += every)
        mf_svg_text(t->d, b->left - 6, row_top(t, r) + t->cell_h / 2 + MF_FONT * 0.35, "start",
                    h->row_labels[r]);
    mf_doc_put(t->d, "</g>\n");
    if (h->column_labels && upright(t)) {
        mf_doc_put(t->d, "<g text-anchor=\"end\" transform=\"rotate(-90)\">\n");
        for (int c = 0; c < h->columns; c += every_column)
            mf_svg_text(t->d, -b->bottom - 5, b->left + (c + 0.5) * t->cell_w + MF_FONT * 0.35,
                        "start", h->column_labels[c]);
        mf_doc_put(t->d, "</g>\n");
    }
    for (int c = 0; h->column_labels && !upright(t) && c < h->columns; c++)
        mf_svg_text(t->d, b->left + (c + 0.5) * t->cell_w, b->bottom + 3 + MF_FONT, "middle",
                    h->column_labels[c]);
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

/* The scale of shares. Its ticks are at the even share, at its double and half, and so on. */
static mf_scale ratio_scale(const heat *t)
{
    mf_scale s = {.lo = t->lo, .hi = t->hi, .log = true};
    for (double v = t->lo; v < t->hi * 1.01; v *= 2)
        s.tick[s.n_ticks++] = v;
    return s;
}

static void colour_bar(heat *t)
{
    const mf_box *b = &t->box;
    const double x = b->right + BAR_WIDTH, all = b->bottom - b->top, height = fmin(all, 160);
    const int steps = 9; /* number of colours of the bar */
    char ink[8], text[24];
    mf_doc_printf(t->d, "<g stroke-width=\"%.0f\" shape-rendering=\"crispEdges\">\n",
                  BAR_WIDTH);
    for (int i = 0; i < steps; i++) {
        colour_of(t, (i + 0.5) / steps, ink);
        const double top = b->top + height * (1 - (i + 1.0) / steps);
        mf_doc_printf(t->d, "<path stroke=\"%s\" d=\"M%.0f %.1fv%.1f\"/>\n", ink,
                      x + BAR_WIDTH / 2, top, height / steps + 0.3);
    }
    mf_doc_put(t->d, "</g>\n");
    mf_scale s = t->h->even > 0 ? ratio_scale(t)
                                : mf_scale_make((mf_range){t->lo, t->hi}, false, true, true,
                                                height < 60 ? 2 : 4);
    s.from = b->top + height;
    s.to = b->top;
    for (int i = 0; i < s.n_ticks; i++) {
        /* shares need two digits; more digits would not fit beside the bar */
        if (t->h->even > 0)
            snprintf(text, sizeof text, "%.2g", s.tick[i]);
        else
            mf_tick_text(&s, s.tick[i], text);
        mf_svg_text(t->d, x + BAR_WIDTH + 5, mf_scale_position(&s, s.tick[i]) + MF_FONT * 0.35,
                    "start", text);
    }
    if (!t->h->scale_label) return;
    const double half = mf_text_width(t->h->scale_label) / 2;
    if (t->label_above)
        mf_svg_text(t->d, t->width - 6, MF_FONT + 2, "end", t->h->scale_label);
    else
        mf_svg_text_up(t->d, x + BAR_WIDTH + 44 + MF_FONT, b->top + fmax(height / 2, half),
                       t->h->scale_label);
}

void mf_svg_heat(mf_doc *d, const mf_heat *h)
{
    heat t = {.d = d, .h = h};
    double width, height;
    find_scale(&t);
    lay_out(&t, &width, &height);
    t.width = width;
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
