/* lab/bench/layer.h: an MoE layer outside of any model: plugin instances chosen by name, and
 * the inputs of a graph over tokens. Benchmarks and checks are built from it. */
#ifndef MF_LAB_LAYER_H
#define MF_LAB_LAYER_H

#include "base/text/ini.h"
#include "model/moe.h"

enum { MF_LAB_VOCAB = 30522 };

typedef struct mf_lab_layer {
    int32_t batch, seq;
    int32_t dim, experts, top_k, labels; /* labels: number of label values, 0: none */
    const char *router;
    const char *expert; /* NULL: no experts, only the router */
    int32_t hidden;     /* hidden width of an expert */
} mf_lab_layer;

mf_dims mf_lab_dims(const mf_lab_layer *l, int32_t layer);
/* Creates the instances layers.0.router, with the keys of [router], and layers.0.expert, with
 * the keys of [expert] and expert.hidden. Fails like mf_plugin_load and mf_instance_new. The
 * caller calls mf_lab_layer_free, also after a failure. */
int mf_lab_layer_new(const mf_lab_layer *l, mf_plughost *host, mf_ini *ini, mf_moe_layer *ret);
void mf_lab_layer_free(mf_moe_layer *layer); /* also after a failure of mf_lab_layer_new */

/* Declares the inputs x, token_ids, positions, sequence_ids, labels and, if masked, mask. */
mf_router_in mf_lab_inputs(const mf_lab_layer *l, mf_graph *g, bool masked);
/* Fills positions and sequences: token t has position t mod seq in sequence t / seq. Inputs
 * that the graph does not read are skipped. */
void mf_lab_fill_places(const mf_router_in *in);

#endif
