/* lab/harness.h: a plugin of any kind in a very small model, for checks.
 *
 *     x [T,d] -> x + MoE layer 0 (x) -> x + MoE layer 1 (x) -> y   loss = <weights, y> + losses
 *
 * Stubs are used as router and expert unless these are under check. The plugin may request ids,
 * positions, sequences, labels, a mask (spec.masked), live options of the trainer, and a metric
 * history. Two harnesses with equal specs compute the same bits. */
#ifndef MF_LAB_HARNESS_H
#define MF_LAB_HARNESS_H

#include "model/moe.h"
#include "run/metrics/routing_tally.h"
#include "plugin/load/open.h"

#define MF_HARNESS_LAYERS 2
#define MF_HARNESS_VOCAB  61
#define MF_HARNESS_LABELS 4
#define MF_HARNESS_HEADS  2

typedef struct mf_harness_spec {
    const mf_loaded *plugin;
    int32_t layers; /* number of layers, 1 .. MF_HARNESS_LAYERS */
    int32_t batch, seq, dim, experts, top_k;
    bool masked; /* there is a mask; the last third of each sequence is padding */
    /* not 0: there is a mask with other lengths, from 0 to seq, drawn with this seed */
    uint64_t lengths;
    bool unlabelled;         /* the corpus has no labels */
    bool any_order;          /* the model is not a decoder: mf_dims.causal = 0 */
    int32_t of_layers;       /* number of layers that plugins are told; 0: the real number */
    int32_t longest;         /* longest sequence that plugins are told; 0: seq */
    double capacity;         /* capacity factor of experts; 0: no capacity */
    const mf_loaded *router; /* router beside a plugin of another kind; NULL: the stub */
    bool training;           /* the graph of a training step */
    bool gradients;          /* the graph also computes the gradients of the loss */
    /* the graph is not finished, because the gradient check adds gradients to it. Not together
     * with `gradients` */
    bool open;
    /* not 0: other inputs, and parameters other than the initial values, which may be at kinks
     * (zeros). Each number selects different values */
    int shaken;
    float scale;                /* factor of the input x; 0: 1 */
    bool only_init;             /* makes only the instances, without storage and graph */
    const char *option, *value; /* an option, and a value for it other than the default;
                                 * NULL: none */
    /* values of options that the user has chosen, NULL-terminated, such as "scale=2";
     * NULL: none */
    const char *const *given;
    /* the same, with drawn values, for options that the user has not chosen */
    const char *const *drawn;
    const char *at; /* adapters: value of the section's key `at`, which selects the
                     * points; NULL: the default */
    bool one_head;  /* adapters: head 0 of the block is inactive */
    bool beside;    /* also declares parameters of a whole model, which no op reads */
    bool unadapted; /* adapters: the instance exists, but it is not applied */
    /* not 0: the graph is a decoding step of seq tokens. Each sequence has a cache of this many
     * tokens, from which routers read earlier tokens (model/history.h) */
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
    char adapter_path[96];                 /* path of the adapter's
                                            * parameters: "layers.*.PATH" */
    mf_adapters adapters[MF_HARNESS_LAYERS];
    mf_tensor *values[MF_HARNESS_LAYERS * MF_AT_POINTS];
    mf_tensor *by_head[MF_HARNESS_LAYERS][4]; /* q, k, v and heads after the adapters; kept
                                               * after the run */
    double saved_options[4];                  /* values of live options: train.lr, ... */
    double top_k;                             /* value of the live option moe.top_k, which no
                                               * graph reads */
    mf_graph *g;
    mf_router_in in;        /* inputs of the first layer */
    mf_tensor *x, *weights; /* x: the same tensor as in.x */
    mf_history history;     /* exists if spec.places is not 0; pos and len are inputs of
                             * the graph */
    mf_moe_out out[MF_HARNESS_LAYERS];
    mf_tensor *y, *loss;                   /* kept after the run */
    mf_tensor *between[MF_HARNESS_LAYERS]; /* x after each layer; kept after the run */
    mf_tensor *penalty;                    /* loss of the regularizer, kept after the run;
                                            * NULL: none */
    mf_moe_tally *tally[MF_HARNESS_LAYERS];
    int64_t step;
    int64_t micro, tokens; /* number of micro-batches of the step so far, and of their
                            * real tokens */
    float *shares;         /* shares in the statistics of the last step */
    /* statistics of layers and heads are artificial numbers instead of measured ones */
    bool odd_stats;
} mf_harness;

/* Artificial statistics of attention heads (harness_heads.c). */
typedef struct mf_harness_heads {
    mf_head_stats stats[MF_HARNESS_LAYERS];
    float gate[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        active[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        entropy[MF_HARNESS_LAYERS][MF_HARNESS_HEADS],
        grad_norm[MF_HARNESS_LAYERS][MF_HARNESS_HEADS];
} mf_harness_heads;
/* Declares gate, active and lr_scale of the heads of each layer, with a live option for every
 * element. Fails like the store and mf_live_register_stored. */
int mf_harness_heads_declare(mf_harness *harness);
/* Writes the statistics of the present step to *out. They point into *out. */
void mf_harness_heads_measure(const mf_harness *harness, mf_harness_heads *out);
/* Replaces the statistics by other values of the same range. */
void mf_harness_heads_turn(const mf_harness *harness, mf_harness_heads *out);
/* Implements mf_host.head_importance. harness: an mf_harness. */
int mf_harness_heads_importance(void *harness, int32_t n, float *out, int32_t *ret_n);

/* In harness_losses.c. mf_harness_reads_losses: whether the plugin reads losses of tokens.
 * mf_harness_add_losses adds all losses to `total`. y: the output. It returns NULL if the graph
 * has failed. */
bool mf_harness_reads_losses(const mf_loaded *plugin);
mf_tensor *mf_harness_add_losses(mf_harness *harness, mf_tensor *y, mf_tensor *total);

/* Makes a block around an adapter (harness_block.c). It contains projections without attention,
 * so that tokens do not mix, and the MoE layer, with all points for adapters. */
int mf_harness_adapter_new(mf_harness *harness, int32_t layer, const mf_dims *dims);
mf_tensor *mf_harness_block(mf_harness *harness, int32_t layer, mf_tensor *x,
                            const mf_moe_settings *settings);
/* Whether the adapter declares that it reads other tokens. */
bool mf_harness_sees_sequences(const mf_harness *harness);

/* The name of a live option of the plugin: "router.temperature". */
void mf_harness_live_name(const mf_loaded *plugin, const char *option, char *out, size_t size);
/* Path pattern of the plugin's parameters in all layers: "layers.*.router", ... */
const char *mf_harness_path(const mf_harness *harness);
/* Builds a harness. Fails like the plugin or the graph. Free with mf_harness_free. */
int mf_harness_new(const mf_harness_spec *spec, mf_harness **ret);
void mf_harness_free(mf_harness *harness);
/* Fills all inputs. seed 0: the seed that follows from spec.shaken. */
void mf_harness_fill(mf_harness *harness, uint64_t seed);
/* Runs the graph once. kernels NULL: the current set of kernels. */
int mf_harness_run(mf_harness *harness, const struct mf_kernels *kernels);
/* Makes a training step: a run, a small change of the parameters against their gradients, then
 * mf_harness_after. The harness must have gradients. */
int mf_harness_step(mf_harness *harness);
/* Counts the last run as one more micro-batch of the step: adds its statistics and tallies. */
void mf_harness_count(mf_harness *harness);
/* Calls on_step and after_step with the statistics and tallies of the step. If no run was
 * counted, they are those of the last run. A step whose loss is not finite counts as a skipped
 * step. Then forgets changes of live options and requests for a rebuild. The tallies stay until
 * a run of the next step is counted. */
int mf_harness_after(mf_harness *harness);
/* Copies parameters, buffers, live options and the step from a harness with an equal spec. */
void mf_harness_copy_state(mf_harness *to, const mf_harness *from);

/* mf_harness_digest: hash of the results of a run (y, losses, routing of every layer,
 * gradients if the graph has them) and of the live options. mf_harness_not_finite: number of
 * values that are not finite in y, losses, probabilities, gates and the gradients of x and
 * of parameters. */
void mf_harness_digest(const mf_harness *harness, char out[33]);
int64_t mf_harness_not_finite(const mf_harness *harness);

#endif
