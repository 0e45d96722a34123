/* lab/prune/prune_parts.h: declarations that the files of this folder share. */
#ifndef MF_LAB_PRUNE_PARTS_H
#define MF_LAB_PRUNE_PARTS_H

#include "lab/prune/prune.h"
#include "run/session.h"

/* Sums of one layer's experts over the tokens that use them. */
typedef struct mf_prune_sums {
    double *n, *gates, *norm, *both; /* [E]; norm: of |f|, both: of g |f| */
    double *alike;                   /* [E,E] of mf_prune_alike_add; NULL: not wanted */
} mf_prune_sums;

/* Adds the assignments of the last run of a graph with want_outputs. */
int mf_prune_sums_add(const mf_model_graph *mg, int32_t at, mf_prune_sums *to);
/* The score of an expert by its sums; for PROBE and RANDOM NaN. Unused experts have 0. */
double mf_prune_score(mf_prune_by by, const mf_prune_sums *s, int64_t e);
/* Marks in kept [E] all but the n experts with the lowest scores; of equal scores the higher
 * numbers go first. */
void mf_prune_keep(const double *score, int64_t E, int64_t n, bool *kept);

/* ---- merging ---- */

/* score [T,E]: the router's logits, or its probabilities (prob), whose logarithms are then
 * taken. Adds sum_t l_a(t) l_b(t) to the lower half of `to` [E,E], where l are the logits
 * less the mean of the token, which changes no softmax. mask [T]: 0
 * where a token does not count; NULL: all do. */
void mf_prune_alike_add(const float *score, int64_t T, int64_t E, const float *mask, bool prob,
                        double *to);
/* into [E]: for an expert that goes the kept one whose logits have the largest cosine with its
 * own, of equal ones the lowest number; a kept one is its own. */
void mf_prune_group(const double *alike, int64_t E, const bool *kept, int32_t *into);
/* Assigns each row of cost [n,n] a column of its own, ret [n], such that the sum is least. */
int mf_prune_assign(const double *cost, int64_t n, int64_t *ret);

/* Values before a merge, in a list behind a head that is all 0. */
typedef struct mf_prune_undo {
    mf_param *param;
    int64_t at, count;
    float *old;
    struct mf_prune_undo *next;
} mf_prune_undo;
/* Replaces the weights of each expert c of layer `at` by the mean over all e with into[e] = c,
 * weighted by weight [E]. aligned: hidden units of e are first matched to those of c. The store
 * is in f32. MF_EUSAGE: experts whose hidden units are not known, or weights that cannot be
 * changed. mf_prune_undo_all writes all old values back. */
int mf_prune_merge(const mf_model *m, int32_t at, const int32_t *into, const double *weight,
                   bool aligned, mf_prune_undo *undo);
/* Moves hidden unit u of each expert of a layer to place u + by, at the end again from 0. If
 * the units are what mf_prune_merge takes for them, the function of the experts stays. */
int mf_prune_turn(const mf_model *m, int32_t at, int64_t by);
/* The number of hidden units of an expert of the layer. */
int mf_prune_hidden(const mf_model *m, int32_t at, int64_t *ret);
void mf_prune_undo_all(const mf_model *m, mf_prune_undo *undo);

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
