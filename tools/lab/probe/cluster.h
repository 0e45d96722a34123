/* lab/probe/cluster.h: the mean of differences of tokens that come in clusters, such as
 * documents. Tokens of one document are alike, so intervals that take tokens as independent are
 * too short. */
#ifndef MF_LAB_PROBE_CLUSTER_H
#define MF_LAB_PROBE_CLUSTER_H

#include "lab/equal.h"

typedef struct mf_cluster_mean {
    double tokens;     /* T, over all clusters */
    int64_t clusters;  /* C: the number of clusters that have tokens */
    double mean;       /* NaN without tokens */
    double se, lo, hi; /* standard error, and the 95 % interval; NaN unless C is at least 2 */
} mf_cluster_mean;

/* sum[c] and tokens[c]: the sum of the differences of cluster c, and the number of its tokens.
 *
 *     m = sum_c S_c / T,   se^2 = C / (C - 1) sum_c (S_c - m T_c)^2 / T^2
 *
 * with C - 1 degrees of freedom: the ratio estimator of a sample of clusters (Cochran 1977,
 * Sampling Techniques, section 6.3). Clusters without tokens are not counted. */
mf_cluster_mean mf_cluster_mean_of(const double *sum, const double *tokens, int64_t n);

/* The tests of lab/equal.h with this mean and its standard error. */
mf_three_sided mf_cluster_sides(const mf_cluster_mean *m, double margin);

#endif
