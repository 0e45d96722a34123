/* adapters/low_rank.h: low-rank updates of weights, W' = W + scale B A, cut and joined by rows.
 *
 * Files and models divide a weight into linear layers in different ways: queries, keys and
 * values are one layer in some, and three layers in others. A change therefore says which rows
 * of the weight in the store it covers. mf_low_rank_fit combines all changes of a weight into
 * one change that covers given rows. Nothing here is computed with less precision than f32. */
#ifndef MF_PRETRAINED_LOW_RANK_H
#define MF_PRETRAINED_LOW_RANK_H

#include "base/mem.h"
#include "graph/store/param.h"

/* Row i of a linear layer is row mf_rows_at(i) of the weight. */
typedef struct mf_rows {
    int64_t from, n;
    /* 0: the layer has rows from .. from + n - 1 in this order. Otherwise from is 0, n is 2
     * pairs, row 2 i is row i of the first half, and row 2 i + 1 is row i of the
     * second half. */
    int64_t pairs;
} mf_rows;

int64_t mf_rows_at(const mf_rows *r, int64_t i);
int64_t mf_rows_find(const mf_rows *r, int64_t row); /* the inverse of mf_rows_at; -1: not one
                                                      * of the rows */

typedef struct mf_low_rank {
    mf_rows rows;
    int64_t experts; /* number of experts, at least 1 */
    int64_t inputs, rank;
    /* rank and alpha of each expert. The scale is alpha / rank, or alpha / square root of rank
     * if rslora is set. */
    double alpha;
    bool rslora;
    const float *a; /* [experts, rank, inputs] */
    const float *b; /* [experts, rows.n, rank] */
} mf_low_rank;

double mf_low_rank_scale(const mf_low_rank *c);
/* Combines all changes [n] of a weight into the change of the given rows. Rows that no change
 * covers are zeros in B. If all changes have the same A, the result also has this A; otherwise
 * the ranks are added. *ret_any: whether a change covers one of the rows; if not, *ret is
 * unchanged. The arena owns A and B. MF_ENOMEM. */
int mf_low_rank_fit(const mf_low_rank *const *changes, int n, const mf_rows *rows,
                    mf_arena *arena, mf_low_rank *ret, bool *ret_any);
/* Adds sign scale B A to a weight [experts, weight_rows, inputs]. */
void mf_low_rank_add(const mf_low_rank *c, double sign, int64_t weight_rows, float *weight);

#endif
