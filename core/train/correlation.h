/* train/correlation.h: how two series go together. */
#ifndef MF_TRAIN_CORRELATION_H
#define MF_TRAIN_CORRELATION_H

/* Pearson's r of x and y [n]. NaN for n < 2, where one of them does not vary, and where a
 * number is not finite. */
double mf_pearson(int n, const double *x, const double *y);

typedef struct mf_ranked {
    double value;
    int at;
} mf_ranked;
/* Room that mf_spearman works in: n elements of each. */
typedef struct mf_rank_room {
    double *a, *b;
    mf_ranked *order;
} mf_rank_room;
/* Spearman's rho: r of the ranks, equal numbers sharing the mean of theirs. NaN as above. */
double mf_spearman(int n, const double *x, const double *y, const mf_rank_room *room);

#endif
