/* lab/analyze/analyze.h: what the routing of a text looks like.
 *
 * N: number of tokens. A(t): the set of experts chosen for token t, before capacity; k: its
 * size. E: number of experts. n_e: number of tokens with e in A(t). All sums are over all
 * tokens, so frequent tokens count more than rare ones. Every figure has the value that
 * independent or random routing would give beside it, because loads that are not equal, or few
 * tokens, make many figures large by arithmetic alone.
 *
 * Tokens of one document are not independent. Intervals are of 95 %, and take documents, not
 * tokens, as the units that were drawn (mf_cluster_ratio). */
#ifndef MF_LAB_ANALYZE_H
#define MF_LAB_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* With fewer documents, intervals are too short (simulated: .90 of them with 8 documents, .91
 * with 20 contain the truth). */
#define MF_FEW_DOCUMENTS 20
/* With fewer assignments for each pair of a value and an expert, figures of a value are mostly
 * bias (mf_information). */
#define MF_FEW_IN_CELL 20

/* The choices of one layer. */
typedef struct mf_routes {
    int32_t layer, experts; /* block index; E */
    int64_t n;              /* N */
    const int64_t *begin;   /* [N+1] token t chose expert[begin[t]] .. expert[begin[t+1] - 1] */
    const int32_t *expert;  /* distinct for each token, 0 .. E-1 */
} mf_routes;

/* The documents to which tokens belong. */
typedef struct mf_clusters {
    const int32_t *of; /* [N] 0 .. n-1; tokens of a document are neighbours */
    int32_t n;
} mf_clusters;

/* ---- intervals (clusters.c) ---- */

typedef struct mf_ratio {
    double value, lo, hi; /* lo, hi: NaN with fewer than two clusters */
} mf_ratio;

/* The ratio m = sum a / sum b over n clusters, and its interval: m +- t(n-1) se with
 * se^2 = n/(n-1) sum_c (a_c - m b_c)^2 / (sum b)^2. With b the numbers of tokens it is the mean
 * over tokens, with clustered errors. NaN if sum b is 0. */
mf_ratio mf_cluster_ratio(const double *a, const double *b, int32_t n);

/* ---- what a value of a token says about its experts (information.c) ---- */

typedef struct mf_information {
    int64_t tokens;  /* number of tokens that have a value */
    int64_t values;  /* number of different values */
    double entropy;  /* H(e) of the assignments, nats */
    double per_cell; /* assignments for each pair of a value that occurs and an expert */
    /* Shares of H(e), 1: the value says all. plug_in is too high, shuffled = plug_in minus
     * plug_in of shuffled values is too low where there is information, held_out is a lower
     * bound: 1 - CE / H(e), where CE is the cross-entropy of documents that were not used for
     * p(e | value). NaN: H(e) is 0; held_out, lo and hi also with fewer than 4 documents. */
    double plug_in, shuffled, held_out, lo, hi;
    double most; /* greatest possible share: 1 - (mean of ln k) / H(e) */
} mf_information;

/* value: [N], -1: the token has none and is not counted. MF_ENOMEM. */
int mf_information_of(const mf_routes *r, const int32_t *value, const mf_clusters *c,
                      mf_information *ret);

/* ---- labels (labels.c) ---- */

typedef struct mf_label_use {
    int32_t labels;
    double *tokens;         /* [labels] number of tokens */
    double *share;          /* [E, labels] share of the label's tokens that use the expert */
    double *lo, *hi;        /* [E, labels] its interval */
    double nmi, nmi_random; /* NMI(expert, label); the same with shuffled labels */
    mf_information says;    /* what the label says about the expert */
    /* 0: routing that depends on labels as that of router `oracle` (expert = label mod E), 1:
     * on nothing of them. 1 - H(e) says.held_out / I, where I is the information of the
     * oracle about the labels of these tokens, the entropy of label mod E. NaN: the tokens
     * have one label. */
    double distance, distance_lo, distance_hi;
} mf_label_use;

/* label: [N], -1: unknown. Arrays are in the arena. MF_ENOMEM. */
int mf_label_use_of(const mf_routes *r, const int32_t *label, int32_t labels,
                    const mf_clusters *c, mf_arena *arena, mf_label_use *ret);

/* ---- pairs of experts (coactivation.c) ---- */

/* Counts n_ij of tokens that chose both i and j are over all k (k-1) / 2 pairs of a token's
 * experts. Chance: the mean of n_ij over tables with the same k of every token and the same n_e
 * of every expert, drawn by trades of the experts in which two tokens differ (curveball; Strona
 * et al. 2014, Nature Communications 5:4114). At equal loads it is N k (k-1) / (E (E-1)). */
typedef struct mf_coactivation {
    int32_t experts;
    int64_t pairs;          /* E (E-1) / 2; 0: no token has two experts */
    int64_t over;           /* pairs with more than chance, at level .05 over all pairs */
    double *count, *chance; /* [E,E] symmetric; the diagonal of count has n_e */
    double *lift, *lo, *hi; /* [E,E] count / chance and its interval; NaN: chance is 0 */
    double even;            /* P(j | i) at equal loads: (k-1) / (E-1) for the mean k */
    int32_t first, second;  /* the pair over chance with the largest lift; -1: none */
} mf_coactivation;

int mf_coactivation_of(const mf_routes *r, const mf_clusters *c, mf_arena *arena,
                       mf_coactivation *ret);

/* An order in which experts that are chosen together are neighbours: the two groups with the
 * largest mean lift are joined until one is left (average linkage; Sokal and Michener 1958).
 * order: [E]. MF_ENOMEM. */
int mf_coactivation_order(const mf_coactivation *c, int32_t *order);

/* Counts of tokens that chose i in one layer and j in another, as lift over n_i n_j / N:
 * [E of from, E of to], NaN where this is 0; in the arena. NULL: no memory. */
double *mf_transitions(const mf_routes *from, const mf_routes *to, mf_arena *arena);

/* ---- saturation over checkpoints (saturation.c) ---- */

typedef struct mf_saturation {
    int64_t step;
    mf_ratio overlap; /* mean over tokens of the share of A_end(t) that is in A_step(t) */
    /* the same if both choices were independent with these loads: sum_e q_e q'_e / k, q = n_e /
     * N. Loads that become unequal raise the overlap, and this value with it. */
    double chance;
} mf_saturation;

/* MF_EINPUT: the layers are not of the same tokens and experts. MF_ENOMEM. */
int mf_saturation_of(const mf_routes *then, const mf_routes *end, const mf_clusters *c,
                     mf_saturation *ret);

/* ---- loads (utilization.c) ---- */

typedef struct mf_utilization {
    double mean_k; /* assignments for each token */
    double entropy, entropy_lo,
        entropy_hi;          /* of loads, divided by ln E; intervals: bootstrap of
                                             * documents, percentiles */
    double cv, cv_lo, cv_hi; /* standard deviation / mean of loads */
    double cv_chance;        /* of drawn experts: sqrt((E-1) / (N k)) */
    double top;              /* share of the assignments of the most used expert */
    int32_t half;            /* number of experts that have half of them */
    int32_t dead;            /* experts with n_e < N k / (100 E) */
    double *load;            /* [E] share of the assignments */
} mf_utilization;

int mf_utilization_of(const mf_routes *r, const mf_clusters *c, mf_arena *arena,
                      mf_utilization *ret);

#endif
