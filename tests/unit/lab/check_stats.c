/* stats: the results of lab/stats.h are compared with closed forms, published tables and
 * examples, and simulations. */
#include "check_main.h"

#include "base/rng.h"
#include "lab/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static void near(double got, double wanted, double tolerance)
{
    ck_assert_msg(fabs(got - wanted) <= tolerance, "expected %.12g, found %.12g", wanted, got);
}

/* ---- distributions ---- */

START_TEST(beta)
{
    static const double x[] = {1e-6, 0.1, 0.3, 0.5, 0.77, 0.999};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        const double v = x[i], w = 1 - v;
        near(mf_beta_inc(3.5, 1, v), pow(v, 3.5), 1e-14);
        near(mf_beta_inc(1, 0.25, v), 1 - pow(w, 0.25), 1e-14);
        near(mf_beta_inc(2, 3, v), 6 * v * v * w * w + 4 * v * v * v * w + v * v * v * v,
             1e-14);
        near(mf_beta_inc(0.5, 0.5, v), 2 * asin(sqrt(v)) / M_PI, 1e-13);
        near(mf_beta_inc(40, 7, v) + mf_beta_inc(7, 40, w), 1, 1e-13);
    }
    near(mf_beta_inc(500, 500, 0.5), 0.5, 1e-11);
    ck_assert(mf_beta_inc(2, 2, -1) == 0 && mf_beta_inc(2, 2, 2) == 1);
    ck_assert(isnan(mf_beta_inc(0, 1, 0.5)) && isnan(mf_beta_inc(1, 1, (double)NAN)));
}
END_TEST

START_TEST(student_closed_forms)
{
    static const double t[] = {-40, -3, -1, -0.2, 0, 0.5, 2, 15, 300};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        near(mf_t_cdf(t[i], 1), 0.5 + atan(t[i]) / M_PI, 1e-13);
        near(mf_t_cdf(t[i], 2), 0.5 + t[i] / (2 * sqrt(2 + t[i] * t[i])), 1e-13);
        near(mf_t_two_sided(t[i], 7), 2 * mf_t_cdf(-fabs(t[i]), 7), 1e-15);
        near(mf_t_cdf(t[i], 1e7), 0.5 * erfc(-t[i] / sqrt(2)), 1e-6);
    }
    ck_assert(mf_t_two_sided((double)INFINITY, 3) == 0);
    ck_assert(isnan(mf_t_two_sided((double)NAN, 3)) && isnan(mf_t_two_sided(1, 0)));
}
END_TEST

/* Values from textbook tables; the last digit is rounded. */
START_TEST(student_table)
{
    static const struct {
        double p, df, t;
    } row[] = {{0.975, 1, 12.706},  {0.975, 2, 4.303}, {0.975, 4, 2.776},  {0.975, 9, 2.262},
               {0.975, 30, 2.042},  {0.95, 1, 6.314},  {0.95, 5, 2.015},   {0.90, 3, 1.638},
               {0.99, 10, 2.764},   {0.995, 2, 9.925}, {0.995, 29, 2.756}, {0.9995, 3, 12.924},
               {0.9995, 120, 3.373}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        near(mf_t_quantile(row[i].p, row[i].df), row[i].t, 5.1e-4);
        near(mf_t_quantile(1 - row[i].p, row[i].df), -row[i].t, 5.1e-4);
        near(mf_t_cdf(mf_t_quantile(row[i].p, row[i].df), row[i].df), row[i].p, 1e-12);
    }
    ck_assert(mf_t_quantile(0.5, 3) == 0 && isnan(mf_t_quantile(1, 3)));
    /* far from 0 the tail equals that of Cauchy's distribution */
    near(mf_t_quantile(1e-12, 1) * 1e-12 * M_PI, -1, 1e-6);
}
END_TEST

/* ---- estimates ---- */

/* Student's own example: additional hours of sleep after two drugs, ten patients (1908). */
START_TEST(hours_of_sleep)
{
    static const double a[] = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
    static const double b[] = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
    const mf_estimate e = mf_estimate_of(a, 10);
    near(e.mean, 0.75, 1e-12);
    near(e.sd, 1.789010, 1e-6);
    const mf_paired r = mf_paired_of(a, b, 10);
    ck_assert_int_eq(r.diff.n, 10);
    near(r.diff.mean, -1.58, 1e-12);
    near(r.t, -4.0621, 5e-5);
    near(r.p, 0.002833, 5e-7);
    near(r.diff.lo, -2.4598858, 5e-8);
    near(r.diff.hi, -0.7001142, 5e-8);
    near(r.dz, -4.0621277 / sqrt(10), 1e-6);
    near(r.g, r.dz * 0.9139, 1e-4);
}
END_TEST

/* Darwin's maize: height of crossed minus self-fertilised plants, in eighths of an inch (Fisher
 * 1935, section 17). */
START_TEST(maize)
{
    static const double d[] = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};
    static const double zero[15] = {0};
    const mf_paired r = mf_paired_of(d, zero, 15);
    near(r.diff.mean, 20.933, 5e-4);
    near(r.diff.sd, 37.744, 5e-4);
    near(r.t, 2.148, 5e-4);
    near(r.p, 0.0497, 5e-5);
}
END_TEST

START_TEST(few_values)
{
    const double none = (double)NAN, one[] = {3}, gap[] = {1, none, 3}, base[] = {1, 5, 2};
    mf_estimate e = mf_estimate_of(one, 0);
    ck_assert(e.n == 0 && isnan(e.mean) && isnan(e.sd));
    e = mf_estimate_of(one, 1);
    ck_assert(e.n == 1 && e.mean == 3 && isnan(e.sd) && isnan(e.lo) && isnan(e.hi));
    e = mf_estimate_of(gap, 3);
    ck_assert(e.n == 2 && e.mean == 2);
    near(e.hi - e.mean, 12.7062 * sqrt(2) / sqrt(2), 1e-4);
    mf_paired r = mf_paired_of(gap, base, 3); /* the differences are 0 and 1 */
    ck_assert(r.diff.n == 2 && r.diff.mean == 0.5 && isnan(r.g));
    r = mf_paired_of(one, one, 1);
    ck_assert(r.diff.n == 1 && r.diff.mean == 0 && isnan(r.p) && isnan(r.dz));
    r = mf_paired_of(base, base, 3);
    ck_assert(r.p == 1 && r.dz == 0 && r.g == 0 && r.diff.lo == 0);
    near(mf_hedges(2), 0, 0);
    near(mf_hedges(3), 1 / sqrt(M_PI), 1e-12);
    near(mf_hedges(100), 1 - 3.0 / (4 * 99 - 1), 1e-5); /* the usual approximation of
                                                         * the factor */
}
END_TEST

START_TEST(medians)
{
    double odd[] = {3, -1, 2}, even[] = {4, 1, 3, 10}, one = 7;
    near(mf_median(odd, 3), 2, 0);
    ck_assert(odd[0] == -1 && odd[1] == 2 && odd[2] == 3); /* sorted */
    near(mf_median(even, 4), 3.5, 0);
    near(mf_median(&one, 1), 7, 0);
    ck_assert(isnan(mf_median(&one, 0)));
}
END_TEST

START_TEST(holm)
{
    static const double p[] = {0.01, 0.04, 0.03, 0.005}, wanted[] = {0.03, 0.06, 0.06, 0.02};
    double q[6];
    mf_holm(p, 4, q);
    for (int i = 0; i < 4; i++)
        near(q[i], wanted[i], 1e-15);
    const double with_gaps[] = {(double)NAN, 0.02, 0.02, (double)NAN, 0.9, 0.4};
    mf_holm(with_gaps, 6, q);
    ck_assert(isnan(q[0]) && isnan(q[3]));
    near(q[1], 0.08, 1e-15);
    near(q[2], 0.08, 1e-15);
    near(q[5], 0.8, 1e-15);
    near(q[4], 0.9, 1e-15);
    const double one = 0.03;
    mf_holm(&one, 1, q);
    near(q[0], 0.03, 0);
    mf_holm(&one, 0, q);
}
END_TEST

/* ---- planning ---- */

/* Numbers of pairs for power .8 at .05, two-sided, as in tables and G*Power. */
START_TEST(pairs)
{
    ck_assert_int_eq(mf_t_pairs(0.2, 0.05, 0.8, 1000), 199);
    ck_assert_int_eq(mf_t_pairs(0.5, 0.05, 0.8, 1000), 34);
    ck_assert_int_eq(mf_t_pairs(-0.8, 0.05, 0.8, 1000), 15);
    ck_assert_int_eq(mf_t_pairs(1.0, 0.05, 0.8, 1000), 10);
    /* If the true effect is the confidence limit, one of five samples exceeds the observed t.
     * alpha is the two-sided level whose critical value is that t. */
    for (int n = 3; n <= 50; n += 47)
        for (double t = 5; t < 9; t += 3) { /* the other tail is negligible for these t */
            const double d = mf_t_safe_effect(t, n, 0.8);
            ck_assert(d > 0 && d < t / sqrt(n));
            const double alpha = 2 * (1 - mf_t_cdf(t, n - 1));
            near(mf_t_power(d, n, alpha), 0.2, 2e-3);
        }
    ck_assert(mf_t_safe_effect(0.1, 5, 0.8) == 0);
    /* a low confidence has a limit above t: P(T > 1) = .99 at noncentrality 3.36312 (n = 10) */
    near(mf_t_safe_effect(1, 10, 0.01), 3.36312225 / sqrt(10), 1e-6);
    near(mf_t_power(0.5, 34, 0.05), 0.8078, 5e-5);
    near(mf_t_power(0.8, 15, 0.05), 0.8213, 5e-5);
    near(mf_t_power(0, 2, 0.05), 0.05, 1e-12);
    near(mf_t_power(0, 9, 0.003), 0.003, 1e-12);
    ck_assert_int_eq(mf_t_pairs(0.01, 0.05, 0.8, 1000), 0);
    ck_assert_int_eq(mf_t_pairs(0, 0.05, 0.8, 1000), 0);
    ck_assert_int_eq(mf_t_pairs((double)NAN, 0.05, 0.8, 1000), 0);
    for (int n = 2; n < 40; n += 9)
        near(mf_t_power(mf_t_detectable(n, 0.01, 0.8), n, 0.01), 0.8, 1e-6);
}
END_TEST

/* Computed with 30 digits. With c where P(|T| >= c) = alpha and delta = d sqrt(n), the power is
 * the integral from 0 over s of the chi density of s sqrt(df) times Phi(delta - c s) +
 * Phi(-delta - c s). For most rows the integral over z of phi(z) P(V < df ((z + delta) / c)^2)
 * was computed, too. */
START_TEST(power_of_few_pairs_at_low_levels)
{
    static const struct {
        double effect;
        int n;
        double alpha, power;
    } cases[] = {
        {0.5, 2, 0.0005, 0.0006200408391576},
        {20, 2, 0.0005, 0.0177230790103149},
        {1000, 2, 0.0005, 0.7333113763983363},
        {1000, 2, 0.0033, 0.9999999999997711},
        {300, 2, 0.0033, 0.9721375184981789},
        {1.5, 2, 0.05, 0.1329521241570273},
        {0, 2, 0.0005, 0.0005},
        {3, 3, 0.0005, 0.0138992509560144},
        {2, 5, 0.01, 0.547176189293851},
        {0.5, 34, 0.05, 0.8077775012792739},
        {0.2, 199, 0.05, 0.8016910240370654},
        {0.03, 10001, 0.001, 0.3854534587712832},
        {1e9, 2, 1e-9, 0.9736789250782586},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near(mf_t_power(cases[i].effect, cases[i].n, cases[i].alpha), cases[i].power, 1e-9);
    near(mf_t_power(mf_t_detectable(2, 0.0005, 0.8), 2, 0.0005), 0.8, 1e-9);
    ck_assert(mf_t_power(5, 3, 0) == 0 && isinf(mf_t_detectable(3, 0, 0.8)));
    ck_assert(isinf(mf_t_detectable(2, 1e-43, 0.8)));
}
END_TEST

/* Share of trials with at least one p below alpha after Holm's correction, among m comparisons
 * of n pairs each. */
static double flagged(uint64_t seed, double effect, int n, int m, int trials, double alpha)
{
    const uint64_t stream = mf_rng_stream("check.stats");
    double x[16], zero[16] = {0}, p[16], q[16];
    uint64_t at = 0;
    int hits = 0;
    for (int i = 0; i < trials; i++) {
        bool hit = false;
        for (int k = 0; k < m; k++) {
            for (int j = 0; j < n; j++)
                x[j] = effect + (double)mf_rng_normal(seed, stream, 0, at++);
            p[k] = mf_paired_of(x, zero, n).p;
        }
        mf_holm(p, m, q);
        for (int k = 0; k < m; k++)
            hit = hit || q[k] < alpha;
        hits += hit;
    }
    return (double)hits / trials;
}

START_TEST(simulated)
{
    /* the tolerance is about 4 standard deviations of a share of that many trials */
    near(flagged(1, 1.5, 5, 1, 20000, 0.05), mf_t_power(1.5, 5, 0.05), 0.015);
    near(flagged(2, 0.7, 12, 1, 20000, 0.01), mf_t_power(0.7, 12, 0.01), 0.015);
    near(flagged(3, 3.0, 3, 1, 20000, 0.05), mf_t_power(3.0, 3, 0.05), 0.015);
    /* without a difference, at least one of 15 routers is flagged in 5 % of the trials */
    near(flagged(4, 0, 3, 15, 4000, 0.05), 0.05, 0.014);
    near(flagged(5, 0, 10, 1, 20000, 0.05), 0.05, 0.006);
}
END_TEST

/* The law of the noise. Pairs of values differ only by chance: the seed changes both values
 * alike, and noise of this law is added to each. */
typedef enum { NORMAL, ROUNDED, UNIFORM, COINS } law;

static double noise(law of, uint64_t stream, uint64_t at)
{
    if (of == UNIFORM) return (double)mf_rng_uniform(1, stream, of, at);
    const double z = (double)mf_rng_normal(1, stream, of, at);
    return of == COINS ? (z < 0 ? -1 : 1) : z;
}

/* Share of comparisons that find a difference although there is none, with n seeds each. */
static double found_in_nothing(law of, int n, int trials)
{
    const uint64_t seeds = mf_rng_stream("check.stats.seed"),
                   one = mf_rng_stream("check.stats.one");
    double x[16], y[16];
    uint64_t at = 0;
    int hits = 0;
    for (int i = 0; i < trials; i++) {
        for (int j = 0; j < n; j++, at++) {
            const double base = 2 + 0.1 * (double)mf_rng_normal(1, seeds, of, at);
            x[j] = base + 0.01 * noise(of, one, 2 * at);
            y[j] = of == COINS ? base : base + 0.01 * noise(of, one, 2 * at + 1);
            if (of == ROUNDED) x[j] = rint(1e4 * x[j]) / 1e4, y[j] = rint(1e4 * y[j]) / 1e4;
        }
        hits += mf_paired_of(x, y, n).p < 0.05;
    }
    return (double)hits / trials;
}

/* Compares values without a true difference: 5 % of comparisons find one by chance, and other
 * distributions change this share little. Of 200 comparisons, 16 or more find one with
 * probability .044. */
START_TEST(self_comparisons)
{
    static const int seeds[] = {2, 3, 5, 10};
    for (int i = 0; i < 4; i++) /* the tolerance is 4 standard deviations */
        near(found_in_nothing(NORMAL, seeds[i], 40000), 0.05, 0.0044);
    near(found_in_nothing(ROUNDED, 5, 40000), 0.05, 0.0044);
    near(found_in_nothing(UNIFORM, 5, 40000), 0.05, 0.01);
    /* Differences of equal size are found if all five signs are equal, in 2 of 32 cases. */
    near(found_in_nothing(COINS, 5, 40000), 2.0 / 32, 0.005);
    double tail = 0;
    for (int k = 16; k <= 200; k++)
        tail += exp(lgamma(201) - lgamma(k + 1) - lgamma(201 - k) + k * log(0.05) +
                    (200 - k) * log(0.95));
    near(tail, 0.0444, 5e-5);
}
END_TEST

/* The sign-flip p by its definition, in integers: all signs, all sums. */
static double flips_by_definition(const int *d, int n)
{
    long seen = 0, as_large = 0;
    for (int i = 0; i < n; i++)
        seen += d[i];
    for (long signs = 0; signs < 1L << n; signs++) {
        long sum = 0;
        for (int i = 0; i < n; i++)
            sum += (signs >> i & 1) != 0 ? d[i] : -d[i];
        as_large += labs(sum) >= labs(seen);
    }
    return (double)as_large / (double)(1L << n);
}

START_TEST(sign_flip)
{
    const uint64_t stream = mf_rng_stream("check.stats.flip");
    static const double zero[64] = {0};
    double x[64];
    int d[16];
    uint64_t at = 0;
    for (int n = 6; n <= 16; n++)
        for (int trial = 0; trial < 40; trial++) {
            const int range = trial % 4 == 0 ? 3 : 1000; /* small ranges lead to many ties */
            for (int i = 0; i < n; i++) {
                d[i] = (int)(mf_rng_uniform(1, stream, 0, at++) * (float)(2 * range + 1)) -
                       range + (trial % 3 == 0 ? range / 2 : 0);
                x[i] = d[i] * 0.1; /* not exact in binary, so ties need the tolerance */
            }
            near(mf_sign_flip(x, zero, n), flips_by_definition(d, n), 1e-12);
        }
    /* Fisher 1935, section 21: 1,726 of 32,768 for Darwin's maize */
    static const double heights[] = {49, -67, 8,  16, 6,  23, 28, 41,
                                     14, 29,  56, 24, 75, 60, -48};
    near(mf_sign_flip(heights, zero, 15), 1726 / 32768.0, 1e-12);
    for (int i = 0; i < 64; i++)
        x[i] = 1 + i % 3;
    near(mf_sign_flip(x, zero, 40), 2 / pow(2, 40), 1e-20); /* all have one sign */
    ck_assert(isnan(mf_sign_flip(x, zero, 41)) && isnan(mf_sign_flip(x, zero, 5)));
    ck_assert(mf_sign_flip(zero, zero, 8) == 1);
    x[2] = (double)NAN; /* a run that failed is not part of a pair */
    near(mf_sign_flip(x, zero, 7), 2 / 64.0, 1e-15);
}
END_TEST

START_TEST(probability_better)
{
    const mf_estimate d = {5, -0.3, 0.2, 0, 0};
    near(mf_probability_better(&d, 0, false), mf_t_cdf(0.3 / (0.2 / sqrt(5)), 4), 1e-15);
    near(mf_probability_better(&d, 0.3, false), 0.5, 1e-15);
    near(mf_probability_better(&d, 0, true) + mf_probability_better(&d, 0, false), 1, 1e-15);
    near(mf_probability_better(&d, 0.1, true), mf_t_cdf(-0.4 / (0.2 / sqrt(5)), 4), 1e-15);
    const mf_estimate one = {1, -0.3, (double)NAN, 0, 0}, same = {3, -0.3, 0, 0, 0};
    ck_assert(isnan(mf_probability_better(&one, 0, false)));
    ck_assert(isnan(mf_probability_better(&d, (double)NAN, false)));
    ck_assert(mf_probability_better(&same, 0.2, false) == 1 &&
              mf_probability_better(&same, 0.4, false) == 0);
}
END_TEST

/* Returns the level of a look at `now` pairs, and adds this look to `before`. */
static double next_level(mf_look *before, int *n, int now, int most, double *ret_total)
{
    const double level = mf_look_level(before, *n, now, most, ret_total);
    before[(*n)++] = (mf_look){now, level};
    return level;
}

START_TEST(look_levels)
{
    mf_look before[8] = {{0}};
    int n = 0;
    double total;
    near(next_level(before, &n, 8, 0, &total), 0.05, 0);
    near(total, 0.05, 0);
    /* not planned: each level is half as large as the one before, so the sum is less than .1 */
    near(next_level(before, &n, 12, 0, &total), 0.025, 1e-15);
    near(total, 0.075, 1e-15);
    near(next_level(before, &n, 16, 0, &total), 0.05 / 4, 1e-15);
    near(next_level(before, &n, 24, 0, &total), 0.05 / 8, 1e-15);
    /* the results of these looks were shown before */
    near(mf_look_level(before, 4, 24, 0, &total), 0.05 / 8, 1e-15);
    near(mf_look_level(before, 4, 12, 0, &total), 0.025, 1e-15);
    near(total, 0.05 * (2 - 1.0 / 8), 1e-15);
    /* fewer pairs than an earlier look */
    near(mf_look_level(before, 4, 10, 0, &total), 0.05 / 16, 1e-15);
    near(total, 0.05 * (2 - 1.0 / 16), 1e-15);
    /* A planned look: the level .00557 of Lan and DeMets at half of the information (table 1,
     * for this kind of plan), and .05 together at the end, even if the end is later
     * than planned */
    n = 0;
    const double first = next_level(before, &n, 8, 16, &total);
    near(first, 0.00557, 1e-5);
    near(total, first, 0);
    const double second = next_level(before, &n, 12, 16, &total);
    near(mf_look_level(before, 2, 20, 16, &total), 0.05 - first - second, 1e-12);
    near(total, 0.05, 1e-12);
    near(next_level(before, &n, 16, 16, &total), 0.05 - first - second, 1e-12);
    near(total, 0.05, 1e-12);
    near(next_level(before, &n, 24, 16, &total), 0.025, 1e-12);
    near(total, 0.075, 1e-12);
    /* a look that was not planned uses a part of the remaining level */
    n = 1;
    near(next_level(before, &n, 4, 16, &total), 0.025, 0);
    near(total, 0.025 + first, 1e-15);
    near(next_level(before, &n, 16, 16, &total), 0.025 - first, 1e-15);
    near(total, 0.05, 1e-15);
    /* a very early look of a plan uses nearly nothing, and less than the remaining level */
    n = 0;
    near(next_level(before, &n, 2, 10000, &total), 0, 1e-300);
    near(next_level(before, &n, 3, 10000, &total), 0, 1e-300);
    near(next_level(before, &n, 10000, 10000, &total), 0.05, 0);
}
END_TEST

/* The level that earlier looks have used stays used, even if later plans have other looks. */
START_TEST(a_later_plan_does_not_give_back_what_was_spent)
{
    mf_look before[2] = {{0}};
    int n = 0;
    double total;
    next_level(before, &n, 3, 0, &total);
    near(next_level(before, &n, 6, 6, &total), 0.025, 1e-15);
    near(total, 0.075, 1e-15);
}
END_TEST

/* Share of comparisons of equal routers in which at least one look finds a difference. */
static double found_over_looks(const int *looks, int n, int most, bool corrected, int trials)
{
    const uint64_t stream = mf_rng_stream("check.stats.looks");
    static const double zero[64] = {0};
    mf_look before[8] = {{0}};
    double x[64], total;
    int hits = 0;
    for (int i = 0; i < trials; i++) {
        bool hit = false;
        int shown = 0;
        for (int j = 0; j < looks[n - 1]; j++)
            x[j] = (double)mf_rng_normal(3, stream, (uint64_t)i, (uint64_t)j);
        for (int k = 0; k < n; k++) {
            const double level =
                corrected ? next_level(before, &shown, looks[k], most, &total) : 0.05;
            hit = hit || mf_paired_of(x, zero, looks[k]).p < level;
        }
        hits += hit;
    }
    return (double)hits / trials;
}

START_TEST(looks_simulated)
{
    static const int looks[] = {5, 8, 12, 16, 24};
    const double naive = found_over_looks(looks, 5, 0, false, 10000);
    ck_assert_msg(naive > 0.09, "without a correction: %g", naive);
    const double planned = found_over_looks(looks, 5, 24, true, 10000);
    ck_assert_msg(planned < 0.05 + 0.009 && planned > 0.02, "planned: %g", planned);
    const double open = found_over_looks(looks, 5, 0, true, 10000);
    ck_assert_msg(open < 0.1 && open > 0.04, "not planned: %g", open);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stats");
    TCase *c = tcase_create("stats");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, beta);
    tcase_add_test(c, student_closed_forms);
    tcase_add_test(c, student_table);
    tcase_add_test(c, hours_of_sleep);
    tcase_add_test(c, maize);
    tcase_add_test(c, few_values);
    tcase_add_test(c, medians);
    tcase_add_test(c, holm);
    tcase_add_test(c, pairs);
    tcase_add_test(c, simulated);
    tcase_add_test(c, self_comparisons);
    tcase_add_test(c, sign_flip);
    tcase_add_test(c, probability_better);
    tcase_add_test(c, power_of_few_pairs_at_low_levels);
    tcase_add_test(c, look_levels);
    tcase_add_test(c, a_later_plan_does_not_give_back_what_was_spent);
    tcase_add_test(c, looks_simulated);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
