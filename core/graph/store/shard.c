/* graph/store/shard.c: stores that keep only some of the moments. Parameters are in the same
 * order in all blocks. So consecutive elements of the block of values have consecutive moments,
 * and a shard is one range of each block. */
#include "base/error.h"
#include "base/resident.h"
#include "graph/device/device.h"
#include "graph/store/store.h"

#include <string.h>

/* Returns the last parameter that begins at this element or before it; NULL: none. */
static const mf_param *parameter_at(const mf_store *s, int64_t at)
{
    const mf_param *last = NULL;
    for (int i = 0; i < s->n; i++) {
        const mf_param *p = s->params[i];
        if (p->buffer || p->stored || p->offset > at) continue;
        if (!last || p->offset > last->offset) last = p;
    }
    return last;
}

int64_t mf_store_moment_at(const mf_store *s, int which, int64_t at)
{
    const mf_param *p = parameter_at(s, at);
    if (at >= s->size) return s->moment_size[which];
    if (!p) return 0;
    /* The gap behind a parameter has the same size in all blocks where the parameter has the
     * same number of elements. */
    return p->moment_at[which] +
           (mf_param_moment_count(p, which) == p->count ? at - p->offset : 0);
}

int mf_store_shard(mf_store *s, int n, const mf_shard *shards)
{
    int64_t size[2] = {0}, before[2];
    for (int which = 0; which < 2; which++)
        before[which] = s->shards ? s->kept[which] : s->moment_size[which];
    mf_free(s->shards);
    s->shards = mf_alloc((size_t)n + 1, sizeof *s->shards);
    s->n_shards = s->shards ? n : 0;
    if (!s->shards) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        mf_shard *x = &s->shards[i];
        *x = shards[i];
        for (int which = 0; which < 2; which++) {
            x->moment_first[which] = mf_store_moment_at(s, which, x->first);
            x->moment_end[which] = mf_store_moment_at(s, which, x->end);
            x->at[which] = size[which];
            size[which] += x->moment_end[which] - x->moment_first[which];
        }
    }
    int rc = MF_OK;
    for (int which = 0; rc == MF_OK && which < 2; which++) {
        const mf_block block = which == 0 ? MF_BLOCK_MOMENT1 : MF_BLOCK_MOMENT2;
        if (!s->block[block]) continue;
        s->bytes -= (size_t)(before[which] + 1) * sizeof(float);
        mf_device_free(s->device, s->block[block]);
        s->block[block] = NULL;
        s->kept[which] = size[which];
        rc = mf_store_make_block(s, block);
    }
    return rc;
}

const mf_shard *mf_store_shards(const mf_store *s, int *ret_n)
{
    *ret_n = s->n_shards;
    return s->shards;
}

/* walk calls a part_fn for each run of the moments at .. at+count-1 that the store keeps. `own`
 * is the run's offset in the store's own block, `behind` its distance from `at`. *ret_done is
 * the number of all these moments. */
typedef int part_fn(mf_store *s, mf_block block, int64_t own, int64_t behind, int64_t count,
                    void *data);
static int walk(const mf_store *s, int which, int64_t at, int64_t count, part_fn *fn,
                void *data, int64_t *ret_done)
{
    const mf_block block = which == 0 ? MF_BLOCK_MOMENT1 : MF_BLOCK_MOMENT2;
    mf_store *own = s->n > 0 ? s->params[0]->store : NULL;
    int rc = MF_OK;
    *ret_done = count;
    if (!own || !s->shards) return own ? fn(own, block, at, 0, count, data) : MF_OK;
    *ret_done = 0;
    for (int i = 0; rc == MF_OK && i < s->n_shards; i++) {
        const mf_shard *x = &s->shards[i];
        const int64_t from = x->moment_first[which] > at ? x->moment_first[which] : at,
                      end = at + count,
                      to = x->moment_end[which] < end ? x->moment_end[which] : end;
        if (from >= to) continue;
        rc = fn(own, block, x->at[which] + from - x->moment_first[which], from - at, to - from,
                data);
        *ret_done += to - from;
    }
    return rc;
}

static int read_part(mf_store *s, mf_block block, int64_t own, int64_t behind, int64_t count,
                     void *data)
{
    return mf_store_read(s, block, (float *)data + behind, (size_t)own * sizeof(float),
                         (size_t)count * sizeof(float));
}

static int write_part(mf_store *s, mf_block block, int64_t own, int64_t behind, int64_t count,
                      void *data)
{
    return mf_store_write(s, block, (const float *)data + behind, (size_t)own * sizeof(float),
                          (size_t)count * sizeof(float));
}

int mf_store_read_moments(const mf_store *s, int which, int64_t at, int64_t count, float *to)
{
    int64_t done;
    int rc = walk(s, which, at, count, read_part, to, &done);
    if (rc == MF_OK && done < count)
        rc = mf_fail(MF_EINVAL, "moments %lld to %lld are not kept here", (long long)at,
                     (long long)(at + count));
    return rc;
}

int mf_store_write_moments(mf_store *s, int which, int64_t at, int64_t count, const float *from)
{
    int64_t done;
    return walk(s, which, at, count, write_part, (void *)(uintptr_t)from, &done);
}

/* ---- values that are not held ---- */

void mf_store_hold(mf_param *p, int64_t first, int64_t count)
{
    p->held_first = first;
    p->held = count;
}

/* Calls fn for the elements that are not held. p begins at `at` in the block. */
static void others(const mf_param *p, void *at, void (*fn)(void *begin, size_t bytes))
{
    if (!p->held || !at) return;
    float *first = at, *behind = first + p->held_first + p->held;
    fn(first, (size_t)p->held_first * sizeof *first);
    fn(behind, (size_t)(first + p->count - behind) * sizeof *first);
}

void mf_param_trim(const mf_param *p)
{
    others(p, p->value, mf_resident_release);
    others(p, p->value, mf_resident_leave_out);
    others(p, p->grad, mf_resident_leave_out);
}

void mf_store_trim(mf_store *s)
{
    for (int i = 0; !s->bare && i < s->n; i++)
        mf_param_trim(s->params[i]);
}
