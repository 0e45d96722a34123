/* train/optim.h: AdamW over all parameters in one pass (Loshchilov, Hutter 2019, algorithm 2).
 *
 * Neighbours in the store with equal settings are merged into ranges once; a step is one sum of
 * squares and one pass of the adamw kernel over each range, which writes the bf16 copies of the
 * values where the store keeps them. Optimizer `adam` puts weight decay
 * into the gradient instead of beside it.
 */
#ifndef MF_TRAIN_OPTIM_H
#define MF_TRAIN_OPTIM_H

#include "graph/graph.h"
#include "train/train_config.h"

typedef struct mf_optim mf_optim;

typedef struct mf_optim_step {
    int64_t step; /* updates done before this one, for the bias correction */
    double lr, weight_decay, clip;
    double grad_scale; /* multiplies gradients first: 1 / micro-batches */
    const float *loss; /* where kernels find the step's loss; NULL: it is taken as finite */
} mf_optim_step;

int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret);
void mf_optim_free(mf_optim *o);
/* Ranges follow frozen flags, learning-rate scales and those of parts; call after any
 * changed. */
int mf_optim_refresh(mf_optim *o);
/* Launches the measurement of the gradient. */
void mf_optim_measure(mf_optim *o);
/* Launches the optimizer step of the gradient that was measured last. Values and moments stay
 * as they are where its norm or the loss is not finite. */
void mf_optim_update(mf_optim *o, const mf_optim_step *s);
/* Reads the length of the measured gradient, multiplied by grad_scale, before clipping. */
double mf_optim_norm(const mf_optim *o, const mf_optim_step *s);

#endif
