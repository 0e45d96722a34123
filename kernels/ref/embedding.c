/* embedding.c: gathers rows of a table, and computes the gradient of the table as sums over
 * positions, in their order, in double. */
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_embedding(const mf_kctx *x, const mf_embedding_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < a->count; i++)
        memcpy(a->y + i * a->n, a->table + a->ids[i] * a->n, (size_t)a->n * sizeof(float));
}

/* work contains a list of positions for each id: head[v] is the first i with ids[i] = v,
 * next[i] is the position after i, and -1 ends the list. */
void mf_ref_embedding_grad(const mf_kctx *x, const mf_embedding_grad_args *a)
{
    if (mf_kctx_failed(x)) return;
    int32_t *head = a->work, *next = head + a->vocab;
    for (int64_t v = 0; v < a->vocab; v++)
        head[v] = -1;
    for (int64_t i = a->count - 1; i >= 0; i--) {
        next[i] = head[a->ids[i]];
        head[a->ids[i]] = (int32_t)i;
    }
    for (int64_t v = 0; v < a->vocab; v++)
        for (int64_t j = 0; j < a->n; j++) {
            double sum = a->add ? a->dtable[v * a->n + j] : 0;
            for (int32_t i = head[v]; i >= 0; i = next[i])
                sum += a->dy[i * a->n + j];
            a->dtable[v * a->n + j] = (float)sum;
        }
}
