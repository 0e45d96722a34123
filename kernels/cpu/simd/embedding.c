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

void MF_SIMD(embedding)(const mf_kctx *x, const mf_embedding_args *a)
{
    embedding p = {.n = a->n,
                   .count = a->count,
                   .per = rows_per_tile(a->n),
                   .from = a->table,
                   .ids = a->ids,
                   .to = a->y};
    if (mf_kctx_failed(x)) return;
    x->parallel(rows_tiles(a->count, a->n), copy_tile, &p);
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
void MF_SIMD(embedding_grad)(const mf_kctx *x, const mf_embedding_grad_args *a)
{
    int32_t *begin = a->work, *order = begin + a->vocab + 1, sum = 0;
    if (mf_kctx_failed(x)) return;
    memset(begin, 0, (size_t)(a->vocab + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < a->count; i++)
        begin[a->ids[i]]++;
    for (int64_t v = 0; v <= a->vocab; v++)
        sum = begin[v] += sum; /* end of the positions of id v */
    for (int64_t i = a->count - 1; i >= 0; i--)
        order[--begin[a->ids[i]]] = (int32_t)i;
    embedding p = {.vocab = a->vocab,
                   .n = a->n,
                   .add = a->add,
                   .per = rows_per_tile(a->n),
                   .from = a->dy,
                   .begin = begin,
                   .order = order,
                   .to = a->dtable};
    x->parallel(rows_tiles(a->vocab, a->n), sum_tile, &p);
}
