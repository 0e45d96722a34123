/* lab/prune/prune_parts.h: declarations that the files of this folder share. */
#ifndef MF_LAB_PRUNE_PARTS_H
#define MF_LAB_PRUNE_PARTS_H

#include "lab/prune/prune.h"
#include "run/session.h"

/* Sums of one layer's experts over the tokens that use them. */
typedef struct mf_prune_sums {
    double *n, *gates, *norm, *both; /* [E]; norm: of |f|, both: of g |f| */
} mf_prune_sums;

/* Adds the assignments of the last run of a graph with want_outputs. */
int mf_prune_sums_add(const mf_model_graph *mg, int32_t at, mf_prune_sums *to);
/* The score of an expert by its sums; for PROBE and RANDOM NaN. Unused experts have 0. */
double mf_prune_score(mf_prune_by by, const mf_prune_sums *s, int64_t e);
/* Marks in kept [E] all but the n experts with the lowest scores; of equal scores the higher
 * numbers go first. */
void mf_prune_keep(const double *score, int64_t E, int64_t n, bool *kept);

/* Copies all parameters of `from` to the smaller model `to`: of a parameter of layer N with the
 * axis of experts the rows of those that are kept. MF_ECONFIG names a parameter that does
 * not fit. */
int mf_prune_copy(const mf_model *from, mf_model *to, bool *const *kept);

/* Runs the first validation batch through the whole model with the change `mask`, and through
 * the smaller one. *ret: the share of the assignments of the smaller model that the whole one
 * has, too. */
int mf_prune_same_choices(mf_session *whole, mf_session *smaller, int64_t step,
                          const mf_probe_change *mask, bool *const *kept, double *ret);

#endif
