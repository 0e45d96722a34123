/* report/svg/svg_parts.h: frame, axes, legend and marks of the plots. Only the files of
 * report/svg include it. */
#ifndef MF_REPORT_SVG_PARTS_H
#define MF_REPORT_SVG_PARTS_H

#include "report/svg/scale.h"
#include "report/svg/svg.h"

#define MF_FONT 12.0
#define MF_LINE (MF_FONT * 1.5)

typedef struct mf_box {
    double left, top, right, bottom;
} mf_box;

double mf_text_width(const char *text); /* approximate width in the font of the plots */
/* The text if it is not wider than the limit; else its beginning and three points, in `out`. */
#define MF_FIT 128
const char *mf_text_fit(const char *text, double width, char out[MF_FIT]);
void mf_svg_begin(mf_doc *d, double width, double height, const char *title);
void mf_svg_end(mf_doc *d);
/* Appends the title of the open mark: "NAME: TEXT", or only the text if name is NULL. */
void mf_svg_tip(mf_doc *d, const char *name, const char *fmt, ...) MF_PRINTF(3, 4);
/* Writes a text at a point. anchor: "start", which is the default of the group, "middle"
 * or "end". */
void mf_svg_text(mf_doc *d, double x, double y, const char *anchor, const char *text);
void mf_svg_text_up(mf_doc *d, double x, double y, const char *text); /* vertical, upwards */
void mf_svg_line(mf_doc *d, double x1, double y1, double x2, double y2, const char *style);
/* Width of the widest tick label. */
double mf_ticks_width(const mf_scale *s);
/* Draws ticks, grid lines and label of an axis of the box, in a group of class x, y, or z for
 * the right axis. The page's script redraws these groups when a reader changes the axes. */
void mf_svg_axis_x(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);
void mf_svg_axis_y(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);
void mf_svg_axis_right(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);

typedef struct mf_legend_item {
    const char *name, *ink;
    bool dashed, square;
} mf_legend_item;
/* Returns the height of the legend at this width. If d is not NULL, draws the legend with its
 * upper left corner at (x, y). Items without a name are skipped. */
double mf_svg_legend(mf_doc *d, double x, double y, double width, int n,
                     const mf_legend_item *items);

#endif
