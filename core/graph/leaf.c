/* graph/leaf.c: adds values that no node computes: inputs, parameters, live scalars, constants.
 * A parameter has one f32 leaf per graph, for any number of readers. */
#include "graph/internal.h"

#include <string.h>

static bool may_build(mf_graph *g)
{
    if (!g || g->status != MF_OK) return false;
    if (!g->finished) return true;
    mf_graph_fail(g, MF_EINVAL, "the graph is finished: nothing can be added");
    return false;
}

/* Creates a leaf with its own memory, which is not planned and which callers fill. On a device
 * this is memory on the host; mf_exchange_new adds memory on the device. */
static mf_tensor *own_leaf(mf_graph *g, mf_tensor_kind kind, mf_dtype dtype, mf_shape shape,
                           const char *name)
{
    char text[MF_SHAPE_TEXT];
    mf_tensor *t;
    if (!may_build(g)) return NULL;
    if (!mf_shape_valid(shape, dtype)) {
        mf_graph_fail(g, MF_ESHAPE, "%s: a value cannot be %s %s", name ? name : "constant",
                      mf_dtype_text(dtype), mf_shape_text(shape, text));
        return NULL;
    }
    if (shape.reserved != 0) {
        mf_graph_fail(g, MF_ESHAPE, "%s: reserved of its shape: expected 0, found %d",
                      name ? name : "constant", (int)shape.reserved);
        return NULL;
    }
    t = mf_tensor_new(g, kind, dtype, shape);
    if (!t) return NULL;
    t->host = mf_graph_alloc(g, mf_shape_bytes(shape, dtype));
    if (mf_device_is_host(g->options.device)) t->data = t->host;
    if (name) t->name = mf_arena_strdup(g->memory, name);
    if (!t->host || (name && !t->name)) {
        mf_graph_adopt(g, MF_ENOMEM);
        return NULL;
    }
    return t;
}

mf_tensor *mf_graph_input(mf_graph *g, const char *name, mf_dtype dtype, mf_shape shape)
{
    return own_leaf(g, MF_TENSOR_INPUT, dtype, shape, name);
}

void mf_graph_want_grad(mf_tensor *input)
{
    if (input) input->needs_grad = true;
}

mf_tensor *mf_graph_const(mf_graph *g, mf_dtype dtype, mf_shape shape, const void *data)
{
    mf_tensor *t = own_leaf(g, MF_TENSOR_CONST, dtype, shape, NULL);
    if (t && data) memcpy(t->host, data, mf_shape_bytes(shape, dtype));
    return t;
}

mf_tensor *mf_graph_live(mf_graph *g, const double *value, const char *name)
{
    mf_tensor *t = own_leaf(g, MF_TENSOR_LIVE, MF_F32, mf_shape0(), name);
    if (t) t->live = value;
    return t;
}

/* Returns the entry of the parameter's leaf in g->by_param, or the free entry where
 * it belongs. */
static mf_tensor **place_of(const mf_graph *g, const mf_param *param)
{
    const size_t mask = (size_t)g->by_param_size - 1;
    size_t i = (size_t)((uint64_t)(uintptr_t)param * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (g->by_param[i] && g->by_param[i]->param != param)
        i = (i + 1) & mask;
    return &g->by_param[i];
}

static mf_tensor *find_param(const mf_graph *g, const mf_param *param)
{
    return g->by_param_size > 0 ? *place_of(g, param) : NULL;
}

/* Makes space for one more leaf: at most half of the entries are used. */
static int make_room(mf_graph *g)
{
    mf_tensor **old = g->by_param;
    const int n = g->by_param_size, size = n > 0 ? 2 * n : 64;
    if (2 * (g->n_by_param + 1) <= n) return MF_OK;
    mf_tensor **larger = mf_arena_alloc(g->memory, (size_t)size * sizeof *larger);
    if (!larger) return mf_graph_adopt(g, MF_ENOMEM);
    g->by_param = larger;
    g->by_param_size = size;
    for (int i = 0; i < n; i++)
        if (old[i]) *place_of(g, old[i]->param) = old[i];
    return MF_OK;
}

mf_tensor *mf_graph_param(mf_graph *g, mf_param *param)
{
    mf_tensor *t;
    if (!may_build(g)) return NULL;
    t = g->stand_in ? g->stand_in(g->stand_in_arg, g, param) : NULL;
    if (t || g->status != MF_OK) return t;
    t = find_param(g, param);
    if (t) {
        /* The parameter's present value is the output of the last op that wrote it in place. */
        for (int i = g->n_tensors - 1; t->version != t->writes && i > t->id; i--)
            if (g->tensors[i]->alias == t && g->tensors[i]->version == t->writes)
                return g->tensors[i];
        return t;
    }
    if (!param->value && !param->stored) {
        mf_graph_fail(g, MF_EINVAL, "parameter %s has no values yet: seal its store first",
                      param->name);
        return NULL;
    }
    if (!g->options.bare && mf_store_device(param->store) != g->options.device) {
        mf_graph_fail(g, MF_EINVAL, "parameter %s lives on device %s, but the graph on %s",
                      param->name, mf_device_name(mf_store_device(param->store)),
                      mf_device_name(g->options.device));
        return NULL;
    }
    if (make_room(g) != MF_OK) return NULL;
    t = mf_tensor_new(g, MF_TENSOR_PARAM, MF_F32, param->shape);
    if (!t) return NULL;
    t->param = param;
    *place_of(g, param) = t;
    g->n_by_param++;
    t->name = param->name;
    const struct mf_stored *stored = param->there ? param->there : param->stored;
    t->data = stored ? (void *)(uintptr_t)stored : param->value;
    t->needs_grad = g->options.training && !param->buffer && !param->frozen;
    return t;
}

void mf_graph_set_stand_in(mf_graph *g, mf_stand_in *fn, void *arg)
{
    if (!g) return;
    g->stand_in = fn;
    g->stand_in_arg = arg;
}

mf_tensor *mf_graph_param_part(mf_graph *g, const mf_param *param, int64_t first, int64_t count)
{
    mf_param *part = may_build(g) ? mf_arena_alloc(g->memory, sizeof *part) : NULL;
    if (!part) {
        if (g && g->status == MF_OK) mf_graph_adopt(g, MF_ENOMEM);
        return NULL;
    }
    *part = *param;
    const int64_t at = first * (param->count / param->shape.dim[0]);
    part->shape.dim[0] = count;
    part->count = mf_shape_count(part->shape);
    if (part->value && !g->options.bare) part->value += at;
    if (part->grad && !g->options.bare) part->grad += at;
    if (part->bf16 && !g->options.bare) part->bf16 += at;
    part->offset += at;
    mf_stand_in *stand_in = g->stand_in;
    g->stand_in = NULL;
    mf_tensor *t = mf_graph_param(g, part);
    g->stand_in = stand_in;
    return t;
}

mf_tensor *mf_graph_grad_leaf(mf_graph *g, mf_param *param)
{
    mf_tensor *t = mf_tensor_new(g, MF_TENSOR_GRAD, MF_F32, param->shape);
    if (!t) return NULL;
    t->param = param;
    t->name = param->name;
    t->data = param->grad;
    return t;
}

/* If the value is the output of ops that only give its memory another shape (MF_OP_ALIAS),
 * returns the value whose memory it is; otherwise returns the value itself. */
static mf_tensor *behind_aliases(const mf_graph *g, mf_tensor *t)
{
    while (t->node >= 0 && g->nodes[t->node]->op->flags & MF_OP_ALIAS)
        t = g->nodes[t->node]->in[0];
    return t;
}

mf_tensor *mf_graph_bf16_leaf(mf_graph *g, mf_tensor *value)
{
    mf_tensor *leaf = behind_aliases(g, value);
    if (leaf->kind != MF_TENSOR_PARAM || leaf->node >= 0 || leaf->writes || !leaf->param->bf16)
        return NULL;
    mf_tensor *t = mf_tensor_new(g, MF_TENSOR_PARAM, MF_BF16, value->shape);
    if (!t) return NULL;
    t->param = leaf->param;
    t->name = leaf->name;
    t->data = leaf->param->bf16;
    t->needs_grad = value->needs_grad;
    t->master = value;
    return t;
}
