/* graph/info.c: what a finished graph costs. */
#include "graph/internal.h"

void mf_graph_get_info(const mf_graph *g, mf_graph_info *ret)
{
    *ret = (mf_graph_info){0};
    if (!g) return;
    ret->nodes = g->n_nodes;
    ret->dead = g->dead;
    ret->tensors = g->n_tensors;
    ret->arena_bytes = g->arena_bytes;
    ret->naive_bytes = g->naive_bytes;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) ret->flops += mf_node_flops(g->nodes[i]);
}

double mf_node_flops(const mf_node *node)
{
    return node->backward ? node->backward_flops : node->flops;
}
