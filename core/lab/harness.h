/* lab/harness.h: a plugin of any kind in a very small model, for checks.
 *
 *     x [T,d] -> MoE layer 0 -> + -> MoE layer 1 -> ... -> y     loss = <weights, y> + losses
 *
 * Stubs replace all plugins except the one under check. Everything that it may request exists:
 * ids, positions, sequences, labels, mask, live options of the trainer, a metric history. Two
 * harnesses with equal specs compute the same bits. */
#ifndef MF_LAB_HARNESS_H
#define MF_LAB_HARNESS_H

#include "model/moe.h"
#include "plugin/load/open.h"

#define MF_HARNESS_LAYERS 2
#define MF_HARNESS_VOCAB  61
#define MF_HARNESS_LABELS 4
#define MF_HARNESS_HEADS  2

typedef struct mf_harness_spec {
    const mf_loaded *plugin;
    int32_t layers; /* 1 .. MF_HARNESS_LAYERS */
    int32_t batch, seq, dim, experts, top_k;
    bool masked;    /* with a mask; the last third of each sequence is padding */
    bool training;  /* the graph of a training step */
    bool gradients; /* with the gradients of the loss */
    /* leave the graph unfinished and without gradients, for the gradient check */
    bool open;
    /* not 0: other inputs, and other parameters than the initial values, which may be at kinks
     * (zeros); each number selects different ones */
    int shaken;
    float scale;                /* factor of the input x; 0: 1 */
    bool only_init;             /* only the instances: no storage, no graph */
    const char *option, *value; /* one option with another value than its default; NULL: none */
    /* values of options that a person has chosen, NULL-terminated: "scale=2"; NULL: none */
    const char *const *given;
    const char *at; /* adapters: its points; NULL: the plugin's default */
    bool one_head;  /* adapters: head 0 of the block is inactive */
    /* not 0: seq tokens of a decoding step; routers that read earlier tokens see this many
     * places, as in decoding with a cache (model/history.h) */
    int32_t places;
} mf_harness_spec;

typedef struct mf_harness {
    mf_harness_spec spec;
    mf_store *store;
    mf_arena *arena;
    mf_plughost *host;
    mf_ini *ini;
    mf_moe_config config;
    mf_moe_layer layer[MF_HARNESS_LAYERS];
    mf_ctx *regularizer, *controller;
    mf_adapter_use use[MF_HARNESS_LAYERS]; /* the adapter under check */
    mf_adapters adapters[MF_HARNESS_LAYERS];
    mf_tensor *values[MF_HARNESS_LAYERS * MF_AT_POINTS];
    mf_tensor *by_head[MF_HARNESS_LAYERS][4]; /* kept: q, k, v, heads after the adapters */
    double saved_options[4];                  /* train.lr, ... */
    double top_k;                             /* moe.top_k, which changes nothing here */
    mf_graph *g;
    mf_router_in in;        /* inputs of the first layer */
    mf_tensor *x, *weights; /* x: the same as in.x */
    mf_history history;     /* of spec.places; pos and len are inputs of the graph */
    mf_moe_out out[MF_HARNESS_LAYERS];
    mf_tensor *y, *loss; /* kept after the run */
    mf_tensor *penalty;  /* of the regularizer, kept after the run; or NULL */
    mf_moe_tally *tally[MF_HARNESS_LAYERS];
    int64_t step;
    float *shares; /* of the last step's statistics */
} mf_harness;

/* Artificial statistics of attention heads (harness_heads.c). */
typedef struct mf_harness_heads {
    mf_head_stats stats[MF_HARNESS_LAYERS];
    float gate[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        active[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        entropy[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        grad_norm[MF_HARNESS_LAYERS][MF_HARNESS_HEADS];
} mf_harness_heads;
/* Declares gates and the live options of heads. */
int mf_harness_heads_declare(mf_harness *harness);
void mf_harness_heads_measure(const mf_harness *harness, mf_harness_heads *out);
int mf_harness_heads_importance(void *harness, int32_t n, float *out, int32_t *ret_n);

/* A block around an adapter (harness_block.c): projections without attention, so that tokens do
 * not mix, and the MoE layer, with all points for adapters. */
int mf_harness_adapter_new(mf_harness *harness, int32_t layer, const mf_dims *dims);
mf_tensor *mf_harness_block(mf_harness *harness, int32_t layer, mf_tensor *x,
                            const mf_moe_settings *settings);
/* Whether the adapter declares that it reads other tokens. */
bool mf_harness_sees_sequences(const mf_harness *harness);

/* Prefix of the parameters of the plugin under check: "layers.0.router", ... */
const char *mf_harness_path(const mf_harness *harness);
/* Builds a harness. Fails as the plugin or the graph does. Free with mf_harness_free. */
int mf_harness_new(const mf_harness_spec *spec, mf_harness **ret);
void mf_harness_free(mf_harness *harness);
/* Resets the inputs. seed 0: the harness's own seed. */
void mf_harness_fill(mf_harness *harness, uint64_t seed);
/* Runs the graph once. kernels NULL: the current set. */
int mf_harness_run(mf_harness *harness, const struct mf_kernels *kernels);
/* Makes a training step: a run, small changes of the parameters along the gradients, then
 * mf_harness_after. The harness must have gradients. */
int mf_harness_step(mf_harness *harness);
/* Calls after_step and on_step with the statistics of the last run. */
int mf_harness_after(mf_harness *harness);
/* Copies parameters, buffers and live options from a harness with an equal spec. */
void mf_harness_copy_state(mf_harness *to, const mf_harness *from);

/* The hash of all results of a run (y, losses, routing of every layer, gradients if there are
 * any), and the number of values that are not finite. */
void mf_harness_digest(const mf_harness *harness, char out[33]);
int64_t mf_harness_not_finite(const mf_harness *harness);

#endif
