/* report/svg/scale.h: maps numbers to coordinates on an axis, with round tick values. */
#ifndef MF_REPORT_SCALE_H
#define MF_REPORT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_range {
    double lo, hi; /* lo > hi: the range is empty */
} mf_range;

mf_range mf_range_empty(void);
void mf_range_add(mf_range *r, double v); /* values that are not finite are ignored */

#define MF_TICKS_MAX 16
typedef struct mf_scale {
    double lo, hi;   /* values at the ends, lo < hi */
    bool log;        /* logarithmic; then lo > 0 */
    double from, to; /* coordinates of lo and hi */
    int n_ticks;
    double tick[MF_TICKS_MAX];
} mf_scale;

/* Makes a scale for a range. want: approximate number of ticks of a linear scale. fixed_lo,
 * fixed_hi: this end is not rounded outwards. An empty range or a single point is extended. log
 * is ignored if lo <= 0. The caller sets from and to, which initially are 0 and 1. */
mf_scale mf_scale_make(mf_range r, bool log, bool fixed_lo, bool fixed_hi, int want);
double mf_scale_position(const mf_scale *s, double v); /* coordinate of v, clamped to
                                                        * the axis */
/* Formats a tick value: "0.25", "400", "52k", "1e-05". Returns out. */
const char *mf_tick_text(const mf_scale *s, double v, char out[24]);

#endif
