/* lab/stats.h: what a comparison over seeds may claim.
 *
 * Student's t throughout: means of a few runs, differences of runs that share a seed. Values
 * that cannot be had (one run has no deviation) are NaN, never 0. Sources: Student 1908; Holm
 * 1979 (Scand. J. Statist. 6, 65-70); Cohen 1988, d_z; Hedges 1981 (exact correction for few
 * pairs); the incomplete beta function by Lentz's continued fraction (DLMF 8.17.22).
 *
 * At level .05 a thing compared with itself is found to differ in 5 % of comparisons, of runs
 * whose differences are normal; the check of this file simulates it. For differences of one
 * size it is 6.25 % with 5 seeds, so few seeds bear out a p near the level less than many.
 */
#ifndef MF_LAB_STATS_H
#define MF_LAB_STATS_H

/* ---- distributions ---- */
double mf_beta_inc(double a, double b, double x); /* regularized I_x(a, b), a, b > 0 */
double mf_t_cdf(double t, double df);             /* P(T <= t), df > 0 */
double mf_t_quantile(double p, double df);        /* its inverse, 0 < p < 1 */
double mf_t_two_sided(double t, double df);       /* P(|T| >= |t|) */

/* ---- estimates ---- */
typedef struct mf_estimate {
    int n;              /* values that are finite */
    double mean, sd;    /* sd: of the values, n - 1 below */
    double lo, hi;      /* 95 % interval of the mean */
} mf_estimate;
mf_estimate mf_estimate_of(const double *x, int n);

typedef struct mf_paired {
    mf_estimate diff;   /* of x[i] - y[i], pairs that are both finite */
    double t, p;        /* two-sided; all differences 0: p = 1 */
    double dz;          /* mean / sd of the differences */
    double g;           /* dz, corrected for its bias with few pairs */
} mf_paired;
mf_paired mf_paired_of(const double *x, const double *y, int n);
/* Expected d_z over true effect with n pairs is 1 / this factor; 0 for n < 3. */
double mf_hedges(int n);

/* Holm's step-down correction; NaN stays NaN and is not counted. */
void mf_holm(const double *p, int n, double *ret);

/* ---- planning ---- */
/* Power of the two-sided paired t test at level alpha with n pairs and true effect d_z, by the
 * noncentral t distribution. */
double mf_t_power(double effect, int n, double alpha);
/* Least n >= 2 with at least this power; 0 when more than cap would be needed. */
int mf_t_pairs(double effect, double alpha, double power, int cap);
/* Lower confidence limit, at least 0, of the effect |d_z| of which n pairs gave this t: what to
 * plan with, since effects seen in a few pairs are too large too often (Perugini et al. 2014,
 * safeguard power). */
double mf_t_safe_effect(double t, int n, double confidence);
/* Least effect d_z that n >= 2 pairs show with this power. */
double mf_t_detectable(int n, double alpha, double power);

#endif
