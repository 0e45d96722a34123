/* graph/plan/reuse.c: uses the storage of gradients as memory of values.
 *
 * A run overwrites a parameter's gradient in the backward pass. Before that no node reads the
 * gradient's storage. When the gradient is written, the values that the later layers keep for
 * their own gradients are no longer needed. So values can be in this storage: in a model of L
 * layers, the gradients of the early layers hold a large part of the values that the late
 * layers keep. Some storage is not used: storage that no node of the graph writes (frozen
 * parameters, parameters of other graphs), and the gaps between parameters, which must
 * hold zeros. */
#include "graph/internal.h"

#include <limits.h>
#include <stdlib.h>

static int by_offset(const void *a, const void *b)
{
    const mf_reused_grad *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->until > y->until) - (x->until < y->until);
}

static int take_over(mf_graph *g, const mf_graph *arena_of)
{
    g->reused = mf_arena_alloc(g->memory, (size_t)arena_of->n_reused * sizeof *g->reused + 1);
    if (!g->reused) return MF_ENOMEM;
    for (int i = 0; i < arena_of->n_reused; i++) {
        g->reused[i] = arena_of->reused[i];
        /* Values may use all of this storage, because the graph that owns it does not run at
         * the same time. */
        g->reused[i].until = INT_MAX;
    }
    g->n_reused = arena_of->n_reused;
    g->reused_base = arena_of->reused_base;
    g->reused_bytes = arena_of->reused_bytes;
    return MF_OK;
}

static bool is_reusable(const mf_tensor *t, const int *written)
{
    return t->kind == MF_TENSOR_GRAD && !t->alias && t->param->grad && written[t->id] >= 0;
}

/* Sorts the list by offset. If a parameter is listed twice, its first write counts. */
static void sort(mf_graph *g)
{
    int n = 0;
    qsort(g->reused, (size_t)g->n_reused, sizeof *g->reused, by_offset);
    for (int i = 0; i < g->n_reused; i++)
        if (n == 0 || g->reused[n - 1].offset != g->reused[i].offset)
            g->reused[n++] = g->reused[i];
    g->n_reused = n;
}

int mf_reuse_find(mf_graph *g, const int *written)
{
    if (g->options.arena_of) return take_over(g, g->options.arena_of);
    g->reused = mf_arena_alloc(g->memory, (size_t)g->n_tensors * sizeof *g->reused + 1);
    if (!g->reused) return MF_ENOMEM;
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_tensor *t = g->tensors[i];
        if (!is_reusable(t, written)) continue;
        char *base = (char *)mf_store_grads(t->param->store);
        /* The gradients are in two stores, so none is reused. */
        if (g->reused_base && base != g->reused_base) {
            g->n_reused = 0;
            g->reused_base = NULL;
            return MF_OK;
        }
        g->reused_base = base;
        g->reused[g->n_reused++] =
            (mf_reused_grad){.offset = (size_t)t->param->offset * sizeof(float),
                             .bytes = (size_t)t->param->count * sizeof(float),
                             .until = written[t->id]};
    }
    if (g->n_reused == 0) return MF_OK;
    sort(g);
    const mf_reused_grad *last = &g->reused[g->n_reused - 1];
    g->reused_bytes = (last->offset + last->bytes + 63) & ~(size_t)63;
    return MF_OK;
}

static int reserve(mf_span *spans, int n, int from, size_t begin, size_t end)
{
    if (end == begin) return n;
    spans[n] = (mf_span){
        .first = from, .last = INT_MAX, .bytes = end - begin, .offset = begin, .fixed = true};
    return n + 1;
}

int mf_reuse_spans(const mf_graph *g, mf_span *spans)
{
    size_t at = 0;
    int n = 0;
    for (int i = 0; i < g->n_reused; i++) {
        const mf_reused_grad *l = &g->reused[i];
        n = reserve(spans, n, 0, at, l->offset);
        n = reserve(spans, n, l->until, l->offset, l->offset + l->bytes);
        at = l->offset + l->bytes;
    }
    return reserve(spans, n, 0, at, g->reused_bytes);
}
