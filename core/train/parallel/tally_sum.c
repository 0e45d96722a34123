/* train/parallel/tally_sum.c: keeps one block for each rank. A block contains the rank's sum of
 * whole numbers, followed by one vector for each of its pieces. This rank's own block is the
 * stack in which leaves are added; the blocks of other ranks are received. */
#include "train/parallel/tally_sum.h"

#include <string.h>

#include "base/mem.h"

struct mf_tally_sum {
    mf_plughost *host;
    mf_tally_plan plan;
    mf_tally_numbers size;
    double **block; /* [ranks] */
    int top;        /* number of vectors on this rank's stack */
};

/* Returns the distance between the leaves of a rank. */
static int64_t stride_of(const mf_tally_plan *p)
{
    return p->turns ? p->ranks : 1;
}

/* Returns the range from the first leaf of a rank to the end of its last leaf. */
static mf_piece share_of(const mf_tally_plan *p, int rank)
{
    return p->turns ? (mf_piece){rank, p->leaves} : mf_tree_share(p->leaves, rank, p->ranks);
}

/* Returns the number of sums that are complete with a leaf of the rank; 0 if its leaves are
 * not neighbours. */
static int sums_of(const mf_tally_plan *p, int rank, int64_t leaf)
{
    if (p->turns) return 0;
    return mf_tree_sums(p->leaves, share_of(p, rank).first, (mf_piece){leaf, leaf + 1});
}

/* Returns the number of vectors that a rank has after its last leaf. *ret_most: the largest
 * number at a time. */
static int vectors(const mf_tally_plan *p, int rank, int *ret_most)
{
    const mf_piece share = share_of(p, rank);
    int top = 0, most = 0;
    for (int64_t j = share.first; j < share.end; j += stride_of(p)) {
        top++;
        if (top > most) most = top;
        top -= sums_of(p, rank, j);
    }
    if (ret_most) *ret_most = most;
    return top;
}

int mf_tally_sum_new(mf_plughost *h, const mf_tally_plan *plan, mf_tally_sum **ret)
{
    const mf_tally_numbers size = mf_tallies_numbers(h);
    if (size.whole + size.real == 0) return MF_OK;
    mf_tally_sum *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->host = h;
    s->plan = *plan;
    s->size = size;
    s->block = mf_alloc((size_t)plan->ranks, sizeof *s->block);
    for (int r = 0; s->block && r < plan->ranks; r++) {
        int most;
        const int sent = vectors(plan, r, &most);
        const int64_t room = r == plan->rank ? most : sent;
        s->block[r] = mf_alloc((size_t)(size.whole + room * size.real), sizeof **s->block);
        if (!s->block[r]) break;
    }
    if (!s->block || !s->block[plan->ranks - 1]) {
        mf_tally_sum_free(s);
        return MF_ENOMEM;
    }
    *ret = s;
    return MF_OK;
}

void mf_tally_sum_free(mf_tally_sum *s)
{
    if (!s) return;
    for (int r = 0; s->block && r < s->plan.ranks; r++)
        mf_free(s->block[r]);
    mf_free(s->block);
    mf_free(s);
}

/* Returns vector i of a rank. */
static double *vector(const mf_tally_sum *s, int rank, int64_t i)
{
    return s->block[rank] + s->size.whole + i * s->size.real;
}

static void add(double *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

void mf_tally_sum_begin(mf_tally_sum *s)
{
    if (!s) return;
    s->top = 0;
    memset(s->block[s->plan.rank], 0, (size_t)s->size.whole * sizeof(double));
}

void mf_tally_sum_add(mf_tally_sum *s, const mf_graph *g, int64_t leaf)
{
    if (!s) return;
    const int own = s->plan.rank;
    double *now = vector(s, own, s->top++);
    memset(now, 0, (size_t)s->size.real * sizeof *now);
    mf_tallies_read(s->host, g, (int)leaf, s->block[own], now);
    for (int i = sums_of(&s->plan, own, leaf); i > 0; i--, s->top--)
        add(vector(s, own, s->top - 2), vector(s, own, s->top - 1), s->size.real);
}

mf_comm_piece mf_tally_sum_of(const mf_tally_sum *s, int peer, int rank)
{
    if (!s) return (mf_comm_piece){.peer = peer};
    const int64_t n = s->size.whole + vectors(&s->plan, rank, NULL) * s->size.real;
    return (mf_comm_piece){peer, s->block[rank], n * (int64_t)sizeof(double)};
}

/* Adds the vectors of all ranks in the order of their leaves. A sum is stored in its left part.
 * The stack has one entry for each complete part of the tree to the left of a leaf. */
static double *fold_real(const mf_tally_sum *s)
{
    const mf_tally_plan *p = &s->plan;
    double *stack[MF_TREE_PIECES] = {NULL};
    int top = 0;
    for (int64_t at = 0, r = 0; at < p->leaves; r++) {
        mf_piece piece[MF_TREE_PIECES] = {{at, at + 1}};
        const int rank = (int)(r % p->ranks);
        const mf_piece share = share_of(p, rank);
        const int n = p->turns ? 1 : mf_tree_pieces(p->leaves, share.first, share.end, piece);
        for (int i = 0; i < n; i++) {
            stack[top++] = vector(s, rank, p->turns ? r / p->ranks : i);
            for (int k = mf_tree_sums(p->leaves, 0, piece[i]); k > 0 && top > 1; k--, top--)
                add(stack[top - 2], stack[top - 1], s->size.real);
        }
        at = piece[n - 1].end;
    }
    return stack[0];
}

void mf_tally_sum_fold(mf_tally_sum *s)
{
    if (!s) return;
    const mf_tally_sums to = mf_tallies_sums(s->host);
    for (int64_t i = 0; i < s->size.whole; i++)
        to.whole[i] = 0;
    for (int r = 0; r < s->plan.ranks; r++)
        add(to.whole, s->block[r], s->size.whole);
    if (s->size.real > 0) memcpy(to.real, fold_real(s), (size_t)s->size.real * sizeof *to.real);
}
