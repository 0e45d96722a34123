/* The common parts of all plots: colours, text, axes, legend. Text is always escaped, and
 * coordinates have at most two decimals. So equal data result in equal bytes. */
#include "report/svg/svg_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- colours ---- */

const char *mf_colour(int i)
{
    /* These colours are distinct for the three common kinds of colour blindness, and of medium
     * lightness. Their contrast to the page is 3 or more with light and with dark colours of
     * the page. */
    static const char *const inks[] = {"#3b78c2", "#c77a00", "#1a9e77", "#c8453b",
                                       "#9b6bc3", "#2f97c1", "#8a7a2f", "#888888"};
    return inks[(i % 8 + 8) % 8];
}

static void between(const unsigned char *a, const unsigned char *b, double t, char out[8])
{
    int c[3];
    for (int i = 0; i < 3; i++)
        c[i] = (int)lround(a[i] + t * (b[i] - a[i]));
    snprintf(out, 8, "#%02x%02x%02x", c[0] & 255, c[1] & 255, c[2] & 255);
}

static void along(const unsigned char (*stops)[3], int n, double t, char out[8])
{
    if (!(t > 0)) t = 0; /* this includes NaN */
    if (t > 1) t = 1;
    int i = (int)(t * (n - 1));
    if (i > n - 2) i = n - 2;
    between(stops[i], stops[i + 1], t * (n - 1) - i, out);
}

void mf_colour_scale(double t, char out[8])
{
    /* Lightness rises evenly from .22 to .94 (OKLCH) while the hue changes from blue
     * to yellow. */
    static const unsigned char stops[][3] = {
        {0x19, 0x17, 0x31}, {0x18, 0x28, 0x55}, {0x00, 0x40, 0x76}, {0x00, 0x5c, 0x8e},
        {0x00, 0x7a, 0x97}, {0x00, 0x95, 0x93}, {0x00, 0xad, 0x88}, {0x4f, 0xbf, 0x7f},
        {0x99, 0xce, 0x84}, {0xce, 0xdc, 0x9d}, {0xf3, 0xed, 0xc7}};
    along(stops, 11, t, out);
}

void mf_colour_diverging(double t, char out[8])
{
    static const unsigned char stops[][3] = {{0x1d, 0x4f, 0x91},
                                             {0x7d, 0xa7, 0xd6},
                                             {0xf2, 0xf0, 0xec},
                                             {0xe3, 0x9a, 0x6b},
                                             {0x9c, 0x3d, 0x12}};
    along(stops, 5, t, out);
}

/* ---- marks ---- */

double mf_text_width(const char *text)
{
    double n = 0;
    for (; *text != '\0'; text++)
        if (((unsigned char)*text & 0xC0) != 0x80)
            n += strchr("il.,:;'|! ", *text) ? 0.34 : 0.62;
    return n * MF_FONT;
}

const char *mf_text_fit(const char *text, double width, char out[MF_FIT])
{
    if (mf_text_width(text) <= width) return text;
    snprintf(out, MF_FIT - 3, "%s", text);
    size_t n = strlen(out);
    for (; n > 0; n--) {
        if (((unsigned char)text[n] & 0xC0) == 0x80) continue; /* inside a character */
        out[n] = '\0';
        if (mf_text_width(out) + 0.62 * MF_FONT <= width) break;
    }
    memcpy(out + n, "\xe2\x80\xa6", 4);
    return out;
}

void mf_svg_begin(mf_doc *d, double width, double height, const char *title)
{
    mf_doc_printf(d,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                  "width=\"%.0f\" height=\"%.0f\" role=\"img\" fill=\"none\"><title>",
                  width, height, width, height);
    mf_doc_text(d, title ? title : "");
    mf_doc_put(d, "</title>\n");
}

void mf_svg_end(mf_doc *d)
{
    mf_doc_put(d, "</svg>\n");
}

void mf_svg_tip(mf_doc *d, const char *name, const char *fmt, ...)
{
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mf_doc_put(d, "<title>");
    if (name) {
        mf_doc_text(d, name);
        mf_doc_put(d, ": ");
    }
    mf_doc_text(d, text);
    mf_doc_put(d, "</title>");
}

void mf_svg_text(mf_doc *d, double x, double y, const char *anchor, const char *text)
{
    mf_doc_put(d, "<text x=\"");
    mf_doc_number(d, round(10 * x) / 10);
    mf_doc_put(d, "\" y=\"");
    mf_doc_number(d, round(10 * y) / 10);
    mf_doc_printf(d, strcmp(anchor, "start") == 0 ? "\">" : "\" text-anchor=\"%s\">", anchor);
    mf_doc_text(d, text);
    mf_doc_put(d, "</text>\n");
}

void mf_svg_text_up(mf_doc *d, double x, double y, const char *text)
{
    mf_doc_printf(d,
                  "<text transform=\"translate(%.1f %.1f) rotate(-90)\" "
                  "text-anchor=\"middle\">",
                  x, y);
    mf_doc_text(d, text);
    mf_doc_put(d, "</text>\n");
}

void mf_svg_line(mf_doc *d, double x1, double y1, double x2, double y2, const char *style)
{
    mf_doc_put(d, "<path d=\"M");
    mf_doc_number(d, x1);
    mf_doc_put(d, " ");
    mf_doc_number(d, y1);
    mf_doc_put(d, "L");
    mf_doc_number(d, x2);
    mf_doc_put(d, " ");
    mf_doc_number(d, y2);
    mf_doc_printf(d, "\" %s/>\n", style);
}

/* ---- axes ---- */

#define GRID "stroke=\"currentColor\" stroke-opacity=\".13\""
#define AXIS "stroke=\"currentColor\" stroke-opacity=\".55\""

double mf_ticks_width(const mf_scale *s)
{
    double widest = 0;
    char text[24];
    for (int i = 0; i < s->n_ticks; i++)
        widest = fmax(widest, mf_text_width(mf_tick_text(s, s->tick[i], text)));
    return widest;
}

/* Opens the group of an axis (class x, y, or z for the right axis), and its path, which
 * contains all lines of the axis. */
static void open_axis(mf_doc *d, const char *class, const char *anchor)
{
    mf_doc_printf(d, "<g class=\"%s\" text-anchor=\"%s\">\n<path d=\"", class, anchor);
}

static void point(mf_doc *d, const char *command, double x, double y)
{
    mf_doc_put(d, command);
    mf_doc_number(d, x);
    mf_doc_put(d, " ");
    mf_doc_number(d, y);
}

/* Writes the text beside a tick, with the anchor of the axis. */
static void tick_text(mf_doc *d, const mf_scale *s, int i, double x, double y)
{
    char text[24];
    mf_doc_printf(d, "<text x=\"%.4g\" y=\"%.4g\">", x, y);
    mf_doc_text(d, mf_tick_text(s, s->tick[i], text));
    mf_doc_put(d, "</text>\n");
}

void mf_svg_axis_x(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label)
{
    open_axis(d, "x", "middle");
    for (int i = 0; i < s->n_ticks; i++) {
        point(d, "M", mf_scale_position(s, s->tick[i]), b->bottom);
        mf_doc_put(d, "v4");
    }
    point(d, "M", b->left, b->bottom);
    mf_doc_put(d, "H");
    mf_doc_number(d, b->right);
    mf_doc_put(d, "\" " AXIS "/>\n");
    for (int i = 0; i < s->n_ticks; i++)
        tick_text(d, s, i, mf_scale_position(s, s->tick[i]), b->bottom + 4 + MF_FONT);
    if (label) {
        mf_doc_printf(d, "<text class=\"t\" x=\"%.4g\" y=\"%.4g\">", (b->left + b->right) / 2,
                      b->bottom + 8 + 2.2 * MF_FONT);
        mf_doc_text(d, label);
        mf_doc_put(d, "</text>\n");
    }
    mf_doc_put(d, "</g>\n");
}

void mf_svg_axis_y(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label)
{
    open_axis(d, "y", "end");
    for (int i = 0; i < s->n_ticks; i++) {
        point(d, "M", b->left, mf_scale_position(s, s->tick[i]));
        mf_doc_put(d, "H");
        mf_doc_number(d, b->right);
    }
    mf_doc_put(d, "\" " GRID "/>\n");
    for (int i = 0; i < s->n_ticks; i++)
        tick_text(d, s, i, b->left - 6, mf_scale_position(s, s->tick[i]) + MF_FONT * 0.35);
    mf_doc_put(d, "</g>\n");
    if (label)
        mf_svg_text_up(d, b->left - 13 - mf_ticks_width(s), (b->top + b->bottom) / 2, label);
}

void mf_svg_axis_right(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label)
{
    open_axis(d, "z", "start");
    for (int i = 0; i < s->n_ticks; i++) {
        point(d, "M", b->right, mf_scale_position(s, s->tick[i]));
        mf_doc_put(d, "h4");
    }
    point(d, "M", b->right, b->top);
    mf_doc_put(d, "V");
    mf_doc_number(d, b->bottom);
    mf_doc_put(d, "\" " AXIS "/>\n");
    for (int i = 0; i < s->n_ticks; i++)
        tick_text(d, s, i, b->right + 7, mf_scale_position(s, s->tick[i]) + MF_FONT * 0.35);
    mf_doc_put(d, "</g>\n");
    if (label)
        mf_svg_text_up(d, b->right + 10 + mf_ticks_width(s) + MF_FONT, (b->top + b->bottom) / 2,
                       label);
}

/* ---- legend ---- */

static void swatch(mf_doc *d, double x, double y, const mf_legend_item *item)
{
    if (item->square)
        mf_doc_printf(d,
                      "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\"/>\n",
                      x + 3, y - 9, item->ink);
    else
        mf_doc_printf(d, "<path d=\"M%.1f %.1fh18\" stroke=\"%s\" stroke-width=\"2.2\"%s/>\n",
                      x, y - 4, item->ink, item->dashed ? " stroke-dasharray=\"5 3\"" : "");
}

double mf_svg_legend(mf_doc *d, double x, double y, double width, int n,
                     const mf_legend_item *items)
{
    double at = 0, height = 0;
    for (int i = 0; i < n; i++) {
        if (!items[i].name) continue;
        const double w = 18 + 5 + mf_text_width(items[i].name) + 16;
        if (height == 0) height = MF_LINE;
        if (at > 0 && at + w > width + 16) {
            at = 0;
            height += MF_LINE;
        }
        if (d) {
            swatch(d, x + at, y + height - 5, &items[i]);
            char text[MF_FIT];
            mf_svg_text(d, x + at + 23, y + height - 5, "start",
                        mf_text_fit(items[i].name, width - at + 16 - 23, text));
        }
        at += w;
    }
    return height;
}
