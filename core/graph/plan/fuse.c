/* graph/plan/fuse.c: on a device, nodes that only move memory become parts of others. This is
 * done when a graph is finished, because gradients, recomputation and the host support only the
 * separate ops. Results have the same bits.
 *
 * Casts: a gemm that only casts to bf16 read writes bf16; bf16 that was cast to f32 is not cast
 * back; sums read bf16. On devices that fuse, rotary positions between a gemm or bf16 and casts
 * are computed in bf16: queries and keys are then rounded before they are rotated, too, which
 * changes results. A cast that is not needed any more has no memory: its output is another
 * handle of its input.
 *
 * Activations: where gemms have an epilogue, the node of the first gemm of gated experts gets
 * the activation's output as its second output, and the activation's node is dead. If a gemm
 * does not fit the epilogue, the new op launches the two kernels of the separate ops. */
#include "graph/third_party.h"
#include "graph/internal.h"

#include "graph/device/device.h"
#include "kernels/kernel.h"

/* Indices of inputs of grouped_linear (which has GATE inputs) and grouped_swiglu (whose last
 * input is GATE). */
enum { X, W, GATE = 4 };
enum { H, FACTOR, H_GATE }; /* inputs of swiglu */

bool mf_node_reads(const mf_node *node, const mf_tensor *t)
{
    for (int i = 0; !node->dead && i < node->n_in; i++)
        if (node->in[i] && node->reads >> i & 1u && mf_owner(node->in[i]) == t) return true;
    return false;
}

bool mf_is_plain(const mf_tensor *t, mf_dtype type)
{
    return t && !t->alias && t->dtype == type &&
           (t->kind == MF_TENSOR_VALUE || t->kind == MF_TENSOR_GRAD);
}

bool mf_is_whole(const mf_tensor *t)
{
    return !t->param || mf_shape_count(t->shape) == mf_shape_count(t->param->shape);
}

void mf_node_take(mf_graph *g, int at, int j, mf_node *from)
{
    g->nodes[at]->out[j] = from ? from->out[0] : NULL;
    if (!from) return;
    from->out[0]->node = at;
    from->dead = from->fused = true;
}

void mf_node_append(mf_node *node, mf_readers *r, mf_tensor *t)
{
    node->in[node->n_in] = t;
    node->reads |= (uint32_t)(t != NULL) << node->n_in++;
    node->more_in++;
    if (t) r->fixed[mf_owner(t)->id] = true;
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
        if (!mf_node_reads(node, h)) continue;
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
        if (g->nodes[i] != but && mf_node_reads(g->nodes[i], h)) return true;
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
        act->dead = act->fused = true;
    }
}

/* ---- casts ---- */

static bool casts_to(const mf_node *node, mf_dtype type)
{
    return mf_opdef_role(node->op) == MF_ROLE_CAST && node->out[0]->dtype == type;
}

/* Returns the bf16 value of which t is the cast to f32; NULL: t is none. */
static mf_tensor *before_cast(const mf_graph *g, const mf_tensor *t)
{
    const mf_tensor *owner = mf_owner(t);
    const mf_node *node = owner->node >= 0 ? g->nodes[owner->node] : NULL;
    if (!node || !casts_to(node, MF_F32) || mf_tensor_is_stored(node->in[0])) return NULL;
    return node->in[0]->dtype == MF_BF16 ? node->in[0] : NULL;
}

/* Whether t is computed by a gemm of bf16 (`any`: by any node), and only `but` and casts to
 * bf16 read it. */
static bool may_be_bf16(const mf_graph *g, const mf_tensor *t, bool any, const mf_node *but)
{
    const mf_node *gemm = t->node >= 0 ? g->nodes[t->node] : NULL;
    if (!gemm || t->alias || t->keep || t->kind != MF_TENSOR_VALUE) return false;
    if (!any && (gemm->backward || gemm->n_out != 1 || !(gemm->op->flags & MF_OP_GEMM) ||
                 mf_op_is_third_party(g, gemm->op) || gemm->in[X]->dtype != MF_BF16 ||
                 mf_tensor_is_stored(gemm->in[W])))
        return false;
    for (int i = t->node + 1; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        for (int j = 0; !node->dead && node != but && j < node->n_in; j++)
            if (node->in[j] && mf_owner(node->in[j]) == t &&
                (node->in[j] != t || !casts_to(node, MF_BF16)))
                return false;
    }
    return true;
}

/* Lets rope read and write bf16 if that makes casts unnecessary. */
static void rotate_bf16(const mf_graph *g, mf_node *rope)
{
    mf_tensor *in = rope->in[0], *out = rope->out[0], *from = before_cast(g, in);
    if (out->dtype != MF_F32 || in->dtype != MF_F32 || out->shape.dim[1] % 2 != 0 ||
        !may_be_bf16(g, out, true, NULL))
        return;
    if (from && mf_shape_equal(from->shape, in->shape))
        rope->in[0] = from;
    else if (may_be_bf16(g, in, false, rope))
        in->dtype = MF_BF16;
    else
        return;
    out->dtype = MF_BF16;
}

void mf_graph_fuse_casts(mf_graph *g)
{
    const mf_opdef *rope = mf_graph_device_kernels(g)->fuses ? g->ops->find("rope") : NULL;
    const mf_opdef *sum = g->ops->find("sum"), *sum_to = g->ops->find("sum_to");
    for (int i = 0; i < g->n_nodes; i++) {
        mf_node *node = g->nodes[i];
        if (node->dead || node->n_in < 1 || !node->in[0]) continue;
        if (node->op == rope) rotate_bf16(g, node);
        mf_tensor *in = node->in[0], *out = node->out[0], *from = before_cast(g, in);
        if ((node->op == sum || node->op == sum_to) && !node->backward && from &&
            mf_shape_equal(from->shape, in->shape))
            node->in[0] = from;
        if (!casts_to(node, MF_BF16) || out->keep || out->kind != MF_TENSOR_VALUE) continue;
        if (!from && may_be_bf16(g, in, false, NULL)) in->dtype = MF_BF16;
        if (in->dtype == MF_BF16 && !mf_tensor_is_stored(in)) from = in;
        if (!from) continue;
        out->alias = mf_owner(from);
        out->node = from->node;
    }
}
