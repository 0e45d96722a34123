/* graph/plan/recompute.c: values that the backward pass computes again instead of keeping them.
 *
 * When a gradient rule is about to read a value of the forward pass whose node is marked, a
 * copy of the node is added in front of it, and before that copies of the marked nodes that it
 * reads from (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", with nodes
 * instead of segments: what nobody reads of a copy is dropped as dead, and each copy stands as
 * late as it can). A copy has the same op, attributes and random stream, and so the same bits.
 * The original is then read in the forward pass only, and its memory is free from there on.
 * Where the node's own backward can give its output as well (MF_OP_RECOMPUTES_OUT), who reads
 * it waits for that (backward.c).
 */
#include "graph/internal.h"

#include <string.h>

/* Much smaller than what it is made of (a router's logits beside its input): cheaper to
 * keep. */
static bool is_small(const mf_node *node)
{
    size_t out = 0, in = 0;
    for (int i = 0; i < node->n_out; i++)
        out += mf_shape_bytes(node->out[i]->shape, node->out[i]->dtype);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] && node->in[i]->kind == MF_TENSOR_VALUE)
            in += mf_shape_bytes(node->in[i]->shape, node->in[i]->dtype);
    return 8 * out <= in;
}

/* Kept anyway; or its inputs are not what they were: ops that keep state run once a step. */
static bool must_stay(const mf_graph *g, const mf_node *node)
{
    if (!node->recompute || node->metric || node->op->flags & MF_OP_STATE) return true;
    if (is_small(node)) return true;
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i]->keep) return true;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] && mf_tensor_stale(node->in[i])) return true;
    return g->status != MF_OK;
}

bool mf_is_recomputed(const mf_graph *g, const mf_node *node)
{
    return !must_stay(g, node);
}

static bool add_outputs(mf_graph *g, mf_node *copy, const mf_node *node, mf_tensor **seen)
{
    const int self = g->n_nodes - 1;
    for (int i = 0; i < node->n_out; i++) {
        mf_tensor *t =
            mf_tensor_new(g, MF_TENSOR_VALUE, node->out[i]->dtype, node->out[i]->shape);
        if (!t) return false;
        t->node = self;
        copy->out[i] = seen[node->out[i]->id] = t;
    }
    if (node->op->flags & MF_OP_ALIAS) {
        copy->out[0]->alias = mf_owner(copy->in[0]);
        copy->out[0]->version = copy->out[0]->alias->writes;
    }
    return true;
}

static mf_tensor *copy_of(mf_graph *g, const mf_node *node, mf_tensor *t, mf_tensor **seen)
{
    mf_tensor *in[MF_OP_MAX_ARGS];
    for (int i = 0; i < node->n_in; i++) {
        in[i] = node->in[i] ? mf_recompute_value(g, node->in[i], seen) : NULL;
        if (node->in[i] && !in[i]) return NULL;
    }
    mf_node *copy = mf_node_new(g, node->op, node->scope);
    if (!copy) return NULL;
    copy->n_in = node->n_in;
    copy->n_out = node->n_out;
    memcpy(copy->in, in, (size_t)node->n_in * sizeof *in);
    copy->reads = node->reads;
    copy->attr = node->attr;
    copy->stream = node->stream;
    copy->work_bytes = node->work_bytes;
    copy->file = node->file;
    copy->line = node->line;
    return add_outputs(g, copy, node, seen) ? seen[t->id] : NULL;
}

mf_tensor *mf_recompute_value(mf_graph *g, mf_tensor *t, mf_tensor **seen)
{
    if (t->node < 0) return t;
    const mf_node *node = g->nodes[t->node];
    if (node->gradient_part) return t;
    if (!seen[t->id]) {
        if (must_stay(g, node)) return g->status == MF_OK ? t : NULL;
        return copy_of(g, node, t, seen);
    }
    return seen[t->id];
}
