/* lab/probe/probe.h: what a change of routing costs on one model, whose weights stay as they
 * are, on the same tokens.
 *
 * The loss change of a token is d = loss with the change - loss without it, in nats. Means have
 * intervals over documents (lab/probe/cluster.h). An interval speaks of texts, for this model:
 * whether a router would learn the same again, only runs of other seeds tell. */
#ifndef MF_LAB_PROBE_H
#define MF_LAB_PROBE_H

#include "base/mem.h"
#include "data/corpus.h"
#include "lab/probe/cluster.h"
#include "model/model.h"

struct mf_session;

typedef enum mf_probe_kind {
    /* the experts of `set` have the score -inf, so the next best ones are chosen, and gates are
     * as the router makes them without these experts: as if they did not exist */
    MF_PROBE_NEXT,
    /* assignments to the experts of `set` add nothing; the other gates stay */
    MF_PROBE_DROP,
    MF_PROBE_EXCHANGE, /* what is routed to a is computed by b, and the reverse */
    MF_PROBE_FORCE,    /* every token chooses among the experts of `set` */
    MF_PROBE_RANK,     /* each token's choice number a (from 1) becomes its choice k + 1 */
    MF_PROBE_BIAS,     /* d standard deviations of the layer's scores are added to the score of
                        * a for selection; gates are not biased */
    MF_PROBE_TOP_K,    /* a experts for each token */
    MF_PROBE_KINDS
} mf_probe_kind;
extern const char *const mf_probe_kinds[]; /* "next", "drop", ...; ends with NULL */

typedef struct mf_probe_change {
    mf_probe_kind kind;
    int32_t at;   /* the MoE layer, counted from 0 */
    int32_t a, b; /* see the kind; -1: none */
    double d;
    bool *set; /* [E] */
    const char *name;
    const struct mf_probe_change *also; /* made at the same time, in another layer; or NULL */
} mf_probe_change;

typedef struct mf_probe_list {
    mf_probe_change *change;
    int n, room;
} mf_probe_list;

/* Add changes in the order of layers and experts. Strings and sets are in the arena.
 *
 *   remove    text: "all", or a list of LAYER.EXPERT, LAYER is the number of a block; `kind` is
 *             NEXT or DROP
 *   exchange  "all" pairs of each layer, or a list of LAYER.A-B
 *   force     a list of LAYER.A+B+...; a set has at least k experts
 *   rank      each rank 1..k of each layer
 *   bias      d for each expert of each layer
 *   top_k     k + more experts in each layer; refused if one then has none or too many
 *
 * MF_EUSAGE with the word, what was expected, and what the model has. MF_ENOMEM. */
int mf_probe_remove(const mf_model *m, mf_arena *arena, mf_probe_kind kind, const char *text,
                    mf_probe_list *ret);
int mf_probe_exchange(const mf_model *m, mf_arena *arena, const char *text, mf_probe_list *ret);
int mf_probe_force(const mf_model *m, mf_arena *arena, const char *text, mf_probe_list *ret);
int mf_probe_rank(const mf_model *m, mf_arena *arena, mf_probe_list *ret);
int mf_probe_bias(const mf_model *m, mf_arena *arena, double d, mf_probe_list *ret);
int mf_probe_top_k(const mf_model *m, mf_arena *arena, int more, mf_probe_list *ret);

/* ---- measuring ---- */

typedef struct mf_probe_options {
    mf_split split;
    int64_t step;    /* of the weights: evaluations draw their random numbers by it */
    int64_t batches; /* at most so many, drawn from the split; 0: all of them */
    uint64_t draw;   /* seed of the draw */
    double margin;   /* nats; see the verdicts */
    bool by_label;   /* also measure each label */
    /* called after each run forward; a value other than 0 ends the probe with MF_ESIGNAL */
    int (*each)(void *arg, int64_t done, int64_t total);
    void *arg;
} mf_probe_options;

typedef enum mf_probe_verdict {
    MF_PROBE_UNSHOWN,
    MF_PROBE_MATTERS,   /* the loss rises by more than the margin */
    MF_PROBE_REDUNDANT, /* the change of the loss lies within the margin */
    MF_PROBE_HURTS      /* the loss falls by more than the margin */
} mf_probe_verdict;
extern const char *const mf_probe_verdicts[];

typedef struct mf_probe_row {
    const mf_probe_change *change;
    /* the share of tokens that use one of the experts of the change; NaN: it concerns all */
    double share;
    mf_cluster_mean all;
    const double *sum;      /* [clusters] the sum of the differences */
    mf_cluster_mean *label; /* [labels]; NULL without by_label */
    /* [labels] as the verdict of the row, by Holm over all rows and labels */
    mf_probe_verdict *label_verdict;
    /* p of the likeliest claim of the three, corrected by Holm over all rows; the verdict holds
     * at level .05 */
    double p;
    mf_probe_verdict verdict;
} mf_probe_row;

typedef struct mf_probe_report {
    mf_arena *arena;
    const char *text;     /* file of the split, or builtin:topics */
    const char *unit;     /* what a cluster is: "documents", "examples" or "windows" */
    const char *loss_of;  /* "token" or "example" */
    mf_cluster_mean base; /* the loss without a change */
    /* [clusters] sums of this loss, and tokens */
    const double *base_sum, *base_tokens;
    int64_t clusters;
    int64_t batches, of;  /* measured, and of the split */
    int32_t labels;       /* 0 without by_label */
    double *label_tokens; /* [labels] */
    double *sd;           /* [MoE layers] standard deviation of the scores; NaN: not needed */
    mf_probe_row *row;    /* [n] */
    int n;
} mf_probe_report;

/* Measures all changes. MF_EUSAGE: the model has no experts or no loss of tokens, a change does
 * not fit a layer's router, or there are no labels. Errors of batches and graphs. The caller
 * frees *ret, whose rows point to the changes. */
int mf_probe_measure(struct mf_session *s, const mf_probe_list *changes,
                     const mf_probe_options *o, mf_probe_report **ret);
void mf_probe_report_free(mf_probe_report *r);

#endif
