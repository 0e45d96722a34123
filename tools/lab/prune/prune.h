/* lab/prune/prune.h: experts taken out of a run's model, with the loss of the smaller model
 * beside it.
 *
 * The same number of experts goes in every layer; their rows leave the router, and k stays, so
 * the next choice comes in. The experts with the lowest scores go. Expert e has n_e tokens t
 * that use it, with the gate g_e(t), which is the one that multiplies its output f_e(x_t):
 *
 *     count   n_e
 *     gates   sum of g_e(t)
 *     norm    mean of |f_e(x_t)|
 *     reap    mean of g_e(t) |f_e(x_t)|   (Lasby et al. 2025, REAP, arXiv 2510.13999, eq. 9)
 *     merge   as reap, and an expert that goes is added to the kept one that the router treats
 *             most like it: the weights of a group are averaged by n_e, after hidden units were
 *             matched (Li et al. 2023, M-SMoE, arXiv 2310.01334: groups and weights; cores by
 *             reap as in REAM, arXiv 2604.04356)
 *     average the same without matching
 *     probe   mean change of the loss over all tokens without e (lab/probe, next)
 *     random  a draw, as a control
 *
 * Scores come from one text, losses from another. The loss without a set of experts is first
 * measured on the whole model, by a probe that takes the set away; the smaller model must then
 * have the same loss: rows of experts are all that the router keeps of them. */
#ifndef MF_LAB_PRUNE_H
#define MF_LAB_PRUNE_H

#include "lab/probe/probe.h"
#include "run/run_config.h"

typedef enum mf_prune_by {
    MF_PRUNE_COUNT,
    MF_PRUNE_GATES,
    MF_PRUNE_NORM,
    MF_PRUNE_REAP,
    MF_PRUNE_MERGE,
    MF_PRUNE_AVERAGE,
    MF_PRUNE_PROBE,
    MF_PRUNE_RANDOM,
    MF_PRUNE_SCORES
} mf_prune_by;
extern const char *const mf_prune_scores[]; /* their names; ends with NULL */

typedef struct mf_prune_options {
    const mf_prune_by *by; /* [n_by] */
    int n_by;
    double share;      /* of a layer's experts that go, 0 to 1, rounded to a number */
    int draws;         /* random sets as a control; 0: none */
    int64_t calibrate; /* batches of the text for scores; 0: all */
    const char *text;  /* file for scores; NULL: the training split */
    int64_t batches;   /* batches of the validation split for losses; 0: all */
    uint64_t draw;     /* seed of batches and of random sets */
    double margin;     /* of verdicts of the probe; see lab/probe/probe.h */
    int n_set;         /* changes of the configuration, such as data.path */
    const mf_assignment *set;
    bool write;      /* write the run; n_by is 1 */
    const char *run; /* its directory; NULL: runs/RUN-pruned-N */
    /* as in mf_probe_options; what: "scores" or "losses", begins again for each */
    int (*each)(void *arg, const char *what, int64_t done, int64_t total);
    void *arg;
} mf_prune_options;

typedef struct mf_prune_row {
    mf_prune_by by;
    double loss;
    mf_cluster_mean change;  /* against the whole model */
    mf_estimate less_random; /* change - change of a random set, over the draws; n 0: none */
    int better;              /* number of draws whose loss is higher */
    bool *const *kept;       /* [layers][E] */
    /* of merge and average, else NULL: [layers][E] the expert to which each one was added, and
     * the change by this against the removal of the same experts alone */
    int32_t *const *into;
    mf_cluster_mean gain;
} mf_prune_row;

typedef struct mf_prune_report {
    mf_arena *arena;
    const char *run;  /* the new run; NULL: none was written */
    const char *unit; /* clusters of the intervals: "documents", "examples" or "windows" */
    const char *loss_of;
    const char *scored_on; /* "train of" and the file, or the file of options->text */
    const char *text;      /* file of the losses, or builtin:topics */
    int32_t layers, experts, left;
    const int32_t *layer; /* [layers] numbers of the blocks */
    mf_cluster_mean base;
    mf_prune_row *row; /* [n] as in options->by */
    int n;
    double *random; /* [draws] changes of the random sets */
    int draws;
    double written_loss; /* of the new model, on the same tokens; NaN: none was written */
    int64_t params_before, params_after;
} mf_prune_report;

/* MF_EUSAGE: the model has no experts, layers with different numbers of them, a router that
 * selects by itself or by groups, or fewer than k would be left; MF_ECONFIG: the smaller model
 * does not have the loss that the probe found, so nothing is written; errors of runs, batches
 * and graphs. A failure leaves no new files. The caller frees *ret. */
int mf_prune(const char *run, const mf_prune_options *o, mf_prune_report **ret);
void mf_prune_report_free(mf_prune_report *r);

#endif
