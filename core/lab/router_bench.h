/* lab/router_bench.h: routers side by side on the same activations.
 *
 * Each router stands alone in one MoE layer. Its start weights, and the activations (random
 * ones, or stretches of recorded ones), are drawn anew for each seed; measurements are means
 * over seeds, times are medians over repetitions. What is measured is defined below, since
 * published tables differ in just these definitions (arXiv 2506.16419 gives one name to two
 * entropies).
 */
#ifndef MF_LAB_ROUTER_BENCH_H
#define MF_LAB_ROUTER_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include "lab/timing.h"

typedef struct mf_router_bench_spec {
    int32_t dim, experts, top_k;
    int32_t batch, seq;  /* T = batch seq tokens */
    int32_t labels;      /* label values, for routers that follow labels */
    int32_t seeds;       /* >= 1 */
    mf_timing_how how;   /* of each timing; repetitions 0: none. In turns: only the router on
                            all * tokens is timed */
    bool layer;          /* also time router + experts (hidden wide) */
    int32_t hidden;      /* 0: 4 dim */
    double alpha;        /* multiplies the regularizers' values */
    const char *expert;  /* plugin of the experts; to be set when layer */
    const float
        *activations; /* [rows,dim] recorded, or NULL: N(0,1). Each sequence is a stretch
                         * of them from a drawn place on, so that neighbours stay neighbours */
    const int32_t *ids, *row_labels; /* [rows] beside activations; NULL: drawn */
    int64_t rows;
} mf_router_bench_spec;

typedef struct mf_bench_loss {
    char name[64];
    double value; /* alpha x regularizer with its default options */
} mf_bench_loss;

#define MF_BENCH_LOSSES  32
#define MF_BENCH_EXPERTS 1024
typedef struct mf_router_bench {
    const char *router;   /* as asked for, with its options */
    int64_t params;       /* elements of the router's parameters */
    double entropy_token; /* mean over tokens of -sum_e p ln p, nats */
    double entropy_load;  /* -sum_e load ln load */
    double top_prob;      /* mean over tokens of the mean of the k largest p */
    double score_var;     /* variance of all T E probabilities */
    double output_std;    /* standard deviation of the layer's output; NaN without layer */
    double ns_router,
        ns_router_1; /* nanoseconds per token: T at once, one alone; NaN: not timed */
    double ns_layer, ns_layer_1; /* router and chosen experts */
    int n_losses;
    mf_bench_loss losses[MF_BENCH_LOSSES];
    float load[MF_BENCH_EXPERTS];   /* [experts] share of rows */
    double entropy_sd, top_prob_sd; /* over seeds */
} mf_router_bench;

/* router: an entry of lab/router_list.h. The defaults of the spec fit the
 * published table: 768 wide, 8 experts, top 2, 16 x 128 tokens, 20 seeds. */
void mf_router_bench_defaults(mf_router_bench_spec *ret);
int mf_router_bench_run(const mf_router_bench_spec *spec, const char *router,
                        mf_router_bench *ret);

#endif
