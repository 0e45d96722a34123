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
    int64_t trained;           /* elements of parameters, without gaps */
    int64_t size, buffer_size; /* elements of the blocks, with gaps */
    int64_t moment_size[2];    /* elements of the blocks of moments; set by seal */
    mf_shard *shards;          /* [n_shards] NULL: all moments are kept */
    int n_shards;
    int64_t kept[2];             /* with shards: elements of the own blocks of moments */
    size_t bytes;                /* bytes of the blocks without buffers */
    bool bare;                   /* blocks other than buffers must not be read or written */
    mf_device *device;           /* NULL: the host */
    void *block[MF_BLOCK_COUNT]; /* on the device; NULL: the store has no such block */
    void *stored; /* on a device: copies of the weights that parameters are bound to, or NULL */
    void *copy[MF_BLOCK_COUNT]; /* on a device: copies on the host; NULL until needed */
    uint64_t seen[MF_BLOCK_COUNT];
    uint64_t state; /* number of changes of the values on the device */
    int n_edited;   /* number of parameters that mf_param_edit gave to the host */
};

/* Gives up the memory of a parameter's values that are not held. */
void mf_param_trim(const mf_param *p);
/* Allocates a block of the size that the store says. */
int mf_store_make_block(mf_store *s, mf_block block);
/* Copies the weights to which parameters are bound to the store's device (stored.c). */
int mf_store_send_stored(mf_store *s);

/* Returns rc, the code of an allocation of memory on the store's device; if there was too
 * little, the message names the largest parameters and what to turn down. */
int mf_store_judge_memory(const mf_store *s, int rc);

#endif
