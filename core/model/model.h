/* model/model.h: a transformer that is built from the configuration, and its graphs.
 *
 * A model owns the parameters and the plugin instances of all layers. Graphs of several shapes
 * (training, evaluation, one-token decoding) are built over the same parameters:
 *
 *     tokens -> embed (+ positions) -> blocks -> norm -> head -> loss
 *     block: x + attention(norm(x)), then x + moe-or-dense(norm(x))    (norm_place = pre)
 *     attention = no: only the second half
 *
 * Names of parameters:
 *   - embed.weight, position.weight, token_type.weight, embed_norm.{weight,bias}, rope.factor
 *     (a buffer)
 *   - layers.N.{norm1,norm2}.{weight,bias}
 *   - layers.N.attention.{qkv,out,q_norm,k_norm}.{weight,bias}, layers.N.attention.sinks,
 *     layers.N.attention.out_gate.weight, layers.N.{norm1_out,norm2_out}.{weight,bias};
 *     latent attention replaces qkv by the names of model/latent.h, and blocks without
 *     attention all of these by layers.N.{delta,conv}.* (model/delta/delta.h)
 *   - layers.N.attention.{active,lr_scale}: buffers, if heads can be switched off
 *     (model/heads.h)
 *   - layers.N.router.*, layers.N.expert.*, layers.N.shared.*, layers.N.shared_gate.weight
 *   - layers.N.moe.{down,up}.weight, layers.N.moe.latent_norm with moe.latent
 *   - layers.N.ffn.*, layers.N.moe.select_bias (a buffer)
 *   - layers.N.NAME.* of adapters, adapter.NAME.* of adapters of the output head
 *     (model/adapters.h)
 *   - norm.{weight,bias}, pooler.{weight,bias}, head.{weight,bias}
 *   - head.NAME.{weight,bias} of further tasks
 * Names of parameters of regularizers and controllers begin with the name of the section. */
#ifndef MF_MODEL_MODEL_H
#define MF_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/adapters.h"
#include "comm/expert_ranks.h"
#include "model/model_config.h"
#include "model/moe.h"
#include "plugin/instance.h"

/* Values that do not come from the configuration. The data determine most of them. */
typedef struct mf_model_dims {
    int32_t vocab;   /* token ids 0 .. vocab-1 */
    int32_t labels;  /* labels of tokens are 0 .. labels-1; 0: no labels */
    int32_t classes; /* number of classes, with task = classify */
    double mean;     /* task = regress: mean of the training data, which is the initial bias of
                      * the head */
    int32_t more_classes[MF_TASKS_MAX]; /* number of classes of each [task.NAME] */
    double more_mean[MF_TASKS_MAX];
    int64_t train_steps; /* planned number of optimizer steps */
    bool bare;           /* parameters have sizes but no values (param.h); graphs cannot run */
} mf_model_dims;

/* Values that training determines. The model itself reads no key of [train]. */
typedef struct mf_model_options {
    bool training;            /* allocate gradients and, unless no_moments is set, moments */
    bool no_moments;          /* gradients are measured, but nothing is trained */
    uint64_t seed;            /* seed of the initial values */
    double dropout;           /* share of activations that training graphs set to 0 */
    bool dropout_embedding;   /* dropout also on embeddings */
    bool bf16;                /* gemms read bf16 */
    mf_recompute recompute;   /* tells which values the backward pass recomputes */
    struct mf_device *device; /* device where parameters live and graphs run; NULL: the host */
    /* Called with the complete store before it is sealed. It sets which moments the
     * optimizer keeps (mf_store_want_moments); NULL: two moments of each parameter. arg is
     * its argument. */
    void (*moments)(const void *arg, mf_store *store);
    const void *moments_arg;
    /* Called with bind_arg when all parameters are declared and have no memory yet. It may bind
     * them to weights in files (mf_store_bind); NULL: no call. */
    int (*bind)(void *arg, struct mf_model *model);
    void *bind_arg;
    /* This process is rank `expert_rank` of `expert_ranks` ranks that share the experts
     * (comm/expert_ranks.h). expert_ranks 0 or 1: this process has all experts. */
    int expert_rank, expert_ranks;
    bool merge_rows; /* with ranks that share the experts: an expert processes the rows of all
                      * ranks at once */
    /* a training step has several micro-batches, whose losses are weighted by task_shares */
    bool shares;
    bool record; /* decoding records the work for one token, on devices that support it */
} mf_model_options;

typedef struct mf_model {
    mf_model_settings settings;
    const mf_model_settings *config; /* &settings */
    mf_model_dims dims;
    mf_model_options options;
    mf_store *store;
    mf_plughost *plugins;
    int32_t n_moe;          /* number of MoE layers */
    mf_moe_layer *moe;      /* [n_moe] */
    int32_t *layer_experts; /* [layers] list for a caller (lib/api); NULL until requested */
    int32_t *moe_of_layer;  /* [layers] index into moe; -1: the block is dense */
    mf_ctx **regularizers;  /* [config->n_regularizers] */
    double *regularizer_weights; /* weights of the regularizers; live options */
    /* Weights of model.task and of the [task.NAME] sections; live options. */
    double task_weights[1 + MF_TASKS_MAX];
    /* Factors in the graphs of options.shares. task_shares are factors on the losses of the
     * tasks; the language model uses the first. token_share is the factor on the losses of
     * regularizers and routers. All are 1 outside of a step. */
    double task_shares[1 + MF_TASKS_MAX], token_share;
    mf_ctx **controllers;     /* [config->n_controllers] */
    double capacity_factor;   /* the live option moe.capacity_factor */
    double adaptive_capacity; /* the live option moe.adaptive_capacity */
    double top_k;             /* the live option moe.top_k; a change rebuilds graphs */
    /* [config->n_blocks] the live options block.NAME.top_k and block.NAME.capacity_factor */
    double *block_top_k, *block_capacity;
    /* [layers + 1] adapters of each block, then those of the output head */
    mf_adapters *adapters;
    const mf_loaded **adapter_plugins; /* [config->n_adapters] */
    mf_adapter_at *adapter_at;         /* [config->n_adapters] */
    const char *linear_names; /* names of a block's linear layers, for messages; may be NULL */
    bool sees_sequences;      /* an adapter reads other tokens of the batch */
    bool warned;              /* the warning about layers whose routers cannot learn
                               * was written */
    bool head_switches;       /* heads can be switched off, and are measured */
    mf_param **gates;         /* [layers] gates of the layer's heads; NULL: none */
    mf_gate_form gate_form;
    mf_adapt_env *env;  /* environment of the graph that is being built; else NULL */
    bool token_tallies; /* a controller reads the losses by expert */
    mf_expert_ranks expert_ranks;
    struct mf_arena *arena;
} mf_model;

/* Returns the dimensions that plugin instances receive. layer -1: instances that belong to
 * no block. */
mf_dims mf_model_dims_of(const mf_model *m, int32_t layer);
/* Loads the plugins, declares all parameters and, unless dims->bare is set, draws their initial
 * values. The arguments are copied, but the configuration to which `settings` points must
 * outlive the model. Errors: MF_ECONFIG, MF_ENOMEM, and those of plugins and of the device. The
 * caller frees the model with mf_model_free. */
int mf_model_new(const mf_model_settings *settings, const mf_model_dims *dims,
                 const mf_model_options *options, mf_model **ret);
/* Sets all shares (task_shares, token_share) to 1. */
void mf_model_whole(mf_model *m);
/* Freezes the parameters and buffers that match one of the patterns. Parameters of adapters,
 * and buffers of controllers and regularizers, never match. If no parameter to train is left,
 * these are frozen, too. Plugins may read what is frozen, and what they write to it is lost.
 *
 * Patterns are separated by commas or blanks. Each pattern is compared with the full name, and
 * with the name without "layers.N.". Call this before graphs are built. MF_ECONFIG if a pattern
 * matches nothing. */
int mf_model_freeze(mf_model *m, const char *patterns);
void mf_model_free(mf_model *m);
/* Whether a parameter belongs to the experts of a layer. */
bool mf_model_of_experts(const mf_param *p);
/* Returns the number of experts of the layer to which the parameter belongs. */
int64_t mf_model_experts_of(const mf_model *m, const mf_param *p);
/* Makes this process rank `rank` of the ranks that share the experts. mf_model_new calls
 * this. It may also be called for a bare model, whose graphs can then be planned to learn
 * their sizes. ranks 1: the model has all experts again. MF_ECONFIG if the experts cannot
 * be shared. */
int mf_model_share_experts(mf_model *m, int rank, int ranks);
/* Returns the number of tasks with one prediction per example; 0 if model.task has one
 * prediction per token. Task 0 is model.task. The next functions return the kind and the name
 * of task i. */
int mf_model_tasks(const mf_model *m);
mf_task mf_model_task_kind(const mf_model *m, int i);
const char *mf_model_task_name(const mf_model *m, int i); /* "main" for task 0, else NAME
                                                           * of [task.NAME] */
/* Returns the number of elements of the head of task i, weights and bias. */
int64_t mf_model_task_params(const mf_model *m, int i);

/* Whether regularizer i adds a term to the loss. Without MoE layers only regularizers with the
 * flag MF_REGULARIZER_ANY_MODEL add one. */
bool mf_model_has_regularizer(const mf_model *m, int i);
/* Whether routers or experts read later tokens, or experts or adapters read other tokens of the
 * batch. Such models decode without a cache. */
bool mf_model_sees_sequences(const mf_model *m);
/* Whether a plugin or a window reads other tokens of a sequence. Such a model would read across
 * the border of two documents in one sequence. */
bool mf_model_crosses_documents(const mf_model *m);

/* The memory of past tokens for decoding, with max_seq rows for each sequence. It holds keys
 * and values, and the inputs of routers that read earlier tokens (model/history.h). A cache
 * fits only graphs with the same active heads as at the time of its creation. */
typedef struct mf_cache {
    mf_store *store;
    int32_t batch, max_seq;
} mf_cache;
/* Creates a cache. The caller frees it with mf_cache_free. MF_ENOMEM, or an error of
 * the device. */
int mf_cache_new(const mf_model *m, int batch, int max_seq, mf_cache **ret);
void mf_cache_free(mf_cache *c);
#define MF_CACHE_NAME 64
/* Writes the name that the keys (part 0) or the values (part 1) of a group of heads have in the
 * store of the cache. Returns out. */
const char *mf_cache_name(char out[MF_CACHE_NAME], int32_t layer, int32_t group, int part);

typedef enum mf_mode { MF_MODE_TRAIN, MF_MODE_EVAL, MF_MODE_GENERATE } mf_mode;

/* Experts of tokens that a caller gives, while the routers give the gates. */
struct mf_batch;
struct mf_model_graph;
typedef struct mf_given_routes {
    void *self;
    /* Fills mf_moe_out.given of all layers. mf_batch_feed calls it with the batch. */
    void (*fill)(void *self, const struct mf_batch *b, struct mf_model_graph *mg);
} mf_given_routes;

typedef struct mf_model_shape {
    mf_mode mode;
    int32_t batch, seq;
    bool masked; /* some tokens are padding: adds the mask input */
    bool packed; /* a sequence holds several documents: adds the since input */
    /* keep the logits; MF_MODE_GENERATE always keeps them: of the tokens `last`, or with
     * want_logits of all tokens */
    bool want_logits;
    bool want_hidden; /* keep the residual stream behind the first and the last block */
    bool want_prob;   /* keep prob, chosen, admitted, gate of each MoE layer */
    /* > 0: keep the attention weights of the first want_attention tokens (at most seq) of
     * the first sequence, and the inputs of the attention of experts. They are used
     * for pictures. */
    int32_t want_attention;
    bool want_trace;  /* keep everything that run/sample/trace.h records */
    bool want_inputs; /* keep the inputs of gemms with parameters (mf_node_weight) */
    bool try_heads;   /* adds the head_mask input, which can remove heads in one run */
    /* adds the inputs of probes to each MoE layer (mf_moe_out.route_bias), and keeps prob,
     * chosen, admitted, gate, scores and row_loss */
    bool probe;
    bool want_outputs; /* keep expert_out, offset, row_token and row_gate of each MoE layer */
    const mf_moe_forced *forced; /* [n_moe] routing given by the caller; NULL: routers decide */
    const mf_given_routes *given; /* experts given by the caller; NULL: routers decide */
    /* a bare model: kernels of the device for which the graph is planned (graph.h) */
    const struct mf_kernels *planned_for;
    bool no_reuse;
    const mf_graph *arena_of; /* graph whose arena is reused (graph.h), or NULL */
    /* MF_MODE_GENERATE: the cache that the graph extends and reads; NULL: no cache */
    const mf_cache *cache;
    mf_graph_payload payload; /* bytes of the caller that are sent with each run (graph.h) */
} mf_model_shape;

/* Values of a layer's heads in one graph. */
typedef struct mf_model_heads {
    struct mf_head_plan *plan;
    mf_tensor *entropy; /* [active] mean over tokens; metric node, kept; NULL: not measured */
    /* [active n, n] with n = want_attention, heads in the order of plan->q; kept; NULL:
     * not requested */
    mf_tensor *weights;
} mf_model_heads;

/* One task of examples in a graph. tasks[0] is model.task; the other tasks are the [task.NAME]
 * sections in their order. */
typedef struct mf_model_task {
    mf_task kind;       /* MF_TASK_CLASSIFY or MF_TASK_REGRESS */
    mf_tensor *targets; /* classify: [B] i32 input; -1: no class */
    mf_tensor *values;  /* regress: [B] f32 input */
    mf_tensor *counted; /* regress: [B] f32 input; 1 if the example has a number, else 0 */
    mf_tensor *out;     /* [B,classes] logits, or [B,1] numbers; NULL unless kept */
    mf_tensor *loss;    /* scalar without its weight; kept */
} mf_model_task;

/* A graph with its inputs and outputs. The caller fills inputs through mf_tensor_input before
 * each run. */
typedef struct mf_model_graph {
    mf_graph *g;
    mf_model_shape shape;
    mf_tensor *tokens, *positions, *sequence_ids; /* [T] i32 */
    mf_tensor *segments;                          /* [T] i32, NULL without token_types */
    mf_tensor *mask;                              /* [T] f32, NULL unless masked */
    mf_tensor *since; /* [T] i32: position at which the token's document begins; NULL
                       * unless packed */
    /* [T] i32 ([B] classify); -1: not counted; NULL in MF_MODE_GENERATE and in regress */
    mf_tensor *targets;
    bool by_row; /* one prediction per sequence, see tasks */
    int n_tasks; /* 0 unless by_row */
    mf_model_task tasks[1 + MF_TASKS_MAX];
    mf_tensor *labels; /* [T] i32, NULL without labels */
    /* [B] i32: index in the cache of the run's first token; NULL without cache */
    mf_tensor *cache_pos;
    mf_tensor *kv_len;      /* [B] i32: cache_pos + tokens of this run; NULL without cache */
    mf_tensor *rope_factor; /* [rotated / 2] f32 (model/rope.h); NULL: no scaling */
    mf_tensor *head_mask;   /* [layers heads, 1] f32: 0 removes a head; NULL unless try_heads */
    /* [B] i32: row of the token whose logits are computed; only in MF_MODE_GENERATE without
     * want_logits */
    mf_tensor *last;
    mf_tensor *loss, *task_loss; /* scalars, kept; NULL in MF_MODE_GENERATE */
    /* wants_rows: a plugin or a probe reads the losses of tokens. row_loss is then [T] or [B],
     * the losses of the rows that the first task counts; NULL: the task has no such losses. */
    bool wants_rows;
    mf_tensor *row_loss;
    mf_tensor *hidden[2];     /* [T,d] with want_hidden; else NULL */
    mf_tensor *logits;        /* [T,V]; or [B,V] of the tokens `last`; or tasks[0].out; NULL
                               * unless kept */
    mf_tensor **regularizers; /* [n] scalars without their weights, kept; NULL: the regularizer
                               * adds no term */
    mf_moe_out *moe;          /* [n_moe] */
    int32_t n_layers;
    mf_model_heads *heads; /* [n_layers] */
} mf_model_graph;

/* Builds and plans the graph of a shape. The caller frees it with mf_model_graph_free, before
 * the model. MF_ECONFIG if a cache is given but the model reads whole sequences, or if no graph
 * has used a linear layer that an adapter chose; MF_ENOMEM; or an error of the graph. */
int mf_model_graph_new(mf_model *m, const mf_model_shape *shape, mf_model_graph **ret);
void mf_model_graph_free(mf_model_graph *mg);
/* Whether a layer of the graph has a capacity. */
bool mf_model_limited(const mf_model *m, const mf_model_graph *mg);

#endif
