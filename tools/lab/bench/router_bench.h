/* lab/bench/router_bench.h: compares routers on the same activations.
 *
 * Each router runs alone in one MoE layer. Each seed draws other initial weights and other
 * activations (random numbers, or sections of recorded activations). Measurements are means
 * over seeds; times are medians over repetitions. The fields below define each quantity,
 * because published tables use different definitions (arXiv 2506.16419 uses one name for
 * two entropies). */
#ifndef MF_LAB_ROUTER_BENCH_H
#define MF_LAB_ROUTER_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include "lab/bench/timing.h"

struct mf_session;

/* A dense block of a run, whose weights every expert gets in place of drawn ones. The plugin of
 * the experts must store them as the block does. */
typedef struct mf_bench_block {
    struct mf_session *session; /* NULL: weights are drawn */
    int32_t layer;
    int32_t dim, hidden;
} mf_bench_block;

typedef struct mf_router_bench_spec {
    int32_t dim, experts, top_k;
    int32_t batch, seq; /* T = batch x seq tokens */
    int32_t labels;     /* number of label values, for routers that use labels */
    int32_t seeds;      /* >= 1 */
    /* how each time is measured; repetitions 0: nothing is timed. With turns_in only the router
     * on all tokens is timed, not single tokens or the layer. */
    mf_timing_how how;
    bool layer;           /* also time the layer: router and experts (of width hidden) */
    int32_t hidden;       /* 0: 4 x dim */
    double alpha;         /* factor of the regularizers' values */
    const char *expert;   /* plugin of the experts; required if layer */
    mf_bench_block block; /* the layer's experts are copies of it */
    /* Steps of Adam before a router is measured, on batches of the same kind: on its own losses
     * and, if learn_on is not NULL, on alpha x this regularizer. No output is compared with
     * anything. 0: none */
    int32_t learn;
    const char *learn_on;
    double learn_lr;
    /* [rows, dim] recorded activations; NULL: drawn from N(0,1). Each sequence is a section of
     * the rows that begins at a random row, so neighbours remain neighbours. After the last
     * row, row 0 follows. */
    const float *activations;
    const int32_t *ids, *row_labels; /* [rows], recorded with the activations; NULL: drawn */
    int64_t rows;
    /* called after each of the mf_router_bench_parts passes of a router; NULL: never called */
    void (*tick)(void *arg);
    void *tick_arg;
} mf_router_bench_spec;

typedef struct mf_bench_loss {
    char name[64];
    double value; /* alpha x value of the regularizer with its default options */
} mf_bench_loss;

#define MF_BENCH_LOSSES  32
#define MF_BENCH_EXPERTS 1024
/* What is kept of the first seed for figures of single tokens: the first tokens with up to 64
 * experts, and values of the layer's output, drawn over tokens and elements. */
#define MF_BENCH_TOKENS        32
#define MF_BENCH_TOKEN_EXPERTS 64
#define MF_BENCH_OUTPUTS       2048
typedef struct mf_router_bench {
    const char *router;   /* the entry as given, with its options */
    int64_t params;       /* number of elements of the router's parameters */
    double entropy_token; /* mean over tokens of -sum_e p ln p, nats */
    double entropy_load;  /* -sum_e load ln load */
    /* mean over tokens of -sum_j q ln q over the gates q of its assignments, which are divided
     * by their sum; NaN if a router has other numbers of assignments than one for each of k */
    double entropy_gate;
    double top_prob;   /* mean over tokens of the mean of the k highest p */
    double score_var;  /* variance of all T E probabilities */
    double output_std; /* standard deviation of the layer's output; NaN without layer */
    double ns_router,
        ns_router_1; /* nanoseconds per token: ns_router for T tokens at once, ns_router_1 for a
                      * single token; NaN: not timed */
    double ns_layer, ns_layer_1; /* times of router and chosen experts together */
    int n_losses;
    mf_bench_loss losses[MF_BENCH_LOSSES];
    float load[MF_BENCH_EXPERTS];            /* [experts] share of the assignments */
    double entropy_sd, gate_sd, top_prob_sd; /* standard deviations over seeds */
    int32_t n_tokens;                        /* 0: no probabilities, or too many experts */
    int32_t n_outputs;                       /* 0: without layer */
    float prob[MF_BENCH_TOKENS * MF_BENCH_TOKEN_EXPERTS]; /* [n_tokens, experts] */
    double outputs[MF_BENCH_OUTPUTS];                     /* [n_outputs] */
} mf_router_bench;

/* mf_router_bench_defaults sets width 768, 8 experts, top 2, 16 x 128 tokens and 20 seeds.
 * mf_router_bench_run measures one router, which is an entry of lab/bench/router_list.h. It
 * fails with MF_EUSAGE for wrong sizes or entries, else like the plugins and their graph; the
 * message names the router. */
void mf_router_bench_defaults(mf_router_bench_spec *ret);
/* Number of passes of one router: the passes over the seeds, and the timed passes. */
int64_t mf_router_bench_parts(const mf_router_bench_spec *spec);
int mf_router_bench_run(const mf_router_bench_spec *spec, const char *router,
                        mf_router_bench *ret);
/* Opens the block of a run for spec.block. text: "RUN" (its first block) or "RUN:LAYER".
 * MF_EUSAGE if the block is not dense or has no such layout, else like mf_load_run_as. Close
 * with mf_bench_block_close, also after a failure. */
int mf_bench_block_open(const char *text, mf_bench_block *ret);
void mf_bench_block_close(mf_bench_block *b);

#endif
