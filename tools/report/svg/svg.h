/* report/svg/svg.h: plots as SVG text: lines, points, bars, heat maps, histograms.
 *
 * Each function mf_svg_* of this file appends one <svg> element to a document, which records
 * failures. An image scales with its page. The page's style sets the text colour, so the image
 * is readable on light and dark backgrounds. Colour-blind readers can distinguish the 8
 * colours. Lines after the eighth that have no colour of their own are dashed. Titles and
 * labels are escaped. Values that are not finite are omitted. Each line, point, bar and area
 * has a title, which browsers show beside the pointer. */
#ifndef MF_REPORT_SVG_H
#define MF_REPORT_SVG_H

#include "report/page/doc.h"
#include <math.h>
#include <stdbool.h>

/* Width of a figure on a page. A telephone shows this width without shrinking its text. */
#define MF_FIGURE_WIDTH 360

/* ---- lines and points ---- */

typedef struct mf_series {
    const char *name; /* name in the legend; NULL: not listed */
    int n;
    const double *x, *y;
    /* interval in y: a band for a line, error bars for points; NULL: none */
    const double *lo, *hi;
    const char *const *labels; /* a label for each point; NULL: none */
    bool points;               /* draw marks instead of a line */
    bool dashed, thin;
    bool filled;     /* fill the area below the line, which begins and ends at 0 */
    bool right;      /* use the right axis */
    int run;         /* run of the page to which the series belongs, from 1; 0: the first run */
    int colour;      /* mf_colour(colour - 1), from 1; 0: by position in the list */
    const char *ink; /* "#rrggbb", replaces colour; NULL: none */
} mf_series;

typedef struct mf_level { /* a horizontal line across the plot */
    double y;
    const char *name;
} mf_level;

typedef struct mf_plot {
    const char *title; /* for screen readers; the visible caption belongs to the page */
    const char *x_label, *y_label, *right_label; /* labels of the axes; NULL: none */
    /* noun for a series in titles, if its name does not contain one: "expert" */
    const char *kind;
    int width, height;            /* 0: 640 x 300 */
    bool log_x, log_y, log_right; /* an axis of values that are not all above 0 is linear */
    bool from_zero;               /* the y axis begins at 0 */
    double y_lo, y_hi;            /* fixed ends of the y axis if y_lo < y_hi */
    int n_series, n_levels;
    const mf_series *series;
    const mf_level *levels;
} mf_plot;
void mf_svg_plot(mf_doc *d, const mf_plot *p);

/* ---- bars ---- */

typedef struct mf_bars {
    const char *title, *y_label;
    const char *group; /* noun for a group, below the axis and in titles: "expert";
                        * NULL: none */
    int width, height;
    int n_groups, n_series;    /* n_series: number of bars side by side within a group */
    const char *const *groups; /* [n_groups] labels below the axis */
    const char *const *series; /* [n_series] names for the legend; NULL if there is
                                * one series */
    const double *values;      /* [n_series, n_groups]; if a value is not finite, its bar
                                * is omitted */
    const double *lo, *hi;     /* [n_series, n_groups] ends of error bars; NULL: none */
    const mf_level *level;     /* a line across the plot; NULL: none */
    bool by_group;             /* for one series: each group has its own colour */
    /* a logarithmic axis, with points instead of bars, because lengths of bars have no meaning
     * on it; values <= 0 are omitted */
    bool log;
} mf_bars;
void mf_svg_bars(mf_doc *d, const mf_bars *b);

/* Areas stacked on one another over the steps, the first series at the bottom. */
typedef struct mf_stack {
    const char *title, *x_label, *y_label;
    int width, height;
    double top;               /* upper end of the y axis */
    int n, n_series;          /* at most 16 series */
    const double *x;          /* [n] rising */
    const char *const *names; /* [n_series] */
    const double *values;     /* [n_series, n] */
} mf_stack;
void mf_svg_stack(mf_doc *d, const mf_stack *s);

/* Histograms with equal bins, drawn as outlines, with several series in one plot. */
typedef struct mf_histogram {
    const char *title, *x_label, *y_label;
    int width, height, bins; /* bins 0: 40 bins */
    int n_series;
    const char *const *names;    /* [n_series] or NULL */
    const double *const *values; /* [n_series], each [n[i]] */
    const int *n;
} mf_histogram;
void mf_svg_histogram(mf_doc *d, const mf_histogram *h);

/* ---- heat maps ---- */

typedef struct mf_heat {
    const char *title, *x_label, *y_label, *scale_label;
    int width, height; /* 0: chosen from the number of cells */
    double row_height; /* height of a matrix row if height is 0; 0: chosen from `rows` */
    int rows, columns;
    /* [rows, columns]; row 0 is at the top, or at the bottom if y_up */
    const double *values;
    double lo, hi; /* ends of the scale; if lo >= hi, they are found in the values */
    /* > 0: the values are shares, and this is the even share. Colours show the ratio to the
     * even share on a diverging scale from a quarter to 4 times. So equal ratios have equal
     * colours in all maps with this field. lo, hi and diverging are ignored. */
    double even;
    const char *const *row_labels;    /* [rows] or NULL */
    const char *const *column_labels; /* [columns] or NULL */
    const double *x, *y;              /* [columns], [rows]: values for numeric axes;
                                       * NULL: none */
    /* [rows, columns]: cells with a value other than 0 get a dot; NULL: none */
    const unsigned char *marks;
    /* [columns]: group of each column, shown as a coloured band; -1: no group; NULL: none */
    const int *column_groups;
    int n_groups;
    const char *const *groups; /* [n_groups] names */
    bool y_up;                 /* row 0 is at the bottom */
    bool numbers;              /* write the value into each cell */
    bool diverging;            /* two colours that meet in the middle of the scale */
} mf_heat;
void mf_svg_heat(mf_doc *d, const mf_heat *h);

/* ---- colours ---- */
const char *mf_colour(int i);                /* returns "#rrggbb"; i from 0; colours repeat
                                              * after the last */
void mf_colour_scale(double t, char out[8]); /* colour of t in 0 .. 1, from dark to light */
void mf_colour_diverging(double t, char out[8]);

#endif
