/* train/inventory.h: the parameters of a model by name and size, and where their values are: in
 * a store, or in a checkpoint that nobody has to build a model for.
 */
#ifndef MF_TRAIN_INVENTORY_H
#define MF_TRAIN_INVENTORY_H

#include "graph/param.h"
#include "model/module.h"

typedef struct mf_inventory mf_inventory;
typedef struct mf_inventory_item {
    const char *name;
    mf_module module;
    int32_t layer;    /* of "layers.N."; -1 */
    int64_t elements; /* no buffers: what is trained, or could be */
} mf_inventory_item;

/* The store must outlive it. */
int mf_inventory_of_store(const mf_store *s, mf_inventory **ret);
/* Of the newest checkpoint in RUN/ckpt. Headers are judged, checksums are not. MF_ENOTFOUND
 * when there is none. */
int mf_inventory_of_checkpoint(const char *folder, mf_inventory **ret);
void mf_inventory_free(mf_inventory *v);

int mf_inventory_count(const mf_inventory *v);
const mf_inventory_item *mf_inventory_at(const mf_inventory *v, int i);
int64_t mf_inventory_step(const mf_inventory *v); /* of the checkpoint; 0 of a store */
/* n values of item i from element `from` on. */
int mf_inventory_read(const mf_inventory *v, int i, int64_t from, int64_t n, float *out);

#endif
