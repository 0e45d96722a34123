/* run/checkpoint/inventory.h: the parameters of a model by name and size, with access to their
 * values in a store or in a checkpoint. The inventory does not need the model. */
#ifndef MF_RUN_INVENTORY_H
#define MF_RUN_INVENTORY_H

#include "graph/store/param.h"
#include "run/modules.h"

typedef struct mf_inventory mf_inventory;
typedef struct mf_inventory_item {
    const char *name;
    mf_module module;
    int32_t layer;    /* N of a name "layers.N."; -1: no block */
    int64_t elements; /* number of elements; buffers are not in the inventory */
} mf_inventory_item;

/* Makes the inventory of a store. The store must outlive the inventory. */
int mf_inventory_of_store(const mf_store *s, mf_inventory **ret);
/* Makes the inventory of the newest checkpoint in folder (RUN/ckpt). The headers of its files
 * are checked; the checksums are not. MF_ENOTFOUND if there is no checkpoint. */
int mf_inventory_of_checkpoint(const char *folder, mf_inventory **ret);
void mf_inventory_free(mf_inventory *v);

int mf_inventory_count(const mf_inventory *v);
const mf_inventory_item *mf_inventory_at(const mf_inventory *v, int i);
int64_t mf_inventory_step(const mf_inventory *v); /* Returns the step of the checkpoint; 0 for
                                                   * a store. */
/* Reads the elements from .. from + n - 1 of item i. out: n floats of the caller. */
int mf_inventory_read(const mf_inventory *v, int i, int64_t from, int64_t n, float *out);

#endif
