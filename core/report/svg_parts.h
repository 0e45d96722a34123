/* report/svg_parts.h: inside the plots: the frame, axes, legend and marks they share. */
#ifndef MF_REPORT_SVG_PARTS_H
#define MF_REPORT_SVG_PARTS_H

#include "report/scale.h"
#include "report/svg.h"

#define MF_FONT 12.0
#define MF_LINE (MF_FONT * 1.5)

typedef struct mf_box {
    double left, top, right, bottom;
} mf_box;

double mf_text_width(const char *text); /* about, in the plots' font */
void mf_svg_begin(mf_doc *d, double width, double height, const char *title);
void mf_svg_end(mf_doc *d);
/* anchor: "start", "middle", "end". */
void mf_svg_text(mf_doc *d, double x, double y, const char *anchor, const char *text);
void mf_svg_text_up(mf_doc *d, double x, double y, const char *text); /* reads upwards */
void mf_svg_line(mf_doc *d, double x1, double y1, double x2, double y2, const char *style);
/* Width of the widest tick text. */
double mf_ticks_width(const mf_scale *s);
/* Ticks, grid and label of an axis of the box. */
void mf_svg_axis_x(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);
void mf_svg_axis_y(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);
void mf_svg_axis_right(mf_doc *d, const mf_box *b, const mf_scale *s, const char *label);

typedef struct mf_legend_item {
    const char *name, *ink;
    bool dashed, square;
} mf_legend_item;
/* Height that the legend takes within the width; draws it when d is not NULL, from (x, y). */
double mf_svg_legend(mf_doc *d, double x, double y, double width, int n,
                     const mf_legend_item *items);

#endif
