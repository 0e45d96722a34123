/* graph/plan/recompute.c: values that the backward pass recomputes instead of keeping them.
 *
 * When a gradient rule is about to read an output of a marked node of the forward pass, a copy
 * of the node is added. Before the copy, further copies are added of the marked nodes whose
 * outputs it reads (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", but with
 * nodes instead of segments: outputs that no node reads are dropped as dead, and each copy runs
 * as late as possible). A copy has the same op, attributes and random stream, and so computes
 * the same bits. The original output is then read only in the forward pass, and its memory
 * becomes free early. If the node's backward function can also compute the node's output
 * (MF_OP_RECOMPUTES_OUT), readers wait for this function (backward.c). */
#include "graph/internal.h"

#include <string.h>

/* Whether the outputs are much smaller than the inputs (a router's logits). Keeping them is
 * then cheaper than recomputing them. */
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

/* Whether a node's outputs are not recomputed. The reasons: the node is not marked or is a
 * metric; it keeps state, which it must change once per step; an op has overwritten its input;
 * its outputs are kept or small. True also if the graph has failed. */
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
        t->recomputes = node->out[i];
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
