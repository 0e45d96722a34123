/* train/optim/optim.h: the optimizer step over all parameters, for each train.optimizer.
 *
 * Neighbouring parameters with equal settings are merged into ranges when the optimizer is
 * created or refreshed. A step is one sum of squares, followed by one kernel for each range
 * that is not frozen, or a few kernels for each parameter that the optimizer updates as a whole
 * (method.h). The kernels also write the bf16 copies of the values. */
#ifndef MF_TRAIN_OPTIM_H
#define MF_TRAIN_OPTIM_H

#include "graph/graph.h"
#include "train/train_config.h"

typedef struct mf_optim mf_optim;
struct mf_update_now;

typedef struct mf_optim_step {
    int64_t step;                  /* number of steps before this one, including
                                    * skipped steps */
    double lr, weight_decay, clip; /* clip 0: gradients are not clipped */
    double grad_scale;             /* gradients are first multiplied by it: 1 / micro-batches */
    /* the step's loss on the store's device; NULL: only the norm must be finite */
    const float *loss;
} mf_optim_step;

/* For mf_model_options.moments: tells a store before it is sealed which moments the optimizer
 * of this configuration (an mf_train_config) keeps. */
void mf_optim_want_moments(const void *config, mf_store *store);
/* Returns the bytes of work memory that the optimizer allocates for this store. */
size_t mf_optim_work_bytes(const mf_train_config *config, const mf_store *store);
/* Creates an optimizer. MF_EINVAL: the store was sealed without the moments that this optimizer
 * keeps. MF_EDEP: the store's device has no kernels for it. MF_ENOMEM. */
int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret);
void mf_optim_free(mf_optim *o);
/* Recomputes the ranges. Call this after frozen flags or learning-rate factors of parameters or
 * their parts have changed. MF_ENOMEM. */
int mf_optim_refresh(mf_optim *o);
/* Returns how often mf_optim_refresh was called. When the number changes, launches may
 * change, too. */
uint64_t mf_optim_refreshes(const mf_optim *o);
/* Sets the device memory of the sum of squares (sumsq) and of the numbers of a step (now). The
 * caller computes these numbers with mf_optim_now, and copies them to `now` before the kernels
 * of mf_optim_update run. NULL: the memory of the optimizer is used, and mf_optim_update copies
 * the numbers. */
void mf_optim_exchange(mf_optim *o, const void *now, void *sumsq);
void mf_optim_now(const mf_optim *o, const mf_optim_step *s, struct mf_update_now *ret);
/* Launches the sum of squares of the gradient, without frozen ranges. */
int mf_optim_measure(mf_optim *o);
/* Launches the optimizer step for the gradient that was measured last. If the store has shards
 * (mf_store_shards), the step covers only them. Values and moments stay unchanged if the norm
 * of the gradient or the loss is not finite, or if a kernel has recorded a fault. */
int mf_optim_update(mf_optim *o, const mf_optim_step *s);
/* For processes that share the work: the ranges, in the order in which they are measured. They
 * change with mf_optim_refresh. optim/method.h describes their field `whole`. */
struct mf_optim_range;
const struct mf_optim_range *mf_optim_ranges(const mf_optim *o, int *ret_n);
/* Whether the optimizer of this configuration updates p as a whole. */
bool mf_optim_sees_whole(const mf_train_config *config, const mf_param *p);
/* Sets the sum of squares instead of measuring it with mf_optim_measure. Only on the host. */
void mf_optim_measured(mf_optim *o, double sumsq);
/* Returns the norm of the gradient with this sum of squares, times grad_scale,
 * before clipping. */
double mf_optim_norm(double sumsq, const mf_optim_step *s);

#endif
