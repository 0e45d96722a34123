/* Intervals of ratios over clusters. Documents are the units that were drawn; tokens of one
 * document resemble one another. Source: linearised variance of a ratio (Cochran 1977, Sampling
 * Techniques, section 6.3), with Student's t for the number of clusters. */
#include <math.h>

#include "lab/analyze/analyze.h"
#include "lab/stats.h"

mf_ratio mf_cluster_ratio(const double *a, const double *b, int32_t n)
{
    double sum_a = 0, sum_b = 0, squares = 0;
    for (int32_t c = 0; c < n; c++) {
        sum_a += a[c];
        sum_b += b[c];
    }
    if (!(sum_b > 0)) return (mf_ratio){NAN, NAN, NAN};
    const double m = sum_a / sum_b;
    if (n < 2) return (mf_ratio){m, NAN, NAN};
    for (int32_t c = 0; c < n; c++)
        squares += (a[c] - m * b[c]) * (a[c] - m * b[c]);
    const double se = sqrt((double)n / (n - 1) * squares) / sum_b,
                 half = mf_t_quantile(.975, n - 1) * se;
    return (mf_ratio){m, m - half, m + half};
}
