/* embedding.c: gathers rows of a table, and computes their gradient.
 *
 * The gradient first sorts positions by id. So each row of the table has its own sum, in the
 * order of the positions. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct embedding {
    int64_t vocab, n, count, per;
    bool add;
    const float *from;
    const int32_t *ids, *begin, *order;
    float *to;
} embedding;

static void copy_tile(void *arg, int64_t tile)
{
    const embedding *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->count, from, p->per);
    for (int64_t i = from; i < to; i++)
        memcpy(p->to + i * p->n, p->from + p->ids[i] * p->n, (size_t)p->n * sizeof(float));
}

void MF_SIMD(embedding)(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                        const float *table, const int32_t *ids, float *y)
{
    (void)vocab;
    embedding p = {
        .n = n, .count = count, .per = rows_per_tile(n), .from = table, .ids = ids, .to = y};
    if (mf_kctx_failed(x)) return;
    x->parallel(rows_tiles(count, n), copy_tile, &p);
}

static void sum_tile(void *arg, int64_t tile)
{
    const embedding *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->vocab, from, p->per);
    if (!p->add) memset(p->to + from * p->n, 0, (size_t)((to - from) * p->n) * sizeof(float));
    for (int64_t v = from; v < to; v++)
        for (int32_t i = p->begin[v]; i < p->begin[v + 1]; i++)
            v_add_to(p->n, p->from + p->order[i] * p->n, p->to + v * p->n);
}

/* Sorts positions by id (counting sort), then sums the positions of each row of the table. */
void MF_SIMD(embedding_grad)(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                             bool add, const int32_t *ids, const float *dy, float *dtable,
                             void *work)
{
    int32_t *begin = work, *order = begin + vocab + 1, sum = 0;
    if (mf_kctx_failed(x)) return;
    memset(begin, 0, (size_t)(vocab + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < count; i++)
        begin[ids[i]]++;
    for (int64_t v = 0; v <= vocab; v++)
        sum = begin[v] += sum; /* the end of the positions of v */
    for (int64_t i = count - 1; i >= 0; i--)
        order[--begin[ids[i]]] = (int32_t)i;
    embedding p = {.vocab = vocab,
                   .n = n,
                   .add = add,
                   .per = rows_per_tile(n),
                   .from = dy,
                   .begin = begin,
                   .order = order,
                   .to = dtable};
    x->parallel(rows_tiles(vocab, n), sum_tile, &p);
}
