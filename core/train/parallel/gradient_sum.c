/* train/parallel/gradient_sum.c: a stack of partial sums. Whatever is on it belongs to the left
 * of what comes next, so a sum is always that of the top and the present gradients. */
#include "train/parallel/gradient_sum.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"

struct mf_gradient_sum {
    mf_store *store;
    int64_t leaves; /* of the tree */
    mf_piece share;
    int top, room;
    int final, sums; /* copies that remain at the end; those to which the last leaf is added */
    float **kept; /* [room] on the device */
};

/* The largest number of copies at a time: all that is not the present gradient. */
static int copies(int64_t n, mf_piece share)
{
    int top = 0, most = 0;
    for (int64_t j = share.first; j < share.end; j++) {
        top -= mf_tree_sums(n, share.first, (mf_piece){j, j + 1});
        if (j + 1 < share.end) top++;
        if (top > most) most = top;
    }
    return most;
}

static int64_t elements(const mf_store *store)
{
    int64_t n;
    mf_store_values(store, &n);
    return n;
}

size_t mf_gradient_sum_bytes(const mf_store *store, int64_t n, mf_piece share)
{
    return (size_t)copies(n, share) * (size_t)elements(store) * sizeof(float);
}

int mf_gradient_sum_new(mf_store *store, int64_t n, mf_piece share, mf_gradient_sum **ret)
{
    mf_gradient_sum *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->store = store;
    s->leaves = n;
    s->share = share;
    s->room = copies(n, share);
    mf_piece piece[MF_TREE_PIECES];
    s->final = mf_tree_pieces(n, share.first, share.end, piece) - 1;
    s->sums = mf_tree_sums(n, share.first, (mf_piece){share.end - 1, share.end});
    s->kept = mf_alloc((size_t)s->room + 1, sizeof *s->kept);
    int rc = s->kept ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < s->room; i++) {
        void *block = NULL;
        rc = mf_device_alloc(mf_store_device(store),
                             (size_t)elements(store) * sizeof(float) + 1, &block);
        s->kept[i] = block;
    }
    if (rc != MF_OK) {
        mf_gradient_sum_free(s);
        return rc;
    }
    *ret = s;
    return MF_OK;
}

void mf_gradient_sum_free(mf_gradient_sum *s)
{
    if (!s) return;
    for (int i = 0; s->kept && i < s->room; i++)
        mf_device_free(mf_store_device(s->store), s->kept[i]);
    mf_free(s->kept);
    mf_free(s);
}

void mf_gradient_sum_begin(mf_gradient_sum *s)
{
    s->top = 0;
}

/* Sets the height of the stack after a leaf. */
static void pass(mf_gradient_sum *s, int64_t leaf)
{
    s->top -= mf_tree_sums(s->leaves, s->share.first, (mf_piece){leaf, leaf + 1});
    if (leaf + 1 < s->share.end) s->top++;
}

void mf_gradient_sum_add(mf_gradient_sum *s, int64_t leaf, bool recorded)
{
    if (recorded) {
        pass(s, leaf);
        return;
    }
    mf_device *d = mf_store_device(s->store);
    const mf_kernels *k = mf_device_kernels(d, NULL);
    const mf_kctx x = mf_device_context(d);
    const int64_t dim[4] = {1, 1, 1, elements(s->store)}, dense[4] = {0, 0, 0, 1};
    float *now = mf_store_grads(s->store);
    for (int i = mf_tree_sums(s->leaves, s->share.first, (mf_piece){leaf, leaf + 1}); i > 0;
         i--)
        k->map2(&x, MF_MAP_ADD, MF_CAST_F32, dim, dense, dense, s->kept[--s->top], now, now);
    if (leaf + 1 < s->share.end) k->copy4(&x, dim, dense, dense, now, s->kept[s->top++]);
}

void mf_gradient_sum_last(mf_gradient_sum *s)
{
    s->top = s->final;
}

void mf_gradient_sum_part(const mf_gradient_sum *s, int64_t first, int64_t end)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx x = mf_device_context(NULL);
    const int64_t dim[4] = {1, 1, 1, end - first}, dense[4] = {0, 0, 0, 1};
    float *now = mf_store_grads(s->store) + first;
    for (int i = s->sums; i-- > 0;)
        k->map2(&x, MF_MAP_ADD, MF_CAST_F32, dim, dense, dense, s->kept[s->top + i] + first,
                now, now);
}

int mf_gradient_sum_pieces(const mf_gradient_sum *s, float *ret[MF_TREE_PIECES])
{
    for (int i = 0; i < s->top; i++)
        ret[i] = s->kept[i];
    ret[s->top] = mf_store_grads(s->store);
    return s->top + 1;
}
