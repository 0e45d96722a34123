/* lab/plan/launches.c: finds the launches of a run of a graph without running it. The function
 * of each step is called with a set whose kernels only examine their arguments. Ops of core
 * only launch kernels, and types, shapes and attributes determine these launches. So in a graph
 * that is only planned, addresses without memory are enough. */
#include "lab/plan/launches.h"
#include "graph/internal.h"

/* Addresses of values that have no memory: the address ranges of tensors do not overlap, and no
 * address is NULL. */
#define FIRST_ADDRESS ((uintptr_t)1 << 44)
#define APART         ((uintptr_t)1 << 36)

static void fill(const mf_tensor *t, bool used, const mf_view *v)
{
    mf_view *view = (mf_view *)(uintptr_t)v; /* the view is in this graph's memory (run.c) */
    if (t && used && !view->data)
        view->data = (void *)(FIRST_ADDRESS + (uintptr_t)mf_owner(t)->id * APART);
}

int mf_graph_launches(mf_graph *g, const struct mf_kernels *set, void *stream, int *ret_hosted)
{
    *ret_hosted = 0;
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (!g->finished || !g->options.bare)
        return mf_fail(MF_EINVAL, "launches are looked at in graphs that are planned only");
    mf_launch_init(&g->launch, set, g->options.training, 0, 0);
    g->launch.stream = stream;
    g->launch.graph = g;
    g->runs++;
    for (int i = 0; i < g->n_steps; i++) {
        mf_replay *step = &g->steps[i];
        const mf_node *node = step->node;
        for (int j = 0; j < node->n_in; j++)
            fill(node->in[j], node->reads >> j & 1u, &step->call.in[j]);
        for (int j = 0; j < node->n_out; j++)
            fill(node->out[j], true, &step->call.out[j]);
        g->launch.node = i;
        *ret_hosted += step->third_party;
        if (step->third_party || node->metric) continue;
        const int rc = step->fn(&step->call);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}
