/* train/parallel/partition.c: divides the parameters. Cuts are made at equal distances, then
 * moved down to positions at which nothing is divided that should stay together. */
#include "train/parallel/partition.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "kernels/kernel.h"
#include "graph/device/device.h"
#include "train/optim/method.h"

/* Cuts are multiples of this number of elements, so they are at the beginning of
 * cache lines. */
enum { GRAIN = 1024 };
/* Tiles of squares are divided if a part has fewer tiles than this, because parts of whole
 * tiles would then have unequal sizes. */
enum { MANY_TILES = 16 };
/* Maximum number of buckets; more buckets would hide no more of the exchange. */
enum { MOST_BUCKETS = 256 };

typedef struct cutter {
    const mf_store *store;
    const mf_train_config *config;
    const mf_optim_range *ranges; /* [n] in ascending order; NULL: not known */
    int n;
} cutter;

int64_t mf_partition_tile(const mf_optim_range *r)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    int64_t tile = r->count;
    if (k->sumsq_tiles) k->sumsq_tiles(NULL, r->count, 0, 0, NULL, &tile, NULL);
    return tile > 0 ? tile : 1;
}

/* Returns the parameter that contains this element and that the optimizer updates as a whole;
 * NULL: there is none. */
static const mf_param *whole_at(const cutter *c, int64_t at)
{
    for (int i = 0; i < mf_store_count(c->store); i++) {
        const mf_param *p = mf_store_at(c->store, i);
        if (p->buffer || p->stored || at < p->offset || at >= p->offset + p->count) continue;
        return mf_optim_sees_whole(c->config, p) ? p : NULL;
    }
    return NULL;
}

/* Returns the last position, not after `at`, at which the block may be cut into parts of about
 * this size. */
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

/* Returns the end of part i of n of the elements first .. end-1. before: the end of the
 * previous part. */
static int64_t cut(const cutter *c, int64_t first, int64_t end, int i, int n, int64_t before)
{
    if (i == n - 1) return end;
    const int64_t size = (end - first) / n, at = down(c, first + size * (i + 1), size);
    return at < before ? before : at > end ? end : at;
}

/* ---- parts that ranks hold ---- */

static int64_t with_gap(const cutter *c, const mf_param *p, int64_t size)
{
    int64_t end = size;
    for (int i = 0; i < mf_store_count(c->store); i++) {
        const mf_param *q = mf_store_at(c->store, i);
        if (!q->buffer && !q->stored && q->offset > p->offset && q->offset < end)
            end = q->offset;
    }
    return end;
}

/* Counts the held parameters in *ret_held. Returns the number of intervals of elements between
 * them, and lists these intervals in ret unless it is NULL. */
static int list_shared(const cutter *c, int64_t size, mf_owned *ret, int *ret_held)
{
    int64_t at = 0;
    int n = 0;
    *ret_held = 0;
    for (int i = 0; i < mf_store_count(c->store); i++) {
        const mf_param *p = mf_store_at(c->store, i);
        if (p->buffer || p->stored || !p->held) continue;
        ++*ret_held;
        if (ret && at < p->offset) ret[n] = (mf_owned){.first = at, .end = p->offset};
        n += at < p->offset;
        at = with_gap(c, p, size);
    }
    if (ret && at < size) ret[n] = (mf_owned){.first = at, .end = size};
    return n + (at < size);
}

/* Lists the parts of held parameters, part after part, in slices of the ranks that have the
 * part. The last slice of the last part also contains the gap behind the parameter. */
static void list_held(const cutter *c, mf_partition *p, mf_owned *to)
{
    for (int i = 0; i < mf_store_count(c->store); i++) {
        const mf_param *q = mf_store_at(c->store, i);
        if (q->buffer || q->stored || !q->held) continue;
        const int parts = (int)(q->count / q->held), each = p->ranks / parts;
        for (int part = 0; part < parts; part++) {
            const int64_t first = q->offset + part * q->held, end = first + q->held;
            int64_t at = first;
            for (int k = 0; k < each; k++, at = to++->end)
                *to = (mf_owned){at, cut(c, first, end, k, each, at), part + k * parts};
        }
        to[-1].end = with_gap(c, q, p->size);
    }
}

int mf_partition_peers(const mf_partition *p, const mf_store *store, int rank,
                       mf_partition *ret)
{
    const mf_owned *all = p->slices + p->buckets * p->ranks;
    int n = (p->n_slices - p->buckets * p->ranks) / p->ranks;
    *ret = (mf_partition){.buckets = n, .size = p->size};
    ret->bucket = mf_alloc((size_t)n + 1, sizeof *ret->bucket);
    ret->slices = mf_alloc((size_t)p->n_slices + 1, sizeof *ret->slices);
    if (!ret->bucket || !ret->slices) return MF_ENOMEM;
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *q = mf_store_at(store, i);
        if (q->buffer || q->stored || !q->held) continue;
        const int parts = (int)(q->count / q->held), part = rank % parts;
        const int64_t first = q->offset + part * q->held, end = first + q->held;
        ret->ranks = p->ranks / parts;
        ret->bucket[--n] = (mf_owned){.first = first, .end = end};
        for (int k = 0; k < ret->ranks; k++) {
            const mf_owned *s = &all[part * ret->ranks + k];
            ret->slices[n * ret->ranks + k] =
                (mf_owned){s->first, s->end < end ? s->end : end, k};
        }
        all += p->ranks;
    }
    ret->n_slices = ret->buckets * ret->ranks;
    return MF_OK;
}

/* ---- buckets ---- */

static int buckets_of(const mf_owned *x, int64_t bucket)
{
    const int64_t n = (x->end - x->first + bucket - 1) / bucket;
    return n < 1 ? 1 : n > MOST_BUCKETS ? MOST_BUCKETS : (int)n;
}

/* Cuts the elements of x into n buckets. Bucket numbers descend: the first elements go to
 * bucket `last`, the next elements to bucket last - 1, and so on. */
static void cut_buckets(const cutter *c, mf_partition *p, const mf_owned *x, int n, int last)
{
    int64_t first = x->first, end;
    for (int part = 0; part < n; part++, first = end) {
        const int b = last - part;
        int64_t at = first;
        end = cut(c, x->first, x->end, part, n, first);
        p->bucket[b] = (mf_owned){.first = first, .end = end};
        for (int i = 0; i < p->ranks; i++) {
            const int64_t to = cut(c, first, end, i, p->ranks, at);
            /* Owners rotate, because the first slices of small buckets are often empty. */
            p->slices[b * p->ranks + i] = (mf_owned){at, to, (i + b) % p->ranks};
            at = to;
        }
    }
}

int mf_partition_new(const mf_store *store, const mf_train_config *config, int ranks,
                     int64_t bucket, const mf_optim *o, mf_partition *ret)
{
    cutter c = {.store = store, .config = config};
    int held, n;
    if (o) c.ranges = mf_optim_ranges(o, &c.n);
    *ret = (mf_partition){.ranks = ranks};
    mf_store_values(store, &ret->size);
    n = list_shared(&c, ret->size, NULL, &held);
    mf_owned *shared = mf_alloc((size_t)n + 1, sizeof *shared);
    if (!shared) return MF_ENOMEM;
    list_shared(&c, ret->size, shared, &held);
    if (n == 0) n = 1; /* a block without elements has one empty bucket */
    for (int i = 0; i < n; i++)
        ret->buckets += buckets_of(&shared[i], bucket);
    ret->n_slices = (ret->buckets + held) * ranks;
    ret->slices = mf_alloc((size_t)ret->n_slices, sizeof *ret->slices);
    ret->bucket = mf_alloc((size_t)ret->buckets, sizeof *ret->bucket);
    /* bucket 0 is at the end of the block */
    int last = ret->buckets - 1;
    for (int i = 0; ret->slices && ret->bucket && i < n; i++) {
        const int parts = buckets_of(&shared[i], bucket);
        cut_buckets(&c, ret, &shared[i], parts, last);
        last -= parts;
    }
    if (ret->slices && ret->bucket) list_held(&c, ret, ret->slices + ret->buckets * ranks);
    mf_free(shared);
    return ret->slices && ret->bucket ? MF_OK : MF_ENOMEM;
}

void mf_partition_free(mf_partition *p)
{
    mf_free(p->slices);
    mf_free(p->bucket);
    *p = (mf_partition){0};
}

int mf_partition_owner(const mf_partition *p, int64_t at)
{
    for (int i = 0; i < p->n_slices; i++)
        if (at >= p->slices[i].first && at < p->slices[i].end) return p->slices[i].owner;
    return 0;
}

int64_t mf_partition_moments(const mf_partition *p, const mf_store *store, int rank)
{
    int64_t sum = 0;
    for (int i = 0; i < p->n_slices; i++)
        for (int which = 0; p->slices[i].owner == rank && which < 2; which++)
            sum += mf_store_moment_at(store, which, p->slices[i].end) -
                   mf_store_moment_at(store, which, p->slices[i].first);
    return sum;
}

static int by_first(const void *a, const void *b)
{
    const mf_shard *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

int mf_partition_shard(const mf_partition *p, mf_store *store, int rank)
{
    int n = 0;
    mf_shard *shards = mf_alloc((size_t)p->n_slices + 1, sizeof *shards);
    if (!shards) return MF_ENOMEM;
    for (int i = 0; i < p->n_slices; i++) {
        const mf_owned x = p->slices[i];
        if (x.owner == rank && x.first < x.end)
            shards[n++] = (mf_shard){.first = x.first, .end = x.end};
    }
    qsort(shards, (size_t)n, sizeof *shards, by_first);
    const int rc = mf_store_shard(store, n, shards);
    mf_free(shards);
    return rc;
}
