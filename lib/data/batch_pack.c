/* data/batch_pack.c: best fit, decreasing. The rows with the same free length form a list. A
 * set of bits records for which free lengths a row exists, so a row for a piece is found in at
 * most room / 64 steps. */
#include "data/batch_pack.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"

typedef struct work {
    int32_t *order;  /* [n] pieces, the longest first */
    int32_t *row_of; /* [n] row of each piece */
    int32_t *drawn;  /* [n] a permutation */
    int64_t *count;  /* [room + 2] counts of the lengths */
    int32_t *head;   /* [room + 1] a row with this free length, -1: none */
    int32_t *next;   /* [n] next row with the same free length */
    uint64_t *some;  /* [room / 64 + 1] bit r: head[r] is a row */
} work;

static void free_work(work *w)
{
    mf_free(w->order);
    mf_free(w->row_of);
    mf_free(w->drawn);
    mf_free(w->count);
    mf_free(w->head);
    mf_free(w->next);
    mf_free(w->some);
}

static int new_work(work *w, size_t n, size_t room)
{
    w->order = mf_alloc(n + 1, sizeof *w->order);
    w->row_of = mf_alloc(n + 1, sizeof *w->row_of);
    w->drawn = mf_alloc(n + 1, sizeof *w->drawn);
    w->count = mf_alloc(room + 2, sizeof *w->count);
    w->head = mf_alloc(room + 1, sizeof *w->head);
    w->next = mf_alloc(n + 1, sizeof *w->next);
    w->some = mf_alloc(room / 64 + 1, sizeof *w->some);
    return w->order && w->row_of && w->drawn && w->count && w->head && w->next && w->some
               ? MF_OK
               : MF_ENOMEM;
}

/* Sorts pieces by length, the longest first, with a counting sort. */
static void sort(work *w, const int32_t *length, int64_t n, int32_t room, uint64_t seed)
{
    mf_rng_permutation(seed, mf_rng_stream("data.pack"), 0, w->drawn, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        w->count[room - length[i] + 1]++;
    for (int32_t r = 1; r <= room; r++)
        w->count[r] += w->count[r - 1];
    for (int64_t i = 0; i < n; i++)
        w->order[w->count[room - length[w->drawn[i]]]++] = w->drawn[i];
}

static void put_row(work *w, int32_t row, int32_t room)
{
    w->next[row] = w->head[room];
    w->head[room] = row;
    w->some[room / 64] |= UINT64_C(1) << room % 64;
}

/* Removes from its list a row with the least free length that fits the piece. Returns this free
 * length, -1: none. */
static int32_t take_row(work *w, int32_t length, int32_t room, int32_t *ret_row)
{
    int32_t word = length / 64;
    uint64_t bits = w->some[word] & ~UINT64_C(0) << length % 64;
    while (!bits && word < room / 64)
        bits = w->some[++word];
    if (!bits) return -1;
    int32_t found = 64 * word;
    while (!(bits & 1)) {
        bits >>= 1;
        found++;
    }
    *ret_row = w->head[found];
    w->head[found] = w->next[*ret_row];
    if (w->head[found] < 0) w->some[found / 64] &= ~(UINT64_C(1) << found % 64);
    return found;
}

static int collect(const work *w, int64_t n, mf_packing *p)
{
    p->item = mf_alloc((size_t)n + 1, sizeof *p->item);
    p->begin = mf_alloc((size_t)p->rows + 1, sizeof *p->begin);
    if (!p->item || !p->begin) return MF_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        p->begin[w->row_of[i] + 1]++;
    for (int64_t r = 0; r < p->rows; r++)
        p->begin[r + 1] += p->begin[r];
    /* begin[row + 1] is counted down to the row's first piece, so the pieces are
     * visited backwards. */
    for (int64_t i = n; i-- > 0;)
        p->item[--p->begin[w->row_of[w->order[i]] + 1]] = w->order[i];
    memmove(p->begin, p->begin + 1, (size_t)p->rows * sizeof *p->begin);
    p->begin[p->rows] = n;
    return MF_OK;
}

int mf_packing_new(const int32_t *length, int64_t n, int32_t room, uint64_t seed,
                   mf_packing *ret)
{
    work w = {0};
    *ret = (mf_packing){0};
    int rc = new_work(&w, (size_t)n, (size_t)room);
    if (rc == MF_OK) {
        for (int32_t r = 0; r <= room; r++)
            w.head[r] = -1;
        sort(&w, length, n, room, seed);
        for (int64_t i = 0; i < n; i++) {
            const int32_t piece = w.order[i];
            int32_t row = 0, left = take_row(&w, length[piece], room, &row);
            if (left < 0) {
                row = (int32_t)ret->rows++;
                left = room;
            }
            w.row_of[piece] = row;
            put_row(&w, row, left - length[piece]);
        }
        rc = collect(&w, n, ret);
    }
    free_work(&w);
    if (rc != MF_OK) mf_packing_free(ret);
    return rc;
}

void mf_packing_free(mf_packing *p)
{
    mf_free(p->item);
    mf_free(p->begin);
    *p = (mf_packing){0};
}
