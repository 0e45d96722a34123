/* graph/node.c: adds an op. It checks the op's inputs and shapes, and that a gradient rule
 * exists where one is needed. So a graph that could be built can run. */
#include "graph/internal.h"

#include "base/rng.h"

#include <stdio.h>
#include <string.h>

/* A call of infer, and the reason of a refusal, which `fail` stores here. */
typedef struct inference {
    mf_infer in; /* must be the first member: fail converts its address */
    bool failed;
    char reason[512];
} inference;

static int infer_fail(const mf_infer *in, const char *fmt, ...) MF_PRINTF(2, 3);
static int infer_fail(const mf_infer *in, const char *fmt, ...)
{
    inference *call = (inference *)(void *)in;
    va_list args;
    if (call->failed) return MF_ESHAPE;
    va_start(args, fmt);
    vsnprintf(call->reason, sizeof call->reason, fmt, args);
    va_end(args);
    call->failed = true;
    return MF_ESHAPE;
}

/* The node under construction, which is not yet in the graph. */
typedef struct draft {
    mf_graph *g;
    const mf_opdef *op;
    const char *scope;
    int n_in, n_out;
    mf_tensor *in[MF_OP_MAX_IN];
    mf_attr attr;
    mf_view out[MF_OP_MAX_OUT];
    inference call;
} draft;

#define REFUSE(d, code, ...) mf_node_fail((d)->g, (d)->op->name, (d)->scope, code, __VA_ARGS__)

#define OP_BYTES offsetof(mf_opdef, bf16_in) /* older plugins lack later fields */

/* Checks the op's table, because a plugin may have filled it with any values. */
static int check_op(mf_graph *g, const mf_opdef *op)
{
    const char *scope = mf_graph_scope(g);
    if (!op) return mf_node_fail(g, "custom op", scope, MF_EPLUGIN, "its table is NULL");
    if (op->size < OP_BYTES)
        return mf_node_fail(g, "custom op", scope, MF_EPLUGIN,
                            "its table says that it has %u bytes, expected %zu: set .size = "
                            "sizeof(mf_opdef)",
                            op->size, OP_BYTES);
    if (!op->name || !*op->name)
        return mf_node_fail(g, "custom op", scope, MF_EPLUGIN, "its table has no name");
    if (!op->infer)
        return mf_node_fail(g, op->name, scope, MF_EPLUGIN, "its table has no infer");
    if (!op->forward && !(op->flags & MF_OP_ALIAS))
        return mf_node_fail(g, op->name, scope, MF_EPLUGIN, "its table has no forward");
    return MF_OK;
}

static bool owned_by_metric(const mf_tensor *t)
{
    return t->node >= 0 && t->graph->nodes[t->node]->metric;
}

static int check_inputs(draft *d, mf_tensor *const *in)
{
    if (d->n_in < 0 || d->n_in > MF_OP_MAX_IN)
        return REFUSE(d, MF_EINVAL, "expected 0 to %d inputs, found %d", MF_OP_MAX_IN, d->n_in);
    for (int i = 0; i < d->n_in; i++) {
        const mf_tensor *t = in[i];
        if (!t) continue;
        if (t->graph != d->g)
            return REFUSE(d, MF_EINVAL, "input %d belongs to another graph", i);
        if (owned_by_metric(t) && !d->g->metrics)
            return REFUSE(d, MF_EINVAL,
                          "input %d is computed for metrics only, and not in "
                          "every run",
                          i);
        if (mf_tensor_stale(t))
            return REFUSE(d, MF_EINVAL,
                          "input %d (%s) has been overwritten since by an op that keeps state: "
                          "read it before, or read that op's output",
                          i, t->name ? t->name : "unnamed");
    }
    return MF_OK;
}

static int run_infer(draft *d)
{
    mf_view in[MF_OP_MAX_IN];
    int code;
    memset(in, 0, sizeof in);
    for (int i = 0; i < d->n_in; i++) {
        if (d->in[i]) {
            in[i].shape = d->in[i]->shape;
            in[i].dtype = d->in[i]->dtype;
        } else {
            in[i].shape.rank = -1;
        }
    }
    /* A stored weight can be read in any type, so it gets the type that ops require of it: the
     * type of the other operand. */
    const bool stored = mf_op_multiplies_stored(d->g, d->op, d->n_in, d->in);
    if (stored) in[1].dtype = in[0].dtype;
    d->call.in = (mf_infer){.size = sizeof d->call.in,
                            .n_in = d->n_in,
                            .in = in,
                            .out = d->out,
                            .attr = &d->attr,
                            .user = d->op->user,
                            .fail = infer_fail};
    code = d->op->infer(&d->call.in);
    d->call.in.in = NULL;
    if (code != MF_OK || d->call.failed) {
        /* The message names a line of a plugin's source, and the author of the plugin needs
         * the shapes. */
        char shapes[256] = "";
        if (d->g->file) mf_views_text(in, d->n_in, shapes, sizeof shapes);
        return REFUSE(d, code != MF_OK ? code : MF_ESHAPE, "%s%s%s",
                      d->call.failed ? d->call.reason : "refused without a reason",
                      shapes[0] ? "; its inputs are " : "", shapes);
    }
    d->n_out = d->call.in.n_out;
    if (stored) d->out[0].dtype = MF_F32;
    const size_t work = d->call.in.work_bytes, backward = d->call.in.backward_work_bytes;
    if (work > MF_MAX_BYTES || backward > MF_MAX_BYTES)
        return REFUSE(d, MF_ESHAPE,
                      "infer asks for %zu and %zu bytes of scratch memory: expected at most "
                      "%lld",
                      work, backward, (long long)MF_MAX_BYTES);
    return MF_OK;
}

/* Checks the outputs that infer has set, and whether they agree with the op's flags. */
static int check_outputs(draft *d)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    const mf_tensor *in = d->n_in > 0 ? d->in[0] : NULL;
    bool state = d->op->flags & MF_OP_STATE, alias = d->op->flags & MF_OP_ALIAS;
    if (d->n_out < 1 || d->n_out > MF_OP_MAX_OUT)
        return REFUSE(d, MF_EPLUGIN, "expected infer to set 1 to %d outputs, found %d",
                      MF_OP_MAX_OUT, d->n_out);
    for (int i = 0; i < d->n_out; i++) {
        const mf_view *v = &d->out[i];
        if (!mf_shape_valid(v->shape, v->dtype))
            return REFUSE(d, MF_ESHAPE, "output %d cannot be %s %s", i, mf_dtype_text(v->dtype),
                          mf_shape_text(v->shape, a));
        if (v->reserved != 0 || v->shape.reserved != 0)
            return REFUSE(d, MF_EPLUGIN,
                          "output %d: reserved of its view and shape: expected 0, found %u and "
                          "%d",
                          i, (unsigned)v->reserved, (int)v->shape.reserved);
    }
    if (!state && !alias) return MF_OK;
    if (!in) return REFUSE(d, MF_EINVAL, "input 0 is missing: output 0 is its memory");
    if (in->dtype != d->out[0].dtype ||
        mf_shape_count(in->shape) != mf_shape_count(d->out[0].shape))
        return REFUSE(d, MF_ESHAPE, "output 0 is input 0's memory, but %s %s is not %s %s",
                      mf_dtype_text(d->out[0].dtype), mf_shape_text(d->out[0].shape, a),
                      mf_dtype_text(in->dtype), mf_shape_text(in->shape, b));
    if (state) {
        mf_tensor_kind kind = mf_owner(in)->kind;
        if (kind != MF_TENSOR_PARAM && kind != MF_TENSOR_INPUT && kind != MF_TENSOR_GRAD)
            return REFUSE(d, MF_EINVAL,
                          "input 0 is written in place: expected a parameter, a "
                          "buffer or an input of the graph");
    }
    return MF_OK;
}

/* Whether a gradient may have to flow through the op. *ret_through: the first input that the
 * gradient would reach. */
static bool wants_gradient(const draft *d, int *ret_through)
{
    if (d->g->metrics || d->g->gradient_part || (d->op->flags & MF_OP_NO_GRAD)) return false;
    for (int i = 0; i < d->n_in; i++)
        if (d->in[i] && d->in[i]->needs_grad && (d->op->diff_in >> i & 1u)) {
            *ret_through = i;
            return true;
        }
    return false;
}

/* The stream is the hash of a name and of nothing else. So it does not change with other parts
 * of the model, and is the same in training and evaluation. Metric nodes are counted
 * separately, because a graph may contain them or not. */
static int random_stream(draft *d, uint64_t *ret)
{
    mf_graph *g = d->g;
    mf_ordinal *o = g->ordinals;
    char name[512];
    while (o && (o->metric != g->metrics || strcmp(o->path, d->scope) != 0))
        o = o->next;
    if (!o) {
        o = mf_arena_alloc(g->memory, sizeof *o);
        if (!o) return mf_graph_adopt(g, MF_ENOMEM);
        *o = (mf_ordinal){.next = g->ordinals, .path = d->scope, .metric = g->metrics};
        g->ordinals = o;
    }
    snprintf(name, sizeof name, "%s#%s%llu", d->scope, g->metrics ? "metric" : "",
             (unsigned long long)o->count++);
    *ret = mf_rng_stream(name);
    return MF_OK;
}

static int add_outputs(draft *d, mf_node *node, bool needs_grad)
{
    mf_graph *g = d->g;
    for (int i = 0; i < d->n_out; i++) {
        mf_tensor *t = mf_tensor_new(g, MF_TENSOR_VALUE, d->out[i].dtype, d->out[i].shape);
        if (!t) return g->status;
        t->node = g->n_nodes - 1;
        t->needs_grad = needs_grad && mf_dtype_is_float(t->dtype);
        node->out[i] = t;
    }
    if (d->op->flags & (MF_OP_STATE | MF_OP_ALIAS)) {
        mf_tensor *owner = mf_owner(d->in[0]);
        node->out[0]->alias = owner;
        if (d->op->flags & MF_OP_STATE) owner->writes++;
        node->out[0]->version = owner->writes;
    }
    return MF_OK;
}

static int add_node(draft *d)
{
    mf_graph *g = d->g;
    mf_node *node;
    int through = 0;
    uint64_t stream = 0;
    bool needs_grad = wants_gradient(d, &through);
    if (needs_grad && !d->op->grad && !d->op->backward)
        return REFUSE(d, MF_ENOGRAD,
                      "a gradient must pass through input %d, but the op has neither grad nor "
                      "backward: give it one, or pass the input through stop_gradient",
                      through);
    if ((d->op->flags & MF_OP_RANDOM) && random_stream(d, &stream) != MF_OK) return g->status;
    node = mf_node_new(g, d->op, d->scope);
    if (!node) return g->status;
    node->n_in = d->n_in;
    node->n_out = d->n_out;
    node->attr = d->attr;
    node->stream = stream;
    node->bf16 = g->bf16;
    node->work_bytes = d->call.in.work_bytes;
    node->backward_work_bytes = d->call.in.backward_work_bytes;
    node->flops = d->call.in.flops;
    node->backward_flops = d->call.in.backward_flops;
    for (int i = 0; i < d->n_in; i++) {
        node->in[i] = d->in[i];
        if (!d->in[i]) continue;
        node->reads |= 1u << i;
        if (d->in[i]->node >= 0 && g->nodes[d->in[i]->node]->gradient_part)
            node->gradient_part = true;
    }
    return add_outputs(d, node, needs_grad);
}

mf_tensor *mf_graph_op(mf_graph *g, const mf_opdef *op, int n_in, mf_tensor *const *in,
                       const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    draft d;
    for (int i = 0; ret_out && i < n_out; i++)
        ret_out[i] = NULL;
    if (!g || g->status != MF_OK || check_op(g, op) != MF_OK) return NULL;
    memset(&d, 0, sizeof d);
    d.g = g;
    d.op = op;
    d.scope = mf_graph_scope(g);
    d.n_in = n_in;
    if (attr) d.attr = *attr;
    if (op->flags & MF_OP_ATTENTION) d.attr.i[MF_AS_BF16] = g->bf16 && !g->metrics;
    if (g->finished) {
        REFUSE(&d, MF_EINVAL, "the graph is finished: nothing can be added");
        return NULL;
    }
    if (check_inputs(&d, in) != MF_OK || mf_graph_fit_types(g, op, n_in, in, d.in) != MF_OK ||
        run_infer(&d) != MF_OK || check_outputs(&d) != MF_OK)
        return NULL;
    if (n_out > d.n_out) {
        REFUSE(&d, MF_EINVAL, "expected at most %d outputs to be asked for, found %d", d.n_out,
               n_out);
        return NULL;
    }
    if (add_node(&d) != MF_OK) return NULL;
    mf_node *node = g->nodes[g->n_nodes - 1];
    for (int i = 0; ret_out && i < n_out; i++)
        ret_out[i] = node->out[i];
    return node->out[0];
}

mf_tensor *mf_graph_op_named(mf_graph *g, const char *name, int n_in, mf_tensor *const *in,
                             const mf_attr *attr, int n_out, mf_tensor **ret_out)
{
    const mf_opdef *op = g ? g->ops->find(name) : NULL;
    if (op) return mf_graph_op(g, op, n_in, in, attr, n_out, ret_out);
    for (int i = 0; ret_out && i < n_out; i++)
        ret_out[i] = NULL;
    if (g && g->status == MF_OK) {
        const char *near = mf_nearest(name, g->ops->names());
        mf_node_fail(g, name, mf_graph_scope(g), MF_EPLUGIN,
                     "there is no op of this name%s%s%s", near ? "; did you mean " : "",
                     near ? near : "", near ? "?" : "");
    }
    return NULL;
}
