/* lab/scale/fit.c: the form of the losses by variable projection. For a given exponent the
 * floor and the factors follow from linear equations, which have a solution in closed form: so
 * a grid of exponents finds the least squares without a start value. */
#include "lab/scale/scale.h"

#include <math.h>

/* Weighted sums of a router over sizes, with x = (C / middle)^-c. */
typedef struct sums {
    double xx, x, xl, one, l;
} sums;

static sums sums_of(const mf_scale_data *d, const double *mean, const double *weight,
                    const double *x, int r)
{
    sums s = {0};
    for (int i = 0; i < d->sizes; i++) {
        const int at = i * d->routers + r;
        const double w = weight[i];
        s.xx += w * x[at] * x[at];
        s.x += w * x[at];
        s.xl += w * x[at] * mean[at];
        s.one += w;
        s.l += w * mean[at];
    }
    return s;
}

/* The best a and b for an exponent: b_r = (sum w x L - a sum w x) / sum w x^2, and a from what
 * remains of each router after x is projected out. Returns the residual sum of squares. */
static double solve(const mf_scale_data *d, const double *mean, const double *weight,
                    double middle, double c, double *x, mf_scale_fit *f)
{
    double top = 0, bottom = 0, rss = 0;
    for (int i = 0; i < d->sizes * d->routers; i++)
        x[i] = pow(d->compute[i] / middle, -c);
    for (int r = 0; r < d->routers; r++) {
        const sums s = sums_of(d, mean, weight, x, r);
        top += s.l - s.x * s.xl / s.xx;
        bottom += s.one - s.x * s.x / s.xx;
    }
    f->a = top / bottom;
    for (int r = 0; r < d->routers; r++) {
        const sums s = sums_of(d, mean, weight, x, r);
        f->b[r] = (s.xl - f->a * s.x) / s.xx;
        for (int i = 0; i < d->sizes; i++) {
            const int at = i * d->routers + r;
            const double e = mean[at] - f->a - f->b[r] * x[at];
            rss += weight[i] * e * e;
        }
    }
    f->c = c;
    f->rss = rss;
    return rss;
}

void mf_scale_fit_power(const mf_scale_data *d, const double *mean, const double *weight,
                        double middle, double *x, mf_scale_fit *ret)
{
    /* a grid finds the valley, golden sections its floor to 1e-5 */
    const double coarse = .05, part = (sqrt(5) - 1) / 2;
    double best = 1, least = INFINITY;
    for (int i = 1; i <= 20; i++) {
        const double rss = solve(d, mean, weight, middle, i * coarse, x, ret);
        if (rss < least) {
            least = rss;
            best = i * coarse;
        }
    }
    double lo = fmax(5e-4, best - coarse), hi = fmin(1, best + coarse);
    double a = hi - part * (hi - lo), b = lo + part * (hi - lo);
    double at_a = solve(d, mean, weight, middle, a, x, ret),
           at_b = solve(d, mean, weight, middle, b, x, ret);
    while (hi - lo > 1e-5) {
        const bool left = at_a < at_b;
        if (left) {
            hi = b;
            b = a;
            at_b = at_a;
            a = hi - part * (hi - lo);
        } else {
            lo = a;
            a = b;
            at_a = at_b;
            b = lo + part * (hi - lo);
        }
        *(left ? &at_a : &at_b) = solve(d, mean, weight, middle, left ? a : b, x, ret);
    }
    (void)solve(d, mean, weight, middle, (lo + hi) / 2, x, ret);
}

double mf_scale_fit_line(const mf_scale_data *d, const double *mean, const double *weight)
{
    double xx = 0, xl = 0, ll = 0;
    for (int r = 0; r < d->routers; r++) {
        double w = 0, mx = 0, ml = 0;
        for (int i = 0; i < d->sizes; i++) {
            const int at = i * d->routers + r;
            w += weight[i];
            mx += weight[i] * log(d->compute[at]);
            ml += weight[i] * mean[at];
        }
        mx /= w;
        ml /= w;
        for (int i = 0; i < d->sizes; i++) {
            const int at = i * d->routers + r;
            const double x = log(d->compute[at]) - mx, l = mean[at] - ml;
            xx += weight[i] * x * x;
            xl += weight[i] * x * l;
            ll += weight[i] * l * l;
        }
    }
    return ll - xl * xl / xx;
}

double mf_scale_reach_of(const mf_scale_data *d, const double *mean, double loss,
                         bool *ret_beyond)
{
    const int n = d->sizes, R = d->routers, b = d->baseline;
    const double first = mean[b], last = mean[(n - 1) * R + b];
    int i = 0;
    *ret_beyond = loss > first || loss < last;
    /* the segment in which the loss lies; outside, the segment at that end */
    while (i < n - 2 && loss < mean[(i + 1) * R + b])
        i++;
    const double l0 = mean[i * R + b], l1 = mean[(i + 1) * R + b];
    const double x0 = log(d->compute[i * R + b]), x1 = log(d->compute[(i + 1) * R + b]);
    return l1 < l0 ? x0 + (l0 - loss) / (l0 - l1) * (x1 - x0) : (double)NAN;
}
