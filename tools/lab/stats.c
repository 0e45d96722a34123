/* Student's t, paired estimates, Holm's correction and planning of sample sizes, in double
 * precision. A statistic that does not exist is NaN. */
#include "lab/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

/* ---- distributions ---- */

/* Continued fraction of I_x(a, b). It converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m <= 10000; m++) {
        double step = 1;
        for (int odd = 0; odd < 2; odd++) {
            const double term =
                odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                    : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + term * d;
            c = 1 + term / c;
            if (fabs(d) < tiny) d = tiny;
            if (fabs(c) < tiny) c = tiny;
            d = 1 / d;
            step = c * d;
            f *= step;
        }
        if (fabs(step - 1) < 1e-15) break;
    }
    return f;
}

double mf_beta_inc(double a, double b, double x)
{
    if (!(a > 0) || !(b > 0) || isnan(x)) return (double)NAN;
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    const double front =
        exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double mf_t_two_sided(double t, double df)
{
    if (isnan(t) || !(df > 0)) return (double)NAN;
    if (isinf(t)) return 0;
    return mf_beta_inc(df / 2, 0.5, df / (df + t * t));
}

double mf_t_cdf(double t, double df)
{
    const double tail = mf_t_two_sided(t, df) / 2;
    return t > 0 ? 1 - tail : tail;
}

double mf_t_quantile(double p, double df)
{
    if (!(p > 0) || !(p < 1) || !(df > 0)) return (double)NAN;
    if (p == 0.5) return 0;
    const double tail = p < 0.5 ? p : 1 - p; /* probability beyond |t| on this side */
    double lo = 0, hi = 1;
    while (mf_t_two_sided(hi, df) / 2 > tail && hi < 1e300)
        hi *= 2;
    for (int i = 0; i < 200; i++) {
        const double middle = lo + (hi - lo) / 2;
        if (middle <= lo || middle >= hi) break;
        if (mf_t_two_sided(middle, df) / 2 > tail)
            lo = middle;
        else
            hi = middle;
    }
    return p < 0.5 ? -hi : hi;
}

/* ---- estimates ---- */

mf_estimate mf_estimate_of(const double *x, int n)
{
    mf_estimate e = {0, 0, (double)NAN, (double)NAN, (double)NAN};
    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) {
            e.n++;
            e.mean += x[i];
        }
    if (e.n == 0) {
        e.mean = (double)NAN;
        return e;
    }
    e.mean /= e.n;
    if (e.n < 2) return e;
    double square = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) square += (x[i] - e.mean) * (x[i] - e.mean);
    e.sd = sqrt(square / (e.n - 1));
    const double half = mf_t_quantile(0.975, e.n - 1) * e.sd / sqrt(e.n);
    e.lo = e.mean - half;
    e.hi = e.mean + half;
    return e;
}

double mf_hedges(int n)
{
    if (n < 3) return 0;
    const double df = n - 1;
    return exp(lgamma(df / 2) - lgamma((df - 1) / 2)) / sqrt(df / 2);
}

/* The estimate of x - y, in two passes like mf_estimate_of. *ret_all_zero: whether x and y are
 * equal in every pair. */
static mf_estimate differences(const double *x, const double *y, int n, bool *ret_all_zero)
{
    mf_estimate e = {0, 0, (double)NAN, (double)NAN, (double)NAN};
    *ret_all_zero = true;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i] - y[i])) {
            e.n++;
            e.mean += x[i] - y[i];
            if (x[i] != y[i]) *ret_all_zero = false;
        }
    e.mean = e.n > 0 ? e.mean / e.n : (double)NAN;
    if (e.n < 2) return e;
    double square = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i] - y[i])) {
            const double off = x[i] - y[i] - e.mean;
            square += off * off;
        }
    e.sd = sqrt(square / (e.n - 1));
    const double half = mf_t_quantile(0.975, e.n - 1) * e.sd / sqrt(e.n);
    e.lo = e.mean - half;
    e.hi = e.mean + half;
    return e;
}

mf_paired mf_paired_of(const double *x, const double *y, int n)
{
    bool all_zero;
    mf_paired r = {differences(x, y, n, &all_zero), (double)NAN, (double)NAN, (double)NAN,
                   (double)NAN};
    const mf_estimate *d = &r.diff;
    if (d->n < 2) return r;
    if (all_zero) {
        r.t = r.dz = r.g = 0;
        r.p = 1;
        return r;
    }
    r.dz = d->mean / d->sd; /* if all differences are equal, this is infinite, and p = 0 */
    r.t = r.dz * sqrt(d->n);
    r.p = mf_t_two_sided(r.t, d->n - 1);
    if (d->n > 2) r.g = r.dz * mf_hedges(d->n);
    return r;
}

void mf_holm(const double *p, int n, double *ret)
{
    int m = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(p[i])) m++;
    /* (m - j) p_j, where p_j is the j-th smallest, counted from j = 0. Equal values are in
     * order of index. */
    for (int k = 0; k < n; k++) {
        int before = 0;
        for (int j = 0; j < n; j++)
            if (p[j] < p[k] || (p[j] == p[k] && j < k)) before++;
        ret[k] = (m - before) * p[k];
    }
    /* The adjusted value is the largest of those of all p_j up to p_i. A value that is adjusted
     * already is the largest of a part of them. */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (p[k] < p[i] || (p[k] == p[i] && k < i)) ret[i] = fmax(ret[i], ret[k]);
    for (int i = 0; i < n; i++)
        if (!isnan(p[i])) ret[i] = fmin(1, ret[i]);
}

/* ---- order ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mf_median(double *x, int64_t n)
{
    if (n < 1) return (double)NAN;
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- the sign-flip test ---- */

/* All 2^n sums of d with all choices of signs, ascending. */
static double *sorted_sums(const double *d, int n)
{
    const size_t all = (size_t)1 << n;
    double *sum = mf_alloc(all, sizeof *sum);
    for (size_t i = 0; sum && i < all; i++)
        for (int k = 0; k < n; k++)
            sum[i] += (i >> k & 1) != 0 ? d[k] : -d[k];
    if (sum) qsort(sum, all, sizeof *sum, by_value);
    return sum;
}

/* How many pairs of an element of a and one of b, both ascending, have a sum >= bound. */
static double pairs_above(const double *a, size_t n, const double *b, size_t m, double bound)
{
    double count = 0;
    size_t from = m; /* b[from..] is large enough for a[i] */
    for (size_t i = 0; i < n; i++) {
        while (from > 0 && a[i] + b[from - 1] >= bound)
            from--;
        count += (double)(m - from);
    }
    return count;
}

double mf_sign_flip(const double *x, const double *y, int n)
{
    double d[MF_FLIP_MOST], sum = 0, size = 0;
    int pairs = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i] - y[i])) continue;
        if (pairs == MF_FLIP_MOST) return (double)NAN;
        d[pairs++] = x[i] - y[i];
        sum += x[i] - y[i];
        size += fabs(x[i] - y[i]);
    }
    if (pairs < MF_FLIP_LEAST) return (double)NAN;
    if (size == 0) return 1;
    /* Sums that differ only by rounding count as equal. */
    const double bound = fabs(sum) - 1e-12 * size;
    if (bound <= 0) return 1;
    const int half = pairs / 2;
    const size_t na = (size_t)1 << half, nb = (size_t)1 << (pairs - half);
    double *a = sorted_sums(d, half), *b = a ? sorted_sums(d + half, pairs - half) : NULL;
    /* For each sum above the bound there is one below, with all signs changed. */
    const double count = b ? 2 * pairs_above(a, na, b, nb, bound) : (double)NAN;
    mf_free(a);
    mf_free(b);
    return count / ((double)na * (double)nb);
}

double mf_probability_better(const mf_estimate *diff, double delta, bool higher_is_better)
{
    if (diff->n < 2 || isnan(diff->sd) || isnan(delta)) return (double)NAN;
    const double gain = (higher_is_better ? diff->mean : -diff->mean) - delta;
    if (diff->sd == 0) return gain > 0;
    return mf_t_cdf(gain / (diff->sd / sqrt(diff->n)), diff->n - 1);
}

/* ---- planning ---- */

double mf_z_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

/* The integral of density times f from a to b, by the Gauss-Legendre rule with ten points, in
 * panels that are at most `scale` wide. Within a panel the integrand is smooth. */
static double integral(mf_chi_function f, const void *arg, double df, double a, double b,
                       double scale)
{
    static const double node[] = {0.14887433898163122, 0.43339539412924719, 0.67940956829902441,
                                  0.86506336668898451, 0.97390652851717172};
    static const double weight[] = {0.29552422471475287, 0.26926671930999636,
                                    0.21908636251598204, 0.14945134915058059,
                                    0.06667134430868814};
    const double log_norm = log(2) + df / 2 * log(df / 2) - lgamma(df / 2);
    if (!(b > a)) return 0;
    const int panels = (int)fmin(1000, ceil((b - a) / scale));
    const double half = (b - a) / (2 * panels);
    double sum = 0;
    for (int i = 0; i < panels; i++) {
        const double middle = a + (2 * i + 1) * half;
        for (int k = 0; k < 10; k++) {
            const double s = middle + (k % 2 == 0 ? -half : half) * node[k / 2];
            sum +=
                weight[k / 2] * exp(log_norm + (df - 1) * log(s) - df / 2 * s * s) * f(arg, s);
        }
    }
    return sum * half;
}

double mf_chi_mean(mf_chi_function f, const void *arg, double df, double from, double to,
                   double width)
{
    const double spread = 1 / sqrt(2 * df), hi = 1 + 12 * spread + 2 / df;
    const double lo = fmax(0, 1 - 12 * spread);
    from = fmin(hi, fmax(lo, from));
    to = fmin(hi, fmax(lo, to));
    return integral(f, arg, df, lo, from, spread) +
           integral(f, arg, df, from, to, fmin(spread, width)) +
           integral(f, arg, df, to, hi, spread);
}

typedef struct noncentral {
    double c, delta;
} noncentral;

static double above(const void *arg, double s)
{
    const noncentral *t = arg;
    return mf_z_cdf(t->delta - t->c * s);
}

/* P(T' > c), c >= 0, for T' = (Z + delta) / sqrt(V / df). It is the mean over V of P(Z > c
 * sqrt(V / df) - delta), computed as an integral over s = sqrt(V / df), which has the density
 * of a chi distribution. The density has a width of about sqrt(1 / (2 df)). P falls from 1 to 0
 * around delta / c in a width of 1 / c. If df is 1 and the level low, this width is much
 * smaller than that of the density, so that part has panels of its own. */
static double noncentral_above(double c, double df, double delta)
{
    if (!(c > 0)) return mf_z_cdf(delta);
    const noncentral t = {c, delta};
    return mf_chi_mean(above, &t, df, (delta - 9) / c, (delta + 9) / c, 1 / c);
}

double mf_t_power(double effect, int n, double alpha)
{
    if (n < 2 || isnan(effect) || !(alpha >= 0) || !(alpha < 1)) return (double)NAN;
    if (isinf(effect)) return 1;
    if (alpha == 0) return 0;
    const double df = n - 1, delta = fabs(effect) * sqrt(n);
    const double c = -mf_t_quantile(alpha / 2, df); /* the negative lower quantile, because 1 -
                                                     * alpha / 2 may be rounded to 1 */
    const double power = noncentral_above(c, df, delta) + noncentral_above(c, df, -delta);
    return fmin(1, power);
}

int mf_t_pairs(double effect, double alpha, double power, int cap)
{
    if (!(fabs(effect) > 0) || cap < 2 || !(mf_t_power(effect, cap, alpha) >= power)) return 0;
    int lo = 1, hi = cap; /* power grows with n: it is too small at lo, and large enough
                           * at hi */
    while (hi - lo > 1) {
        const int middle = lo + (hi - lo) / 2;
        if (mf_t_power(effect, middle, alpha) >= power)
            hi = middle;
        else
            lo = middle;
    }
    return hi;
}

double mf_t_safe_effect(double t, int n, double confidence)
{
    if (n < 2 || isnan(t)) return (double)NAN;
    if (isinf(t)) return (double)INFINITY;
    double lo = 0, hi = fabs(t) + 1;
    const double df = n - 1, tail = 1 - confidence;
    if (noncentral_above(fabs(t), df, 0) >= tail) return 0;
    while (noncentral_above(fabs(t), df, hi) < tail && hi < 1e9)
        hi *= 2;
    /* bisection: a larger effect exceeds t with a higher probability */
    for (int i = 0; i < 60; i++) {
        const double middle = (lo + hi) / 2;
        if (noncentral_above(fabs(t), df, middle) < tail)
            lo = middle;
        else
            hi = middle;
    }
    return lo / sqrt(n);
}

double mf_t_detectable(int n, double alpha, double power)
{
    if (n < 2) return (double)NAN;
    if (!(mf_t_power(1e9, n, alpha) >= power)) return (double)INFINITY;
    double lo = 0, hi = 1;
    while (mf_t_power(hi, n, alpha) < power && hi < 1e9)
        hi *= 2;
    for (int i = 0; i < 60; i++) {
        const double middle = (lo + hi) / 2;
        if (mf_t_power(middle, n, alpha) < power)
            lo = middle;
        else
            hi = middle;
    }
    return hi;
}

/* ---- looks ---- */

#define LEVEL 0.05

/* The level that all looks at up to n of `most` pairs may use together. */
static double spent(int n, int most)
{
    const double z = 1.959963984540054; /* the quantile of 1 - LEVEL / 2 */
    return n >= most ? LEVEL : erfc(z / sqrt((double)n / most) / sqrt(2));
}

double mf_look_level(const mf_look *before, int n, int now, int most, double *ret_total)
{
    double used = 0, level = (double)NAN;
    bool planned = true;
    for (int i = 0; i < n; i++) {
        used += before[i].level;
        planned = planned && before[i].pairs <= now;
        if (before[i].pairs == now) level = before[i].level;
    }
    *ret_total = used;
    if (!isnan(level)) return level;
    /* Levels that were written to a file and read again may differ from LEVEL by a
     * rounding error. */
    if (planned && used < LEVEL - 1e-12)
        level = fmax(0, spent(now, most) - used);
    else
        level = (2 * LEVEL - fmax(used, LEVEL)) / 2;
    *ret_total += level;
    return level;
}
