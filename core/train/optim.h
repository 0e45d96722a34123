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
struct mf_adamw_now;

typedef struct mf_optim_step {
    int64_t step; /* updates done before this one, for the bias correction */
    double lr, weight_decay, clip;
    double grad_scale; /* multiplies gradients first: 1 / micro-batches */
    const float *loss; /* where kernels find the step's loss, on the device; NULL: it is taken
                          as finite */
} mf_optim_step;

int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret);
void mf_optim_free(mf_optim *o);
/* Ranges follow frozen flags, learning-rate scales and those of parts; call after any
 * changed. */
int mf_optim_refresh(mf_optim *o);
/* Device memory of the caller's for the numbers of a step (mf_optim_now gives them), which are
 * there when update's kernels run, and for the sum of squares. NULL: the optimizer's own; then
 * update copies the numbers there. */
void mf_optim_exchange(mf_optim *o, const void *now, void *sumsq);
void mf_optim_now(const mf_optim *o, const mf_optim_step *s, struct mf_adamw_now *ret);
/* Launches the measurement of the gradient: the sum of its squares. */
int mf_optim_measure(mf_optim *o);
/* Launches the optimizer step of the gradient that was measured last. Values and moments stay
 * as they are where its norm or the loss is not finite, or a kernel has recorded a fault. */
int mf_optim_update(mf_optim *o, const mf_optim_step *s);
/* The length of the gradient with that sum of squares, before clipping: multiplied by
 * grad_scale. */
double mf_optim_norm(double sumsq, const mf_optim_step *s);

#endif
