/* graph/plan/fuse.c: on a device whose gemms have an epilogue, the first gemm of gated experts
 * and its activation become one node, so that the activation needs no pass over memory.
 *
 * This is done when a graph is finished, because gradients, recomputation and the host support
 * only the two separate ops. The gemm's node gets the activation's output as its second output,
 * and the activation's node is dead. Where a gemm does not fit the device's epilogue, the new
 * op launches the two kernels of the separate ops, so results are the same. */
#include "graph/internal.h"

#include "graph/device/device.h"
#include "kernels/kernel.h"

/* Indices of inputs of grouped_linear (which has GATE inputs) and grouped_swiglu (whose last
 * input is GATE). */
enum { X, W, GATE = 4 };
enum { H, FACTOR, H_GATE }; /* inputs of swiglu */

static bool reads(const mf_node *node, const mf_tensor *t)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] && node->reads >> i & 1u && mf_owner(node->in[i]) == t) return true;
    return false;
}

/* Returns the activation of the gemm in node `at` if both can be one node; NULL:
 * they cannot. */
static mf_node *activation_of(const mf_graph *g, int at, const mf_opdef *swiglu)
{
    const mf_node *gemm = g->nodes[at];
    const mf_tensor *h = gemm->out[0], *w = gemm->in[W];
    if (gemm->dead || gemm->backward || gemm->n_in != GATE || h->alias ||
        h->kind != MF_TENSOR_VALUE || mf_opdef_role(gemm->op) != MF_ROLE_GROUPED_LINEAR ||
        mf_tensor_is_stored(w) || (w->param && w->param->packed))
        return NULL;
    for (int i = at + 1; i < g->n_nodes; i++) {
        mf_node *node = g->nodes[i];
        if (node->dead || !reads(node, h)) continue;
        if (node->op != swiglu || node->backward || node->in[H] != h || node->in[FACTOR])
            continue;
        const mf_tensor *gate = node->n_in > H_GATE ? node->in[H_GATE] : NULL;
        if (node->metric != gemm->metric || node->gradient_part != gemm->gradient_part ||
            (gate && mf_owner(gate)->node >= at) || node->out[0]->alias ||
            node->out[0]->kind != MF_TENSOR_VALUE)
            return NULL;
        return node;
    }
    return NULL;
}

/* Whether h is read by any node except `but`, or after the run. */
static bool read_by_others(const mf_graph *g, const mf_tensor *h, const mf_node *but)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->keep && mf_owner(g->tensors[i]) == h) return true;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && g->nodes[i] != but && reads(g->nodes[i], h)) return true;
    return false;
}

void mf_graph_fuse(mf_graph *g)
{
    const mf_kernels *k = mf_graph_device_kernels(g);
    const mf_opdef *fused = g->ops->find("grouped_swiglu"), *swiglu = g->ops->find("swiglu");
    if (!k || !k->can_swiglu) return;
    for (int i = 0; i < g->n_nodes; i++) {
        mf_node *gemm = g->nodes[i], *act = activation_of(g, i, swiglu);
        if (!act) continue;
        gemm->op = fused;
        gemm->in[GATE] = act->n_in > H_GATE ? act->in[H_GATE] : NULL;
        gemm->n_in = GATE + 1;
        gemm->reads |= 1u << GATE;
        gemm->attr.i[1] = !read_by_others(g, gemm->out[0], act);
        gemm->out[1] = act->out[0];
        gemm->n_out = 2;
        act->out[0]->node = i;
        act->dead = true;
        g->dead++;
    }
}
