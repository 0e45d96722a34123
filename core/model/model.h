/* model/model.h: a transformer as the configuration describes it, and its graphs.
 *
 * A model owns the parameters and the plugin instances of all layers. Graphs of several shapes
 * (training, evaluation, one-token decoding) are built over the same parameters:
 *
 *     tokens -> embed (+ positions) -> blocks -> norm -> head -> loss
 *     block: x + attention(norm(x)), then x + moe-or-dense(norm(x))    (norm_place = pre)
 *     attention = no: the second half alone
 *
 * Names of parameters: embed.weight, position.weight, token_type.weight,
 * embed_norm.{weight,bias}, layers.N.{norm1,norm2}.{weight,bias},
 * layers.N.attention.{qkv,out,q_norm,k_norm}.{weight,bias}, layers.N.attention.sinks, those of
 * model/latent.h instead of qkv, layers.N.attention.{active,lr_scale} (buffers, if heads can be
 * switched off: model/heads.h), layers.N.router.*, layers.N.expert.*, layers.N.shared.*,
 * layers.N.shared_gate.weight, layers.N.ffn.*, layers.N.moe.select_bias (a buffer),
 * layers.N.NAME.* of adapters and adapter.NAME.* of those of the output head
 * (model/adapters.h), norm.{weight,bias}, pooler.{weight,bias}, head.{weight,bias},
 * head.NAME.{weight,bias} of further tasks. Names of parameters of regularizers and controllers
 * begin with the name of the section. */
#ifndef MF_MODEL_MODEL_H
#define MF_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/adapters.h"
#include "comm/expert_ranks.h"
#include "model/model_config.h"
#include "model/module.h"
#include "model/moe.h"
#include "plugin/instance.h"

/* Values that do not come from the configuration. The data decide most of them. */
typedef struct mf_model_dims {
    int32_t vocab;   /* token ids 0 .. vocab-1 */
    int32_t labels;  /* labels of tokens are 0 .. labels-1; 0: no labels */
    int32_t classes; /* number of classes, with task = classify */
    double mean;     /* task = regress: mean of the training data, initial bias of the head */
    int32_t more_classes[MF_TASKS_MAX]; /* number of classes of each [task.NAME] */
    double more_mean[MF_TASKS_MAX];
    int64_t train_steps; /* planned number of optimizer steps */
    bool bare; /* parameters have no values (param.h), only sizes; graphs cannot run */
} mf_model_dims;

/* Values that training decides. The model itself reads no key of [train]. */
typedef struct mf_model_options {
    bool training;            /* allocate gradients and, unless no_moments, moments */
    bool no_moments;          /* gradients are measured, but nothing is trained */
    uint64_t seed;            /* seed of the initial values */
    double dropout;           /* share of activations that training graphs set to 0 */
    bool dropout_embedding;   /* dropout also on embeddings */
    bool bf16;                /* gemms read bf16 */
    mf_recompute recompute;   /* which values the backward pass recomputes */
    struct mf_device *device; /* where parameters live and graphs run; NULL: the host */
    /* Called with the complete store before it is sealed, to say which moments the optimizer
     * keeps (mf_store_want_moments); NULL: two of each parameter. arg: its argument */
    void (*moments)(const void *arg, mf_store *store);
    const void *moments_arg;
    /* Called with bind_arg when all parameters are declared and none has memory: it may bind
     * them to weights in files (mf_store_bind); NULL: none. */
    int (*bind)(void *arg, struct mf_model *model);
    void *bind_arg;
    /* rank `expert_rank` of so many that share the experts (comm/expert_ranks.h); 0 or 1: all
     * experts are here */
    int expert_rank, expert_ranks;
    bool merge_rows; /* with shared experts: an expert gets the rows of all ranks at once */
    /* a step of training has several micro-batches, whose losses are weighted by task_shares */
    bool shares;
    bool record; /* decoding records the work of a token, on devices that can */
} mf_model_options;

typedef struct mf_model {
    mf_model_settings settings;
    const mf_model_settings *config; /* &settings */
    mf_model_dims dims;
    mf_model_options options;
    mf_store *store;
    mf_plughost *plugins;
    int32_t n_moe;                         /* number of MoE layers */
    mf_moe_layer *moe;                     /* [n_moe] */
    int32_t *moe_of_layer;                 /* [layers] index into moe, -1 dense */
    mf_ctx **regularizers;                 /* [config->n_regularizers] */
    double *regularizer_weights;           /* live */
    double task_weights[1 + MF_TASKS_MAX]; /* of model.task and of [task.NAME]; live */
    /* factors on the losses of the tasks (of the language model: the first), and on those of
     * regularizers and routers, in the graphs of options.shares; 1 outside of a step */
    double task_shares[1 + MF_TASKS_MAX], token_share;
    mf_ctx **controllers;     /* [config->n_controllers] */
    double capacity_factor;   /* live as moe.capacity_factor */
    double adaptive_capacity; /* live as moe.adaptive_capacity */
    double top_k;             /* live as moe.top_k; a change rebuilds graphs */
    /* [layers + 1] adapters of each block, then those of the output head */
    mf_adapters *adapters;
    const mf_loaded **adapter_plugins; /* [config->n_adapters] */
    mf_adapter_at *adapter_at;         /* [config->n_adapters] */
    const char *linear_names; /* names of a block's linear layers, for messages; may be NULL */
    bool sees_sequences;      /* an adapter reads other tokens of the batch */
    bool warned;              /* of layers whose routers cannot learn */
    bool head_switches;       /* heads can be switched off, and are measured */
    mf_param **gates;         /* [layers] gates of the layer's heads; NULL: none */
    mf_gate_form gate_form;
    mf_adapt_env *env;  /* environment of the graph that is being built; else NULL */
    bool token_tallies; /* a controller reads losses by expert */
    mf_expert_ranks expert_ranks;
    struct mf_arena *arena;
} mf_model;

/* The dimensions that plugin instances receive. layer -1: instances that belong to no block. */
mf_dims mf_model_dims_of(const mf_model *m, int32_t layer);
/* Loads the plugins, declares all parameters and, unless dims->bare is set, draws their initial
 * values. The arguments are copied, but the configuration to which `settings` points must
 * outlive the model. Errors: MF_ECONFIG, MF_ENOMEM, and those of plugins and of the device. The
 * caller frees the model with mf_model_free. */
int mf_model_new(const mf_model_settings *settings, const mf_model_dims *dims,
                 const mf_model_options *options, mf_model **ret);
/* Sets all shares to 1. */
void mf_model_whole(mf_model *m);
/* Freezes the parameters and buffers that match one of the patterns; those of adapters, and
 * buffers of controllers and regularizers, never match. If this leaves no parameter to train,
 * it freezes these, too. Plugins may read what is frozen, and what they write to it is lost.
 * Patterns are
 * separated by commas or blanks; each is compared with the full name, and with the name without
 * "layers.N.". Call this before graphs are built. MF_ECONFIG if a pattern matches nothing. */
int mf_model_freeze(mf_model *m, const char *patterns);
void mf_model_free(mf_model *m);
/* Whether a parameter belongs to the experts of a layer. */
bool mf_model_of_experts(const mf_param *p);
/* Makes this process rank `rank` of those that share the experts. Called by mf_model_new, and,
 * to learn sizes, for a bare model, of which graphs can then be planned; ranks 1: all experts
 * are here again. MF_ECONFIG if they cannot be shared. */
int mf_model_share_experts(mf_model *m, int rank, int ranks);
/* Number of tasks with one prediction per example; 0 unless model.task is such a task. Task 0
 * is model.task. The next functions give the kind and the name of task i. */
int mf_model_tasks(const mf_model *m);
mf_task mf_model_task_kind(const mf_model *m, int i);
const char *mf_model_task_name(const mf_model *m, int i); /* "main", then NAME of [task.NAME] */
/* Number of elements of the head of task i, weights and bias. */
int64_t mf_model_task_params(const mf_model *m, int i);
/* Number of elements of the parameters: of all, and of those that one token uses, without the
 * experts over top_k and without pruned heads. Buffers are not counted. */
void mf_model_count(const mf_model *m, int64_t *ret_all, int64_t *ret_active);
/* As mf_model_count, for each module that has parameters, in the order of mf_module.
 * mf_model_modules returns the number of such modules. */
typedef struct mf_model_module {
    const char *name;
    int64_t params, active;
} mf_model_module;
int mf_model_modules(const mf_model *m, mf_model_module out[MF_MODEL_MODULES]);

/* Whether regularizer i adds a term to the loss. Without MoE layers only regularizers with the
 * flag MF_REGULARIZER_ANY_MODEL do. */
bool mf_model_has_regularizer(const mf_model *m, int i);
/* Whether routers or experts read later tokens, or experts or adapters read other tokens of the
 * batch. Such models decode without a cache. */
bool mf_model_sees_sequences(const mf_model *m);
/* Whether a plugin, or a window, looks at other tokens of a sequence, so that it would look
 * across the border of two documents in one. */
bool mf_model_crosses_documents(const mf_model *m);

/* The memory of past tokens for decoding, max_seq rows for each sequence: keys and values, and
 * the inputs of routers that read earlier tokens (model/history.h). A cache fits only graphs
 * with the same active heads as when it was made. */
typedef struct mf_cache {
    mf_store *store;
    int32_t batch, max_seq;
} mf_cache;
/* The caller frees the cache with mf_cache_free. MF_ENOMEM, or an error of the device. */
int mf_cache_new(const mf_model *m, int batch, int max_seq, mf_cache **ret);
void mf_cache_free(mf_cache *c);
#define MF_CACHE_NAME 64
/* Writes the name that keys (part 0) or values (part 1) of a group of heads have in the store.
 * Returns out. */
const char *mf_cache_name(char out[MF_CACHE_NAME], int32_t layer, int32_t group, int part);

typedef enum mf_mode { MF_MODE_TRAIN, MF_MODE_EVAL, MF_MODE_GENERATE } mf_mode;

typedef struct mf_model_shape {
    mf_mode mode;
    int32_t batch, seq;
    bool masked;      /* some tokens are padding: adds the mask input */
    bool packed;      /* a sequence holds several documents: adds the since input */
    bool want_logits; /* keep the logits, which MF_MODE_GENERATE always keeps */
    bool want_hidden; /* keep the residual stream behind the first and the last block */
    bool want_prob;   /* keep prob, chosen, admitted, gate of each MoE layer */
    /* > 0: keep, for pictures, the attention weights of the first want_attention tokens (at
     * most seq) of the first sequence, and the inputs of the attention of experts */
    int32_t want_attention;
    bool want_trace;  /* keep everything that run/sample/trace.h records */
    bool want_inputs; /* keep the inputs of gemms with parameters (mf_node_weight) */
    bool try_heads;   /* adds the head_mask input, which can remove heads in one run */
    const mf_moe_forced *forced; /* [n_moe] routing given by the caller; NULL: routers decide */
    bool bf16_attention;         /* as on a device that prefers it (graph.h) */
    bool no_reuse;
    const mf_graph *arena_of; /* graph whose arena is reused (graph.h), or NULL */
    /* MF_MODE_GENERATE: the cache that is extended and read; NULL: none */
    const mf_cache *cache;
    mf_graph_payload payload; /* bytes of the caller that travel with each run (graph.h) */
} mf_model_shape;

/* Values of a layer's heads in one graph. */
typedef struct mf_model_heads {
    struct mf_head_plan *plan;
    mf_tensor *entropy; /* [active] mean over tokens; kept metric node; NULL: not measured */
    /* [active n, n], n = want_attention, heads in the order of plan->q; kept, or NULL */
    mf_tensor *weights;
} mf_model_heads;

/* One task of examples in a graph: tasks[0] is model.task; the others are the [task.NAME]
 * sections in their order. */
typedef struct mf_model_task {
    mf_task kind;       /* MF_TASK_CLASSIFY or MF_TASK_REGRESS */
    mf_tensor *targets; /* classify: [B] i32 input; -1: no class */
    mf_tensor *values;  /* regress: [B] f32 input */
    mf_tensor *counted; /* regress: [B] f32 input; 1: the example has a number, else 0 */
    mf_tensor *out;     /* [B,classes] logits, or [B,1] numbers; NULL unless kept */
    mf_tensor *loss;    /* scalar, before its weight; kept */
} mf_model_task;

/* A graph with its inputs and outputs. The caller fills inputs through mf_tensor_input before
 * each run. */
typedef struct mf_model_graph {
    mf_graph *g;
    mf_model_shape shape;
    mf_tensor *tokens, *positions, *sequence_ids; /* [T] i32 */
    mf_tensor *segments;                          /* [T] i32, NULL without token_types */
    mf_tensor *mask;                              /* [T] f32, NULL unless masked */
    mf_tensor *since; /* [T] i32: where its document begins; NULL unless packed */
    /* [T] i32 ([B] classify); -1: not counted; NULL in MF_MODE_GENERATE and in regress */
    mf_tensor *targets;
    bool by_row; /* one prediction per sequence: see tasks */
    int n_tasks; /* 0 unless by_row */
    mf_model_task tasks[1 + MF_TASKS_MAX];
    mf_tensor *labels; /* [T] i32, NULL without labels */
    /* [B] i32: index in the cache of the run's first token; NULL without cache */
    mf_tensor *cache_pos;
    mf_tensor *kv_len;      /* [B] i32: cache_pos + tokens of this run; NULL without cache */
    mf_tensor *rope_factor; /* [rotated / 2] f32 (model/rope.h); NULL: no scaling */
    mf_tensor *head_mask;   /* [layers heads, 1] f32: 0 removes a head; NULL unless try_heads */
    mf_tensor *last; /* [B] i32: row of the token whose logits are computed; MF_MODE_GENERATE */
    mf_tensor *loss, *task_loss; /* scalars, kept; NULL in MF_MODE_GENERATE */
    /* a plugin reads losses of tokens; then the losses of the rows that the first task counts,
     * [T] or [B]; NULL: it has none */
    bool wants_rows;
    mf_tensor *row_loss;
    mf_tensor *hidden[2];     /* [T,d] with want_hidden; else NULL */
    mf_tensor *logits;        /* [T,V]; [B,V] of `last`; or tasks[0].out; NULL unless kept */
    mf_tensor **regularizers; /* [n] unweighted scalars, kept; NULL: no term */
    mf_moe_out *moe;          /* [n_moe] */
    int32_t n_layers;
    mf_model_heads *heads; /* [n_layers] */
} mf_model_graph;

/* Builds and plans the graph of a shape. The caller frees it with mf_model_graph_free, before
 * the model. MF_ECONFIG if a cache is given but the model reads whole sequences, or if no graph
 * has used a linear layer that an adapter chose; MF_ENOMEM; the graph's own failures. */
int mf_model_graph_new(mf_model *m, const mf_model_shape *shape, mf_model_graph **ret);
void mf_model_graph_free(mf_model_graph *mg);

#endif
