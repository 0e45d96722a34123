/* graph/store/store.h: the struct of a store, only for the files of this folder. */
#ifndef MF_GRAPH_STORE_H
#define MF_GRAPH_STORE_H

#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/store/param.h"

struct mf_store {
    mf_arena *memory;
    mf_param **params;
    int n, room;
    bool sealed, bf16, no_moments;
    int64_t trained;           /* number of elements of parameters, without gaps */
    int64_t size, buffer_size; /* number of elements of the blocks, with gaps */
    int64_t moment_size[2];    /* number of elements of the blocks of moments; set
                                * by mf_store_seal */
    mf_shard *shards;          /* [n_shards] NULL: all moments are kept */
    int n_shards;
    int64_t kept[2];             /* with shards: number of elements of this store's blocks
                                  * of moments */
    size_t bytes;                /* bytes of the blocks without buffers */
    bool bare;                   /* blocks other than buffers must not be read or written */
    mf_device *device;           /* NULL: the host */
    void *block[MF_BLOCK_COUNT]; /* blocks on the device; NULL: the store has no such block */
    void *stored; /* on a device: copies of the weights to which parameters are bound,
                   * or NULL */
    void *copy[MF_BLOCK_COUNT]; /* on a device: host copies of the blocks; NULL until needed */
    uint64_t seen[MF_BLOCK_COUNT];
    uint64_t state; /* number of changes of the values on the device */
    int n_edited;   /* number of parameters that mf_param_edit has returned to the host */
};

/* Releases the memory of a parameter's values that are not held. */
void mf_param_trim(const mf_param *p);
/* Allocates a block. The store determines its size. */
int mf_store_make_block(mf_store *s, mf_block block);
/* Copies the weights to which parameters are bound to the store's device (stored.c). */
int mf_store_send_stored(mf_store *s);

/* Returns rc, the code of an allocation of memory on the store's device. If there was too
 * little memory, sets a message that names the largest parameters and the settings
 * to reduce. */
int mf_store_judge_memory(const mf_store *s, int rc);

#endif
