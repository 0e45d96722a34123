/* train/parallel/gradient_norm.c: sums squares by tiles. When the ranges of the optimizer have
 * changed, it lists the owner of each tile and the parts of tiles that ranks send. The lists
 * are the same on all ranks. */
#include "train/parallel/gradient_norm.h"
#include <string.h>
#include "base/mem.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"
#include "train/optim/method.h"

/* A part of a tile that is sent to the rank that sums the tile. */
typedef struct move {
    int64_t first, end;
    int from, to;
} move;

struct mf_gradient_norm {
    mf_world *world;
    mf_store *store;
    mf_optim *optim;
    const mf_partition *parts;
    uint64_t refreshes; /* value of mf_optim_refreshes at the last listing; 0: never */
    int *owner;         /* [n_tiles] rank that sums the tile */
    double *part;       /* [n_tiles] sum of the tile */
    double *packed;     /* [n_tiles] sums, ordered by owner */
    move *moves;        /* [n_moves] */
    int n_tiles, tiles_room, n_moves, moves_room;
    int *count;                 /* [ranks] number of tiles of each rank */
    mf_comm_piece *send, *recv; /* [n_moves + ranks] */
};

int mf_gradient_norm_new(mf_world *w, mf_store *store, mf_optim *o, const mf_partition *p,
                         mf_gradient_norm **ret)
{
    mf_gradient_norm *x = mf_alloc(1, sizeof *x);
    if (!x) return MF_ENOMEM;
    *x = (mf_gradient_norm){.world = w, .store = store, .optim = o, .parts = p};
    x->count = mf_alloc((size_t)p->ranks, sizeof *x->count);
    if (!x->count) {
        mf_gradient_norm_free(x);
        return MF_ENOMEM;
    }
    *ret = x;
    return MF_OK;
}

void mf_gradient_norm_free(mf_gradient_norm *x)
{
    if (!x) return;
    mf_free(x->owner);
    mf_free(x->part);
    mf_free(x->packed);
    mf_free(x->moves);
    mf_free(x->count);
    mf_free(x->send);
    mf_free(x->recv);
    mf_free(x);
}

static int add_move(mf_gradient_norm *x, move m)
{
    if (x->n_moves == x->moves_room) {
        const int room = 2 * x->moves_room + 64;
        move *more = mf_realloc(x->moves, (size_t)x->moves_room * sizeof *more,
                                (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        x->moves = more;
        x->moves_room = room;
    }
    x->moves[x->n_moves++] = m;
    return MF_OK;
}

/* Lists the parts of a tile that its owner does not have. */
static int list_moves(mf_gradient_norm *x, int64_t first, int64_t end, int owner)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < x->parts->n_slices; i++) {
        const mf_owned *s = &x->parts->slices[i];
        const move m = {.first = s->first > first ? s->first : first,
                        .end = s->end < end ? s->end : end,
                        .from = s->owner,
                        .to = owner};
        if (m.first < m.end && m.from != m.to) rc = add_move(x, m);
    }
    return rc;
}

static int make_room(mf_gradient_norm *x, int tiles)
{
    if (tiles <= x->tiles_room) return MF_OK;
    mf_free(x->owner);
    mf_free(x->part);
    mf_free(x->packed);
    x->owner = mf_alloc((size_t)tiles, sizeof *x->owner);
    x->part = mf_alloc((size_t)tiles, sizeof *x->part);
    x->packed = mf_alloc((size_t)tiles, sizeof *x->packed);
    x->tiles_room = x->owner && x->part && x->packed ? tiles : 0;
    return x->tiles_room ? MF_OK : MF_ENOMEM;
}

static int tiles_of(const mf_optim_range *r)
{
    const int64_t tile = mf_partition_tile(r);
    return r->frozen ? 0 : (int)((r->count + tile - 1) / tile);
}

static int list(mf_gradient_norm *x)
{
    int n, tiles = 0;
    const mf_optim_range *r = mf_optim_ranges(x->optim, &n);
    for (int i = 0; i < n; i++)
        tiles += tiles_of(&r[i]);
    int rc = make_room(x, tiles + 1);
    if (rc != MF_OK) return rc;
    x->n_tiles = x->n_moves = 0;
    memset(x->count, 0, (size_t)x->parts->ranks * sizeof *x->count);
    for (int i = 0; i < n; i++) {
        const int64_t tile = mf_partition_tile(&r[i]), end = r[i].first + r[i].count;
        for (int64_t at = r[i].first; rc == MF_OK && !r[i].frozen && at < end; at += tile) {
            const int owner = mf_partition_owner(x->parts, at);
            x->owner[x->n_tiles++] = owner;
            x->count[owner]++;
            rc = list_moves(x, at, at + tile < end ? at + tile : end, owner);
        }
    }
    const size_t most = (size_t)x->n_moves + (size_t)x->parts->ranks;
    mf_free(x->send);
    mf_free(x->recv);
    x->send = mf_alloc(most, sizeof *x->send);
    x->recv = mf_alloc(most, sizeof *x->recv);
    if (!x->send || !x->recv) rc = MF_ENOMEM;
    if (rc == MF_OK) x->refreshes = mf_optim_refreshes(x->optim);
    return rc;
}

/* Sends the parts of tiles that other ranks sum, and receives those that this rank sums. */
static int complete(mf_gradient_norm *x)
{
    const int rank = mf_world_rank(x->world);
    float *grads = mf_store_grads(x->store);
    int n_send = 0, n_recv = 0;
    for (int i = 0; i < x->n_moves; i++) {
        const move *m = &x->moves[i];
        const int64_t bytes = (m->end - m->first) * (int64_t)sizeof(float);
        float *at = grads + m->first;
        if (m->from == rank) x->send[n_send++] = (mf_comm_piece){m->to, at, bytes};
        if (m->to == rank) x->recv[n_recv++] = (mf_comm_piece){m->from, at, bytes};
    }
    return mf_world_exchange(x->world, "parts of the gradients", n_send, x->send, n_recv,
                             x->recv);
}

/* Sums the tiles first .. first + count - 1 of a range. */
static void sum_tiles(const mf_optim_range *r, const float *grads, int first, int count,
                      double *part)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx c = mf_device_context(NULL);
    int64_t tile;
    if (k->sumsq_tiles)
        k->sumsq_tiles(&c, r->count, first, count, grads + r->first, &tile, part);
    else
        MF_RUN(k, &c, sumsq, .count = r->count, .a = grads + r->first, .add = false,
               .sum = part);
}

/* Sums this rank's tiles. Neighbouring tiles are summed in one call, so that threads can
 * share them. */
static void sum_own(mf_gradient_norm *x)
{
    const int rank = mf_world_rank(x->world);
    const float *grads = mf_store_grads(x->store);
    int n, at = 0;
    const mf_optim_range *r = mf_optim_ranges(x->optim, &n);
    for (int i = 0; i < n; i++) {
        const int tiles = tiles_of(&r[i]);
        for (int t = 0, some; t < tiles; t += some) {
            for (some = 1; t + some < tiles; some++)
                if (x->owner[at + t + some] != x->owner[at + t]) break;
            if (x->owner[at + t] == rank) sum_tiles(&r[i], grads, t, some, x->part + at + t);
        }
        at += tiles;
    }
}

/* Sends the sums of all tiles to all ranks. */
static int share(mf_gradient_norm *x)
{
    const int rank = mf_world_rank(x->world), ranks = x->parts->ranks;
    const int64_t size = (int64_t)sizeof *x->packed;
    int n = 0, mine = 0;
    for (int r = 0; r < rank; r++)
        mine += x->count[r];
    for (int i = 0, at = mine; i < x->n_tiles; i++)
        if (x->owner[i] == rank) x->packed[at++] = x->part[i];
    for (int r = 0, at = 0; r < ranks; at += x->count[r++]) {
        if (r == rank) continue;
        x->send[n] = (mf_comm_piece){r, x->packed + mine, x->count[rank] * size};
        x->recv[n++] = (mf_comm_piece){r, x->packed + at, x->count[r] * size};
    }
    const int rc = mf_world_exchange(x->world, "sums of squares", n, x->send, n, x->recv);
    for (int r = 0, at = 0; r < ranks; r++)
        for (int i = 0; i < x->n_tiles; i++)
            if (x->owner[i] == r) x->part[i] = x->packed[at++];
    return rc;
}

/* Adds in the same order as the kernel: first the tiles of a range, from 0, then the range to
 * the sum of the ranges before it. */
static double add(const mf_gradient_norm *x)
{
    int n, at = 0;
    double sum = 0;
    bool any = false;
    const mf_optim_range *r = mf_optim_ranges(x->optim, &n);
    for (int i = 0; i < n; i++) {
        double range = 0;
        if (r[i].frozen) continue;
        for (int t = tiles_of(&r[i]); t > 0; t--)
            range += x->part[at++];
        sum = any ? sum + range : range;
        any = true;
    }
    return sum;
}

int mf_gradient_norm_measure(mf_gradient_norm *x)
{
    int rc = x->refreshes == mf_optim_refreshes(x->optim) ? MF_OK : list(x);
    if (rc == MF_OK) rc = complete(x);
    if (rc == MF_OK) sum_own(x);
    if (rc == MF_OK) rc = share(x);
    if (rc == MF_OK) mf_optim_measured(x->optim, add(x));
    return rc;
}
