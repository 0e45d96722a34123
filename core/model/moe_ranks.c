/* model/moe_ranks.c: calls the plugin of the experts for rows that other ranks have sent.
 * During the call a part of each weight replaces the weight, because this rank has only
 * that part. */
#include "comm/expert_merge.h"
#include "model/moe.h"

enum { MOST_WEIGHTS = 16 };

/* The values that replace the weights of an expert during a call. */
typedef struct weights {
    const mf_expert_ranks *ranks;
    int calls; /* number of calls of the expert; each call has its own weights */
    int now, n;
    const mf_param *of[MOST_WEIGHTS];
    mf_tensor *copy[MOST_WEIGHTS][MF_EXPERT_RANKS];
} weights;

static mf_tensor *stand_in(void *arg, mf_graph *g, mf_param *p)
{
    weights *w = arg;
    int i = 0;
    if (!p->held) return NULL;
    while (i < w->n && w->of[i] != p)
        i++;
    if (i == MOST_WEIGHTS) {
        mf_graph_fail(g, MF_ECONFIG,
                      "parallel.expert: an expert of at most %d parameters, found more",
                      MOST_WEIGHTS);
        return NULL;
    }
    if (i == w->n) {
        w->of[w->n++] = p;
        mf_expert_copies(g, w->ranks, p, w->calls, w->copy[i]);
    }
    return w->copy[i][w->now];
}

/* Refuses experts that draw random numbers, because the numbers would depend on the rank that
 * computes the expert. */
static void refuse_draws(mf_graph *g, int before)
{
    for (int i = before; i < mf_graph_nodes(g); i++)
        if (mf_graph_node_at(g, i)->op->flags & MF_OP_RANDOM)
            mf_graph_fail(g, MF_ECONFIG,
                          "parallel.expert: expected an expert without random numbers");
}

static mf_tensor *call(const mf_moe_layer *layer, weights *w, mf_graph *g,
                       const mf_expert_in *in)
{
    const int before = mf_graph_nodes(g);
    mf_tensor *y = NULL;
    mf_graph_set_stand_in(g, stand_in, w);
    const int rc = mf_instance_expert(layer->expert, g, in, &y);
    mf_graph_set_stand_in(g, NULL, NULL);
    refuse_draws(g, before);
    return rc == MF_OK ? y : NULL;
}

/* Calls the expert once; one->x and one->gate contain the rows of all ranks. */
static mf_tensor *call_merged(const mf_moe_layer *layer, weights *w, mf_graph *g,
                              const mf_expert_routes *routes, mf_expert_in *one)
{
    one->x = mf_expert_merge(g, routes, one->x);
    one->gate = one->gate ? mf_expert_merge(g, routes, one->gate) : NULL;
    one->offset = mf_expert_merged_offset(g, routes);
    mf_tensor *y = call(layer, w, g, one);
    return y ? mf_expert_unmerge(g, routes, y) : NULL;
}

static mf_tensor *call_apart(const mf_moe_layer *layer, weights *w, mf_graph *g,
                             const mf_expert_routes *routes, const mf_expert_in *all)
{
    mf_tensor *y[MF_EXPERT_RANKS] = {NULL};
    for (w->now = 0; w->now < w->calls; w->now++) {
        mf_expert_in one = *all;
        mf_tensor *offset = mf_slice(g, routes->counts, 0, w->now, 1);
        one.x = mf_expert_rows_of(g, routes->to, all->x, w->now);
        one.gate = all->gate ? mf_expert_rows_of(g, routes->to, all->gate, w->now) : NULL;
        one.offset = mf_reshape(g, offset, mf_shape1(all->experts + 1));
        y[w->now] = call(layer, w, g, &one);
        if (!y[w->now]) return NULL;
    }
    return mf_expert_join(g, routes->to, y);
}

mf_tensor *mf_moe_shared_experts(const mf_moe_layer *layer, const mf_expert_ranks *e,
                                 mf_graph *g, const mf_expert_in *in)
{
    const mf_expert_routes routes = mf_expert_routes_new(g, e, in->offset);
    weights w = {.ranks = e, .calls = e->merged ? 1 : e->ranks};
    mf_expert_in all = *in;
    all.experts = in->experts / e->ranks;
    all.x = mf_expert_send(g, &routes, in->x);
    all.gate = in->gate ? mf_expert_send(g, &routes, in->gate) : NULL;
    all.token = NULL; /* the rows come from the batches of several ranks, so token indices have
                       * no meaning here */
    mf_tensor *y = e->merged ? call_merged(layer, &w, g, &routes, &all)
                             : call_apart(layer, &w, g, &routes, &all);
    return y ? mf_expert_return(g, &routes, y) : NULL;
}
