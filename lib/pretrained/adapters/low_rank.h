/* adapters/low_rank.h: low-rank updates of weights, W' = W + scale B A, cut and joined
 * by rows.
 *
 * Files and models cut a weight into linear layers in their own ways: one has queries, keys and
 * values in one layer, another has three. So a change says which rows of the weight in the
 * store it covers, and mf_low_rank_fit makes from all changes of a weight the one that covers
 * given rows. Nothing here is computed with less precision than f32. */
#ifndef MF_PRETRAINED_LOW_RANK_H
#define MF_PRETRAINED_LOW_RANK_H

#include "base/mem.h"
#include "graph/store/param.h"

/* Row i of a linear layer is row mf_rows_at(i) of the weight. */
typedef struct mf_rows {
    int64_t from, n;
    /* 0: rows from .. from + n - 1 in this order. Else from is 0, n is 2 pairs, and row 2 i is
     * row i of the first half, row 2 i + 1 that of the second half. */
    int64_t pairs;
} mf_rows;

int64_t mf_rows_at(const mf_rows *r, int64_t i);
int64_t mf_rows_find(const mf_rows *r, int64_t row); /* the inverse; -1: not one of them */

typedef struct mf_low_rank {
    mf_rows rows;
    int64_t experts; /* at least 1 */
    int64_t inputs, rank;
    /* Both for each expert. An alpha belongs to the factor: alpha / rank, or alpha / root of
     * rank if rslora is set. */
    double alpha;
    bool rslora;
    const float *a; /* [experts, rank, inputs] */
    const float *b; /* [experts, rows.n, rank] */
} mf_low_rank;

double mf_low_rank_scale(const mf_low_rank *c);
/* Makes the change of the rows from all changes [n] of their weight. Rows that no change covers
 * get zeros in B. If all changes have the same A, the result has it, too; else their ranks are
 * added. *ret_any: whether a change covers one of the rows; if not, *ret is unchanged. The
 * arena owns A and B. MF_ENOMEM. */
int mf_low_rank_fit(const mf_low_rank *const *changes, int n, const mf_rows *rows,
                    mf_arena *arena, mf_low_rank *ret, bool *ret_any);
/* Adds sign scale B A to a weight [experts, weight_rows, inputs]. */
void mf_low_rank_add(const mf_low_rank *c, double sign, int64_t weight_rows, float *weight);

#endif
