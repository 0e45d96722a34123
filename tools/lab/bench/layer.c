/* Builds one MoE layer outside of a model from plugins chosen by name. Plugins receive the
 * dimensions of a model with one block, so they work like in a model. */
#include "lab/bench/layer.h"
#include <stdio.h>
#include "plugin/load/open.h"

mf_dims mf_lab_dims(const mf_lab_layer *l, int32_t layer)
{
    return (mf_dims){.size = sizeof(mf_dims),
                     .layer = layer,
                     .n_layers = 1,
                     .dim = l->dim,
                     .expert_dim = l->dim,
                     .model_dim = l->dim,
                     .experts = l->experts,
                     .top_k = l->top_k,
                     .heads = 1,
                     .kv_heads = 1,
                     .vocab = MF_LAB_VOCAB,
                     .seq = l->seq,
                     .moe_layers = 1,
                     .labels = l->labels};
}

static int make(const mf_lab_layer *l, mf_kind kind, const char *name, const char *section,
                mf_plughost *host, mf_ini *ini, mf_ctx **ret)
{
    static const char *const none[] = {NULL};
    const mf_dims dims = mf_lab_dims(l, 0);
    const mf_loaded *plugin;
    char path[64];
    snprintf(path, sizeof path, "layers.0.%s", section);
    int rc = mf_plugin_load(kind, name, NULL, 0, &plugin);
    return rc == MF_OK
               ? mf_instance_new(host, plugin, path, ini, section, none, section, &dims, ret)
               : rc;
}

int mf_lab_layer_new(const mf_lab_layer *l, mf_plughost *host, mf_ini *ini, mf_moe_layer *ret)
{
    char hidden[48];
    snprintf(hidden, sizeof hidden, "expert.hidden=%d", (int)l->hidden);
    int rc = make(l, MF_ROUTER, l->router, "router", host, ini, &ret->router);
    if (rc == MF_OK && l->expert) rc = mf_ini_set(ini, hidden, 1);
    if (rc == MF_OK && l->expert)
        rc = make(l, MF_EXPERT, l->expert, "expert", host, ini, &ret->expert);
    return rc;
}

void mf_lab_layer_free(mf_moe_layer *layer)
{
    mf_instance_free(layer->router);
    mf_instance_free(layer->expert);
}

mf_router_in mf_lab_inputs(const mf_lab_layer *l, mf_graph *g, bool masked)
{
    const mf_shape rows = mf_shape1((int64_t)l->batch * l->seq);
    mf_router_in in = {.size = sizeof in,
                       .batch = l->batch,
                       .seq = l->seq,
                       .experts = l->experts,
                       .top_k = l->top_k};
    in.x = mf_graph_input(g, "x", MF_F32, mf_shape2(rows.dim[0], l->dim));
    in.token_ids = mf_graph_input(g, "token_ids", MF_I32, rows);
    in.positions = mf_graph_input(g, "positions", MF_I32, rows);
    in.sequence_ids = mf_graph_input(g, "sequence_ids", MF_I32, rows);
    if (l->labels > 0) in.labels = mf_graph_input(g, "labels", MF_I32, rows);
    if (masked) in.mask = mf_graph_input(g, "mask", MF_F32, rows);
    return in;
}

void mf_lab_fill_places(const mf_router_in *in)
{
    int32_t *positions = mf_tensor_input(in->positions),
            *sequences = mf_tensor_input(in->sequence_ids);
    for (int32_t t = 0; t < in->batch * in->seq; t++) {
        if (positions) positions[t] = t % in->seq;
        if (sequences) sequences[t] = t / in->seq;
    }
}
