/* train/parallel/gradient_norm.h: the sum of squares of a gradient of which each rank has only
 * its slices, with the bits of one process.
 *
 * Kernels sum a range of parameters by tiles. The owner of a tile's first element sums it, and
 * gets the rest of the tile from its owners. Then all ranks get the sums of all tiles, and add
 * them in the order in which one process adds them. */
#ifndef MF_TRAIN_GRADIENT_NORM_H
#define MF_TRAIN_GRADIENT_NORM_H

#include "comm/world.h"
#include "train/parallel/partition.h"

typedef struct mf_gradient_norm mf_gradient_norm;

/* All arguments must live as long as the result. */
int mf_gradient_norm_new(mf_world *w, mf_store *store, mf_optim *o, const mf_partition *p,
                         mf_gradient_norm **ret);
void mf_gradient_norm_free(mf_gradient_norm *x); /* NULL is allowed */
/* Gives the optimizer the sum of squares (mf_optim_measured). Overwrites gradients that others
 * own. All ranks must call this. MF_ENOMEM, and the errors of mf_world_exchange. */
int mf_gradient_norm_measure(mf_gradient_norm *x);

#endif
