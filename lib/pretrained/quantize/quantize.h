/* pretrained/quantize/quantize.h: a run in four or eight bits: weights of attention, dense
 * blocks and experts in the layout GPTQ, version 1. Nothing else changes.
 *
 * Not quantized: routers, norms, biases, embeddings, heads, gates of shared experts, and
 * matrices that this layout cannot store: several experts in one tensor, transposed
 * matrices, and matrices with a side that 8 does not divide. The result is a model folder,
 * and a run that was imported from it. */
#ifndef MF_QUANTIZE_H
#define MF_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>
#include "run/sections/sources.h"

typedef struct mf_quantize_options {
    const char *run;   /* path of the new run, a directory that is new or empty; its folder
                        * is run.hf */
    int bits;          /* of a weight: 4 or 8 */
    bool unmeasured;   /* what it costs is not measured */
    int64_t group;     /* number of inputs that share a scale; -1: all */
    int64_t calibrate; /* number of batches of the training split for GPTQ; 0: round
                        * to nearest */
    double damp;       /* share of the mean of H's diagonal that is added to the diagonal */
    bool act_order;    /* GPTQ rounds the inputs with the largest H first */
    int64_t batches;   /* number of batches of the validation split for the report; 0: the
                        * whole split */
    int n_set;         /* number of further changes of the configuration */
    const mf_assignment *set;
} mf_quantize_options;

/* Measurements of one layer with experts. */
typedef struct mf_quantize_layer {
    int32_t layer;
    double changed; /* share of tokens whose set of chosen experts has changed */
    double overlap; /* mean over tokens of |A and B| / |A or B|, A and B the sets before
                     * and after */
} mf_quantize_layer;

typedef struct mf_quantize_report {
    char *run, *folder;
    int64_t quantized, left; /* numbers of quantized and of other matrices of two dimensions
                              * in blocks */
    int64_t rounded;         /* part of `quantized` that was rounded to nearest, because the
                              * calibration produced no inputs, or inputs whose H has
                              * no inverse */
    int32_t n_layers;
    mf_quantize_layer *layers;
    /* numbers of batches and tokens on which the values were measured; 0: the run has no
     * data or `unmeasured` was set, and there are no layers */
    int64_t batches, tokens;
    /* NaN if nothing was measured. kl_next_token: mean over targets, in nats; NaN, too, if the
     * model predicts numbers */
    double kl_next_token, loss_before, loss_after;
    struct mf_arena *arena;
} mf_quantize_report;

/* Quantizes a run. Errors: those of mf_export_hf and mf_import; MF_EUSAGE if there is nothing
 * to quantize. If an error occurs, neither the folder nor the run remains. The caller
 * frees *ret. */
int mf_quantize(const char *run, const mf_quantize_options *options, mf_quantize_report **ret);
void mf_quantize_report_free(mf_quantize_report *r); /* r may be NULL */

#endif
