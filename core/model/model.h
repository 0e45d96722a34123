/* model/model.h: a transformer as the configuration describes it, and its graphs.
 *
 * A model owns the parameters and the plugin instances of all layers. Graphs of several shapes
 * (training, evaluation, one-token decoding) are built over the same parameters:
 *
 *     tokens -> embed (+ positions) -> blocks -> norm -> head -> loss
 *     block: x + attention(norm(x)), then x + moe-or-dense(norm(x))    (norm_place = pre)
 *     attention = no: the second half alone
 *
 * Names of parameters: embed.weight, position.weight, layers.N.{norm1,norm2}.{weight,bias},
 * layers.N.attention.{qkv,out}.{weight,bias} (where heads can be switched off the buffers
 * active and lr_scale beside them: model/heads.h), layers.N.router.*, layers.N.expert.*,
 * layers.N.shared.*, layers.N.ffn.*, layers.N.moe.select_bias, layers.N.NAME.* of adapters
 * (model/adapters.h), norm.{weight,bias}, head.{weight,bias}; of further tasks
 * head.NAME.{weight,bias}. */
#ifndef MF_MODEL_MODEL_H
#define MF_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/adapters.h"
#include "model/model_config.h"
#include "model/module.h"
#include "model/moe.h"
#include "plugin/instance.h"

/* What the data decide. */
typedef struct mf_model_dims {
    int32_t vocab;   /* token ids 0 .. vocab-1 */
    int32_t labels;  /* label values of tokens, 0: none */
    int32_t classes; /* of task = classify */
    double mean;     /* of task = regress: the training data's; answers begin there */
    int32_t more_classes[MF_TASKS_MAX]; /* the same of [task.NAME] */
    double more_mean[MF_TASKS_MAX];
    int64_t train_steps; /* planned */
    bool bare;           /* sizes only: parameters have no values (param.h), graphs cannot
                            run */
} mf_model_dims;

/* What training decides: the model itself reads no key of [train]. */
typedef struct mf_model_options {
    bool training;            /* gradients and moments */
    uint64_t seed;            /* of start values */
    double dropout;           /* share of activations set to 0 in training graphs */
    bool dropout_embedding;   /* on embeddings, too */
    bool bf16;                /* gemms take bf16 */
    mf_recompute recompute;   /* what the backward pass computes again */
    struct mf_device *device; /* where parameters live and graphs run; NULL: the host */
} mf_model_options;

typedef struct mf_model {
    mf_model_settings settings;
    const mf_model_settings *config; /* &settings */
    mf_model_dims dims;
    mf_model_options options;
    mf_store *store;
    mf_plughost *plugins;
    int32_t n_moe;                         /* MoE layers */
    mf_moe_layer *moe;                     /* [n_moe] */
    int32_t *moe_of_layer;                 /* [layers] index into moe, -1 dense */
    mf_ctx **regularizers;                 /* [config->n_regularizers] */
    double *regularizer_weights;           /* live */
    double task_weights[1 + MF_TASKS_MAX]; /* of model.task and of [task.NAME]; live */
    mf_ctx **controllers;                  /* [config->n_controllers] */
    double capacity_factor;                /* live as moe.capacity_factor */
    double adaptive_capacity;              /* live as moe.adaptive_capacity */
    /* adapters: [layers + 1], the last those of the output head */
    mf_adapters *adapters;
    const mf_loaded **adapter_plugins; /* [config->n_adapters] */
    mf_adapter_at *adapter_at;         /* the same */
    const char *linear_names;          /* of a block, for messages; may be NULL */
    bool sees_sequences;               /* an adapter looks at other tokens of the batch */
    bool head_switches;                /* heads can be switched off, and are measured */
    mf_param **gates;                  /* [layers] of its heads; NULL: none */
    mf_gate_form gate_form;
    mf_adapt_env *env; /* of the graph that is being built; NULL between */
    struct mf_arena *arena;
} mf_model;

/* What an instance in a block is told of the model; layer -1: of the whole model. */
mf_dims mf_model_dims_of(const mf_model *m, int32_t layer);
/* Loads the plugins, declares everything, draws start values. The configuration must outlive
 * the model; dims and options are copied. */
int mf_model_new(const mf_model_settings *settings, const mf_model_dims *dims,
                 const mf_model_options *options, mf_model **ret);
/* Parameters that match one of the patterns (separated by commas; of full names, or of names
 * without "layers.N.") do not learn; those of adapters are not meant. Before graphs are built.
 * MF_ECONFIG: a pattern matches none. */
int mf_model_freeze(mf_model *m, const char *patterns);
void mf_model_free(mf_model *m);
/* Tasks of examples: 0 unless model.task is one; kinds and names as in mf_model_task. */
int mf_model_tasks(const mf_model *m);
mf_task mf_model_task_kind(const mf_model *m, int i);
const char *mf_model_task_name(const mf_model *m, int i); /* "main", then NAME of [task.NAME] */
/* Elements of the head of a task. */
int64_t mf_model_task_params(const mf_model *m, int i);
/* Elements of parameters: all, and those that one token uses (k of E experts, heads not
 * pruned). */
void mf_model_count(const mf_model *m, int64_t *ret_all, int64_t *ret_active);
/* The same by module; those that have any, in the order of the model. Returns how many. */
typedef struct mf_model_module {
    const char *name;
    int64_t params, active;
} mf_model_module;
int mf_model_modules(const mf_model *m, mf_model_module out[MF_MODEL_MODULES]);

/* Does regularizer i add its term? Those that read routing have none without MoE layers. */
bool mf_model_has_regularizer(const mf_model *m, int i);
/* Has it experts or adapters that look at other tokens of the batch? Then there is no decoding
 * with a cache. */
bool mf_model_sees_sequences(const mf_model *m);

/* Keys and values of past tokens, for decoding: rows of max_seq tokens a sequence. It fits the
 * heads that were there when it was made. */
typedef struct mf_cache {
    mf_store *store;
    int32_t batch, max_seq;
} mf_cache;
int mf_cache_new(const mf_model *m, int batch, int max_seq, mf_cache **ret);
void mf_cache_free(mf_cache *c);
#define MF_CACHE_NAME 64
/* Of the keys (part 0) or values (1) of a group of heads: its name in the store. Returns
 * out. */
const char *mf_cache_name(char out[MF_CACHE_NAME], int32_t layer, int32_t group, int part);

typedef enum mf_mode { MF_MODE_TRAIN, MF_MODE_EVAL, MF_MODE_GENERATE } mf_mode;

typedef struct mf_model_shape {
    mf_mode mode;
    int32_t batch, seq;
    bool masked;            /* some tokens are padding: read the mask input */
    bool accumulate;        /* gradients are added to what is there */
    bool want_logits;       /* keep logits [T,V] (always in MF_MODE_GENERATE) */
    bool want_prob;         /* keep each MoE layer's prob, chosen and gate */
    int32_t want_attention; /* > 0: keep the attention weights of so many tokens (at most seq)
                               of the * first sequence, for pictures */
    bool want_trace;        /* keep all that train/trace.h records */
    bool try_heads;         /* read the head_mask input: heads are left out for a try */
    const mf_moe_forced *forced; /* [n_moe] choices come from outside; NULL: from the routers */
    bool no_reuse;
    const mf_graph *arena_of; /* of memory between its runs (graph.h), or NULL */
    const mf_cache *cache;    /* MF_MODE_GENERATE: appended to and attended to; NULL: none */
    mf_graph_passengers passengers; /* of the caller's, to the device and back */
} mf_model_shape;

/* What a graph computes of a layer's heads. */
typedef struct mf_model_heads {
    struct mf_head_plan *plan;
    mf_tensor *entropy; /* [active] mean over tokens, kept, metric nodes; NULL: not gated */
    mf_tensor *weights; /* [active n, n] n = want_attention, kept, heads as in plan->q; or
                           NULL */
} mf_model_heads;

/* One task of examples in a graph: tasks[0] is model.task, the rest are [task.NAME] in
 * order. */
typedef struct mf_model_task {
    mf_task kind;       /* MF_TASK_CLASSIFY or MF_TASK_REGRESS */
    mf_tensor *targets; /* classify: [B] i32 input, -1: none */
    mf_tensor *values;  /* regress: [B] f32 input */
    mf_tensor *counted; /* regress: [B] f32 input, 1 where there is a number, else 0 */
    mf_tensor *out;     /* [B,classes] logits, or [B,1] numbers; NULL unless kept */
    mf_tensor *loss;    /* scalar, before its weight; kept where there are several */
} mf_model_task;

/* A graph and its handles. Inputs are filled through mf_tensor_data before each run. */
typedef struct mf_model_graph {
    mf_graph *g;
    mf_model_shape shape;
    mf_tensor *tokens, *positions, *sequence_ids; /* [T] i32 */
    mf_tensor *mask;                              /* [T] f32, NULL unless masked */
    mf_tensor *targets; /* [T] i32 ([B] classify), -1: does not count; NULL when
                                generating, and * with numbers */
    bool by_row;        /* what is learned is one a sequence: see tasks */
    int n_tasks;        /* 0 unless by_row */
    mf_model_task tasks[1 + MF_TASKS_MAX];
    mf_tensor *labels;    /* [T] i32, NULL without labels */
    mf_tensor *cache_pos; /* [B] i32: tokens already in the cache; NULL without cache */
    mf_tensor *kv_len;    /* [B] i32: those plus the ones of this run */
    mf_tensor *head_mask; /* [layers heads, 1] f32: 0 leaves a head out; NULL unless asked
                                for */
    mf_tensor *last;      /* [B] i32: row whose logits are wanted, when generating */
    mf_tensor *loss, *task_loss; /* scalars */
    mf_tensor *logits;        /* [T,V]; [B,V] when generating; tasks[0].out; NULL unless kept */
    mf_tensor **regularizers; /* [n] unweighted scalars */
    mf_moe_out *moe;          /* [n_moe] */
    int32_t n_layers;
    mf_model_heads *heads; /* [n_layers] */
} mf_model_graph;

int mf_model_graph_new(mf_model *m, const mf_model_shape *shape, mf_model_graph **ret);
void mf_model_graph_free(mf_model_graph *mg);

#endif
