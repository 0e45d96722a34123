/* lab/layer.h: a layer of experts outside of any model: instances of plugins by name, and the
 * inputs of a graph over rows of tokens. What is benched and what is checked are made of these.
 */
#ifndef MF_LAB_LAYER_H
#define MF_LAB_LAYER_H

#include "base/ini.h"
#include "model/moe.h"

enum { MF_LAB_VOCAB = 30522 };

typedef struct mf_lab_layer {
    int32_t batch, seq;
    int32_t dim, experts, top_k, labels; /* labels 0: none */
    const char *router;
    const char *expert; /* NULL: the router alone */
    int32_t hidden;     /* of the expert */
} mf_lab_layer;

mf_dims mf_lab_dims(const mf_lab_layer *l, int32_t layer);
/* layers.0.router with the keys of [router], layers.0.expert with those of [expert] and
 * `hidden`. */
int mf_lab_layer_new(const mf_lab_layer *l, mf_plughost *host, mf_ini *ini, mf_moe_layer *ret);
void mf_lab_layer_free(mf_moe_layer *layer); /* what was made, also after a failure */

/* The inputs x, token_ids, positions, sequence_ids, labels and, if masked, mask. */
mf_router_in mf_lab_inputs(const mf_lab_layer *l, mf_graph *g, bool masked);
/* Token t is at t mod seq of sequence t / seq. Inputs that the graph does not read are left. */
void mf_lab_fill_places(const mf_router_in *in);

#endif
