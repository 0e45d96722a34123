/* report/svg.h: plots as SVG text: lines, points, bars, heat maps, histograms.
 *
 * Every function appends one <svg> element. It scales with its page; its text takes the page's
 * ink (currentColor), so that it is readable on light and on dark ground. Colours are told
 * apart by the colour-blind too, and lines beyond the eighth are dashed. Titles and labels are
 * escaped. Values that are not finite are left out.
 */
#ifndef MF_REPORT_SVG_H
#define MF_REPORT_SVG_H

#include "report/doc.h"
#include <math.h>
#include <stdbool.h>

/* ---- lines and points ---- */

typedef struct mf_series {
    const char *name; /* for the legend; NULL: none */
    int n;
    const double *x, *y;
    const double *lo, *hi; /* y interval: a band behind lines, error bars at points; or NULL */
    const double *x_lo, *x_hi; /* points: x interval, or NULL */
    const char *const *labels; /* points: a word beside each, or NULL */
    bool points;               /* marks instead of a line */
    bool dashed, thin;
    bool right;      /* belongs to the right axis */
    int colour;      /* 1..: fixed; 0: by its place in the list */
    const char *ink; /* "#rrggbb": instead of colour; NULL */
} mf_series;

typedef struct mf_level { /* a horizontal line across the plot */
    double y;
    const char *name;
} mf_level;

typedef struct mf_plot {
    const char *title; /* read aloud, not drawn: captions belong to the page */
    const char *x_label, *y_label, *right_label; /* or NULL */
    int width, height;                           /* 0: 640 x 300 */
    bool log_x, log_y, log_right;
    bool from_zero;    /* the y axis begins at 0 */
    double y_lo, y_hi; /* fixed ends when y_lo < y_hi */
    int n_series, n_levels;
    const mf_series *series;
    const mf_level *levels;
} mf_plot;
void mf_svg_plot(mf_doc *d, const mf_plot *p);

/* ---- bars ---- */

typedef struct mf_bars {
    const char *title, *y_label;
    int width, height;
    int n_groups, n_series;    /* side by side within a group */
    const char *const *groups; /* [n_groups] below the axis */
    const char *const *series; /* [n_series] for the legend; NULL with one series */
    const double *values;      /* [n_series][n_groups] */
    const double *lo, *hi;     /* the same shape, error bars; or NULL */
    const mf_level *level;     /* or NULL */
    bool by_group;             /* one series: a colour a group */
} mf_bars;
void mf_svg_bars(mf_doc *d, const mf_bars *b);

/* Parts of a whole over the steps: areas on top of one another, the first at the bottom. */
typedef struct mf_stack {
    const char *title, *x_label, *y_label;
    int width, height;
    double top;      /* of the y axis: the whole */
    int n, n_series; /* at most 16 series */
    const double *x; /* [n] rising */
    const char *const *names; /* [n_series] */
    const double *values;     /* [n_series][n] */
} mf_stack;
void mf_svg_stack(mf_doc *d, const mf_stack *s);

/* Counts of values in equal bins, drawn as steps; several series over one another. */
typedef struct mf_histogram {
    const char *title, *x_label, *y_label;
    int width, height, bins; /* bins 0: 40 */
    int n_series;
    const char *const *names;    /* [n_series] or NULL */
    const double *const *values; /* [n_series][n[i]] */
    const int *n;
} mf_histogram;
void mf_svg_histogram(mf_doc *d, const mf_histogram *h);

/* ---- heat maps ---- */

typedef struct mf_heat {
    const char *title, *x_label, *y_label, *scale_label;
    int width, height; /* 0: by the number of cells */
    double row_height; /* with height 0: of a row of cells; 0: by their number */
    int rows, columns;
    const double *values;          /* [rows][columns], row 0 on top (or at the bottom: y_up) */
    double lo, hi;                 /* ends of the scale; lo >= hi: from the values */
    const char *const *row_labels; /* [rows], or NULL */
    const char *const *column_labels; /* [columns], or NULL */
    const double *x, *y;              /* [columns], [rows] values for number axes, or NULL */
    const unsigned char *marks;       /* [rows][columns], not 0: framed; or NULL */
    const int *column_groups; /* [columns] a group each, -1: none; a coloured strip; or NULL */
    int n_groups;
    const char *const *groups; /* [n_groups] their names */
    bool y_up;                 /* row 0 at the bottom */
    bool numbers;              /* write the value into each cell */
    bool diverging;            /* two colours about the middle of the scale */
} mf_heat;
void mf_svg_heat(mf_doc *d, const mf_heat *h);

/* ---- colours ---- */
const char *mf_colour(int i);                /* "#rrggbb", i from 0, wraps */
void mf_colour_scale(double t, char out[8]); /* t in 0..1: dark to light */
void mf_colour_diverging(double t, char out[8]);

#endif
