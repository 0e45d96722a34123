/* Three-sided tests against a margin, and their power by numeric integration over the
 * distribution of the standard deviation. */
#include "lab/equal.h"

#include <math.h>

mf_three_sided mf_three_sided_of(const mf_estimate *diff, double margin)
{
    const double none = (double)NAN;
    if (diff->n < 2 || isnan(diff->sd) || !(margin > 0))
        return (mf_three_sided){none, none, none};
    if (diff->sd == 0)
        return (mf_three_sided){fabs(diff->mean) < margin ? 0 : 1, diff->mean < -margin ? 0 : 1,
                                diff->mean > margin ? 0 : 1};
    const double se = diff->sd / sqrt(diff->n), df = diff->n - 1;
    const double low = (diff->mean + margin) / se, high = (diff->mean - margin) / se;
    /* mf_t_cdf(-t) is P(T > t), without the rounding error of 1 - mf_t_cdf(t) */
    return (mf_three_sided){.equal = fmax(mf_t_cdf(-low, df), mf_t_cdf(high, df)),
                            .below = fmin(1, 2 * mf_t_cdf(low, df)),
                            .above = fmin(1, 2 * mf_t_cdf(-high, df))};
}

double mf_three_sided_p(const mf_three_sided *t)
{
    return isnan(t->equal) ? t->equal : fmin(t->equal, fmin(t->below, t->above));
}

void mf_equal_range(const mf_estimate *diff, double alpha, double *ret_lo, double *ret_hi)
{
    *ret_lo = *ret_hi = (double)NAN;
    if (diff->n < 2 || isnan(diff->sd) || !(alpha > 0)) return;
    const double half =
        diff->sd == 0 ? 0 : -mf_t_quantile(alpha, diff->n - 1) * diff->sd / sqrt(diff->n);
    *ret_lo = diff->mean - half;
    *ret_hi = diff->mean + half;
}

/* ---- planning ---- */

/* With deviation s of the sample the mean must lie within (-(margin - t s), margin - t s). All
 * lengths are in standard errors of the mean. */
typedef struct plan {
    double margin, truth, t;
} plan;

static double shown(const void *arg, double s)
{
    const plan *p = arg;
    const double room = p->margin - p->t * s;
    if (room <= 0) return 0;
    return mf_z_cdf(room - p->truth) - mf_z_cdf(-room - p->truth);
}

double mf_equal_power(double margin, double truth, int n, double alpha)
{
    if (n < 2 || isnan(truth) || !(margin >= 0) || !(alpha >= 0) || !(alpha < 1))
        return (double)NAN;
    if (alpha == 0) return 0;
    if (isinf(margin)) return 1;
    const plan p = {margin * sqrt(n), truth * sqrt(n), -mf_t_quantile(alpha, n - 1)};
    const double end = p.margin / p.t; /* with a larger deviation nothing is shown */
    return mf_chi_mean(shown, &p, n - 1, fmax(0, end - 20 / p.t), end, 1 / p.t);
}

double mf_equal_margin(int n, double alpha, double power)
{
    if (n < 2) return (double)NAN;
    double lo = 0, hi = 1;
    while (mf_equal_power(hi, 0, n, alpha) < power && hi < 1e9)
        hi *= 2;
    if (hi >= 1e9) return (double)INFINITY;
    for (int i = 0; i < 60; i++) {
        const double middle = (lo + hi) / 2;
        if (mf_equal_power(middle, 0, n, alpha) < power)
            lo = middle;
        else
            hi = middle;
    }
    return hi;
}

int mf_equal_pairs(double margin, double alpha, double power, int cap)
{
    if (!(margin > 0) || cap < 2 || !(mf_equal_power(margin, 0, cap, alpha) >= power)) return 0;
    int lo = 1, hi = cap; /* power grows with n */
    while (hi - lo > 1) {
        const int middle = lo + (hi - lo) / 2;
        if (mf_equal_power(margin, 0, middle, alpha) >= power)
            hi = middle;
        else
            lo = middle;
    }
    return hi;
}

static double below(const void *arg, double s)
{
    return s <= *(const double *)arg;
}

double mf_sd_limit(int n, double confidence)
{
    if (n < 2) return (double)NAN;
    double lo = 0, hi = 1;
    for (int i = 0; i < 40; i++) {
        const double middle = (lo + hi) / 2;
        /* the step at `middle` is a border of the panels */
        if (mf_chi_mean(below, &middle, n - 1, middle, middle, 1) < 1 - confidence)
            lo = middle;
        else
            hi = middle;
    }
    return 1 / hi;
}
