/* lab/equal.h: whether the mean of differences lies within a margin, below it or above it.
 *
 * Three claims about the mean: it is between -X and X (two one-sided tests: Schuirmann 1987, J.
 * Pharmacokin. Biopharm. 15, 657-680), below -X, or above X. Exactly one of them is true, so
 * each is tested at the whole level, and the last two at half of it (three-sided testing:
 * Goeman, Solari and Stijnen 2010, Stat. Med. 29, 2117-2125). The tests assume that differences
 * are normally distributed. */
#ifndef MF_LAB_EQUAL_H
#define MF_LAB_EQUAL_H

#include "lab/stats.h"

/* p of the three claims. All are NaN for fewer than two differences, or if margin is not above
 * 0. If all differences are the same number, the p of the true claim is 0, and the others
 * are 1. */
typedef struct mf_three_sided {
    double equal, below, above;
} mf_three_sided;
mf_three_sided mf_three_sided_of(const mf_estimate *diff, double margin);
/* The smallest of the three. */
double mf_three_sided_p(const mf_three_sided *t);

/* The interval that lies within the margin exactly if p of `equal` is below alpha: the 1 - 2
 * alpha interval of the mean. NaN for fewer than two differences. */
void mf_equal_range(const mf_estimate *diff, double alpha, double *ret_lo, double *ret_hi);

/* ---- planning ---- */
/* Margins and the true mean are in units of the true standard deviation of the differences. */

/* Probability that n differences show equality at level alpha. */
double mf_equal_power(double margin, double truth, int n, double alpha);
/* The smallest margin within which n differences show equality with this power if the true mean
 * is 0. NaN for n < 2; infinite at level 0. */
double mf_equal_margin(int n, double alpha, double power);
/* The smallest n >= 2 with at least this power if the true mean is 0; 0 if it exceeds cap. */
int mf_equal_pairs(double margin, double alpha, double power, int cap);
/* The upper confidence limit of the true deviation divided by the deviation of n differences.
 * It is used for planning, because the deviation of a few differences is often too small. NaN
 * for n < 2. */
double mf_sd_limit(int n, double confidence);

#endif
