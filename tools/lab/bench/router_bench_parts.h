/* lab/bench/router_bench_parts.h: what the files of the router bench share. */
#ifndef MF_LAB_ROUTER_BENCH_PARTS_H
#define MF_LAB_ROUTER_BENCH_PARTS_H

#include "lab/bench/layer.h"
#include "lab/bench/router_bench.h"

/* A router in one layer, together with all installed regularizers. */
typedef struct mf_bench_layer {
    const mf_router_bench_spec *spec;
    mf_arena *arena;
    mf_ini *ini;
    mf_store *store;
    mf_plughost *host;
    mf_moe_config config;
    mf_moe_layer layer;
    mf_ctx *regularizers[MF_BENCH_LOSSES];
    int n_regularizers;
} mf_bench_layer;

/* A graph that runs the router alone, or the whole layer. */
typedef struct mf_bench_graph {
    mf_graph *g;
    mf_router_in in;
    mf_moe_out out;
    mf_tensor *losses[MF_BENCH_LOSSES];
} mf_bench_graph;

/* The sizes and plugins of the layer, for a graph of batch x seq tokens. router may be NULL if
 * only the dimensions are needed. */
mf_lab_layer mf_bench_sizes(const mf_bench_layer *b, const char *router, int32_t batch,
                            int32_t seq);
/* What regularizer i adds to the graph of batch x seq tokens. */
int mf_bench_regularize(const mf_bench_layer *b, int i, int32_t batch, int32_t seq,
                        const mf_bench_graph *bg, mf_tensor **ret);
/* Draws tokens and activations of a seed into the inputs of a graph. */
void mf_bench_fill(const mf_bench_layer *b, const mf_bench_graph *bg, uint64_t seed);

/* ---- router_block.c ---- */

/* Writes the options of the experts that spec.block requires; nothing without a block. */
int mf_bench_set_block(const mf_bench_layer *b);
/* Copies the block's weights into each expert; nothing without a block. */
int mf_bench_copy_block(const mf_bench_layer *b);

/* ---- router_learn.c ---- */

/* Seals the store, for training if spec.learn asks for it. Only routers are trained. */
int mf_bench_seal(const mf_bench_layer *b);
/* Trains the router for spec.learn steps, from moments of 0. Nothing happens to a router
 * without parameters, or without a loss that depends on them. */
int mf_bench_learn(const mf_bench_layer *b, uint64_t seed);

#endif
