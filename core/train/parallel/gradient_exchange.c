/* train/parallel/gradient_exchange.c: all ranks know the tree, so no message says which piece
 * it is: pieces travel in the order of their leaves. */
#include "train/parallel/gradient_exchange.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"

/* A slice is a multiple of so many elements, so that it begins on a line of the cache. */
enum { GRAIN = 1024 };

struct mf_gradient_exchange {
    mf_world *world;
    mf_store *store;
    int64_t leaves, size;       /* of the tree; elements of the gradient */
    int n_pieces;               /* of all ranks */
    mf_piece *pieces;           /* [leaves], n_pieces are used, in the order of their leaves */
    int *owner;                 /* [leaves] the rank that has the piece */
    float *received;            /* [n_pieces][own slice] those of this rank are not used */
    float **at;                 /* [n_pieces] where this rank has its slice of the piece */
    mf_comm_piece *send, *recv; /* [n_pieces + ranks] (ranks - 1) */
};

static int64_t slice_begin(const mf_gradient_exchange *x, int rank)
{
    const int64_t grains = (x->size + GRAIN - 1) / GRAIN;
    const int64_t at = grains * rank / mf_world_ranks(x->world) * GRAIN;
    return at < x->size ? at : x->size;
}

static int64_t slice_size(const mf_gradient_exchange *x, int rank)
{
    return slice_begin(x, rank + 1) - slice_begin(x, rank);
}

/* Each piece has at least one leaf. */
static int list_pieces(mf_gradient_exchange *x)
{
    const int ranks = mf_world_ranks(x->world);
    mf_piece piece[MF_TREE_PIECES];
    x->pieces = mf_alloc((size_t)x->leaves, sizeof *x->pieces);
    x->owner = mf_alloc((size_t)x->leaves, sizeof *x->owner);
    if (!x->pieces || !x->owner) return MF_ENOMEM;
    for (int r = 0; r < ranks; r++) {
        const mf_piece share = mf_tree_share(x->leaves, r, ranks);
        const int n = mf_tree_pieces(x->leaves, share.first, share.end, piece);
        for (int i = 0; i < n; i++) {
            x->pieces[x->n_pieces] = piece[i];
            x->owner[x->n_pieces++] = r;
        }
    }
    return MF_OK;
}

int mf_gradient_exchange_new(mf_world *w, mf_store *store, int64_t leaves,
                             mf_gradient_exchange **ret)
{
    mf_gradient_exchange *x = mf_alloc(1, sizeof *x);
    if (!x) return MF_ENOMEM;
    x->world = w;
    x->store = store;
    x->leaves = leaves;
    mf_store_values(store, &x->size);
    const int ranks = mf_world_ranks(w);
    int rc = list_pieces(x);
    if (rc == MF_OK) {
        const size_t own = (size_t)slice_size(x, mf_world_rank(w)) + 1;
        const size_t most = (size_t)(x->n_pieces + ranks) * (size_t)ranks;
        x->received = mf_alloc((size_t)x->n_pieces * own, sizeof *x->received);
        x->at = mf_alloc((size_t)x->n_pieces, sizeof *x->at);
        x->send = mf_alloc(most, sizeof *x->send);
        x->recv = mf_alloc(most, sizeof *x->recv);
        if (!x->received || !x->at || !x->send || !x->recv) rc = MF_ENOMEM;
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
    mf_free(x->pieces);
    mf_free(x->owner);
    mf_free(x->received);
    mf_free(x->at);
    mf_free(x->send);
    mf_free(x->recv);
    mf_free(x);
}

/* Sends each rank its slice of this rank's pieces, and receives the own slice of all others. */
static int scatter(mf_gradient_exchange *x, const mf_gradient_sum *s)
{
    const int rank = mf_world_rank(x->world), ranks = mf_world_ranks(x->world);
    const int64_t begin = slice_begin(x, rank), size = slice_size(x, rank);
    float *own[MF_TREE_PIECES];
    const int n_own = mf_gradient_sum_pieces(s, own);
    int n_send = 0, n_recv = 0, k = 0;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; r != rank && i < n_own; i++)
            x->send[n_send++] = (mf_comm_piece){r, own[i] + slice_begin(x, r),
                                                slice_size(x, r) * (int64_t)sizeof(float)};
    for (int i = 0; i < x->n_pieces; i++) {
        x->at[i] = x->owner[i] == rank ? own[k++] + begin : x->received + i * size;
        if (x->owner[i] != rank)
            x->recv[n_recv++] =
                (mf_comm_piece){x->owner[i], x->at[i], size * (int64_t)sizeof(float)};
    }
    return mf_world_exchange(x->world, "the gradients", n_send, x->send, n_recv, x->recv);
}

/* Adds the own slices of all pieces, and puts the sum to the gradients of the store. */
static void add(mf_gradient_exchange *x)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx c = mf_device_context(NULL);
    const int rank = mf_world_rank(x->world);
    const int64_t dim[4] = {1, 1, 1, slice_size(x, rank)}, dense[4] = {0, 0, 0, 1};
    float *stack[MF_TREE_PIECES], *sum = mf_store_grads(x->store) + slice_begin(x, rank);
    int top = 0;
    if (dim[3] == 0) return;
    for (int i = 0; i < x->n_pieces; i++) {
        float *now = x->at[i];
        for (int n = mf_tree_sums(x->leaves, 0, x->pieces[i]); n > 0; n--)
            k->map2(&c, MF_MAP_ADD, MF_CAST_F32, dim, dense, dense, stack[--top], now, now);
        stack[top++] = now;
    }
    if (stack[0] != sum) k->copy4(&c, dim, dense, dense, stack[0], sum);
}

static int give(mf_gradient_exchange *x)
{
    const int rank = mf_world_rank(x->world), ranks = mf_world_ranks(x->world);
    float *sum = mf_store_grads(x->store);
    int n = 0;
    for (int r = 0; r < ranks; r++) {
        if (r == rank) continue;
        x->send[n] = (mf_comm_piece){r, sum + slice_begin(x, rank),
                                     slice_size(x, rank) * (int64_t)sizeof(float)};
        x->recv[n++] = (mf_comm_piece){r, sum + slice_begin(x, r),
                                       slice_size(x, r) * (int64_t)sizeof(float)};
    }
    return mf_world_exchange(x->world, "the sums of gradients", n, x->send, n, x->recv);
}

int mf_gradient_exchange_run(mf_gradient_exchange *x, const mf_gradient_sum *s)
{
    int rc = scatter(x, s);
    if (rc == MF_OK) add(x);
    return rc == MF_OK ? give(x) : rc;
}
