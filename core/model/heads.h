/* model/heads.h: decides which attention heads a layer computes.
 *
 * If an adapter requests it (MF_ADAPTER_HEADS), a layer has a buffer
 * `layers.N.attention.active` [H]. A head is inactive if its element is 0. Graphs that are
 * built afterwards contain neither the head's rows of the projections nor its scores. A head of
 * keys and values that several query heads share (grouped-query attention) is inactive if all
 * these query heads are inactive. Parameters keep their offsets, so a head can become
 * active again.
 *
 * The kernels need the same number of queries for each head of keys and values. If pruning
 * makes these numbers unequal, the layer is divided into groups with equal numbers, with one
 * call per group.
 *
 * A change of active heads requests a rebuild of graphs. The entropy of attention weights needs
 * no matrix: it is log-sum-exp minus attention over the keys (model/attention.c). */
#ifndef MF_MODEL_HEADS_H
#define MF_MODEL_HEADS_H

#include "model/model.h"

typedef struct mf_head_group {
    int32_t share; /* number of query heads per head of keys and values */
    int32_t kv;    /* number of heads of keys and values */
    int32_t q_at;  /* index of the group's first query head in mf_head_plan.q */
    int32_t kv_at; /* index of the group's first head of keys and values in mf_head_plan.kv */
} mf_head_group;

typedef struct mf_head_plan {
    int32_t total, kv_total; /* H; number of heads of keys and values */
    int32_t active, kv_active;
    int32_t n_groups; /* 0 when every head is pruned */
    bool whole;       /* no head is pruned */
    int32_t *q, *kv;  /* heads in the order in which they are computed */
    mf_head_group *group;
} mf_head_plan;

/* Makes the plan for the present values of the buffer. A layer without the buffer computes all
 * heads. The caller frees the plan with mf_free. Fails with MF_ENOMEM. */
int mf_head_plan_new(const mf_model *m, int32_t layer, mf_head_plan **ret);

/* Conversions between gates and the values in m->gates. mf_gate_of returns sigmoid(number), or
 * with m->gate_form = MF_GATE_RAW the number limited to 0 .. 1. mf_gate_number is the inverse
 * and limits logits to -most .. most. */
double mf_gate_of(const mf_model *m, double number);
double mf_gate_number(const mf_model *m, double gate, double most);
/* Declares the buffers `active` and `lr_scale` of a layer. With them each head can be switched
 * off and has its own learning rate. */
int mf_heads_declare(mf_model *m, int32_t layer);

/* Returns the parameter or buffer layers.N.attention.WHAT, for example "active", or NULL. */
mf_param *mf_head_param(const mf_model *m, int32_t layer, const char *what);
/* Like mf_head_param, for weights that layers may share, for example "qkv.weight". */
mf_param *mf_head_weights(const mf_model *m, int32_t layer, const char *what);
/* Returns whether a head is computed: `active` is the buffer of its layer, or NULL. */
bool mf_head_is_active(const mf_param *active, int32_t head);
/* Registers the live options layers.N.attention.{active,lr_scale}.H of every head H, and
 * PARAMETER.H of every gate, for example layers.N.attention.gate.H. */
int mf_heads_register(mf_model *m);

int64_t mf_heads_active(const mf_model *m); /* number of active heads in all layers */
/* Returns the number of elements of parameters that no graph reads, because their heads are
 * pruned in all layers that share them. It counts gates, and the heads' parts of the query, key
 * and value weights and biases and of the output weights. */
int64_t mf_heads_idle(const mf_model *m);

/* Computes learning-rate factors for the heads' parts of parameters (mf_param.part) from
 * `active` (0: frozen) and `lr_scale`. A part that several heads or layers share gets the
 * largest of their factors, and 0 if all of them are pruned or frozen. A gate gets the factor
 * of its own head. Returns whether a factor changed; the caller must then
 * call mf_optim_refresh. */
bool mf_heads_set_parts(mf_model *m);

#endif
