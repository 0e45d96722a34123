/* plan_points.h: published training runs, with the numbers from their sources. */
#ifndef TESTS_PLAN_POINTS_H
#define TESTS_PLAN_POINTS_H

#include <stdbool.h>

typedef struct size_of_model {
    const char *name;
    double layers, dense_layers, dim, heads, head_dim, kv_heads, vocab;
    double hidden; /* hidden width of dense blocks */
    double experts, top_k, expert_hidden, shared_hidden;
    double attention_params, attention; /* for latent attention: sizes of a layer; 0: computed
                                         * from the heads */
    double nodes;
    bool predicts_two; /* there is an additional layer that predicts the token after the next,
                        * with a head */
    bool stored_scores;
} size_of_model;

typedef struct machine {
    const char *name;
    double bf16, fp8, memory, node, network; /* peak TFLOPS, and GB/s in each direction */
    int per_node;
} machine;

typedef struct layout {
    int tensor, pipeline, context, stages, expert, expert_tensor;
    double last; /* number of layers of the last stage; 0: as in other stages; -1: balanced */
} layout;

typedef struct point {
    const char *series; /* name of the series in moefw-parallel(7) */
    const char *model, *machine;
    int ranks, fp8, batch, micro, seq;
    layout l;
    double tokens; /* tokens per second and GPU */
    double mfu;    /* MFU, or the share of the bf16 peak, in percent */
    bool overlap, once;
    double recompute;
    bool fitted;
} point;

extern const size_of_model plan_models[];
extern const machine plan_machines[];
extern const point plan_points[];
extern const int plan_n_points;

#endif
