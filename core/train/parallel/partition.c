/* train/parallel/partition.c: cuts are made at even distances, then moved down to where nothing
 * is divided that should stay together. */
#include "train/parallel/partition.h"
#include <string.h>
#include "base/mem.h"
#include "kernels/kernel.h"
#include "graph/device/device.h"
#include "train/optim/method.h"

/* Cuts are multiples of so many elements, so that they are on lines of the cache. */
enum { GRAIN = 1024 };
/* Tiles of squares are divided if a part has fewer than this; whole ones would be unequal. */
enum { MANY_TILES = 16 };
/* More buckets hide no more of the exchange. */
enum { MOST_BUCKETS = 256 };

typedef struct cutter {
    const mf_store *store;
    const mf_train_config *config;
    const mf_optim_range *ranges; /* [n] in rising order; NULL: not known */
    int n;
} cutter;

int64_t mf_partition_tile(const mf_optim_range *r)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    int64_t tile = r->count;
    if (k->sumsq_tiles) k->sumsq_tiles(NULL, r->count, 0, 0, NULL, &tile, NULL);
    return tile > 0 ? tile : 1;
}

/* The parameter that contains this element and is seen as a whole; NULL: there is none. */
static const mf_param *whole_at(const cutter *c, int64_t at)
{
    for (int i = 0; i < mf_store_count(c->store); i++) {
        const mf_param *p = mf_store_at(c->store, i);
        if (p->buffer || p->stored || at < p->offset || at >= p->offset + p->count) continue;
        return mf_optim_sees_whole(c->config, p) ? p : NULL;
    }
    return NULL;
}

/* The last place at `at` or before where the block may be cut into parts of about this size. */
static int64_t down(const cutter *c, int64_t at, int64_t elements)
{
    const mf_param *p = whole_at(c, at);
    if (p) return p->offset;
    for (int i = 0; i < c->n; i++) {
        const mf_optim_range *r = &c->ranges[i];
        const int64_t tile = mf_partition_tile(r);
        if (at < r->first || at >= r->first + r->count || r->whole) continue;
        if (elements / MANY_TILES < tile) break;
        return r->first + (at - r->first) / tile * tile;
    }
    const int64_t grain = at / GRAIN * GRAIN;
    return whole_at(c, grain) ? at : grain;
}

/* Part i of n of the elements first .. end-1 ends here; before: where the last one ends. */
static int64_t cut(const cutter *c, int64_t first, int64_t end, int i, int n, int64_t before)
{
    if (i == n - 1) return end;
    const int64_t size = (end - first) / n, at = down(c, first + size * (i + 1), size);
    return at < before ? before : at > end ? end : at;
}

int mf_partition_new(const mf_store *store, const mf_train_config *config, int ranks,
                     int64_t bucket, const mf_optim *o, mf_partition *ret)
{
    cutter c = {.store = store, .config = config};
    if (o) c.ranges = mf_optim_ranges(o, &c.n);
    *ret = (mf_partition){.ranks = ranks};
    mf_store_values(store, &ret->size);
    const int64_t n = (ret->size + bucket - 1) / bucket;
    ret->buckets = n < 1 ? 1 : n > MOST_BUCKETS ? MOST_BUCKETS : (int)n;
    ret->slices = mf_alloc((size_t)ret->buckets * (size_t)ranks, sizeof *ret->slices);
    if (!ret->slices) return MF_ENOMEM;
    int64_t first = 0, end;
    for (int part = 0; part < ret->buckets; part++, first = end) {
        const int b = ret->buckets - 1 - part; /* bucket 0 is the last part */
        int64_t at = first;
        end = cut(&c, 0, ret->size, part, ret->buckets, first);
        for (int i = 0; i < ranks; i++) {
            const int64_t to = cut(&c, first, end, i, ranks, at);
            /* Owners take turns, since the first slices of small buckets are often empty. */
            ret->slices[b * ranks + i] = (mf_owned){at, to, (i + b) % ranks};
            at = to;
        }
    }
    return MF_OK;
}

void mf_partition_free(mf_partition *p)
{
    mf_free(p->slices);
    *p = (mf_partition){0};
}

int mf_partition_owner(const mf_partition *p, int64_t at)
{
    for (int i = 0; i < p->buckets * p->ranks; i++)
        if (at >= p->slices[i].first && at < p->slices[i].end) return p->slices[i].owner;
    return 0;
}

int64_t mf_partition_own(const mf_partition *p, int rank)
{
    int64_t sum = 0;
    for (int i = 0; i < p->buckets * p->ranks; i++)
        if (p->slices[i].owner == rank) sum += p->slices[i].end - p->slices[i].first;
    return sum;
}

int64_t mf_partition_moments(const mf_partition *p, const mf_store *store, int rank)
{
    int64_t sum = 0;
    for (int i = 0; i < p->buckets * p->ranks; i++)
        for (int which = 0; p->slices[i].owner == rank && which < 2; which++)
            sum += mf_store_moment_at(store, which, p->slices[i].end) -
                   mf_store_moment_at(store, which, p->slices[i].first);
    return sum;
}

int mf_partition_shard(const mf_partition *p, mf_store *store, int rank)
{
    int n = 0;
    mf_shard *shards = mf_alloc((size_t)p->buckets + 1, sizeof *shards);
    if (!shards) return MF_ENOMEM;
    for (int b = p->buckets; b-- > 0;)
        for (int i = 0; i < p->ranks; i++) {
            const mf_owned x = mf_partition_slice(p, b, i);
            if (x.owner == rank && x.first < x.end)
                shards[n++] = (mf_shard){.first = x.first, .end = x.end};
        }
    const int rc = mf_store_shard(store, n, shards);
    mf_free(shards);
    return rc;
}
