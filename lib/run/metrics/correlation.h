/* run/metrics/correlation.h: correlation of two series. */
#ifndef MF_RUN_CORRELATION_H
#define MF_RUN_CORRELATION_H

/* Pearson's r of x and y [n]. NaN for n < 2, if one of them is constant, or if a number is
 * not finite. */
double mf_pearson(int n, const double *x, const double *y);

typedef struct mf_ranked {
    double value;
    int at;
} mf_ranked;
/* Scratch memory of mf_spearman: n elements of each. */
typedef struct mf_rank_room {
    double *a, *b;
    mf_ranked *order;
} mf_rank_room;
/* Spearman's rho: r of the ranks, where equal numbers get the mean of their ranks. NaN in the
 * cases in which mf_pearson gives NaN. */
double mf_spearman(int n, const double *x, const double *y, const mf_rank_room *room);

#endif
