/* pretrained/code/trace.c: builds the evaluation graph of a model for eight batches and
 * compares the graphs node by node. They are built on a copy of the model without values,
 * so that large batches cost nothing. A ninth graph, of the model itself, must agree with
 * what was found: it has the values of live options, and differs where the state of a run
 * changes the graph. */
#include "pretrained/code/trace.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "pretrained/code/fit.h"

/* A graph, and those of its nodes and leaves on which the logits depend. */
typedef struct traced {
    mf_model_graph *mg;
    const mf_node **node; /* [nodes] in the order of computation */
    mf_tensor **leaf;     /* [leaves] in the order of their first use */
    int nodes, leaves;
} traced;

struct mf_code_trace {
    mf_model *bare;  /* the model without values */
    int64_t experts; /* most experts of a layer */
    mf_fit_case at[MF_FIT_CASES + 1];
    traced graph[MF_FIT_CASES + 1]; /* the last one is of the model itself */
    const traced *own;              /* that graph */
    int *first; /* [nodes + 1] number of the first result of each node of a graph */
    bool (*knows)(void *arg, const char *op);
    void *arg;
};

/* ---- one graph ---- */

static int index_of_leaf(const traced *t, const mf_tensor *leaf)
{
    for (int i = 0; i < t->leaves; i++)
        if (t->leaf[i] == leaf) return i;
    return -1;
}

/* Returns the index of the node that computes x, which must be among the nodes of t. They
 * are in rising order of their number in the graph. */
static int index_of_node(const traced *t, const mf_tensor *x)
{
    int lo = 0, hi = t->nodes - 1;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (t->node[mid]->out[0]->node < x->node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns which output of its node x is. */
static int output_of(const mf_tensor *x)
{
    const mf_node *from = mf_tensor_producer(x);
    int o = 0;
    while (from->out[o] != x)
        o++;
    return o;
}

/* Marks the nodes that compute t, and all that they need. Nodes are in the order of
 * computation, so one pass from the last node to the first finds them. */
static void mark(const mf_graph *g, const mf_tensor *t, bool *needed)
{
    if (t->node >= 0) needed[t->node] = true;
    for (int i = t->node; i >= 0; i--) {
        const mf_node *node = mf_graph_node_at(g, i);
        if (!needed[i]) continue;
        for (int j = 0; j < node->n_in; j++)
            if (node->in[j] && node->in[j]->node >= 0) needed[node->in[j]->node] = true;
    }
}

static int collect(traced *t)
{
    const mf_graph *g = t->mg->g;
    const int n = mf_graph_nodes(g);
    bool *needed = mf_alloc((size_t)n + 1, sizeof *needed);
    t->node = mf_alloc((size_t)n + 1, sizeof *t->node);
    t->leaf = mf_alloc((size_t)n * MF_OP_MAX_IN + 1, sizeof *t->leaf);
    if (!needed || !t->node || !t->leaf) {
        mf_free(needed);
        return MF_ENOMEM;
    }
    mark(g, t->mg->logits, needed);
    for (int i = 0; i < n; i++) {
        const mf_node *node = mf_graph_node_at(g, i);
        if (!needed[i]) continue;
        t->node[t->nodes++] = node;
        for (int j = 0; j < node->n_in; j++) {
            mf_tensor *in = node->in[j];
            if (in && in->node < 0 && index_of_leaf(t, in) < 0) t->leaf[t->leaves++] = in;
        }
    }
    mf_free(needed);
    return MF_OK;
}

static int build(mf_model *m, mf_fit_case at, traced *ret)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = at.batch, .seq = at.seq, .want_logits = true};
    const int rc = mf_model_graph_new(m, &shape, &ret->mg);
    return rc == MF_OK ? collect(ret) : rc;
}

/* Makes a copy of the model that has no values. */
static int new_bare(const mf_model *m, mf_model **ret)
{
    mf_model_dims dims = m->dims;
    mf_model_options options = m->options;
    dims.bare = true;
    options.training = options.bf16 = false;
    options.device = NULL;
    options.moments = NULL;
    options.bind = NULL;
    options.expert_ranks = 0;
    return mf_model_new(m->config, &dims, &options, ret);
}

/* ---- what can be written ---- */

static int refuse(const mf_node *node, const char *what)
{
    return mf_fail(MF_EINPUT, "--with-code: %s: op %s %s", node->scope, node->op->name, what);
}

static const char *input_name(const traced *t, const mf_tensor *leaf)
{
    const mf_model_graph *mg = t->mg;
    return leaf == mg->tokens         ? "tokens"
           : leaf == mg->positions    ? "positions"
           : leaf == mg->sequence_ids ? "sequence_ids"
           : leaf == mg->segments     ? "segments"
                                      : NULL;
}

static int judge_node(const mf_code_trace *t, const mf_node *node)
{
    if (node->op->flags & MF_OP_RANDOM && strcmp(node->op->name, "dropout") != 0)
        return refuse(node,
                      "draws random numbers in evaluation, so there is no function to write");
    if (node->op->flags & MF_OP_STATE)
        return refuse(node, "writes a buffer in evaluation, which the code does not do");
    if (!t->knows(t->arg, node->op->name))
        return refuse(node, "is of a plugin, and ops_moefw.py has no such function");
    for (int j = 0; j < node->n_in; j++) {
        const mf_tensor *in = node->in[j];
        if (!in || in->node >= 0) continue;
        if (in->kind == MF_TENSOR_INPUT && !input_name(t->own, in))
            return refuse(node, "reads labels or another input that a text does not have");
        if (in->kind == MF_TENSOR_PARAM && !mf_shape_equal(in->shape, in->param->shape))
            return refuse(node, "reads a part of a parameter");
    }
    return MF_OK;
}

/* Whether the same thing is at input j of two nodes. */
static bool same_input(const traced *a, const traced *b, int at, int j)
{
    const mf_tensor *x = a->node[at]->in[j], *y = b->node[at]->in[j];
    if (!x || !y) return x == y;
    if ((x->node < 0) != (y->node < 0)) return false;
    if (x->node < 0) {
        const int i = index_of_leaf(a, x);
        return i == index_of_leaf(b, y) && x->kind == y->kind && x->dtype == y->dtype &&
               x->shape.rank == y->shape.rank &&
               (x->kind != MF_TENSOR_PARAM || strcmp(x->param->name, y->param->name) == 0);
    }
    return index_of_node(a, x) == index_of_node(b, y) && output_of(x) == output_of(y);
}

static int judge_same(const mf_code_trace *t, const traced *other)
{
    const traced *own = t->own;
    if (other->nodes != own->nodes || other->leaves != own->leaves)
        return mf_fail(MF_EINPUT,
                       "--with-code: the model computes other ops for other batches, "
                       "as a delta net does, or the state of the run, as removed "
                       "heads, changes its graph");
    for (int i = 0; i < own->nodes; i++) {
        const mf_node *a = own->node[i], *b = other->node[i];
        bool same = a->n_in == b->n_in && strcmp(a->op->name, b->op->name) == 0;
        for (int j = 0; same && j < a->n_in; j++)
            same = same_input(own, other, i, j);
        if (!same) return refuse(a, "differs between batches");
    }
    return MF_OK;
}

/* ---- numbers ---- */

static bool whole_at(const mf_code_trace *t, int node, int i, mf_fit *ret)
{
    int64_t v[MF_FIT_CASES];
    for (int k = 0; k < MF_FIT_CASES; k++)
        v[k] = t->graph[k].node[node]->attr.i[i];
    return mf_fit_whole(t->at, v, t->experts, ret);
}

static bool real_at(const mf_code_trace *t, int node, int i, mf_fit *ret, bool *ret_over)
{
    double v[MF_FIT_CASES];
    for (int k = 0; k < MF_FIT_CASES; k++)
        v[k] = t->graph[k].node[node]->attr.f[i];
    return mf_fit_real(t->at, v, ret, ret_over);
}

static bool size_at(const mf_code_trace *t, int leaf, int d, mf_fit *ret)
{
    int64_t v[MF_FIT_CASES];
    for (int k = 0; k < MF_FIT_CASES; k++)
        v[k] = t->graph[k].leaf[leaf]->shape.dim[d];
    return mf_fit_whole(t->at, v, t->experts, ret);
}

/* Element i of a table, which may be a number that depends on the batch if it is whole. */
static bool element_at(const mf_code_trace *t, int leaf, int64_t i, mf_fit *ret)
{
    int64_t v[MF_FIT_CASES];
    const mf_tensor *own = t->own->leaf[leaf];
    for (int k = 0; k < MF_FIT_CASES; k++) {
        const mf_tensor *x = t->graph[k].leaf[leaf];
        if (!x->host || mf_shape_count(x->shape) <= i) return false;
        if (own->dtype == MF_I32)
            v[k] = ((const int32_t *)x->host)[i];
        else if (((const float *)x->host)[i] != ((const float *)own->host)[i])
            return false;
    }
    return own->dtype != MF_I32 || mf_fit_whole(t->at, v, t->experts, ret);
}

static int judge_numbers(const mf_code_trace *t)
{
    mf_fit f = {.step = 0};
    bool over;
    for (int i = 0; i < t->own->nodes; i++) {
        const mf_node *node = t->own->node[i];
        for (int j = 0; j < MF_ATTR_INTS; j++)
            if (!whole_at(t, i, j, &f))
                return refuse(node, "has a number that depends on the length of texts in a way "
                                    "that the code cannot say");
        for (int j = 0; j < MF_ATTR_REALS; j++)
            if (!real_at(t, i, j, &f, &over))
                return refuse(node, "has a factor that depends on the length of texts in a way "
                                    "that the code cannot say");
        for (int j = 0; j < node->n_in; j++) {
            const mf_tensor *in = node->in[j];
            if (!in || in->node >= 0 || in->kind != MF_TENSOR_CONST) continue;
            const int leaf = index_of_leaf(t->own, in);
            bool good = true;
            for (int d = 0; good && d < in->shape.rank; d++)
                good = size_at(t, leaf, d, &f);
            for (int64_t e = 0; good && e < mf_shape_count(in->shape); e++)
                good = element_at(t, leaf, e, &f);
            if (!good) return refuse(node, "reads a table that depends on the length of texts");
        }
    }
    return MF_OK;
}

/* ---- the trace ---- */

static int trace(mf_model *m, mf_code_trace *t)
{
    t->experts = 1;
    for (int64_t l = 0; l < m->config->model.layers; l++) {
        const int64_t own = mf_model_moe(m->config, l).experts;
        t->experts = own > t->experts ? own : t->experts;
    }
    const int64_t seq = m->config->model.seq;
    if (seq < 3)
        return mf_fail(MF_EINPUT, "--with-code: expected model.seq of at least 3, found %lld",
                       (long long)seq);
    mf_fit_cases(seq, t->experts, t->at);
    t->at[MF_FIT_CASES] = (mf_fit_case){1, 3};
    t->own = &t->graph[MF_FIT_CASES];
    int rc = build(m, t->at[MF_FIT_CASES], &t->graph[MF_FIT_CASES]);
    for (int i = 0; rc == MF_OK && i < t->own->nodes; i++)
        rc = judge_node(t, t->own->node[i]);
    if (rc == MF_OK) rc = new_bare(m, &t->bare);
    for (int k = 0; rc == MF_OK && k < MF_FIT_CASES; k++) {
        rc = build(t->bare, t->at[k], &t->graph[k]);
        if (rc == MF_OK) rc = judge_same(t, &t->graph[k]);
    }
    if (rc == MF_OK) rc = judge_numbers(t);
    t->first = rc == MF_OK ? mf_alloc((size_t)t->own->nodes + 1, sizeof *t->first) : NULL;
    if (rc == MF_OK && !t->first) rc = MF_ENOMEM;
    for (int i = 0, at = t->own->leaves; rc == MF_OK && i < t->own->nodes; i++) {
        t->first[i] = at;
        at += t->own->node[i]->n_out;
    }
    return rc;
}

int mf_code_trace_new(mf_model *m, bool (*knows)(void *arg, const char *op), void *arg,
                      mf_code_trace **ret)
{
    *ret = mf_alloc(1, sizeof **ret);
    if (!*ret) return MF_ENOMEM;
    (*ret)->knows = knows;
    (*ret)->arg = arg;
    return trace(m, *ret);
}

void mf_code_trace_free(mf_code_trace *t)
{
    for (int k = 0; t && k <= MF_FIT_CASES; k++) {
        mf_free(t->graph[k].node);
        mf_free(t->graph[k].leaf);
        mf_model_graph_free(t->graph[k].mg);
    }
    if (!t) return;
    mf_model_free(t->bare);
    mf_free(t->first);
    mf_free(t);
}

/* ---- tensors ---- */

/* Whether a leaf is a table that is written as a tensor. */
static bool is_table(const mf_tensor *leaf)
{
    return leaf->kind == MF_TENSOR_CONST && mf_shape_count(leaf->shape) > MF_CODE_TABLE;
}

int mf_code_tensors(const mf_code_trace *t)
{
    int n = 0;
    for (int i = 0; i < t->own->leaves; i++)
        n += t->own->leaf[i]->kind == MF_TENSOR_PARAM || is_table(t->own->leaf[i]);
    return n;
}

static mf_code_tensor tensor_of(const traced *own, int leaf)
{
    const mf_tensor *x = own->leaf[leaf];
    mf_code_tensor r = {.dtype = x->dtype, .shape = x->shape, .param = x->param};
    if (x->kind == MF_TENSOR_PARAM)
        snprintf(r.name, sizeof r.name, "%s", x->param->name);
    else
        snprintf(r.name, sizeof r.name, "tables.%d", leaf);
    r.table = x->kind == MF_TENSOR_CONST ? x->host : NULL;
    return r;
}

mf_code_tensor mf_code_tensor_at(const mf_code_trace *t, int i)
{
    for (int leaf = 0; leaf < t->own->leaves; leaf++)
        if ((t->own->leaf[leaf]->kind == MF_TENSOR_PARAM || is_table(t->own->leaf[leaf])) &&
            i-- == 0)
            return tensor_of(t->own, leaf);
    return (mf_code_tensor){.param = NULL}; /* i is less than the count */
}

/* ---- JSON ---- */

static void put_function(mf_jw *w, const mf_fit *f)
{
    mf_jw_array(w);
    for (int i = 0; i < 4; i++)
        mf_jw_real(w, f->at[i]);
    if (f->step != 1) mf_jw_int(w, f->step);
    mf_jw_end(w);
}

static void put_whole(mf_jw *w, const mf_fit *f)
{
    if (f->constant)
        mf_jw_int(w, (int64_t)f->at[0] * f->step);
    else
        put_function(w, f);
}

static void put_real(mf_jw *w, const mf_fit *f, bool over)
{
    if (over) {
        mf_jw_object(w);
        mf_jw_key(w, "over");
    }
    if (f->constant && !over)
        mf_jw_real(w, f->at[0]);
    else
        put_function(w, f);
    if (over) mf_jw_end(w);
}

static void put_tensor(mf_jw *w, const mf_code_tensor *x)
{
    mf_jw_kv_string(w, "tensor", x->name);
    mf_jw_key(w, "shape");
    mf_jw_array(w);
    for (int d = 0; d < x->shape.rank; d++)
        mf_jw_int(w, x->shape.dim[d]);
    mf_jw_end(w);
    if (!x->param || x->param->buffer) mf_jw_kv_bool(w, "fixed", true);
    if (x->dtype == MF_I32) mf_jw_kv_string(w, "type", "i32");
}

static void put_table(const mf_code_trace *t, int leaf, mf_jw *w)
{
    const mf_tensor *x = t->own->leaf[leaf];
    mf_fit f = {.step = 0};
    mf_jw_key(w, "table");
    mf_jw_array(w);
    for (int64_t e = 0; e < mf_shape_count(x->shape); e++) {
        element_at(t, leaf, e, &f);
        if (x->dtype == MF_I32)
            put_whole(w, &f);
        else
            mf_jw_float(w, ((const float *)x->host)[e]);
    }
    mf_jw_end(w);
    mf_jw_key(w, "shape");
    mf_jw_array(w);
    for (int d = 0; d < x->shape.rank; d++) {
        size_at(t, leaf, d, &f);
        put_whole(w, &f);
    }
    mf_jw_end(w);
    mf_jw_kv_string(w, "type", x->dtype == MF_I32 ? "i32" : "f32");
}

static void put_leaf(const mf_code_trace *t, int i, mf_jw *w)
{
    const mf_tensor *x = t->own->leaf[i];
    mf_jw_object(w);
    if (x->kind == MF_TENSOR_INPUT) {
        mf_jw_kv_string(w, "input", input_name(t->own, x));
    } else if (x->kind == MF_TENSOR_LIVE) {
        mf_jw_kv_real(w, "number", *x->live);
    } else if (x->kind == MF_TENSOR_PARAM || is_table(x)) {
        const mf_code_tensor tensor = tensor_of(t->own, i);
        put_tensor(w, &tensor);
    } else {
        put_table(t, i, w);
    }
    mf_jw_end(w);
}

/* Returns the number of a value. */
static int number_of(const mf_code_trace *t, const mf_tensor *x)
{
    if (x->node < 0) return index_of_leaf(t->own, x);
    return t->first[index_of_node(t->own, x)] + output_of(x);
}

/* The number of leading elements that must be written; the rest are 0. */
static int needed(const mf_code_trace *t, int node, bool reals)
{
    int n = reals ? MF_ATTR_REALS : MF_ATTR_INTS;
    mf_fit f = {.step = 0};
    bool over = false;
    for (; n > 0; n--) {
        const bool known =
            reals ? real_at(t, node, n - 1, &f, &over) : whole_at(t, node, n - 1, &f);
        if (!known || over || !f.constant || f.at[0] != 0) break;
    }
    return n;
}

static void put_numbers(const mf_code_trace *t, int i, mf_jw *w)
{
    mf_fit f = {.step = 0};
    bool over;
    int n = needed(t, i, false);
    if (n > 0) {
        mf_jw_key(w, "i");
        mf_jw_array(w);
        for (int j = 0; j < n; j++) {
            whole_at(t, i, j, &f);
            put_whole(w, &f);
        }
        mf_jw_end(w);
    }
    n = needed(t, i, true);
    if (n == 0) return;
    mf_jw_key(w, "f");
    mf_jw_array(w);
    for (int j = 0; j < n; j++) {
        real_at(t, i, j, &f, &over);
        put_real(w, &f, over);
    }
    mf_jw_end(w);
}

static void put_node(const mf_code_trace *t, int i, mf_jw *w)
{
    const mf_node *node = t->own->node[i];
    mf_jw_object(w);
    mf_jw_kv_string(w, "op", node->op->name);
    mf_jw_key(w, "in");
    mf_jw_array(w);
    for (int j = 0; j < node->n_in; j++)
        mf_jw_int(w, node->in[j] ? number_of(t, node->in[j]) : -1);
    mf_jw_end(w);
    put_numbers(t, i, w);
    if (node->scope[0] != '\0') mf_jw_kv_string(w, "at", node->scope);
    mf_jw_end(w);
}

void mf_code_trace_put(const mf_code_trace *t, mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_key(w, "leaves");
    mf_jw_array(w);
    for (int i = 0; i < t->own->leaves; i++)
        put_leaf(t, i, w);
    mf_jw_end(w);
    mf_jw_key(w, "nodes");
    mf_jw_array(w);
    for (int i = 0; i < t->own->nodes; i++)
        put_node(t, i, w);
    mf_jw_end(w);
    mf_jw_kv_int(w, "logits", number_of(t, t->own->mg->logits));
    mf_jw_end(w);
}
