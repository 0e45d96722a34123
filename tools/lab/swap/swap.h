/* lab/swap/swap.h: replaces the routers of a model by others, and measures what this changes.
 *
 * The result is an ordinary run with one checkpoint, of step 0. All weights except those of the
 * new routers come from the old run, also the gates of shared experts. Metrics of a layer are
 * measured on the inputs that its old router receives. So each layer is compared as if all
 * earlier layers were unchanged. The loss after the swap is that of the new model. */
#ifndef MF_LAB_SWAP_H
#define MF_LAB_SWAP_H

#include <stdbool.h>
#include <stdint.h>
#include "run/sections/sources.h"

typedef struct mf_swap_options {
    const char *router; /* name with options: mlp, or mlp:hidden=64,input_norm=none */
    const char *layers; /* blocks that get the new router: "all", "3", "0-2, 5"; NULL: all */
    int64_t match;      /* number of batches on which new routers are fitted; 0: no fit */
    double match_lr;    /* highest learning rate of the fit */
    int64_t batches;    /* number of batches of the validation split for the report; 0: the
                         * whole split */
    bool fresh;         /* start from initial values, even for parameters that the old routers
                         * also have */
    const char *run;    /* directory of the new run, which must be new or empty;
                         * NULL: runs/NAME-N */
    int n_set;          /* number of further changes of the configuration */
    const mf_assignment *set;
} mf_swap_options;

/* Metrics of one layer. A metric is NaN if one of the routers does not compute the values
 * to compare. */
typedef struct mf_swap_layer {
    int32_t layer, experts;
    bool swapped;
    double overlap; /* mean over tokens of |A and B| / |A or B| for the chosen sets */
    /* mean over tokens of sum p ln(p / q) - p + q, where p are the old and q the new
     * probabilities. It is the Kullback-Leibler divergence, generalized to numbers that do not
     * sum to 1. kl_start: before the fit; kl: after the fit */
    double kl_start, kl;
    double mass_moved; /* mean over tokens of half of sum |g - h|, gates divided by their sum */
    double *load_before, *load_after; /* [experts] share of the chosen assignments */
} mf_swap_layer;

typedef struct mf_swap_report {
    char *run; /* path of the new run */
    const char *router;
    int32_t n_layers;
    mf_swap_layer *layers;
    int64_t matched;         /* number of batches of the fit */
    int64_t batches, tokens; /* numbers on which the report is measured */
    /* mean over targets of KL(old || new) of the predicted distributions; NaN: regression */
    double kl_next_token;
    double loss_before, loss_after; /* loss of the task before and after the swap */
    struct mf_arena *arena;
} mf_swap_report;

/* Swaps the routers of `run`. The caller frees *ret. If an error occurs, no new run remains.
 * Errors: those of mf_load_run_as and mf_rundir_create; MF_EUSAGE if there are no routers, or
 * none that can be fitted; MF_ENONFINITE if the fit diverges. */
int mf_swap(const char *run, const mf_swap_options *options, mf_swap_report **ret);
void mf_swap_report_free(mf_swap_report *r); /* r may be NULL */

#endif
