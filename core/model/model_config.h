/* model/model_config.h: the sections of the INI file that describe a model: [model],
 * [task.NAME], [moe], [block.NAME], and the sections of its plugins. */
#ifndef MF_MODEL_MODEL_CONFIG_H
#define MF_MODEL_MODEL_CONFIG_H

#include "config/section.h"
#include "model/task.h"

typedef enum mf_norm { MF_NORM_RMS, MF_NORM_LAYER } mf_norm;
typedef enum mf_norm_place {
    MF_NORM_PRE,
    MF_NORM_POST,
    MF_NORM_OUTPUT,
    MF_NORM_BOTH
} mf_norm_place;
typedef enum mf_position {
    MF_POS_ROPE,
    MF_POS_SINUSOIDAL,
    MF_POS_LEARNED,
    MF_POS_NONE
} mf_position;
typedef enum mf_rope_scaling {
    MF_ROPE_PLAIN,
    MF_ROPE_LINEAR,
    MF_ROPE_YARN,
    MF_ROPE_LLAMA3,
    MF_ROPE_GIVEN
} mf_rope_scaling;
typedef enum mf_pool { MF_POOL_FIRST, MF_POOL_MEAN } mf_pool;
typedef enum mf_overflow { MF_OVERFLOW_DROP, MF_OVERFLOW_REASSIGN } mf_overflow;
typedef enum mf_priority {
    MF_PRIORITY_POSITION,
    MF_PRIORITY_GATE,
    MF_PRIORITY_IMPORTANCE,
    MF_PRIORITY_DRAWN,
    MF_PRIORITY_TIME
} mf_priority;
typedef enum mf_admit { MF_ADMIT_TOKEN, MF_ADMIT_RANK } mf_admit;
typedef enum mf_dropped { MF_DROPPED_RESIDUAL, MF_DROPPED_INPUT, MF_DROPPED_SCALED } mf_dropped;
typedef enum mf_latent_norm { MF_LATENT_NO_NORM, MF_LATENT_RMS } mf_latent_norm;
typedef enum mf_ffn { MF_FFN_RELU, MF_FFN_GELU, MF_FFN_SWIGLU, MF_FFN_GELU_TANH } mf_ffn;
typedef enum mf_bias { MF_BIAS_AUTO, MF_BIAS_NO, MF_BIAS_YES } mf_bias;
typedef enum mf_qk_norm { MF_QK_NONE, MF_QK_HEAD, MF_QK_ALL } mf_qk_norm;
/* Maximum number of shared experts. One gemm computes them all, and their list is on
 * the stack. */
#define MF_SHARED_MAX 64
typedef enum mf_start { MF_START_NORMAL, MF_START_UNIFORM, MF_START_XAVIER } mf_start;

typedef struct mf_model_config {
    int64_t task;                         /* mf_task */
    int64_t dim, layers, heads, kv_heads; /* kv_heads 0: the same number as heads */
    int64_t head_dim;                     /* width of a head; 0: dim / heads */
    int64_t seq;                          /* length of the longest sequence */
    int64_t vocab;                        /* size of the vocabulary; 0: auto, from
                                           * the tokenizer */
    int64_t norm, norm_place, position;
    double embed_scale,
        residual_scale;      /* factors on the embeddings and on the output of half blocks */
    const char *rope_layers; /* list of blocks with rope, in the form of window_layers */
    const char *rope_plain_layers; /* list of blocks whose rope has no scaling */
    double rope_plain_theta;       /* base of the rotation's frequencies in these blocks */
    int64_t qk_norm_late;          /* the norms of queries and keys come after rope */
    double norm_eps;               /* epsilon of norms; default 1e-5 */
    int64_t norm_eps_outside;      /* rmsnorm: epsilon is added outside of the root */
    int64_t norm_bias;             /* layernorm has biases; default yes */
    int64_t norm_shift;            /* norms are multiplied by 1 + weight */
    double rope_theta;             /* base of the rotation's frequencies; default 10000 */
    int64_t positions;    /* number of rows of the table of learned positions; 0: seq */
    int64_t rope_half;    /* rotate the halves of a head instead of interleaved pairs */
    int64_t rope_dims;    /* number of rotated columns of a head; 0: all */
    int64_t rope_last;    /* the rotated columns are the last columns of a head, not
                               * the first */
    int64_t rope_scaling; /* mf_rope_scaling */
    double rope_factor;
    double rope_original;                  /* sequence length of the training without scaling */
    double rope_beta_fast, rope_beta_slow; /* parameters of yarn */
    int64_t rope_truncate;                 /* parameter of yarn */
    double rope_low, rope_high;            /* parameters of llama3 */
    double rope_magnitude;  /* factor on rotated values; 0: determined by the kind of scaling */
    int64_t attention_bias; /* q, k and v have biases */
    int64_t attention_out_bias;
    int64_t attention_gate;     /* outputs are multiplied by sigmoid(W x) */
    int64_t qk_norm;            /* mf_qk_norm */
    int64_t qk_norm_weights;    /* these norms have weights; default yes */
    const char *qk_norm_layers; /* list of blocks with these norms */
    double clip_qkv;            /* limit of |q|, |k| and |v|; 0: none */
    int64_t window;             /* window of causal attention in tokens; 0: none */
    const char *window_layers;  /* list of blocks with the window: "all", "0, 2-4" */
    int64_t window_chunks;      /* windows begin at multiples of `window` */
    /* factor 1 + query_growth ln(1 + floor((p + 1) / query_growth_step)) on queries at position
     * p, in blocks without rope; 0: none */
    double query_growth;
    int64_t query_growth_step;
    int64_t sinks;            /* the softmax of each head has one more logit */
    int64_t latent, latent_q; /* widths of latent vectors (model/latent.h); 0: none */
    int64_t value_dim;        /* latent attention: width of a value; 0: head_dim */
    const char *delta_layers; /* list of blocks with the delta rule (model/delta/delta.h) */
    int64_t delta_heads, delta_key_heads, delta_key_dim, delta_value_dim, delta_taps;
    int64_t delta_grouped;            /* its linear layers are two, by head of keys */
    const char *conv_layers;          /* list of blocks with a short convolution */
    int64_t conv_taps, conv_bias;     /* its tokens; whether it has biases */
    double attention_scale;           /* factor on scores; 0: see attention_scale_by */
    int64_t attention_scale_by;       /* 0: 1/sqrt(width of a head), 1: 1/sqrt(dim) */
    int64_t attention_scale_by_layer; /* scores are also divided by (index of the block + 1) */
    int64_t causal;         /* lm: a token sees only itself and earlier tokens; default yes */
    int64_t tie_embeddings; /* the output head uses the weights of the embedding */
    int64_t head_bias;
    int64_t ffn_hidden;     /* hidden width of dense blocks; 0: 4 dim */
    int64_t ffn_activation; /* mf_ffn */
    int64_t ffn_bias;       /* mf_bias */
    /* position of the first token when decoding with a cache; default 0 */
    int64_t cache_start;
    int64_t moe_every;
    const char *dense_layers; /* list of blocks without experts: "0, 3-5", or "" */
    /* number of segments that have their own embedding; 0: none */
    int64_t token_types;
    int64_t embed_norm;   /* norm of embeddings before the first block */
    int64_t pooler;       /* classify, regress: apply tanh(W x + b) to the pooled vector */
    double logit_scale;   /* factor on the logits of the output; default 1 */
    double init_std;      /* standard deviation of initial values; default 0.02 */
    int64_t attention;    /* 0: blocks have no self-attention */
    int64_t init;         /* mf_start */
    int64_t share_layers; /* all blocks share attention, router, experts and dense layers */
    int64_t layers_alike; /* all blocks begin with equal weights */
    int64_t classes;      /* classify: number of classes; 0: from the data */
    /* Factor on the task's loss if there are further tasks; default 1; live option. */
    double task_weight;
    /* classify, regress: 0 uses the first token, 1 the mean over tokens that are
     * not padding. */
    int64_t pool;
    double ffn_dropout;  /* dropout inside dense blocks, after the nonlinearity */
    double head_dropout; /* dropout before the output head */
} mf_model_config;

/* Whether gates are divided by the sum over a token's experts. AUTO: yes if a token has several
 * experts. With a single expert the gate would always be 1, and the router would learn nothing
 * from the task. */
typedef enum mf_renormalize {
    MF_RENORMALIZE_NO,
    MF_RENORMALIZE_YES,
    MF_RENORMALIZE_AUTO
} mf_renormalize;

typedef struct mf_moe_config {
    int64_t experts, top_k;
    double capacity_factor; /* 0: dropless */
    int64_t overflow, priority;
    int64_t admit;            /* mf_admit */
    double adaptive_capacity; /* the factor a in C_i = C0 + a max(0, n_i - T k / E); 0: off */
    double adaptive_limit;    /* greatest addition, as a multiple of C0; default 0.5 */
    /* Maximum number of assignments to reassign per layer and run; 0: no limit. */
    int64_t max_reassign;
    /* 0: the probability of the new expert; 1: the probability of the first choice. */
    int64_t reassign_gate;
    int64_t dropped;                       /* mf_dropped */
    int64_t unit_gates;                    /* gates are p / detach(p), which is 1 */
    int64_t gate_inputs;                   /* gates are factors on the inputs of experts */
    int64_t shared_experts, shared_hidden; /* shared_hidden 0: the same as the option
                                            * of [expert] */
    /* the outputs of shared experts are multiplied by sigmoid(w x) */
    int64_t shared_gate;
    int64_t renormalize; /* mf_renormalize; after loading MF_RENORMALIZE_NO or _YES */
    double gate_scale;   /* factor on all gates; default 1 */
    /* Allows routers and experts that read later tokens in a decoder. */
    int64_t force_causal;
    int64_t latent;      /* width of the rows of routed experts; 0: dim (model/moe.h) */
    int64_t latent_norm; /* mf_latent_norm */
} mf_moe_config;

/* [block.NAME]: keys of [moe] for the blocks that `layers` lists (model/layer_config.c). -1, or
 * for renormalize MF_RENORMALIZE_AUTO: the value of [moe]. */
typedef struct mf_block_section {
    const char *section, *name; /* for example "block.2" and "2" */
    const char *layers;         /* list of blocks; the name if that is a number */
    int64_t experts, top_k;
    double capacity_factor;
    int64_t shared_experts, shared_hidden;
    int64_t latent;
    int64_t renormalize; /* after loading MF_RENORMALIZE_NO or _YES */
} mf_block_section;

/* [task.NAME]: one more prediction for each example, in addition to model.task. It has its own
 * head on the same encoder. */
typedef struct mf_task_section {
    const char *section, *name; /* for example "task.score" and "score" */
    int64_t task;               /* mf_further_task */
    const char *column;         /* column of the data; NAME unless the section sets it */
    /* Factor on the loss of the task; default 1; the live option task.NAME.weight. */
    double weight;
    int64_t classes; /* classify: number of classes; 0: from the data */
} mf_task_section;
typedef enum mf_further_task {
    MF_FURTHER_CLASSIFY,
    MF_FURTHER_REGRESS,
    MF_FURTHER_NONE
} mf_further_task;

/* All settings from which a model is made. Pointers point into the configuration and stay valid
 * as long as it does. */
typedef struct mf_model_settings {
    mf_model_config model;
    mf_moe_config moe;
    const mf_task_section *tasks; /* in order of appearance, without tasks that have
                                   * `task = none` */
    int n_tasks;
    mf_plugin_section router, expert;
    const mf_plugin_section *routers; /* [router.NAME], in order of appearance */
    int n_routers;
    const mf_plugin_section *layer_experts; /* [expert.NAME] */
    int n_layer_experts;
    const mf_block_section *blocks; /* [block.NAME] */
    int n_blocks;
    const mf_plugin_section *regularizers, *controllers, *adapters; /* in order of appearance */
    int n_regularizers, n_controllers, n_adapters;
    mf_ini *ini; /* the plugins read their own keys from these entries */
} mf_model_settings;

extern const mf_section mf_model_section, mf_task_sections, mf_moe_section, mf_block_sections,
    mf_router_section, mf_router_sections, mf_expert_section, mf_expert_sections,
    mf_adapter_sections, mf_regularizer_sections, mf_controller_sections;

/* Returns the width of a head. The value auto (0) means dim / heads. */
static inline int64_t mf_model_head_dim(const mf_model_config *m)
{
    return m->head_dim > 0 ? m->head_dim : m->dim / m->heads;
}
/* Returns the width of a head's value. */
static inline int64_t mf_model_value_dim(const mf_model_config *m)
{
    return m->value_dim > 0 ? m->value_dim : mf_model_head_dim(m);
}
/* Replaces auto (0) of kv_heads and ffn_hidden by numbers. Call this after loading. */
void mf_model_config_settle(mf_model_config *m);
/* Replaces the automatic values of [moe]. */
void mf_moe_config_settle(mf_moe_config *m);
/* Checks the rules between keys of these sections, such as top_k <= experts. */
void mf_model_config_judge(mf_config_faults *j, const mf_model_settings *s);

/* ---- blocks that differ: [block.NAME], [router.NAME], [expert.NAME] (model/layer_config.c)
 *
 * Code that needs the [moe] of a block calls mf_model_moe. */

/* Whether a list of blocks like "all", "3" or "0-2, 5" contains block `layer`. Sets *ret_bad to
 * true if the text is not a valid list; the result is then false. */
bool mf_model_in_layers(const char *layers, int64_t layer, bool *ret_bad);
/* Whether queries and keys of the block are rotated. */
static inline bool mf_model_has_rope(const mf_model_config *c, int64_t layer)
{
    bool bad;
    return c->position == MF_POS_ROPE && mf_model_in_layers(c->rope_layers, layer, &bad);
}
/* Whether queries and keys of the block are normalised. */
static inline bool mf_model_has_qk_norm(const mf_model_config *c, int64_t layer)
{
    bool bad;
    return c->qk_norm != MF_QK_NONE && mf_model_in_layers(c->qk_norm_layers, layer, &bad);
}
/* Whether the block has experts. */
bool mf_model_has_experts(const mf_model_config *m, int64_t layer);
/* Returns the section of a block's router or expert. This is the last [router.NAME] or
 * [expert.NAME] whose layers contain the block, otherwise [router] or [expert]. */
const mf_plugin_section *mf_model_router(const mf_model_settings *c, int64_t layer);
const mf_plugin_section *mf_model_expert(const mf_model_settings *c, int64_t layer);
/* Returns the index of the last [block.NAME] that names the block; -1: no section names it. */
int mf_model_block(const mf_model_settings *c, int64_t layer);
/* Returns the [moe] of a block: the keys that its [block.NAME] sets, and those of [moe]. layer
 * -1: that of the first block with experts, or [moe] if no block has experts. */
mf_moe_config mf_model_moe(const mf_model_settings *c, int64_t layer);
/* Returns the largest number of experts of a block, 0 if no block has experts. */
int32_t mf_model_most_experts(const mf_model_settings *c);
/* Finds two blocks with experts that differ in experts or top_k. false: there are none. */
bool mf_model_unequal(const mf_model_settings *c, int64_t *ret_a, int64_t *ret_b);
/* Replaces the automatic values of the sections; before mf_moe_config_settle. */
void mf_block_config_settle(mf_block_section *blocks, int n, const mf_moe_config *moe);
/* Checks the rules of the sections [block.NAME]. */
void mf_block_config_judge(mf_config_faults *j, const mf_model_settings *s);
/* Checks the lists of blocks of [router.NAME] and [expert.NAME]. MF_ECONFIG. */
int mf_model_judge_layers(const mf_model_settings *c);

#endif
