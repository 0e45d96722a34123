/* graph/backward.c: adds the nodes that compute gradients (reverse-mode differentiation).
 *
 * Forward nodes are visited from last to first. When a node is visited, all nodes that read its
 * outputs have been visited, so the gradients of its outputs are complete. Contributions to the
 * gradient of a tensor are added in a fixed order. A parameter's gradient is stored as soon as
 * the first node that reads the parameter has been visited, not at the end. So the memory of
 * the computed value becomes free early.
 *
 * The backward function of some ops can also recompute the op's output, at little cost
 * (MF_OP_RECOMPUTES_OUT). To use this, a node that reads such an output waits. For y = x W^T
 * only the gradient of x is computed when the node is visited. The gradient dy^T x of the
 * weights is computed after the backward function of the op that computed x has run. */
#include "base/float_control.h"
#include "graph/third_party.h"
#include "graph/internal.h"

#include <stdio.h>
#include <string.h>

typedef struct tape {
    mf_graph *g;
    int n_forward; /* number of nodes before gradients are added */
    /* [tensor id] first node, in forward order, that contributes to the tensor's gradient;
     * n_forward: no node; -1: the gradient is stored */
    int *first_reader;
    /* [tensor id] recomputed value of the tensor; the array is NULL if nothing is recomputed */
    mf_tensor **recompute;
    int judged;   /* number of tensors that forget_cheap has examined; it examines each
                   * tensor once */
    int *waiting; /* [node] last node that waits for this node's recomputed output; -1: none */
    int *before;  /* [waiting node] the previous node in the list of waiting nodes; -1: none */
    mf_scope scope; /* scope "grad of ..." of the node that is being visited */
    const char *of; /* scope of the forward node from which `scope` was made */
} tape;

static bool reaches(const mf_node *node, int i)
{
    return node->in[i] && node->in[i]->needs_grad && node->op->diff_in >> i & 1u;
}

static bool differentiable(const mf_node *node)
{
    return !node->metric && !node->gradient_part && !(node->op->flags & MF_OP_NO_GRAD);
}

/* ---- contributions ---- */

static int contribute(mf_graph *g, mf_tensor *to, mf_tensor *d)
{
    mf_tensor *pair[2] = {to->grad, d};
    to->grad =
        to->grad ? mf_graph_op(g, g->ops->of_role(MF_ROLE_ADD), 2, pair, NULL, 1, NULL) : d;
    return g->status;
}

static int check_gradient(mf_graph *g, const mf_node *node, int i, const mf_tensor *d)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    const mf_tensor *x = node->in[i];
    const mf_dtype type = mf_tensor_grad_type(x);
    if (d->graph == g && d->dtype == type && mf_shape_equal(d->shape, x->shape)) return MF_OK;
    return mf_node_fail(g, node->op->name, node->scope, MF_EPLUGIN,
                        "its gradient rule gives %s %s for input %d, expected %s %s",
                        mf_dtype_text(d->dtype), mf_shape_text(d->shape, a), i,
                        mf_dtype_text(type), mf_shape_text(x->shape, b));
}

/* Casts a gradient to the type that the input's gradient must have, and then checks it. The
 * cast is needed because a rule that is composed of ops returns the type of these ops. */
static int fit_gradient(mf_graph *g, const mf_node *node, int i, mf_tensor **d)
{
    const mf_dtype type = mf_tensor_grad_type(node->in[i]);
    if ((*d)->graph == g && (*d)->dtype != type && mf_dtype_is_float((*d)->dtype) &&
        mf_dtype_is_float(type))
        *d = mf_graph_op(g, g->ops->of_role(MF_ROLE_CAST), 1, d, &(mf_attr){.i = {type}}, 1,
                         NULL);
    return g->status == MF_OK ? check_gradient(g, node, i, *d) : g->status;
}

/* ---- one node ---- */

static int grow_composed(mf_graph *g, const mf_node *node, mf_tensor *const *dout,
                         const bool *wants, mf_tensor **din)
{
    const mf_gradient at = {.size = sizeof at,
                            .n_in = node->n_in,
                            .n_out = node->n_out,
                            .in = node->in,
                            .out = node->out,
                            .dout = dout,
                            .din = din,
                            .wants = wants,
                            .attr = &node->attr,
                            .user = node->op->user};
    mf_third_party_call c;
    unsigned now;
    mf_third_party_begin(&c, node);
    mf_graph_at(g, node->file, node->line);
    int code = node->op->grad(g, &at);
    mf_graph_at(g, NULL, 0);
    if (!mf_third_party_end(&c, node, &now))
        return mf_node_fail(g, node->op->name, node->scope, MF_EPLUGIN, MF_THIRD_PARTY_FLOAT,
                            mf_float_control_text(c.before, now), c.before, now);
    if (g->status != MF_OK || code == MF_OK) return g->status;
    return mf_node_fail(g, node->op->name, node->scope, code, "its gradient rule failed");
}

/* Returns the arguments that the backward function reads: bit i is set if it reads argument i.
 * Its arguments are the inputs, the outputs, and the gradients of the outputs. */
static uint32_t fused_reads(const mf_node *node)
{
    uint32_t inputs = node->op->backward_in & ((1u << node->n_in) - 1u);
    uint32_t outputs = node->op->backward_out & ((1u << node->n_out) - 1u);
    return inputs | outputs << node->n_in |
           ((1u << node->n_out) - 1u) << (node->n_in + node->n_out);
}

/* If an output has no gradient, the output itself is passed instead. The backward function uses
 * only its shape and does not read its values. */
static void set_fused_inputs(mf_node *to, const mf_node *node, mf_tensor *const *dout)
{
    to->n_in = node->n_in + 2 * node->n_out;
    to->reads = fused_reads(node);
    memcpy(to->in, node->in, (size_t)node->n_in * sizeof *to->in);
    memcpy(to->in + node->n_in, node->out, (size_t)node->n_out * sizeof *to->in);
    for (int i = 0; i < node->n_out; i++) {
        int at = node->n_in + node->n_out + i;
        to->in[at] = dout[i] ? dout[i] : node->out[i];
        if (!dout[i]) to->reads &= ~(1u << at);
    }
}

static int grow_fused(mf_graph *g, const mf_node *node, mf_tensor *const *dout,
                      const bool *wants, mf_tensor **din, mf_tensor **ret_given)
{
    mf_node *to = mf_node_new(g, node->op, mf_graph_scope(g));
    int self = g->n_nodes - 1;
    if (!to) return g->status;
    to->backward = true;
    to->n_out = node->n_in;
    to->attr = node->attr;
    to->stream = node->stream;
    to->backward_work_bytes = node->backward_work_bytes;
    to->file = node->file;
    to->line = node->line;
    to->backward_flops = node->backward_flops;
    set_fused_inputs(to, node, dout);
    for (int i = 0; i < to->n_in; i++)
        if (to->in[i] && to->reads >> i & 1u && mf_tensor_stale(to->in[i]))
            return mf_node_fail(g, node->op->name, node->scope, MF_EINVAL,
                                "its gradient reads %s, which a later op has overwritten",
                                to->in[i]->name ? to->in[i]->name : "a value");
    for (int i = 0; i < node->n_in; i++) {
        if (!wants[i]) continue;
        din[i] = mf_tensor_new(g, MF_TENSOR_VALUE, mf_tensor_grad_type(node->in[i]),
                               node->in[i]->shape);
        if (!din[i]) return g->status;
        din[i]->node = self;
        to->out[i] = din[i];
    }
    if (!ret_given) return MF_OK;
    *ret_given = mf_tensor_new(g, MF_TENSOR_VALUE, node->out[0]->dtype, node->out[0]->shape);
    if (!*ret_given) return g->status;
    (*ret_given)->node = self;
    to->out[to->n_out++] = *ret_given;
    to->recomputes_out = true;
    return MF_OK;
}

static int enter_scope(tape *tp, const mf_node *node)
{
    mf_graph *g = tp->g;
    if (tp->of != node->scope) {
        tp->of = node->scope;
        tp->scope.path =
            *node->scope ? mf_arena_strf(g->memory, "grad of %s", node->scope) : "grad";
        if (!tp->scope.path) {
            tp->scope.path = "grad";
            return mf_graph_adopt(g, MF_ENOMEM);
        }
    }
    g->scope = &tp->scope;
    return MF_OK;
}

/* The nodes from index `from` on may read values of the forward pass that are not kept. Before
 * each of these nodes, adds nodes that recompute the values it reads. */
static int compute_again(tape *tp, int from)
{
    mf_graph *g = tp->g;
    const int n = g->n_nodes - from;
    if (!tp->recompute || n == 0 || g->status != MF_OK) return g->status;
    mf_node **added = mf_alloc((size_t)n, sizeof(mf_node *));
    if (!added) return mf_graph_adopt(g, MF_ENOMEM);
    memcpy(added, g->nodes + from, (size_t)n * sizeof *added);
    g->n_nodes = from;
    for (int i = 0; i < n && g->status == MF_OK; i++) {
        mf_node *node = added[i];
        for (int j = 0; j < node->n_in && g->status == MF_OK; j++) {
            mf_tensor *t = node->in[j];
            if (t && node->reads >> j & 1u && t->node >= 0 && t->node < tp->n_forward)
                node->in[j] = mf_recompute_value(g, t, tp->recompute);
        }
        mf_node *last = mf_node_new(g, node->op, node->scope);
        if (!last) break;
        *last = *node;
        for (int j = 0; j < node->n_out; j++)
            if (node->out[j]) node->out[j]->node = g->n_nodes - 1;
        if (node->op->flags & MF_OP_ALIAS && node->out[0])
            node->out[0]->alias = mf_owner(node->in[0]);
    }
    mf_free(added);
    return g->status;
}

/* Forgets recomputed values of cheap ops, so they need not stay in memory: later readers
 * recompute them once more. */
static void forget_cheap(tape *tp)
{
    const mf_graph *g = tp->g;
    for (; tp->recompute && tp->judged < g->n_tensors; tp->judged++) {
        const mf_tensor *t = g->tensors[tp->judged], *of = t->recomputes;
        if (of && g->nodes[of->node]->op->flags & MF_OP_CHEAP && tp->recompute[of->id] == t)
            tp->recompute[of->id] = NULL;
    }
}

static bool add_rows(tape *tp, int at, mf_tensor *dout);

/* Adds nodes that compute the gradients of those inputs i of node `at` for which wants[i]
 * is true. */
static int grow(tape *tp, int at, const bool *wants)
{
    mf_graph *g = tp->g;
    const mf_node *node = g->nodes[at];
    mf_tensor *dout[MF_OP_MAX_OUT], *din[MF_OP_MAX_IN] = {NULL}, *given = NULL;
    const int from = g->n_nodes;
    for (int i = 0; i < node->n_out; i++)
        dout[i] = node->out[i]->needs_grad ? node->out[i]->grad : NULL;
    const bool gives =
        tp->recompute && tp->waiting[at] >= 0 && !tp->recompute[node->out[0]->id];
    g->bf16 = node->bf16;
    if (enter_scope(tp, node) != MF_OK) return g->status;
    if (add_rows(tp, at, dout[0])) return compute_again(tp, from);
    if (node->op->backward)
        grow_fused(g, node, dout, wants, din, gives ? &given : NULL);
    else
        grow_composed(g, node, dout, wants, din);
    if (compute_again(tp, from) != MF_OK) return g->status;
    if (given) tp->recompute[node->out[0]->id] = given;
    forget_cheap(tp);
    for (int i = 0; i < node->n_in && g->status == MF_OK; i++)
        if (wants[i] && din[i] && fit_gradient(g, node, i, &din[i]) == MF_OK)
            contribute(g, mf_tensor_grad_owner(node->in[i]), din[i]);
    return g->status;
}

static bool any_reaches(const mf_node *node, bool *wants)
{
    bool any = false;
    for (int i = 0; i < node->n_in; i++)
        any |= wants[i] = reaches(node, i);
    return any;
}

/* Whether the gradients of all inputs except i can be computed later, after node `until` has
 * been visited. This is possible only for gradients of parameters, and only if their
 * contributions are then added in the same order. */
static bool may_wait(const mf_graph *g, int at, int until, int i)
{
    int others = 0;
    for (int j = 0; j < g->nodes[at]->n_in; j++) {
        if (j == i || !reaches(g->nodes[at], j)) continue;
        const mf_tensor *leaf = mf_tensor_grad_owner(g->nodes[at]->in[j]);
        if (leaf->node >= 0 || leaf->kind != MF_TENSOR_PARAM) return false;
        for (int n = until; n < at; n++)
            for (int k = 0; k < g->nodes[n]->n_in; k++)
                if (mf_tensor_grad_owner(g->nodes[n]->in[k]) == leaf) return false;
        others++;
    }
    return others > 0;
}

/* Returns the index of an input that the backward function of its producer can recompute, so
 * the node may wait for it; -1: there is no such input. */
static int find_given(const tape *tp, int at)
{
    bool wants[MF_OP_MAX_IN];
    const mf_node *node = tp->g->nodes[at];
    if (!tp->recompute || node->op->backward || node->op->flags & MF_OP_ROWS) return -1;
    for (int i = 0; i < node->n_in; i++) {
        const mf_tensor *t = node->in[i];
        if (!t || t->node < 0 || !reaches(node, i) || tp->recompute[t->id]) continue;
        const mf_node *from = tp->g->nodes[t->node];
        if (from->op->flags & MF_OP_RECOMPUTES_OUT && from->op->backward && t == from->out[0] &&
            differentiable(from) && any_reaches(from, wants) && mf_is_recomputed(tp->g, from) &&
            may_wait(tp->g, at, t->node, i))
            return i;
    }
    return -1;
}

static int visit(tape *tp, int at, bool *ret_waits)
{
    const mf_node *node = tp->g->nodes[at];
    bool wants[MF_OP_MAX_IN] = {false}, any_out = false;
    *ret_waits = false;
    if (!differentiable(node)) return MF_OK;
    for (int i = 0; i < node->n_out; i++)
        any_out |= node->out[i]->needs_grad && node->out[i]->grad;
    if (!any_reaches(node, wants) || !any_out) return MF_OK;
    const int given = tp->before ? find_given(tp, at) : -1;
    if (given < 0) return grow(tp, at, wants);
    for (int i = 0; i < node->n_in; i++)
        wants[i] = i == given;
    tp->before[at] = tp->waiting[node->in[given]->node];
    tp->waiting[node->in[given]->node] = at;
    *ret_waits = true;
    /* The inputs that the producer's backward function reads are recomputed now, before the
     * gradient of its output takes memory. */
    const mf_node *from = tp->g->nodes[node->in[given]->node];
    if (enter_scope(tp, from) != MF_OK) return tp->g->status;
    for (int i = 0; i < from->n_in; i++)
        if (from->in[i] && from->op->backward_in >> i & 1u &&
            !mf_recompute_value(tp->g, from->in[i], tp->recompute))
            return tp->g->status;
    forget_cheap(tp);
    return grow(tp, at, wants);
}

/* ---- parameters ---- */

/* Lets the node that computes the gradient write directly to the gradient's storage. This may
 * even be a node of the forward pass (linear_cross_entropy), because no other node writes there
 * until the optimizer has read the gradient. Returns false if the value is a leaf, has another
 * type or size, is already stored for another parameter, or must be readable after the run. */
static bool bind(mf_tensor *value, mf_param *param)
{
    mf_tensor *owner = mf_owner(value);
    if (owner->kind != MF_TENSOR_VALUE || owner->keep || owner->node < 0) return false;
    if (owner->dtype != MF_F32) return false;
    if (mf_shape_count(owner->shape) != param->count) return false;
    owner->kind = MF_TENSOR_GRAD;
    owner->param = param;
    return true;
}

static int store_gradient(mf_graph *g, mf_tensor *leaf)
{
    mf_tensor *pair[2] = {NULL, leaf->grad};
    /* Outside of training a stored parameter has no gradient buffer, so the value of the
     * gradient is kept. */
    if (!leaf->param->grad) {
        mf_graph_keep(leaf->grad);
        return MF_OK;
    }
    if (leaf->grad && bind(leaf->grad, leaf->param)) return MF_OK;
    pair[0] = mf_graph_grad_leaf(g, leaf->param);
    mf_graph_op(g, g->ops->of_role(MF_ROLE_ASSIGN), 2, pair, NULL, 1, NULL);
    return g->status;
}

static bool is_trained(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_PARAM && t->node < 0 && t->needs_grad && !t->master;
}

/* If the last contribution to a parameter's gradient consists of a few rows, stores the other
 * contributions first, and then adds the rows in the storage. This avoids a second gradient of
 * full size. Returns false if it is not possible. */
static bool add_rows(tape *tp, int at, mf_tensor *dout)
{
    mf_graph *g = tp->g;
    mf_tensor *in[MF_OP_MAX_IN];
    const mf_node *node = g->nodes[at];
    if (!(node->op->flags & MF_OP_ROWS) || !dout || dout->dtype != MF_F32) return false;
    mf_tensor *leaf = mf_tensor_grad_owner(node->in[0]);
    if (!is_trained(leaf) || !leaf->param->grad || tp->first_reader[leaf->id] != at)
        return false;
    if (!leaf->grad) return false;
    tp->first_reader[leaf->id] = -1;
    if (store_gradient(g, leaf) != MF_OK) return true;
    in[0] = mf_graph_grad_leaf(g, leaf->param);
    memcpy(in + 1, node->in + 1, (size_t)(node->n_in - 1) * sizeof *in);
    in[node->n_in] = dout;
    mf_graph_op(g, node->op->user, node->n_in + 1, in, &node->attr, 1, NULL);
    return true;
}

static void find_first_readers(tape *tp)
{
    for (int i = tp->n_forward - 1; i >= 0; i--) {
        const mf_node *node = tp->g->nodes[i];
        for (int j = 0; differentiable(node) && j < node->n_in; j++)
            if (reaches(node, j)) tp->first_reader[mf_tensor_grad_owner(node->in[j])->id] = i;
    }
}

static int store_completed(tape *tp, int at)
{
    const mf_node *node = tp->g->nodes[at];
    for (int j = 0; j < node->n_in && tp->g->status == MF_OK; j++) {
        mf_tensor *t = mf_tensor_grad_owner(node->in[j]);
        if (!t || !is_trained(t) || tp->first_reader[t->id] != at) continue;
        /* The gradient is stored once, even if the node reads the parameter twice. */
        tp->first_reader[t->id] = -1;
        if (enter_scope(tp, node) == MF_OK) store_gradient(tp->g, t);
    }
    return tp->g->status;
}

/* Computes the remaining gradients of the nodes that waited for node `at`. */
static int end_waiting(tape *tp, int at)
{
    mf_graph *g = tp->g;
    bool wants[MF_OP_MAX_IN] = {false};
    for (int i = tp->recompute ? tp->waiting[at] : -1; i >= 0; i = tp->before[i]) {
        const mf_node *node = g->nodes[i];
        any_reaches(node, wants);
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] && node->in[j]->node == at) wants[j] = false;
        if (grow(tp, i, wants) != MF_OK || store_completed(tp, i) != MF_OK) break;
    }
    return g->status;
}

/* Stores the gradients of parameters to which no node contributes. If the parameter itself is
 * an output, the gradient is the seed; otherwise it is zero. */
static int store_unreached(tape *tp, int n_tensors)
{
    tp->scope.path = "grad";
    tp->of = NULL;
    tp->g->scope = &tp->scope;
    for (int i = 0; i < n_tensors && tp->g->status == MF_OK; i++)
        if (is_trained(tp->g->tensors[i]) && tp->first_reader[i] == tp->n_forward)
            store_gradient(tp->g, tp->g->tensors[i]);
    return tp->g->status;
}

/* ---- entry points ---- */

static int plant_seeds(mf_graph *g, int n, mf_tensor *const *out, mf_tensor *const *seed)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    for (int i = 0; i < n; i++) {
        if (!out[i] || !seed[i]) return mf_graph_fail(g, MF_EINVAL, "output %d is missing", i);
        if (seed[i]->dtype != out[i]->dtype || !mf_shape_equal(seed[i]->shape, out[i]->shape))
            return mf_graph_fail(g, MF_ESHAPE, "seed %d: expected %s %s, found %s %s", i,
                                 mf_dtype_text(out[i]->dtype), mf_shape_text(out[i]->shape, a),
                                 mf_dtype_text(seed[i]->dtype),
                                 mf_shape_text(seed[i]->shape, b));
        mf_graph_keep(out[i]);
        if (contribute(g, out[i], seed[i]) != MF_OK) return g->status;
    }
    return MF_OK;
}

static int keep_extra(mf_graph *g, int n, mf_tensor *const *extra)
{
    for (int i = 0; i < n; i++) {
        if (!extra[i] || !extra[i]->needs_grad)
            return mf_graph_fail(
                g, MF_EINVAL,
                "the gradient of %s is wanted, but nothing was told so before it "
                "was read",
                extra[i] && extra[i]->name ? extra[i]->name : "a value");
        if (!extra[i]->grad)
            extra[i]->grad = mf_graph_const(g, extra[i]->dtype, extra[i]->shape, NULL);
        mf_graph_keep(extra[i]->grad);
    }
    return g->status;
}

static int differentiate(tape *tp, int n, mf_tensor *const *out, mf_tensor *const *seed)
{
    mf_graph *g = tp->g;
    int n_tensors = g->n_tensors;
    for (int i = 0; i < n_tensors; i++)
        tp->first_reader[i] = tp->n_forward;
    find_first_readers(tp);
    if (plant_seeds(g, n, out, seed) != MF_OK) return g->status;
    for (int i = tp->n_forward - 1; i >= 0; i--) {
        bool waits;
        if (visit(tp, i, &waits) != MF_OK) return g->status;
        if (!waits && store_completed(tp, i) != MF_OK) return g->status;
        if (end_waiting(tp, i) != MF_OK) return g->status;
    }
    return store_unreached(tp, n_tensors);
}

static int start_tape(tape *tp)
{
    const size_t tensors = (size_t)tp->g->n_tensors + 1, nodes = (size_t)tp->n_forward + 1;
    tp->first_reader = mf_alloc(tensors, sizeof *tp->first_reader);
    if (!tp->first_reader) return MF_ENOMEM;
    if (tp->g->options.recompute == MF_RECOMPUTE_NONE) return MF_OK;
    tp->recompute = mf_alloc(tensors, sizeof(mf_tensor *));
    tp->waiting = mf_alloc(nodes, sizeof *tp->waiting);
    tp->before = mf_alloc(nodes, sizeof *tp->before);
    if (!tp->recompute || !tp->waiting || !tp->before) return MF_ENOMEM;
    for (size_t i = 0; i < nodes; i++)
        tp->waiting[i] = tp->before[i] = -1;
    return MF_OK;
}

static void end_tape(tape *tp)
{
    mf_free(tp->first_reader);
    mf_free(tp->recompute);
    mf_free(tp->waiting);
    mf_free(tp->before);
}

int mf_graph_backward_from(mf_graph *g, int n, mf_tensor *const *out, mf_tensor *const *seed,
                           int n_extra, mf_tensor *const *extra)
{
    const mf_scope *scope;
    bool metrics, was_bf16;
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (g->finished || g->differentiated)
        return mf_graph_fail(g, MF_EINVAL,
                             g->finished ? "the graph is finished"
                                         : "the graph has gradients already");
    tape tp = {.g = g, .n_forward = g->n_nodes, .judged = g->n_tensors};
    if (start_tape(&tp) != MF_OK) {
        end_tape(&tp);
        return mf_graph_adopt(g, MF_ENOMEM);
    }
    scope = g->scope;
    metrics = g->metrics;
    was_bf16 = g->bf16;
    g->metrics = false;
    g->gradient_part = g->differentiated = true;
    if (differentiate(&tp, n, out, seed) == MF_OK) keep_extra(g, n_extra, extra);
    g->scope = scope;
    g->metrics = metrics;
    g->bf16 = was_bf16;
    g->gradient_part = false;
    end_tape(&tp);
    return mf_graph_status(g);
}

int mf_graph_backward(mf_graph *g, mf_tensor *loss, int n_extra, mf_tensor *const *extra)
{
    static const float one = 1;
    char text[MF_SHAPE_TEXT];
    mf_tensor *seed;
    if (!g || g->status != MF_OK) return mf_graph_status(g);
    if (!loss || mf_shape_count(loss->shape) != 1 || loss->dtype != MF_F32)
        return mf_graph_fail(g, MF_ESHAPE, "loss: expected a single f32 number, found %s %s",
                             loss ? mf_dtype_text(loss->dtype) : "nothing",
                             loss ? mf_shape_text(loss->shape, text) : "");
    seed = mf_graph_const(g, MF_F32, loss->shape, &one);
    return mf_graph_backward_from(g, 1, &loss, &seed, n_extra, extra);
}
