/* embedding.c: gathers rows of a table, and computes the gradient of the table as sums over
 * positions, in their order, in double. */
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_embedding(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                      const float *table, const int32_t *ids, float *y)
{
    (void)vocab;
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < count; i++)
        memcpy(y + i * n, table + ids[i] * n, (size_t)n * sizeof(float));
}

/* work has a list of positions for each id: head[v] is the first i with ids[i] = v, next[i] is
 * the one after i, and -1 ends the list. */
void mf_ref_embedding_grad(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count, bool add,
                           const int32_t *ids, const float *dy, float *dtable, void *work)
{
    if (mf_kctx_failed(x)) return;
    int32_t *head = work, *next = head + vocab;
    for (int64_t v = 0; v < vocab; v++)
        head[v] = -1;
    for (int64_t i = count - 1; i >= 0; i--) {
        next[i] = head[ids[i]];
        head[ids[i]] = (int32_t)i;
    }
    for (int64_t v = 0; v < vocab; v++)
        for (int64_t j = 0; j < n; j++) {
            double sum = add ? dtable[v * n + j] : 0;
            for (int32_t i = head[v]; i >= 0; i = next[i])
                sum += dy[i * n + j];
            dtable[v * n + j] = (float)sum;
        }
}
