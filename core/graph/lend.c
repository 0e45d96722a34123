/* graph/lend.c: the storage of gradients as memory of values.
 *
 * A run overwrites the gradient of a parameter in the backward pass; before that nobody reads
 * it, and all that the layers behind the parameter keep for their own gradients has been used
 * up. So values may lie there: of a model of L layers the gradients of the early ones hold much
 * of what the late ones keep. Storage that no node of the graph writes (frozen parameters,
 * others' ones) and the gaps between parameters, which must hold zeros, are left alone.
 *
 * Where runs add to gradients (train.accumulate > 1) nothing is lent: from the second run of a
 * step on that storage holds the sum of those before, all the time, and one plan has to fit
 * every run. Later graphs that borrow, as evaluation does, lie in the arena, which is the
 * larger for it.
 */
#include "graph/internal.h"

#include <limits.h>
#include <stdlib.h>

static int by_offset(const void *a, const void *b)
{
    const mf_lent *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->until > y->until) - (x->until < y->until);
}

static int take_over(mf_graph *g, const mf_graph *lender)
{
    g->lent = mf_arena_alloc(g->memory, (size_t)lender->n_lent * sizeof *g->lent + 1);
    if (!g->lent) return MF_ENOMEM;
    for (int i = 0; i < lender->n_lent; i++) {
        g->lent[i] = lender->lent[i];
        g->lent[i].until = INT_MAX; /* between two of its runs all is free */
    }
    g->n_lent = lender->n_lent;
    g->lent_base = lender->lent_base;
    g->lent_bytes = lender->lent_bytes;
    return MF_OK;
}

static bool is_lent(const mf_tensor *t, const int *written)
{
    return t->kind == MF_TENSOR_GRAD && !t->alias && t->param->grad && written[t->id] >= 0;
}

/* The list by offset; where a parameter is in it twice, the first write counts. */
static void sort(mf_graph *g)
{
    int n = 0;
    qsort(g->lent, (size_t)g->n_lent, sizeof *g->lent, by_offset);
    for (int i = 0; i < g->n_lent; i++)
        if (n == 0 || g->lent[n - 1].offset != g->lent[i].offset) g->lent[n++] = g->lent[i];
    g->n_lent = n;
}

int mf_lend_find(mf_graph *g, const int *written)
{
    if (g->options.lender) return take_over(g, g->options.lender);
    if (g->options.accumulate) return MF_OK;
    g->lent = mf_arena_alloc(g->memory, (size_t)g->n_tensors * sizeof *g->lent + 1);
    if (!g->lent) return MF_ENOMEM;
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_tensor *t = g->tensors[i];
        if (!is_lent(t, written)) continue;
        char *base = (char *)(t->param->grad - t->param->offset);
        if (g->lent_base && base != g->lent_base) { /* of two stores: of none */
            g->n_lent = 0;
            g->lent_base = NULL;
            return MF_OK;
        }
        g->lent_base = base;
        g->lent[g->n_lent++] = (mf_lent){.offset = (size_t)t->param->offset * sizeof(float),
                                         .bytes = (size_t)t->param->count * sizeof(float),
                                         .until = written[t->id]};
    }
    if (g->n_lent == 0) return MF_OK;
    sort(g);
    const mf_lent *last = &g->lent[g->n_lent - 1];
    g->lent_bytes = (last->offset + last->bytes + 63) & ~(size_t)63;
    return MF_OK;
}

static int reserve(mf_span *spans, int n, int from, size_t begin, size_t end)
{
    if (end == begin) return n;
    spans[n] = (mf_span){.first = from,
                         .last = INT_MAX,
                         .bytes = end - begin,
                         .offset = begin,
                         .fixed = true};
    return n + 1;
}

int mf_lend_spans(const mf_graph *g, mf_span *spans)
{
    size_t at = 0;
    int n = 0;
    for (int i = 0; i < g->n_lent; i++) {
        const mf_lent *l = &g->lent[i];
        n = reserve(spans, n, 0, at, l->offset);
        n = reserve(spans, n, l->until, l->offset, l->offset + l->bytes);
        at = l->offset + l->bytes;
    }
    return reserve(spans, n, 0, at, g->lent_bytes);
}
