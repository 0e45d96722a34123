/* lab/rig.h: a plugin of any kind at work in a very small model, for checks.
 *
 *     x [T,d] -> MoE layer 0 -> + -> MoE layer 1 -> ... -> y     loss = <weights, y> + losses
 *
 * The places that the plugin under check does not take have stand-ins. All that it could ask
 * for is there: ids, positions, sequences, labels, mask, the trainer's live options, a history.
 * A rig is a value of its spec: two rigs of equal spec compute the same bits.
 */
#ifndef MF_LAB_RIG_H
#define MF_LAB_RIG_H

#include "model/moe.h"
#include "plugin/open.h"

#define MF_RIG_LAYERS 2
#define MF_RIG_VOCAB  61
#define MF_RIG_LABELS 4
#define MF_RIG_HEADS  2

typedef struct mf_rig_spec {
    const mf_loaded *plugin;
    int32_t layers; /* 1 .. MF_RIG_LAYERS */
    int32_t batch, seq, dim, experts, top_k;
    bool masked;    /* with a mask; the last third of each sequence is padding */
    bool training;  /* a graph of a training step */
    bool gradients; /* with the gradients of the loss */
    bool open;      /* leave the graph without gradients and end: for the gradient check */
    int shaken;     /* not 0: parameters moved off their start values, which may be at kinks
                     * (zeros), and other inputs; each number gives others */
    bool only_init; /* no more than the instances: no storage, no graph */
    const char *option, *value; /* one option unlike its default; NULL: none */
} mf_rig_spec;

typedef struct mf_rig {
    mf_rig_spec spec;
    mf_store *store;
    mf_plughost *host;
    mf_ini *ini;
    mf_moe_config config;
    mf_moe_layer layer[MF_RIG_LAYERS];
    mf_ctx *regularizer, *controller;
    double knobs[4]; /* train.lr, ... */
    mf_graph *g;
    mf_router_in in;        /* of the first layer */
    mf_tensor *x, *weights; /* x: that of in */
    mf_moe_out out[MF_RIG_LAYERS];
    mf_tensor *y, *loss; /* kept */
    mf_tensor *penalty;  /* of the regularizer, kept; or NULL */
    mf_moe_tally *tally[MF_RIG_LAYERS];
    int64_t step;
    float *shares; /* of the last step's statistics */
} mf_rig;

/* What a rig tells of attention heads; rig_heads.c. */
typedef struct mf_rig_heads {
    mf_head_stats stats[MF_RIG_LAYERS];
    float gate[MF_RIG_LAYERS][MF_RIG_HEADS], active[MF_RIG_LAYERS][MF_RIG_HEADS],
        entropy[MF_RIG_LAYERS][MF_RIG_HEADS], grad_norm[MF_RIG_LAYERS][MF_RIG_HEADS];
} mf_rig_heads;
int mf_rig_heads_declare(mf_rig *rig); /* gates, and the live options of heads */
void mf_rig_heads_measure(const mf_rig *rig, mf_rig_heads *out);
int mf_rig_heads_importance(void *rig, int32_t n, float *out, int32_t *ret_n);

/* The prefix of the parameters of the plugin under check: "layers.0.router", ... */
const char *mf_rig_path(const mf_rig *rig);
/* Errors are what the plugin says, or what the graph says of it. */
int mf_rig_new(const mf_rig_spec *spec, mf_rig **ret);
void mf_rig_free(mf_rig *rig);
/* Inputs as they were at first. seed 0: the rig's own. */
void mf_rig_fill(mf_rig *rig, uint64_t seed);
/* One run of the graph; kernels NULL: the set in force. */
int mf_rig_run(mf_rig *rig, const struct mf_kernels *kernels);
/* A training step: run, small changes of the parameters along the gradients, mf_rig_after.
 * Needs gradients. */
int mf_rig_step(mf_rig *rig);
/* What follows a step: measurements of the last run are told to after_step and on_step. */
int mf_rig_after(mf_rig *rig);
/* The same parameters, buffers and live options as another rig of equal spec. */
void mf_rig_copy_state(mf_rig *to, const mf_rig *from);

/* All that a run leaves: y, losses, routing of every layer, gradients if there are any. As one
 * hash; and as the number of values that are not finite. */
void mf_rig_digest(const mf_rig *rig, char out[33]);
int64_t mf_rig_not_finite(const mf_rig *rig);
/* Text of an option table's one required value: something that its schema takes. */
const char *mf_rig_required(const mf_option *o, char *out, size_t size);

#endif
