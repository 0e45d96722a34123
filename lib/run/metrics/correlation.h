/* run/metrics/correlation.h: correlation of two series. */
#ifndef MF_RUN_CORRELATION_H
#define MF_RUN_CORRELATION_H

/* Computes Pearson's r of x and y [n]. NaN for n < 2, if x or y is constant, or if a number is
 * not finite. */
double mf_pearson(int n, const double *x, const double *y);

typedef struct mf_ranked {
    double value;
    int at;
} mf_ranked;
/* Scratch memory of mf_spearman, with n elements in each array. */
typedef struct mf_rank_room {
    double *a, *b;
    mf_ranked *order;
} mf_rank_room;
/* Computes Spearman's rho: r of the ranks, where equal numbers get the mean of their ranks. NaN
 * in the cases in which mf_pearson returns NaN. */
double mf_spearman(int n, const double *x, const double *y, const mf_rank_room *room);

#endif
