/* train/parallel/gradient_norm.h: the sum of squares of a gradient of which each rank has only
 * its slices. The result has the bits of one process.
 *
 * Kernels sum a range of parameters by tiles. The owner of a tile's first element sums the
 * tile, and receives the rest of the tile from the other owners. Then all ranks receive the
 * sums of all tiles, and add them in the order in which one process adds them. */
#ifndef MF_TRAIN_GRADIENT_NORM_H
#define MF_TRAIN_GRADIENT_NORM_H

#include "comm/world.h"
#include "train/parallel/partition.h"

typedef struct mf_gradient_norm mf_gradient_norm;

/* All arguments must stay valid as long as the result. */
int mf_gradient_norm_new(mf_world *w, mf_store *store, mf_optim *o, const mf_partition *p,
                         mf_gradient_norm **ret);
void mf_gradient_norm_free(mf_gradient_norm *x); /* NULL is allowed */
/* Measures the gradient and passes the sum of squares to the optimizer (mf_optim_measured).
 * Overwrites gradients that other ranks own. All ranks must call this. MF_ENOMEM, and the
 * errors of mf_world_exchange. */
int mf_gradient_norm_measure(mf_gradient_norm *x);

#endif
