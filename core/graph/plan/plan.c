/* graph/plan/plan.c: decides which nodes run, and where their values are in memory.
 *
 * A value is alive from the node that computes it to the last node that reads it, or to the end
 * of the run if it is kept. Values that are not alive at the same time can share memory, and
 * can use the storage of gradients that are not yet written (reuse.c). The plan covers the
 * whole list of nodes. Runs that skip nodes (metrics, the gradient part) use only a part of the
 * planned memory. */
#include "graph/internal.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"

typedef struct life {
    int first, last; /* node indices; first is -1 for values that no node computes or reads */
} life;

typedef struct planner {
    mf_graph *g;
    life *lives; /* [tensor id]; used only for owners of memory */
} planner;

/* ---- dead nodes ---- */

/* Whether a node must run even if no node reads its outputs. */
static bool is_root(const mf_node *node)
{
    if (node->op->flags & MF_OP_STATE && !node->backward) return true;
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] && (node->out[i]->keep || node->out[i]->kind == MF_TENSOR_GRAD))
            return true;
    return false;
}

static void mark_dead(mf_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        g->nodes[i]->dead = g->nodes[i]->fused || !is_root(g->nodes[i]);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const mf_node *node = g->nodes[i];
        for (int j = 0; j < node->n_in && !node->dead; j++)
            if (node->in[j] && node->reads >> j & 1u && node->in[j]->node >= 0)
                g->nodes[node->in[j]->node]->dead = g->nodes[node->in[j]->node]->fused;
    }
    g->dead = 0;
    for (int i = 0; i < g->n_nodes; i++)
        g->dead += g->nodes[i]->dead;
}

/* ---- lifetimes ---- */

static life *life_of(planner *p, const mf_tensor *t)
{
    return &p->lives[mf_owner(t)->id];
}

static void extend(life *l, int at)
{
    if (l->first < 0) l->first = at;
    if (at > l->last) l->last = at;
}

static void find_lifetimes(planner *p)
{
    mf_graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++)
        p->lives[i] = (life){.first = -1, .last = -1};
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        if (node->dead) continue;
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] && node->reads >> j & 1u) extend(life_of(p, node->in[j]), i);
        for (int j = 0; j < node->n_out; j++)
            if (node->out[j]) extend(life_of(p, node->out[j]), i);
    }
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_tensor *t = g->tensors[i];
        life *l = life_of(p, t);
        if (!t->keep || l->first < 0) continue;
        l->last = g->n_nodes; /* The last use is after all nodes, so no node reuses
                               * the memory. */
        /* Runs without metrics must not overwrite the results of metrics. */
        if (t->node >= 0 && g->nodes[t->node]->metric) l->first = 0;
    }
}

/* ---- working in place ---- */

/* Whether output 0 can use the memory of input i. */
static bool may_overwrite(planner *p, const mf_node *node, int at, int i)
{
    const mf_tensor *in = node->n_in > i ? node->in[i] : NULL, *out = node->out[0];
    const uint32_t flag = i == 0 ? MF_OP_INPLACE : MF_OP_INPLACE_SECOND;
    const mf_tensor *owner;
    if (!(node->op->flags & flag) || node->backward || node->metric || !in) return false;
    if (!out || out->alias) return false;
    if (out->kind != MF_TENSOR_VALUE && out->kind != MF_TENSOR_GRAD) return false;
    owner = mf_owner(in);
    if (owner->kind != MF_TENSOR_VALUE || life_of(p, in)->last != at) return false;
    if (mf_shape_bytes(owner->shape, owner->dtype) != mf_shape_bytes(out->shape, out->dtype))
        return false;
    /* Another argument may be the same memory, and the op could read it after
     * overwriting it. */
    for (int j = 0; j < node->n_in; j++)
        if (j != i && node->in[j] && mf_owner(node->in[j]) == owner) return false;
    return true;
}

/* Whether output j of a fused backward call can use the memory of argument i. The output is a
 * gradient or the recomputed output; argument i is input j itself or the gradient of the op's
 * first output. */
static bool may_replace(planner *p, const mf_node *node, int at, int j, int i)
{
    const mf_tensor *out = node->out[j], *owner;
    if (!out || out->alias || !node->in[i]) return false;
    if (out->kind != MF_TENSOR_VALUE || !(node->reads >> i & 1u)) return false;
    owner = mf_owner(node->in[i]);
    if (owner->kind != MF_TENSOR_VALUE || life_of(p, owner)->last != at) return false;
    if (mf_shape_bytes(owner->shape, owner->dtype) != mf_shape_bytes(out->shape, out->dtype))
        return false;
    for (int k = 0; k < node->n_in; k++)
        if (k != i && node->in[k] && node->reads >> k & 1u && mf_owner(node->in[k]) == owner)
            return false;
    return true;
}

static void replace(planner *p, const mf_node *node, int at, int j, int i)
{
    if (!may_replace(p, node, at, j, i)) return;
    life_of(p, node->in[i])->last = life_of(p, node->out[j])->last;
    node->out[j]->alias = mf_owner(node->in[i]);
}

static void replace_inputs(planner *p, const mf_node *node, int at)
{
    const int inputs = node->n_out - node->more_out - node->recomputes_out;
    const int n_out = (node->n_in - node->more_in - inputs) / 2; /* of the forward node */
    for (int j = 0; j < inputs; j++)
        if (node->op->backward_over >> j & 1u) replace(p, node, at, j, j);
    if (node->op->flags & MF_OP_GRAD_INPLACE) replace(p, node, at, 0, inputs + n_out);
    if (node->recomputes_out) replace(p, node, at, inputs, inputs + n_out);
}

static void overwrite(planner *p, const mf_node *node, int i)
{
    life *from = life_of(p, node->in[i]), *to = life_of(p, node->out[0]);
    mf_tensor *in = mf_owner(node->in[i]), *out = node->out[0];
    /* the gradient's storage can also hold the value from which it is computed */
    if (out->kind == MF_TENSOR_GRAD) {
        if (from->first < to->first) to->first = from->first;
        in->alias = out;
    } else {
        from->last = to->last;
        out->alias = in;
    }
}

static void put_in_place(planner *p)
{
    for (int i = 0; i < p->g->n_nodes; i++) {
        const mf_node *node = p->g->nodes[i];
        if (!node->dead && node->backward) replace_inputs(p, node, i);
        if (node->dead) continue;
        if (may_overwrite(p, node, i, 0))
            overwrite(p, node, 0);
        else if (may_overwrite(p, node, i, 1))
            overwrite(p, node, 1);
    }
}

/* ---- layout ---- */

static size_t align_up(size_t bytes)
{
    return bytes == 0 ? 64 : (bytes + 63) & ~(size_t)63;
}

static size_t scratch_of(const mf_node *node)
{
    return node->backward ? node->backward_work_bytes : node->work_bytes;
}

static bool planned(const planner *p, const mf_tensor *t)
{
    return t->kind == MF_TENSOR_VALUE && !t->alias && t->at < 0 && p->lives[t->id].first >= 0;
}

/* Finds kept values that are small, or marked to be sent, and reserves space for them in the
 * block that one copy returns to the host (exchange.c). */
static void find_small(planner *p)
{
    mf_graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->sent) mf_owner(g->tensors[i])->sent = true;
    for (int i = 0; i < g->n_tensors; i++) {
        mf_tensor *t = g->tensors[i];
        const size_t bytes = mf_shape_bytes(t->shape, t->dtype);
        if (planned(p, t) && p->lives[i].last >= g->n_nodes &&
            (bytes <= MF_GRAPH_SMALL || t->sent))
            t->at = mf_exchange_reserve(g, bytes);
    }
}

/* Lists the spans of all planned values by tensor id, then of the scratch memory of nodes in
 * run order. */
static int list_spans(const planner *p, mf_span *spans)
{
    const mf_graph *g = p->g;
    int n = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_tensor *t = g->tensors[i];
        if (!planned(p, t)) continue;
        spans[n++] = (mf_span){.first = p->lives[i].first,
                               .last = p->lives[i].last,
                               .bytes = align_up(mf_shape_bytes(t->shape, t->dtype))};
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && scratch_of(g->nodes[i]) > 0)
            spans[n++] =
                (mf_span){.first = i, .last = i, .bytes = align_up(scratch_of(g->nodes[i]))};
    return n;
}

static int find_reused(planner *p)
{
    const mf_graph *g = p->g;
    int *written = mf_alloc((size_t)g->n_tensors + 1, sizeof *written);
    if (!written) return MF_ENOMEM;
    for (int i = 0; i < g->n_tensors; i++)
        written[i] = p->lives[i].first;
    int code = mf_reuse_find(p->g, written);
    mf_free(written);
    return code;
}

/* Places the spans one after another; returns the total bytes. */
static size_t lay_apart(mf_span *spans, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        spans[i].offset = at;
        at += spans[i].bytes;
    }
    return at;
}

static void *address(const mf_graph *g, size_t offset)
{
    return offset < g->reused_bytes ? g->reused_base + offset
                                    : (char *)g->block + (offset - g->reused_bytes);
}

/* Turns offsets into addresses. The spans are in the order of list_spans. */
static void place(planner *p, const mf_span *spans)
{
    mf_graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++)
        if (planned(p, g->tensors[i])) g->tensors[i]->data = address(g, (spans++)->offset);
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->kind == MF_TENSOR_VALUE && g->tensors[i]->at >= 0)
            g->tensors[i]->data = mf_exchange_out(g) + g->tensors[i]->at;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && scratch_of(g->nodes[i]) > 0)
            g->nodes[i]->work = address(g, (spans++)->offset);
    for (int i = 0; i < g->n_tensors; i++) {
        mf_tensor *t = g->tensors[i];
        mf_tensor *owner = mf_owner(t);
        if (owner->kind == MF_TENSOR_GRAD) owner->data = owner->param->grad;
        if (t != owner) t->data = owner->data;
    }
}

/* Fails because the graph is too large; the message names the op that needs the most memory. */
static int too_large(const mf_graph *g)
{
    const mf_node *worst = NULL;
    size_t most = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        size_t bytes = scratch_of(node);
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] && !node->out[k]->alias)
                bytes += mf_shape_bytes(node->out[k]->shape, node->out[k]->dtype);
        if (node->dead || bytes <= most) continue;
        worst = node;
        most = bytes;
    }
    return mf_fail(MF_ENOMEM,
                   "out of memory: a graph needs %zu bytes; op %s (%s) asks for most, %zu "
                   "bytes",
                   g->arena_bytes, worst ? worst->op->name : "none", worst ? worst->scope : "",
                   most);
}

/* Fails like too_large for the memory of a device; the device's message says how much
 * is free. */
static int too_large_for_device(const mf_graph *g)
{
    char text[256], why[384];
    snprintf(why, sizeof why, "%s", mf_error_message());
    mf_graph_largest(g, text, sizeof text);
    return mf_fail(
        MF_ENOMEM,
        "%s; a smaller train.batch or model.seq, train.recompute = light or block, or "
        "train.dtype = bf16 needs less; the largest values are %s",
        why, text);
}

static int allocate(mf_graph *g)
{
    const mf_graph *arena_of = g->options.arena_of;
    if (g->options.bare) return MF_OK;
    g->shares_arena =
        arena_of && !g->options.no_reuse && arena_of->arena_bytes >= g->arena_bytes;
    if (g->shares_arena) {
        g->block = arena_of->block;
        return MF_OK;
    }
    const int rc = mf_device_alloc(g->options.device, g->arena_bytes + 1, &g->block);
    if (rc != MF_ENOMEM) return rc;
    return mf_device_is_host(g->options.device) ? too_large(g) : too_large_for_device(g);
}

static int lay_out(planner *p, mf_span *spans)
{
    mf_graph *g = p->g;
    int n, code = MF_OK;
    find_lifetimes(p);
    g->naive_bytes = lay_apart(spans, list_spans(p, spans));
    if (g->options.no_reuse) {
        find_small(p);
        g->arena_bytes = lay_apart(spans, list_spans(p, spans));
    } else {
        put_in_place(p);
        find_small(p);
        code = find_reused(p);
        n = list_spans(p, spans);
        n += mf_reuse_spans(g, spans + n);
        if (code == MF_OK) code = mf_pack(spans, n, g->reused_bytes, &g->arena_bytes);
    }
    if (code == MF_OK) code = allocate(g);
    if (code == MF_OK && !g->options.bare) code = mf_exchange_new(g);
    if (code == MF_OK && !g->options.bare) place(p, spans);
    return code;
}

/* Fails if the graph reads f32 values that were released, or if it reads values in panels in
 * another way than as the weight of a gemm. */
static int refuse_unreadable(mf_graph *g)
{
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_param *p =
            g->tensors[i]->kind == MF_TENSOR_PARAM ? g->tensors[i]->param : NULL;
        if (p && p->f32_released && mf_graph_reads(g, p)) {
            mf_graph_fail(g, MF_EINVAL,
                          "%s: its f32 values were given back, bf16 ones are kept", p->name);
            return g->status;
        }
        if (p && p->packed && !mf_graph_multiplies(g, p)) {
            mf_graph_fail(g, MF_EINVAL, "%s: its values are in panels, for gemms only",
                          p->name);
            return g->status;
        }
    }
    return MF_OK;
}

int mf_graph_plan(mf_graph *g)
{
    planner p = {.g = g};
    const mf_graph *arena_of = g->options.arena_of;
    const size_t n_reused = (size_t)(arena_of ? arena_of->n_reused : 0);
    const size_t most = 3 * (size_t)g->n_tensors + (size_t)g->n_nodes + 2 * n_reused + 2;
    mf_span *spans = mf_alloc(most, sizeof *spans);
    int code = MF_ENOMEM;
    p.lives = mf_alloc((size_t)g->n_tensors + 1, sizeof *p.lives);
    if (spans && p.lives) {
        mark_dead(g);
        if (mf_graph_device_kernels(g)) {
            mf_graph_fuse_casts(g);
            mark_dead(g);
        }
        mf_graph_fuse(g);
        code = mf_graph_fuse_residuals(g);
        if (code == MF_OK) code = mf_graph_fuse_tokens(g);
        if (code == MF_OK && mf_graph_device_kernels(g)) mark_dead(g);
        if (code == MF_OK) code = refuse_unreadable(g);
        if (code == MF_OK) code = lay_out(&p, spans);
    }
    mf_free(spans);
    mf_free(p.lives);
    return code == MF_OK ? MF_OK : mf_graph_adopt(g, code);
}
