/* train/parallel/partition.h: decides which rank owns which part of the parameters.
 *
 * The block of gradients is cut into buckets of about the same size, and each bucket into one
 * slice for each rank. The backward pass finishes gradients from the end of the block to its
 * beginning. So bucket 0 is at the end of the block, and is complete first. The owner of a
 * slice sums its gradients. With parallel.optimizer = sharded it also keeps its moments and
 * updates its values. A parameter that the optimizer updates as a whole is never divided.
 *
 * If each rank has only a part of a parameter (mf_store_hold), the rank owns that part, and the
 * part is in no bucket. If several ranks have the same part, each owns a slice of it: if n
 * ranks share a parameter, ranks i, i + n, i + 2 n, .. have part i. */
#ifndef MF_TRAIN_PARTITION_H
#define MF_TRAIN_PARTITION_H

#include "train/optim/optim.h"

typedef struct mf_owned {
    int64_t first, end; /* elements of the block of gradients; may be empty */
    int owner;
} mf_owned;

typedef struct mf_partition {
    int ranks, buckets;
    int64_t size;
    /* [buckets][ranks], each bucket in ascending order of the elements; the held
     * parts follow */
    mf_owned *slices;
    int n_slices;
    mf_owned *bucket; /* [buckets] elements of each bucket; owner is not set */
} mf_partition;

/* Makes a partition. bucket: its size in elements. o: the optimizer, in whose ranges the
 * squares of gradients are summed by tiles that slices should not divide; NULL: tiles may be
 * divided. The caller frees *ret in every case. MF_ENOMEM. */
int mf_partition_new(const mf_store *store, const mf_train_config *config, int ranks,
                     int64_t bucket, const mf_optim *o, mf_partition *ret);
void mf_partition_free(mf_partition *p);
static inline mf_owned mf_partition_slice(const mf_partition *p, int bucket, int i)
{
    return p->slices[bucket * p->ranks + i];
}
/* Makes a partition of the held parts of `rank` (mf_store_hold) among its peers, the ranks that
 * hold the same parts; the slices are those of p. It has one bucket for each held parameter,
 * and `owner` is the index of a peer. The caller frees *ret in every case. MF_ENOMEM. */
int mf_partition_peers(const mf_partition *p, const mf_store *store, int rank,
                       mf_partition *ret);
/* Returns the number of elements of a tile, in which the kernels of the host sum the squares of
 * a range. */
int64_t mf_partition_tile(const struct mf_optim_range *r);
/* Returns the owner of an element. */
int mf_partition_owner(const mf_partition *p, int64_t at);
/* Returns the number of elements of moments that a rank owns. */
int64_t mf_partition_moments(const mf_partition *p, const mf_store *store, int rank);
/* Tells the store to keep only the moments of this rank. MF_ENOMEM. */
int mf_partition_shard(const mf_partition *p, mf_store *store, int rank);

#endif
