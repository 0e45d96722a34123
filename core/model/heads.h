/* model/heads.h: which attention heads a layer computes, and what was measured of them.
 *
 * Where an adapter wants it (MF_ADAPTER_HEADS) a layer has a buffer `layers.N.attention.active`
 * [H]: heads with 0 there are inactive, and graphs that are built from then on hold nothing of
 * them: neither their rows of the projections nor their scores. A head of keys and values that
 * several heads of queries share (grouped-query attention) goes with the last of these.
 * Parameters keep their places, so a head can come back.
 *
 * The kernels want equally many queries to each head of keys and values. Where pruning has made
 * them unequal, the layer is cut into groups in each of which they are equal, one call a group.
 */
#ifndef MF_MODEL_HEADS_H
#define MF_MODEL_HEADS_H

#include "model/model.h"

typedef struct mf_head_group {
    int32_t share; /* query heads of each head of keys and values */
    int32_t kv;    /* heads of keys and values */
    int32_t q_at;  /* place of its first query head in mf_head_plan.q */
    int32_t kv_at; /* the same in kv */
} mf_head_group;

typedef struct mf_head_plan {
    int32_t total, kv_total; /* H, KV */
    int32_t active, kv_active;
    int32_t n_groups; /* 0 when every head is pruned */
    bool whole;       /* no head is pruned */
    int32_t *q, *kv;  /* heads in the order in which they are computed */
    mf_head_group *group;
} mf_head_plan;

/* As the buffer says now; all heads where the layer has none. mf_free. */
int mf_head_plan_new(const mf_model *m, int32_t layer, mf_head_plan **ret);

/* The gate that a number of m->gates stands for, and the number for a gate: sigmoid and logit,
 * the logit cut to -most .. most; with m->gate_form = MF_GATE_RAW the number itself, cut to
 * 0 .. 1. */
double mf_gate_of(const mf_model *m, double number);
double mf_gate_number(const mf_model *m, double gate, double most);
/* Heads of the layer can be switched off from now on: declares the buffers active and lr_scale
 * and makes a learning rate of its own possible for each head. */
int mf_heads_declare(mf_model *m, int32_t layer);

/* A parameter or buffer of a layer's attention by its name there, "active". NULL: there is
 * none. */
mf_param *mf_head_param(const mf_model *m, int32_t layer, const char *what);
/* The same of weights that layers may share, "qkv.weight". */
mf_param *mf_head_weights(const mf_model *m, int32_t layer, const char *what);
/* Live options of every head: layers.N.attention.{gate,active,lr_scale}.H. */
int mf_heads_register(mf_model *m);

/* ---- measurements ---- */

/* Sums over runs; one for each layer in a row. */
typedef struct mf_head_tally {
    int32_t layers, heads;
    int64_t runs;    /* that were added */
    double *entropy; /* [layers, heads] */
} mf_head_tally;
/* NULL in *ret where heads cannot be switched off. */
int mf_head_tally_new(const mf_model *m, mf_head_tally **ret);
void mf_head_tally_free(mf_head_tally *t);
void mf_head_tally_reset(mf_head_tally *t);
void mf_head_tally_add(mf_head_tally *t,
                       const mf_model_graph *mg); /* after a run with metrics */

/* Gradient norm of each head over its parts of the query, key, value and output weights and
 * biases, out [H]. The gradient of keys and values that n active heads share counts 1/n for
 * each. Pruned heads: 0. */
void mf_head_gradients(const mf_model *m, int32_t layer, double scale, float *out);

/* Room for the statistics of all layers, and the arrays in them. */
typedef struct mf_head_record {
    int32_t layers, heads;
    mf_head_stats *stats; /* [layers] */
    float *values; /* gate, active, entropy, grad_norm, importance: [layers, heads] each */
} mf_head_record;
int mf_head_record_new(const mf_model *m, mf_head_record **ret); /* NULL in *ret: not gated */
void mf_head_record_free(mf_head_record *r);
/* Gates and active as they are; entropy from the tally. Gradients and importance are absent. */
void mf_head_record_fill(mf_head_record *r, const mf_model *m, const mf_head_tally *t);
/* Arrays [H] of a layer for what comes from elsewhere; put them into the statistics when
 * filled. */
float *mf_head_record_gradients(const mf_head_record *r, int32_t layer);
float *mf_head_record_importance(const mf_head_record *r, int32_t layer);
int64_t mf_heads_active(const mf_model *m); /* in all layers */
/* Elements of parameters that no graph reads, since the heads that they belong to are pruned
 * (in all layers that share them): gates, and parts of the q, k, v and o weights and biases. */
int64_t mf_heads_idle(const mf_model *m);

/* Learning-rate factors of the heads' parts of parameters, from `active` (0: frozen) and
 * `lr_scale`, into mf_param.part. What several heads or layers share learns as the fastest of
 * them, and stands still when all are pruned or frozen; a gate is its layer's alone. True when
 * something changed: the optimizer has to look again. */
bool mf_heads_set_parts(mf_model *m);

#endif
