/* graph/leaf.c: adds values that no node computes: inputs, parameters, live scalars, constants.
 * A parameter has one f32 leaf per graph, whatever the number of its readers. */
#include "graph/internal.h"

#include <string.h>

static bool may_build(mf_graph *g)
{
    if (!g || g->status != MF_OK) return false;
    if (!g->finished) return true;
    mf_graph_fail(g, MF_EINVAL, "the graph is finished: nothing can be added");
    return false;
}

/* Creates a leaf with its own memory, outside of the plan, which callers fill. On a device this
 * is memory on the host; mf_exchange_new adds memory on the device. */
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

static mf_tensor *find_param(const mf_graph *g, mf_tensor_kind kind, const mf_param *param)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->kind == kind && g->tensors[i]->param == param &&
            g->tensors[i]->node < 0 && !g->tensors[i]->master)
            return g->tensors[i];
    return NULL;
}

mf_tensor *mf_graph_param(mf_graph *g, mf_param *param)
{
    mf_tensor *t;
    if (!may_build(g)) return NULL;
    t = find_param(g, MF_TENSOR_PARAM, param);
    if (t) {
        /* the parameter's present value is that of the last op that wrote it in place */
        for (int i = g->n_tensors - 1; t->version != t->writes && i > t->id; i--)
            if (g->tensors[i]->alias == t && g->tensors[i]->version == t->writes)
                return g->tensors[i];
        return t;
    }
    if (!param->value) {
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
    t = mf_tensor_new(g, MF_TENSOR_PARAM, MF_F32, param->shape);
    if (!t) return NULL;
    t->param = param;
    t->name = param->name;
    t->data = param->value;
    t->needs_grad = g->options.training && !param->buffer && !param->frozen;
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

mf_tensor *mf_graph_bf16_leaf(mf_graph *g, mf_tensor *leaf)
{
    if (leaf->kind != MF_TENSOR_PARAM || leaf->node >= 0 || leaf->writes || !leaf->param->bf16)
        return NULL;
    mf_tensor *t = mf_tensor_new(g, MF_TENSOR_PARAM, MF_BF16, leaf->shape);
    if (!t) return NULL;
    t->param = leaf->param;
    t->name = leaf->name;
    t->data = leaf->param->bf16;
    t->needs_grad = leaf->needs_grad;
    t->master = leaf;
    return t;
}
