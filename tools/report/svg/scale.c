/* Maps numbers to coordinates of an axis and chooses readable tick values. A scale always has
 * lo < hi, even for empty ranges and single points. */
#include "report/svg/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mf_range mf_range_empty(void)
{
    return (mf_range){INFINITY, -INFINITY};
}

void mf_range_add(mf_range *r, double v)
{
    if (!isfinite(v)) return;
    if (v < r->lo) r->lo = v;
    if (v > r->hi) r->hi = v;
}

/* The smallest number >= x that is 1, 2 or 5 times a power of ten. */
static double nice_step(double x)
{
    const double power = pow(10, floor(log10(x)));
    const double m = x / power;
    return power * (m <= 1.0000001 ? 1 : m <= 2.0000001 ? 2 : m <= 5.0000001 ? 5 : 10);
}

static void linear_ticks(mf_scale *s, bool fixed_lo, bool fixed_hi, int want)
{
    const double step = nice_step((s->hi - s->lo) / want);
    double first = ceil(s->lo / step - 1e-9), last = floor(s->hi / step + 1e-9);
    if (!fixed_lo) first = floor(s->lo / step + 1e-9);
    if (!fixed_hi) last = ceil(s->hi / step - 1e-9);
    if (!fixed_lo) s->lo = first * step;
    if (!fixed_hi) s->hi = last * step;
    for (double i = first; i <= last && s->n_ticks < MF_TICKS_MAX; i++)
        s->tick[s->n_ticks++] = i * step;
}

static void log_ticks(mf_scale *s, bool fixed_lo, bool fixed_hi)
{
    double first = ceil(log10(s->lo) - 1e-9), last = floor(log10(s->hi) + 1e-9);
    const double every = ceil((last - first + 1) / 8);
    if (last - first < 1) { /* at most one power of ten is in the range */
        static const double few[] = {1, 2, 5}, many[] = {1, 1.5, 2, 3, 5, 7};
        /* over more than one power of ten, many ticks would touch one another */
        const bool wide = s->hi > 10 * s->lo;
        const int n = wide ? 3 : 6;
        for (double d = first - 1; d <= last + 1; d++)
            for (int i = 0; i < n && s->n_ticks < MF_TICKS_MAX; i++) {
                const double v = (wide ? few : many)[i] * pow(10, d);
                if (v >= s->lo * 0.999 && v <= s->hi * 1.001) s->tick[s->n_ticks++] = v;
            }
        if (s->n_ticks > 2) return;
        s->n_ticks = 0; /* in a short range the axis is nearly linear */
        const double step = nice_step((s->hi - s->lo) / 4);
        if (!fixed_lo && floor(s->lo / step) > 0) s->lo = floor(s->lo / step) * step;
        if (!fixed_hi) s->hi = ceil(s->hi / step) * step;
        for (double i = ceil(s->lo / step - 1e-9);
             i <= floor(s->hi / step + 1e-9) && s->n_ticks < MF_TICKS_MAX; i++)
            s->tick[s->n_ticks++] = i * step;
        return;
    }
    if (!fixed_lo) s->lo = pow(10, first = floor(log10(s->lo) + 1e-9));
    if (!fixed_hi) s->hi = pow(10, last = ceil(log10(s->hi) - 1e-9));
    for (double d = first; d <= last && s->n_ticks < MF_TICKS_MAX; d += every)
        s->tick[s->n_ticks++] = pow(10, d);
}

mf_scale mf_scale_make(mf_range r, bool log, bool fixed_lo, bool fixed_hi, int want)
{
    mf_scale s = {.lo = r.lo, .hi = r.hi, .to = 1};
    if (!(s.lo <= s.hi)) {
        s.lo = 0;
        s.hi = 1;
    }
    s.log = log && s.lo > 0;
    if (s.hi - s.lo <= 1e-12 * fmax(fabs(s.lo), fabs(s.hi)) || s.hi == s.lo) {
        const double pad = s.lo == 0 ? 1 : fabs(s.lo) * (s.log ? 0.5 : 0.1);
        if (!fixed_lo || fixed_hi) s.lo -= pad;
        if (!fixed_hi || s.lo >= s.hi) s.hi += pad;
    }
    if (s.log)
        log_ticks(&s, fixed_lo, fixed_hi);
    else
        linear_ticks(&s, fixed_lo, fixed_hi, want);
    return s;
}

double mf_scale_position(const mf_scale *s, double v)
{
    double t = s->log ? log(v / s->lo) / log(s->hi / s->lo) : (v - s->lo) / (s->hi - s->lo);
    if (s->log && v <= 0) t = 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return s->from + t * (s->to - s->from);
}

const char *mf_tick_text(const mf_scale *s, double v, char out[24])
{
    const double span = fmax(fabs(s->lo), fabs(s->hi));
    if (fabs(v) < 1e-9 * span) v = 0;
    const double unit = s->log ? fabs(v) : span; /* a linear axis uses one unit for all ticks */
    if (unit >= 10000 && unit < 1e10) {
        const bool mega = unit >= 1e6;
        snprintf(out, 24, "%.4g%s", v / (mega ? 1e6 : 1e3), v == 0 ? "" : mega ? "M" : "k");
    } else {
        snprintf(out, 24, "%.4g", v);
    }
    return out;
}
