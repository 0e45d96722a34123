/* graph/info.c: returns information about a graph: its nodes, the parameters that its ops read,
 * and the memory and floating-point operations of its runs. */
#include "graph/internal.h"

#include <string.h>

bool mf_graph_reads(const mf_graph *g, const mf_param *p)
{
    for (int i = 0; g && i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        for (int j = 0; !node->dead && j < node->n_in; j++) {
            const mf_tensor *t = node->in[j] ? mf_owner(node->in[j]) : NULL;
            if (t && t->kind == MF_TENSOR_PARAM && t->param == p && t->dtype == MF_F32 &&
                node->reads >> j & 1u)
                return true;
        }
    }
    return false;
}

bool mf_graph_multiplies(const mf_graph *g, const mf_param *p)
{
    const mf_dtype type = p->bf16 ? MF_BF16 : MF_F32;
    for (int i = 0; g && i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        const bool gemm = node->op->flags & MF_OP_PANELS && !node->backward;
        for (int j = 0; !node->dead && j < node->n_in; j++) {
            const mf_tensor *t = node->in[j], *owner = t ? mf_owner(t) : NULL;
            if (owner && owner->kind == MF_TENSOR_PARAM && owner->param == p &&
                owner->dtype == type && node->reads >> j & 1u &&
                !(gemm && j == 1 && t == owner))
                return false;
        }
    }
    return true;
}

int mf_graph_nodes(const mf_graph *g)
{
    return g ? g->n_nodes : 0;
}

const mf_node *mf_graph_node_at(const mf_graph *g, int i)
{
    return g->nodes[i];
}

const mf_param *mf_node_weight(const mf_node *node)
{
    const mf_tensor *w = node->n_in > 1 ? node->in[1] : NULL;
    const bool multiplies = node->op->flags & MF_OP_PANELS && !node->backward && w;
    return multiplies && w->kind == MF_TENSOR_PARAM ? w->param : NULL;
}

const mf_node *mf_graph_node_of(const mf_graph *g, mf_op_role role, int from)
{
    for (int i = from; g && i < g->n_nodes; i++)
        if (mf_opdef_role(g->nodes[i]->op) == role) return g->nodes[i];
    return NULL;
}

void mf_graph_get_info(const mf_graph *g, mf_graph_info *ret)
{
    *ret = (mf_graph_info){0};
    if (!g) return;
    ret->nodes = g->n_nodes;
    ret->dead = g->dead;
    ret->tensors = g->n_tensors;
    ret->arena_bytes = g->arena_bytes + g->exchange.small_bytes;
    ret->naive_bytes = g->naive_bytes;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) ret->flops += mf_node_flops(g->nodes[i]);
}

double mf_node_flops(const mf_node *node)
{
    return node->backward ? node->backward_flops : node->flops;
}

double mf_graph_operations(const mf_graph *g)
{
    enum { OF_ELEMENT = 16 };
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        if (node->dead || node->gradient_part) continue;
        sum += mf_node_flops(node);
        for (int o = 0; o < node->n_out; o++)
            if (node->out[o]) sum += OF_ELEMENT * (double)mf_shape_count(node->out[o]->shape);
    }
    return sum;
}

void mf_graph_last_writes(const mf_graph *g, const mf_store *store, int n, const int64_t *at,
                          int *ret)
{
    const float *grads = mf_store_grads(store);
    for (int i = 0; i < n; i++)
        ret[i] = -1;
    for (int i = 0; i < g->n_steps; i++)
        for (int j = 0; j < g->steps[i].call.n_out; j++) {
            const mf_tensor *t = g->steps[i].node->out[j];
            const mf_view *v = &g->steps[i].call.out[j];
            const float *to = v->data;
            /* Values that use the gradient storage earlier are skipped, because in another
             * process they may be at other addresses. */
            if (!to || !t || mf_owner(t)->kind != MF_TENSOR_GRAD) continue;
            if (to < grads + at[0] || to >= grads + at[n]) continue;
            const int64_t first = to - grads, end = first + mf_shape_count(v->shape);
            for (int k = 0; k < n; k++)
                if (first < at[k + 1] && end > at[k]) ret[k] = i;
        }
}
