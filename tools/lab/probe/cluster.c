/* Means of clustered differences. If all sums are 0, mean and standard error are exactly 0, so
 * a change that touches no token is reported as exactly no change. */
#include "lab/probe/cluster.h"
#include <math.h>

#define LEVEL 0.05

mf_cluster_mean mf_cluster_mean_of(const double *sum, const double *tokens, int64_t n)
{
    mf_cluster_mean m = {.mean = NAN, .se = NAN, .lo = NAN, .hi = NAN};
    double total = 0, squares = 0;
    for (int64_t c = 0; c < n; c++) {
        if (!(tokens[c] > 0)) continue;
        m.clusters++;
        m.tokens += tokens[c];
        total += sum[c];
    }
    if (m.clusters == 0) return m;
    m.mean = total / m.tokens;
    if (m.clusters < 2) return m;
    for (int64_t c = 0; c < n; c++)
        if (tokens[c] > 0) {
            const double rest = sum[c] - m.mean * tokens[c];
            squares += rest * rest;
        }
    const double C = (double)m.clusters;
    m.se = sqrt(C / (C - 1) * squares) / m.tokens;
    const double half = m.se > 0 ? m.se * mf_t_quantile(1 - LEVEL / 2, C - 1) : 0;
    m.lo = m.mean - half;
    m.hi = m.mean + half;
    return m;
}

mf_three_sided mf_cluster_sides(const mf_cluster_mean *m, double margin)
{
    const mf_estimate e = {.n = (int)m->clusters,
                           .mean = m->mean,
                           .sd = m->se * sqrt((double)m->clusters),
                           .lo = m->lo,
                           .hi = m->hi};
    return mf_three_sided_of(&e, margin);
}
