/* Plots of lines, bands and points with two or three axes. Points that are not finite interrupt
 * a line; they never extend an axis. */
#include "report/svg/svg_parts.h"

#include <stdio.h>
#include <string.h>

#define MAX_SERIES 64

typedef struct plot {
    mf_doc *d;
    const mf_plot *p;
    mf_box box;
    mf_scale x, y, right;
    bool has_right;
    mf_legend_item legend[MAX_SERIES + 8];
    int n_legend;
    mf_box label[MAX_SERIES]; /* areas occupied by the labels of points */
    mf_box mark[MAX_SERIES];  /* points that have labels, in the order of the series */
    int n_labels, n_marks;
} plot;

static const char *ink_of(const mf_plot *p, int i)
{
    const mf_series *s = &p->series[i];
    return s->ink ? s->ink : mf_colour(s->colour > 0 ? s->colour - 1 : i);
}

static bool dashed(const mf_plot *p, int i)
{
    return p->series[i].dashed || (!p->series[i].ink && p->series[i].colour == 0 && i >= 8);
}

static int series_count(const mf_plot *p)
{
    return p->n_series < MAX_SERIES ? p->n_series : MAX_SERIES;
}

/* ---- layout ---- */

static void find_ranges(const mf_plot *p, mf_range *x, mf_range *y, mf_range *right)
{
    *x = *y = *right = mf_range_empty();
    for (int i = 0; i < series_count(p); i++) {
        const mf_series *s = &p->series[i];
        mf_range *r = s->right ? right : y;
        for (int k = 0; k < s->n; k++) {
            mf_range_add(x, s->x[k]);
            mf_range_add(r, s->y[k]);
            if (s->lo) mf_range_add(r, s->lo[k]);
            if (s->hi) mf_range_add(r, s->hi[k]);
        }
    }
    for (int i = 0; i < p->n_levels; i++)
        mf_range_add(y, p->levels[i].y);
    if (p->from_zero) mf_range_add(y, 0);
    if (p->y_lo < p->y_hi) *y = (mf_range){p->y_lo, p->y_hi};
    /* A single x value, such as one step, does not determine a range. So the x axis then begins
     * at 0. */
    if (x->lo == x->hi && x->lo > 0 && !p->log_x) x->lo = 0;
}

static void make_scales(plot *t)
{
    const mf_plot *p = t->p;
    mf_range x, y, right;
    bool all_points = true;
    find_ranges(p, &x, &y, &right);
    for (int i = 0; i < series_count(p); i++)
        if (!p->series[i].points) all_points = false;
    const bool fixed = p->y_lo < p->y_hi;
    t->x = mf_scale_make(x, p->log_x, !all_points, !all_points, 6);
    t->y = mf_scale_make(y, p->log_y, fixed, fixed, 5);
    t->has_right = right.lo <= right.hi;
    t->right = mf_scale_make(right, p->log_right, false, false, 5);
}

static void collect_legend(plot *t)
{
    static const mf_legend_item level = {NULL, "currentColor", true, false};
    for (int i = 0; i < series_count(t->p); i++)
        t->legend[t->n_legend++] = (mf_legend_item){t->p->series[i].name, ink_of(t->p, i),
                                                    dashed(t->p, i), t->p->series[i].points};
    for (int i = 0; i < t->p->n_levels && i < 8; i++) {
        t->legend[t->n_legend] = level;
        t->legend[t->n_legend++].name = t->p->levels[i].name;
    }
}

static void lay_out(plot *t, double width, double height)
{
    const mf_plot *p = t->p;
    mf_box *b = &t->box;
    b->left = 13 + mf_ticks_width(&t->y) + (p->y_label ? MF_LINE : 0);
    /* half of the last label of the x axis stands behind its tick */
    b->right = width - fmax(14, mf_ticks_width(&t->x) / 2 + 2);
    if (t->has_right)
        b->right -= mf_ticks_width(&t->right) + 4 + (p->right_label ? MF_LINE : 0);
    b->top = 10 + mf_svg_legend(NULL, 0, 0, b->right - b->left, t->n_legend, t->legend);
    b->bottom = height - 8 - MF_LINE - (p->x_label ? MF_LINE : 0);
    t->x.from = b->left;
    t->x.to = b->right;
    t->y.from = t->right.from = b->bottom;
    t->y.to = t->right.to = b->top;
}

/* ---- series ---- */

typedef struct pen {
    bool down;
    long x, y; /* position of the pen, in hundredths */
} pen;

/* Moves or draws to a point. Coordinates are relative to the last point and in hundredths, so
 * that rounding errors do not add up. The group of the lines scales them, and the page's script
 * reads values back from them. */
static void pen_to(mf_doc *d, pen *at, double x, double y)
{
    const long px = lround(100 * x), py = lround(100 * y);
    if (at->down && px == at->x && py == at->y) return;
    const long to_x = at->down ? px - at->x : px, to_y = at->down ? py - at->y : py;
    mf_doc_printf(d, to_y < 0 ? "%c%ld%ld" : "%c%ld %ld", at->down ? 'l' : 'M', to_x, to_y);
    *at = (pen){true, px, py};
}

/* Appends the line through all finite points. If many points share a pixel column, only the
 * first, lowest, highest and last of them are drawn. The picture is the same. */
static void path_of(plot *t, const mf_scale *y, int n, const double *xs, const double *ys)
{
    pen at = {0};
    for (int i = 0; i < n;) {
        if (!isfinite(ys[i]) || !isfinite(xs[i])) {
            at.down = false;
            i++;
            continue;
        }
        const double x = mf_scale_position(&t->x, xs[i]);
        int lowest = i, highest = i, last = i, k = i + 1;
        for (; k < n && isfinite(ys[k]) && fabs(mf_scale_position(&t->x, xs[k]) - x) < 0.5;
             k++) {
            if (ys[k] < ys[lowest]) lowest = k;
            if (ys[k] > ys[highest]) highest = k;
            last = k;
        }
        const int order[] = {i, lowest < highest ? lowest : highest,
                             lowest < highest ? highest : lowest, last};
        for (int j = 0; j < 4; j++) {
            if (j > 0 && order[j] == order[j - 1]) continue;
            pen_to(t->d, &at, mf_scale_position(&t->x, xs[order[j]]),
                   mf_scale_position(y, ys[order[j]]));
        }
        i = k;
    }
}

static void band(plot *t, const mf_series *s, const mf_scale *y, const char *ink)
{
    pen at = {0};
    mf_doc_put(t->d, "<path d=\"");
    for (int i = 0; i < 2 * s->n; i++) {
        const int k = i < s->n ? i : 2 * s->n - 1 - i; /* the second half goes backwards along
                                                        * the lower edge */
        if (isfinite(s->hi[k]) && isfinite(s->lo[k]))
            pen_to(t->d, &at, mf_scale_position(&t->x, s->x[k]),
                   mf_scale_position(y, i < s->n ? s->hi[k] : s->lo[k]));
    }
    mf_doc_printf(t->d, "%s\" fill=\"%s\" fill-opacity=\".18\"/>\n", at.down ? "Z" : "", ink);
}

static bool overlap(const mf_box *a, const mf_box *b)
{
    return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

/* Distance from an area to a point; 0 if the point is inside. */
static double distance(const mf_box *b, double x, double y)
{
    return hypot(fmax(fmax(b->left - x, x - b->right), 0),
                 fmax(fmax(b->top - y, y - b->bottom), 0));
}

/* Whether a label fits in this area: it must be inside the plot, and must cover no other label
 * and no point. alone: no other point may be as near as its own point, which is mark m. */
static bool may_stand(const plot *t, const mf_box *box, int m, bool alone)
{
    const mf_box *in = &t->box, *own = &t->mark[m];
    const double x = (own->left + own->right) / 2, y = (own->top + own->bottom) / 2;
    if (box->left < in->left || box->right > in->right || box->top < in->top ||
        box->bottom > in->bottom)
        return false;
    for (int i = 0; i < t->n_labels; i++)
        if (overlap(box, &t->label[i])) return false;
    for (int i = 0; i < t->n_marks; i++) {
        const mf_box *other = &t->mark[i];
        if (overlap(box, other)) return false;
        if (alone && i != m &&
            distance(box, (other->left + other->right) / 2, (other->top + other->bottom) / 2) <
                distance(box, x, y) + 3)
            return false;
    }
    return true;
}

/* Places the label of mark m at the first of four corners at which no other point is as near,
 * or farther up or down. If there is no such place, the label is written in a free place, and a
 * line connects it with its point. The end of the text at the point is fixed, because the
 * width of a text depends on the reader's font; the place for it is a tenth wider. */
static void put_label(plot *t, int m, const char *text, const char *ink)
{
    static const int sides[4][2] = {{1, -1}, {1, 1}, {-1, -1}, {-1, 1}};
    enum { AWAY = 16 };
    const double w = 1.1 * mf_text_width(text), px = (t->mark[m].left + t->mark[m].right) / 2,
                 py = (t->mark[m].top + t->mark[m].bottom) / 2;
    mf_box box = {0};
    bool found = false, alone = true;
    for (int try = 0; try < 2 * 4 * AWAY && !found; try++) {
        const int *side = sides[try % 4], away = try / 4 % AWAY;
        const double left = side[0] > 0 ? px + 7 : px - 7 - w,
                     middle = py + side[1] * (9 + 12 * away);
        alone = try < 4 * AWAY && away < 3;
        box = (mf_box){left, middle - MF_FONT / 2, left + w, middle + MF_FONT / 2};
        if (alone || try >= 4 * AWAY) found = may_stand(t, &box, m, alone);
    }
    if (t->n_labels < MAX_SERIES) t->label[t->n_labels++] = box;
    if (!alone) {
        char style[64];
        snprintf(style, sizeof style, "class=\"lead\" stroke=\"%s\" stroke-width=\".8\"", ink);
        mf_svg_line(t->d, px, py, box.left > px ? box.left - 1 : box.right + 1,
                    (box.top + box.bottom) / 2, style);
    }
    const bool right = box.left > px;
    mf_svg_text(t->d, right ? box.left : box.right, box.bottom - 2, right ? "start" : "end",
                text);
}

/* Writes all labels after the points, because the places of all points must be known. */
static void put_labels(plot *t)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0, m = 0; i < series_count(t->p); i++) {
            const mf_series *s = &t->p->series[i];
            const mf_scale *scale = s->right ? &t->right : &t->y;
            for (int k = 0; s->points && s->labels && k < s->n && m < MAX_SERIES; k++) {
                if (!isfinite(s->x[k]) || !isfinite(s->y[k])) continue;
                const double x = mf_scale_position(&t->x, s->x[k]),
                             y = mf_scale_position(scale, s->y[k]);
                if (pass == 0)
                    t->mark[t->n_marks++] = (mf_box){x - 5, y - 5, x + 5, y + 5};
                else
                    put_label(t, m, s->labels[k], ink_of(t->p, i));
                m++;
            }
        }
}

static const char *y_name(const mf_plot *p, const mf_series *s)
{
    const char *label = s->right ? p->right_label : p->y_label;
    return label ? label : "y";
}

/* Writes the title of a line: its name, its last point, and the lowest and highest value. */
static void line_tip(const plot *t, const mf_series *s)
{
    mf_range r = mf_range_empty();
    int last = -1;
    for (int i = 0; i < s->n; i++) {
        if (!isfinite(s->x[i]) || !isfinite(s->y[i])) continue;
        mf_range_add(&r, s->y[i]);
        last = i;
    }
    if (last < 0) return;
    char name[96];
    if (s->name && t->p->kind) snprintf(name, sizeof name, "%s %s", t->p->kind, s->name);
    mf_svg_tip(t->d, s->name && t->p->kind ? name : s->name,
               "%s %.5g at %s %.6g; from %.5g to %.5g", y_name(t->p, s), s->y[last],
               t->p->x_label ? t->p->x_label : "x", s->x[last], r.lo, r.hi);
}

static void put_points(plot *t, const mf_series *s, const mf_scale *y, const char *ink)
{
    char style[64];
    snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"1.4\"", ink);
    mf_doc_put(t->d, s->labels ? "<g>\n" : "<g class=\"c\">\n");
    for (int k = 0; k < s->n; k++) {
        if (!isfinite(s->x[k]) || !isfinite(s->y[k])) continue;
        const double px = mf_scale_position(&t->x, s->x[k]), py = mf_scale_position(y, s->y[k]);
        if (s->lo && s->hi && isfinite(s->lo[k]) && isfinite(s->hi[k]))
            mf_svg_line(t->d, px, mf_scale_position(y, s->lo[k]), px,
                        mf_scale_position(y, s->hi[k]), style);
        mf_doc_printf(t->d, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\">", px, py,
                      ink);
        mf_svg_tip(t->d, s->labels ? s->labels[k] : s->name, "%s %.6g, %s %.5g",
                   t->p->x_label ? t->p->x_label : "x", s->x[k], y_name(t->p, s), s->y[k]);
        mf_doc_put(t->d, "</circle>\n");
    }
    mf_doc_put(t->d, "</g>\n");
}

static void put_line(plot *t, int i)
{
    const mf_series *s = &t->p->series[i];
    const mf_scale *y = s->right ? &t->right : &t->y;
    const char *ink = ink_of(t->p, i);
    if (s->lo && s->hi) band(t, s, y, ink);
    mf_doc_put(t->d, "<path d=\"");
    path_of(t, y, s->n, s->x, s->y);
    mf_doc_printf(t->d, "\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s", ink,
                  s->thin ? "100" : "180",
                  dashed(t->p, i) ? " stroke-dasharray=\"500 300\"" : "");
    if (s->filled) mf_doc_printf(t->d, " fill=\"%s\" fill-opacity=\".18\"", ink);
    mf_doc_printf(t->d, " class=\"s%s\"", s->right ? " r" : "");
    if (s->run > 1) mf_doc_printf(t->d, " data-u=\"%d\"", s->run - 1);
    mf_doc_put(t->d, ">");
    line_tip(t, s);
    mf_doc_put(t->d, "</path>\n");
}

/* Draws the levels in the group of the lines, with coordinates in hundredths. */
static void put_levels(plot *t)
{
    for (int i = 0; i < t->p->n_levels; i++) {
        const mf_level *l = &t->p->levels[i];
        if (!isfinite(l->y)) continue;
        const long y = lround(100 * mf_scale_position(&t->y, l->y)),
                   left = lround(100 * t->box.left), right = lround(100 * t->box.right);
        mf_doc_printf(t->d,
                      "<path class=\"l\" d=\"M%ld %ldl%ld 0\" stroke=\"currentColor\" "
                      "stroke-width=\"140\" stroke-dasharray=\"500 300\">",
                      left, y, right - left);
        mf_svg_tip(t->d, l->name, "%.5g", l->y);
        mf_doc_put(t->d, "</path>\n");
    }
}

/* Opens the group of lines. data-p contains the scale of coordinates for the page's script: the
 * box; the ends of the x axis; the ends of the y axis, and whether it is logarithmic; the same
 * for the right axis. If the x axis is logarithmic, points only have titles. */
static void open_lines(plot *t)
{
    const mf_box *b = &t->box;
    mf_doc_put(t->d, "<g transform=\"scale(.01)\"");
    if (!t->x.log) {
        mf_doc_printf(t->d, " data-p=\"%.5g %.5g %.5g %.5g %.9g %.9g %.9g %.9g %d", b->left,
                      b->top, b->right, b->bottom, t->x.lo, t->x.hi, t->y.lo, t->y.hi,
                      t->y.log);
        if (t->has_right)
            mf_doc_printf(t->d, " %.9g %.9g %d", t->right.lo, t->right.hi, t->right.log);
        mf_doc_put(t->d, "\"");
    }
    mf_doc_put(t->d, ">\n");
}

void mf_svg_plot(mf_doc *d, const mf_plot *p)
{
    const double width = p->width > 0 ? p->width : 640,
                 height = p->height > 0 ? p->height : 300;
    plot t = {.d = d, .p = p};
    make_scales(&t);
    collect_legend(&t);
    lay_out(&t, width, height);
    mf_svg_begin(d, width, height, p->title);
    mf_svg_legend(d, t.box.left, 2, t.box.right - t.box.left, t.n_legend, t.legend);
    mf_svg_axis_y(d, &t.box, &t.y, p->y_label);
    mf_svg_axis_x(d, &t.box, &t.x, p->x_label);
    if (t.has_right) mf_svg_axis_right(d, &t.box, &t.right, p->right_label);
    open_lines(&t);
    put_levels(&t);
    for (int i = 0; i < series_count(p); i++)
        if (!p->series[i].points) put_line(&t, i);
    mf_doc_put(d, "</g>\n");
    for (int i = 0; i < series_count(p); i++)
        if (p->series[i].points)
            put_points(&t, &p->series[i], p->series[i].right ? &t.right : &t.y, ink_of(p, i));
    put_labels(&t);
    mf_svg_end(d);
}
