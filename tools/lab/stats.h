/* lab/stats.h: statistics of a comparison over seeds.
 *
 * Intervals and tests use Student's t, for means of a few runs and for differences of runs that
 * share a seed. Statistics that do not exist (a single run has no deviation) are NaN. Sources:
 * Student 1908; Holm 1979 (Scand. J. Statist. 6, 65-70); Cohen 1988, d_z; Hedges 1981 (exact
 * correction for few pairs); the incomplete beta function by Lentz's continued fraction (DLMF,
 * formula 8.17.22).
 *
 * At level .05, 5 % of comparisons of equal routers find a difference if the differences are
 * normally distributed. The unit test of this file simulates this. If the differences have
 * equal sizes and random signs, 6.25 % of comparisons with 5 seeds find a difference. So with
 * few seeds a p near the level is weak evidence. */
#ifndef MF_LAB_STATS_H
#define MF_LAB_STATS_H

#include <stdbool.h>
#include <stdint.h>

/* With fewer pairs there is no verdict, because the standard deviation of two differences is
 * too uncertain. */
#define MF_VERDICT_SEEDS 3

/* ---- order ---- */

/* Sorts n numbers in ascending order, and returns their median. None of them may be NaN. For an
 * even n, the median is the mean of the two middle numbers. Returns NaN if n is 0. */
double mf_median(double *x, int64_t n);

/* ---- distributions ---- */
double mf_beta_inc(double a, double b, double x); /* regularized I_x(a, b), a, b > 0 */
double mf_t_cdf(double t, double df);             /* P(T <= t), df > 0 */
double mf_t_quantile(double p, double df);        /* inverse of mf_t_cdf, 0 < p < 1 */
double mf_t_two_sided(double t, double df);       /* P(|T| >= |t|) */
double mf_z_cdf(double z);                        /* P(Z <= z) of the normal distribution */
/* The mean of f(arg, s) over s = sqrt(V / df), where V has a chi-square distribution with df
 * degrees of freedom. Between `from` and `to` f may change within `width`; elsewhere it is
 * smooth at the scale of the distribution. */
typedef double (*mf_chi_function)(const void *arg, double s);
double mf_chi_mean(mf_chi_function f, const void *arg, double df, double from, double to,
                   double width);

/* ---- estimates ---- */
typedef struct mf_estimate {
    int n;           /* number of finite values */
    double mean, sd; /* sd: standard deviation of the values, with n - 1 */
    double lo, hi;   /* 95 % interval of the mean */
} mf_estimate;
mf_estimate mf_estimate_of(const double *x, int n);

typedef struct mf_paired {
    mf_estimate diff; /* estimate of x[i] - y[i], over pairs of finite values */
    double t, p;      /* two-sided; p = 1 if all differences are 0 */
    double dz;        /* mean / sd of the differences */
    double g;         /* dz, corrected for its bias with few pairs */
} mf_paired;
mf_paired mf_paired_of(const double *x, const double *y, int n);
/* The factor that corrects the bias of d_z with n pairs; 0 for n < 3. */
double mf_hedges(int n);

/* The exact p of the sign-flip test (Fisher 1935; Pitman 1937): the share of all 2^n choices of
 * signs of the finite differences x[i] - y[i] for which |sum| is at least as large as for the
 * observed signs. The test needs no normal distribution. It only assumes that each difference
 * could as well have the other sign. The smallest p is 2 / 2^n. Returns NaN for n <
 * MF_FLIP_LEAST (no p below .05), for n > MF_FLIP_MOST (2^(n/2) numbers are kept), and if
 * memory runs out. */
#define MF_FLIP_LEAST 6
#define MF_FLIP_MOST  40
double mf_sign_flip(const double *x, const double *y, int n);

/* The probability that the mean of x - y is above `delta` (below -delta if lower is better). It
 * assumes normal differences with unknown mean and deviation and no prior knowledge. The mean
 * then has a t distribution around the observed mean (Box and Tiao 1973, section 2.4). NaN
 * without a deviation. */
double mf_probability_better(const mf_estimate *diff, double delta, bool higher_is_better);

/* The level of a test at a look at `now` pairs, after looks at before[i].pairs, in any order,
 * whose tests had the levels before[i].level. A level that was used stays used, whatever is
 * planned now. All looks together find a difference in at most .05 of comparisons of equal
 * routers. A look at up to `most` pairs may use 2 - 2 Phi(1.96 / sqrt(now / most)), minus the
 * level used so far (Lan and DeMets 1983, after O'Brien and Fleming 1979). Levels are added up
 * (Bonferroni), so this holds for any distribution.
 *
 * most = 0: the number is not planned, and the first look uses .05. If nothing is left for a
 * look, or if it has fewer pairs than an earlier look, it uses an additional level: half of the
 * difference to .10, at most .025. So *ret_total, the level of all looks, stays below .10. A
 * look that was shown before keeps its level. */
typedef struct mf_look {
    int pairs;
    double level;
} mf_look;
double mf_look_level(const mf_look *before, int n, int now, int most, double *ret_total);

/* Holm's step-down correction. NaN stays NaN and does not count as a test. */
void mf_holm(const double *p, int n, double *ret);

/* ---- planning ---- */
/* Power of the two-sided paired t test at level alpha with n pairs and true effect d_z, by the
 * noncentral t distribution; the error is below 1e-9. */
double mf_t_power(double effect, int n, double alpha);
/* The smallest n >= 2 with at least this power; 0 if it exceeds cap, or if the effect is 0. */
int mf_t_pairs(double effect, double alpha, double power, int cap);
/* Lower confidence limit, at least 0, of the effect |d_z| if n pairs resulted in this t. It is
 * used for planning, because effects estimated from a few pairs are too often too large
 * (Perugini et al. 2014, safeguard power). */
double mf_t_safe_effect(double t, int n, double confidence);
/* The smallest effect d_z that n pairs detect with this power; NaN for n < 2; infinite above
 * 1e9, for example at level 0. */
double mf_t_detectable(int n, double alpha, double power);

#endif
