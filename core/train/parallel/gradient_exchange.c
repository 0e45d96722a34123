/* train/parallel/gradient_exchange.c: sends and receives the pieces. All ranks know the tree
 * and the partition, so messages need no labels: buckets are sent in their order, and pieces in
 * the order of their leaves. */
#include "train/parallel/gradient_exchange.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"
#include "train/parallel/gradient_bf16.h"

static const char what[] = "the gradients";

struct mf_gradient_exchange {
    mf_world *world;
    mf_members members;
    int rank; /* number of this rank among the members */
    mf_store *store;
    mf_gradient_sum *sum;
    const mf_partition *parts;
    int64_t leaves;             /* number of leaves of the tree */
    int n_pieces;               /* number of pieces of all members */
    mf_piece *pieces;           /* [leaves], of which n_pieces are used, in the order of
                                 * their leaves */
    int *owner;                 /* [leaves] the member that has the piece */
    bool bf16;                  /* pieces of one leaf are sent as bf16 */
    char *received;             /* for each bucket: this rank's slice of the pieces of
                                 * other ranks */
    int64_t *at;                /* [buckets] the byte at which the bucket begins
                                 * in `received` */
    float *chunks;              /* bf16: [depth][MF_GRADIENT_CHUNK] */
    mf_owned *own;              /* [buckets] the slice of this rank */
    mf_comm_piece *send, *recv; /* pieces for one bucket, or for one slice of each bucket */
    mf_comm_wait **wait;        /* [buckets] transfer of the bucket; NULL: done */
    int64_t *border; /* [n_intervals + 1] elements, rising: borders of buckets and of the
                      * intervals between them */
    int n_intervals;
    int *last;          /* [n_intervals] the node that finishes the interval */
    int *interval;      /* [buckets] interval of the bucket */
    int begun, done;    /* number of buckets that were begun, and how many of these are done */
    int end;            /* the node that finishes the last bucket */
    int64_t early, all; /* counts over all steps: buckets that were begun before node `end`, and
                         * all buckets */
    double waited;      /* seconds of all steps in finish, without the time of sums */
    int rc;             /* the first error between begin and finish */
};

/* Lists the pieces. Each piece has at least one leaf. apart: ranks take turns, so each piece
 * has one leaf. */
static int list_pieces(mf_gradient_exchange *x, bool apart)
{
    const int ranks = x->members.n;
    mf_piece piece[MF_TREE_PIECES];
    x->pieces = mf_alloc((size_t)x->leaves, sizeof *x->pieces);
    x->owner = mf_alloc((size_t)x->leaves, sizeof *x->owner);
    if (!x->pieces || !x->owner) return MF_ENOMEM;
    for (int64_t j = 0; apart && j < x->leaves; j++) {
        x->pieces[j] = (mf_piece){j, j + 1};
        x->owner[j] = (int)(j % ranks);
    }
    if (apart) x->n_pieces = (int)x->leaves;
    for (int r = 0; !apart && r < ranks; r++) {
        const mf_piece share = mf_tree_share(x->leaves, r, ranks);
        const int n = mf_tree_pieces(x->leaves, share.first, share.end, piece);
        for (int i = 0; i < n; i++) {
            x->pieces[x->n_pieces] = piece[i];
            x->owner[x->n_pieces++] = r;
        }
    }
    return MF_OK;
}

/* Returns the bytes of the receive buffer for a piece of another rank, rounded up to whole
 * cache lines. */
static int64_t room_of(const mf_gradient_exchange *x, int piece, int64_t elements)
{
    return (mf_piece_bytes(x->pieces[piece], elements, x->bf16) + 63) / 64 * 64;
}

/* Returns the largest number of pieces and sums that are in memory while the tree is summed. */
static int depth(const mf_gradient_exchange *x)
{
    int top = 0, most = 1;
    for (int i = 0; i < x->n_pieces; i++) {
        if (top + 1 > most) most = top + 1;
        top += 1 - mf_tree_sums(x->leaves, 0, x->pieces[i]);
    }
    return most;
}

/* Finds this rank's slices and the borders of the buckets, and allocates the receive buffer. */
static int list_slices(mf_gradient_exchange *x)
{
    const int n = x->parts->buckets, ranks = x->parts->ranks;
    int64_t size = 0;
    x->own = mf_alloc((size_t)n, sizeof *x->own);
    x->at = mf_alloc((size_t)n, sizeof *x->at);
    x->wait = mf_alloc((size_t)n, sizeof *x->wait);
    x->border = mf_alloc(2 * (size_t)n + 2, sizeof *x->border);
    x->last = mf_alloc(2 * (size_t)n + 1, sizeof *x->last);
    x->interval = mf_alloc((size_t)n, sizeof *x->interval);
    if (!x->own || !x->at || !x->wait || !x->border || !x->last || !x->interval)
        return MF_ENOMEM;
    for (int b = 0; b < n; b++) {
        for (int i = 0; i < ranks; i++) {
            const mf_owned s = mf_partition_slice(x->parts, b, i);
            if (s.owner == x->rank) x->own[b] = s;
        }
        x->at[b] = size;
        for (int i = 0; i < x->n_pieces; i++)
            if (x->owner[i] != x->rank) size += room_of(x, i, x->own[b].end - x->own[b].first);
    }
    for (int b = n - 1; b >= 0; b--) {
        const mf_owned *e = &x->parts->bucket[b];
        if (x->n_intervals > 0 && x->border[x->n_intervals] < e->first) x->n_intervals++;
        x->border[x->n_intervals] = e->first;
        x->interval[b] = x->n_intervals++;
        x->border[x->n_intervals] = e->end;
    }
    x->received = mf_alloc_raw((size_t)size + 1);
    if (x->bf16)
        x->chunks = mf_alloc_raw((size_t)depth(x) * MF_GRADIENT_CHUNK * sizeof *x->chunks);
    return x->received && (x->chunks || !x->bf16) ? MF_OK : MF_ENOMEM;
}

int mf_gradient_exchange_new(mf_world *w, mf_members members, mf_store *store, int64_t leaves,
                             mf_gradient_sum *s, const mf_partition *p, bool apart,
                             mf_gradient_exchange **ret)
{
    mf_gradient_exchange *x = mf_alloc(1, sizeof *x);
    if (!x) return MF_ENOMEM;
    x->world = w;
    x->members = members;
    x->rank = (mf_world_rank(w) - members.first) / members.step;
    x->store = store;
    x->sum = s;
    x->bf16 = mf_gradient_sum_rounds(s);
    x->parts = p;
    x->leaves = leaves;
    int rc = list_pieces(x, apart);
    if (rc == MF_OK) rc = list_slices(x);
    if (rc == MF_OK) {
        const size_t ranks = (size_t)members.n,
                     most = ((size_t)x->n_pieces + (size_t)p->buckets) * ranks;
        x->send = mf_alloc(most, sizeof *x->send);
        x->recv = mf_alloc(most, sizeof *x->recv);
        if (!x->send || !x->recv) rc = MF_ENOMEM;
    }
    if (rc != MF_OK) {
        mf_gradient_exchange_free(x);
        return rc;
    }
    *ret = x;
    return MF_OK;
}

void mf_gradient_exchange_free(mf_gradient_exchange *x)
{
    if (!x) return;
    if (mf_world_rank(x->world) == 0 && x->members.step == 1)
        mf_log(MF_LOG_DEBUG,
               "rank 0 has sent %lld of %lld buckets before the last was ready, and waited "
               "%.3f s for gradients",
               (long long)x->early, (long long)x->all, x->waited);
    mf_free(x->pieces);
    mf_free(x->owner);
    mf_free(x->received);
    mf_free(x->chunks);
    mf_free(x->at);
    mf_free(x->own);
    mf_free(x->send);
    mf_free(x->recv);
    mf_free(x->wait);
    mf_free(x->border);
    mf_free(x->last);
    mf_free(x->interval);
    mf_free(x);
}

static int peer_of(const mf_gradient_exchange *x, int member)
{
    return x->members.first + member * x->members.step;
}

static mf_comm_piece piece_of(const mf_gradient_exchange *x, int member, float *data,
                              int64_t count)
{
    return (mf_comm_piece){peer_of(x, member), data, count * (int64_t)sizeof(float)};
}

/* Lists the pieces of a slice for its owner, and returns their number. This rank does not need
 * its part of that slice afterwards, so the part is converted to bf16 in place. */
static int send_slice(mf_gradient_exchange *x, const mf_owned *s, mf_comm_piece *send)
{
    float *own[MF_TREE_PIECES];
    const int64_t size = s->end - s->first;
    int n = 0;
    mf_gradient_sum_pieces(x->sum, own);
    for (int i = 0; i < x->n_pieces; i++) {
        if (x->owner[i] != x->rank) continue;
        float *from = own[n] + s->first;
        const int64_t bytes = mf_piece_bytes(x->pieces[i], size, x->bf16);
        if (bytes < size * (int64_t)sizeof *from) mf_gradient_sum_pack(x->sum, from, size);
        send[n++] = (mf_comm_piece){peer_of(x, s->owner), from, bytes};
    }
    return n;
}

/* Sends each rank its slice of this rank's pieces, and receives this rank's slice from
 * all others. */
static void start(mf_gradient_exchange *x, int b)
{
    const int rank = x->rank, ranks = x->parts->ranks;
    const int64_t size = x->own[b].end - x->own[b].first;
    char *to = x->received + x->at[b];
    int n_send = 0, n_recv = 0;
    mf_gradient_sum_part(x->sum, x->parts->bucket[b].first, x->parts->bucket[b].end);
    for (int r = 0; r < ranks; r++) {
        const mf_owned s = mf_partition_slice(x->parts, b, r);
        if (s.owner != rank) n_send += send_slice(x, &s, x->send + n_send);
    }
    for (int i = 0; i < x->n_pieces; i++) {
        if (x->owner[i] == rank) continue;
        x->recv[n_recv++] = (mf_comm_piece){peer_of(x, x->owner[i]), to,
                                            mf_piece_bytes(x->pieces[i], size, x->bf16)};
        to += room_of(x, i, size);
    }
    if (x->rc == MF_OK)
        x->rc = mf_world_start(x->world, what, n_send, x->send, n_recv, x->recv, &x->wait[b]);
}

void mf_gradient_exchange_begin(mf_gradient_exchange *x, const mf_graph *g)
{
    const int n = x->parts->buckets;
    x->begun = x->done = 0;
    x->rc = MF_OK;
    mf_gradient_sum_last(x->sum);
    x->all += n;
    if (g) mf_graph_last_writes(g, x->store, x->n_intervals, x->border, x->last);
    x->end = -1;
    for (int b = 0; g && b < n; b++)
        if (x->last[x->interval[b]] > x->end) x->end = x->last[x->interval[b]];
}

void mf_gradient_exchange_after(void *arg, int node)
{
    mf_gradient_exchange *x = arg;
    const int n = x->parts->buckets;
    while (x->begun < n && x->last[x->interval[x->begun]] <= node) {
        start(x, x->begun++);
        x->early += node < x->end;
    }
    while (x->rc == MF_OK && x->done < x->begun) {
        x->rc = mf_world_test(x->world, what, &x->wait[x->done]);
        if (x->wait[x->done]) break;
        x->done++;
    }
}

void mf_gradient_exchange_rest(mf_gradient_exchange *x)
{
    while (x->begun < x->parts->buckets)
        start(x, x->begun++);
}

/* Adds elements at .. at+count-1 of this rank's slices of all pieces, and writes the sum to the
 * gradients of the store. */
static void add_some(mf_gradient_exchange *x, int b, int64_t at, int64_t count)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx c = mf_device_context(NULL);
    const int rank = x->rank;
    const mf_owned s = x->own[b];
    float *stack[MF_TREE_PIECES] = {NULL}, *own[MF_TREE_PIECES] = {NULL};
    float *sum = mf_store_grads(x->store) + s.first + at;
    char *from = x->received + x->at[b];
    int top = 0, mine = 0;
    mf_gradient_sum_pieces(x->sum, own);
    for (int i = 0; i < x->n_pieces; i++) {
        const bool here = x->owner[i] == rank;
        float *now = here ? own[mine++] + s.first + at : (float *)(void *)from + at;
        const bool chunk = !here && mf_piece_bytes(x->pieces[i], 1, x->bf16) == 2;
        if (chunk) {
            now = x->chunks + top * MF_GRADIENT_CHUNK;
            mf_gradient_unpack((uint16_t *)(void *)from + at, count, now);
        }
        if (!here) from += room_of(x, i, s.end - s.first);
        for (int n = mf_tree_sums(x->leaves, 0, x->pieces[i]); n > 0; n--) {
            float *left = stack[--top], *to = chunk ? left : now;
            MF_RUN(k, &c, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, count},
                   .stride_a = {[3] = 1}, .stride_b = {[3] = 1}, .a = left, .b = now,
                   .out = to);
            now = to; /* entry n of the stack is in chunk n, or in no chunk */
        }
        stack[top++] = now;
    }
    if (stack[0] != sum)
        MF_RUN(k, &c, copy4, .dim = {1, 1, 1, count}, .stride_in = {[3] = 1},
               .stride_out = {[3] = 1}, .in = stack[0], .out = sum);
}

static void add(mf_gradient_exchange *x, int b)
{
    const int64_t n = x->own[b].end - x->own[b].first, most = x->bf16 ? MF_GRADIENT_CHUNK : n;
    for (int64_t at = 0; at < n; at += most)
        add_some(x, b, at, n - at < most ? n - at : most);
}

int mf_gradient_exchange_finish(mf_gradient_exchange *x)
{
    int rc = x->rc;
    for (int b = 0; rc == MF_OK && b < x->parts->buckets; b++) {
        const double began = mf_clock();
        rc = mf_world_finish(x->world, what, &x->wait[b]);
        x->waited += mf_clock() - began;
        if (rc == MF_OK) add(x, b);
    }
    return rc;
}

/* Sends the slices of a block from their owners to all ranks. */
static int give(mf_gradient_exchange *x, const char *name, float *block)
{
    const int rank = x->rank, ranks = x->parts->ranks;
    int n_send = 0, n_recv = 0;
    for (int i = 0; i < x->parts->buckets * ranks; i++) {
        const mf_owned s = x->parts->slices[i];
        const int64_t count = s.end - s.first;
        for (int r = 0; s.owner == rank && r < ranks; r++)
            if (r != rank) x->send[n_send++] = piece_of(x, r, block + s.first, count);
        if (s.owner != rank) x->recv[n_recv++] = piece_of(x, s.owner, block + s.first, count);
    }
    return mf_world_exchange(x->world, name, n_send, x->send, n_recv, x->recv);
}

int mf_gradient_exchange_give_sums(mf_gradient_exchange *x)
{
    return give(x, "the sums of gradients", mf_store_grads(x->store));
}

int mf_gradient_exchange_give_values(mf_gradient_exchange *x)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx c = mf_device_context(NULL);
    float *values = mf_store_values(x->store, NULL);
    uint16_t *copies = mf_store_bf16(x->store);
    const int rc = give(x, "the values of parameters", values);
    for (int i = 0; rc == MF_OK && copies && i < x->parts->buckets * x->parts->ranks; i++) {
        const mf_owned s = x->parts->slices[i];
        if (s.owner != x->rank)
            MF_RUN(k, &c, cast, .n = s.end - s.first, .from = MF_CAST_F32, .to = MF_CAST_BF16,
                   .in = values + s.first, .out = copies + s.first);
    }
    mf_store_changed(x->store);
    return rc;
}
