/* report/scale.h: from numbers to places on an axis, and the ticks that people like to read. */
#ifndef MF_REPORT_SCALE_H
#define MF_REPORT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_range {
    double lo, hi; /* lo > hi: empty */
} mf_range;

mf_range mf_range_empty(void);
void mf_range_add(mf_range *r, double v); /* what is not finite is passed over */

#define MF_TICKS_MAX 16
typedef struct mf_scale {
    double lo, hi;   /* values at the ends, lo < hi */
    bool log;        /* logarithmic; lo > 0 */
    double from, to; /* places of lo and hi */
    int n_ticks;
    double tick[MF_TICKS_MAX];
} mf_scale;

/* want: about how many ticks. fixed_lo, fixed_hi: ends that are not to be rounded outwards. A
 * range that is empty or a point is widened. log falls back to linear where lo <= 0. */
mf_scale mf_scale_make(mf_range r, bool log, bool fixed_lo, bool fixed_hi, int want);
double mf_scale_place(const mf_scale *s, double v); /* clamped to the axis */
/* A tick as short text: "0.25", "400", "52k", "1e-05". Returns out. */
const char *mf_tick_text(const mf_scale *s, double v, char out[24]);

#endif
