/* model/model_config.h: the sections of the INI that describe a model: [model], [task.NAME],
 * [moe], and those of its plugins. */
#ifndef MF_MODEL_MODEL_CONFIG_H
#define MF_MODEL_MODEL_CONFIG_H

#include "config/section.h"
#include "model/task.h"

typedef enum mf_norm { MF_NORM_RMS, MF_NORM_LAYER } mf_norm;
typedef enum mf_norm_place { MF_NORM_PRE, MF_NORM_POST, MF_NORM_OUTPUT } mf_norm_place;
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
    MF_ROPE_LLAMA3
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
typedef enum mf_ffn { MF_FFN_RELU, MF_FFN_GELU, MF_FFN_SWIGLU, MF_FFN_GELU_TANH } mf_ffn;
typedef enum mf_bias { MF_BIAS_AUTO, MF_BIAS_NO, MF_BIAS_YES } mf_bias;
typedef enum mf_qk_norm { MF_QK_NONE, MF_QK_HEAD, MF_QK_ALL } mf_qk_norm;
/* Greatest number of shared experts: one gemm computes them, and their list is on the stack. */
#define MF_SHARED_MAX 64
typedef enum mf_start { MF_START_NORMAL, MF_START_UNIFORM, MF_START_XAVIER } mf_start;

typedef struct mf_model_config {
    int64_t task;                         /* mf_task */
    int64_t dim, layers, heads, kv_heads; /* kv_heads 0: the same number as heads */
    int64_t head_dim;                     /* width of a head; 0: dim / heads */
    int64_t seq;                          /* longest sequence */
    int64_t vocab;                        /* 0: auto, from the tokenizer */
    int64_t norm, norm_place, position;
    double embed_scale,
        residual_scale;       /* factors on embeddings, on the output of half blocks */
    const char *rope_layers;  /* blocks with rope, as window_layers */
    int64_t qk_norm_late;     /* the norms of queries and keys come after rope */
    double norm_eps;          /* default 1e-5 */
    int64_t norm_eps_outside; /* rmsnorm: eps is added outside the root */
    double rope_theta;        /* default 10000 */
    int64_t positions;        /* rows of the table of learned positions; 0: seq */
    int64_t rope_half;        /* rotate halves instead of interleaved pairs */
    int64_t rope_dims;        /* rotated columns of a head; 0: all */
    int64_t rope_last;        /* they are the last columns of a head, not the first */
    int64_t rope_scaling;     /* mf_rope_scaling */
    double rope_factor;
    double rope_original;                  /* length that was trained without scaling */
    double rope_beta_fast, rope_beta_slow; /* yarn */
    int64_t rope_truncate;                 /* yarn */
    double rope_low, rope_high;            /* llama3 */
    double rope_magnitude;  /* factor on rotated values; 0: as the scaling says */
    int64_t attention_bias; /* biases on q, k, v */
    int64_t attention_out_bias;
    int64_t qk_norm;                  /* mf_qk_norm */
    double clip_qkv;                  /* limit of |q|, |k| and |v|; 0: none */
    int64_t window;                   /* window of causal attention in tokens; 0: none */
    const char *window_layers;        /* blocks with the window: "all", "0, 2-4" */
    int64_t sinks;                    /* one more logit a head in the softmax */
    int64_t latent, latent_q;         /* widths of latent vectors (model/latent.h); 0: none */
    int64_t value_dim;                /* latent: width of a value; 0: head_dim */
    double attention_scale;           /* factor on scores; 0: see attention_scale_by */
    int64_t attention_scale_by;       /* 0: 1/sqrt(width of a head), 1: 1/sqrt(dim) */
    int64_t attention_scale_by_layer; /* scores are also divided by (index of the block + 1) */
    int64_t causal;         /* lm: a token sees only itself and earlier ones; default yes */
    int64_t tie_embeddings; /* output head = embedding */
    int64_t head_bias;
    int64_t ffn_hidden;     /* hidden width of dense blocks; 0: 4 dim */
    int64_t ffn_activation; /* mf_ffn */
    int64_t ffn_bias;       /* mf_bias */
    /* position of the first token when decoding with a cache; default 0 */
    int64_t cache_start;
    int64_t moe_every;
    const char *dense_layers; /* blocks that are dense in any case: "0, 3-5", or "" */
    /* number of kinds of segments with embeddings of their own; 0: none */
    int64_t token_types;
    int64_t embed_norm;   /* norm of embeddings before the first block */
    int64_t pooler;       /* classify, regress: tanh(W x + b) of the pooled vector */
    double logit_scale;   /* factor on the output's logits; default 1 */
    double init_std;      /* default 0.02 */
    int64_t attention;    /* 0: blocks have no self-attention of their own */
    int64_t init;         /* mf_start */
    int64_t share_layers; /* blocks share attention, router, experts and dense layers */
    int64_t layers_alike; /* blocks begin with equal weights */
    int64_t classes;      /* classify: 0 = from the data */
    /* factor on the task's loss if there are further tasks; default 1; live */
    double task_weight;
    int64_t pool;        /* classify, regress: 0 first token, 1 mean over real tokens */
    double ffn_dropout;  /* inside dense blocks, after the nonlinearity */
    double head_dropout; /* before the output head */
} mf_model_config;

/* Whether gates are divided by the sum over a token's experts. AUTO: if it has several, since
 * the only gate of one would always be 1, and its router would learn nothing of the task. */
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
    double adaptive_capacity; /* a of C_i = C0 + a max(0, n_i - T k / E); 0: off */
    double adaptive_limit;    /* greatest addition, as a multiple of C0; default 0.5 */
    int64_t max_reassign;     /* maximum to reassign per layer and run; 0: no limit */
    int64_t reassign_gate;    /* 0: the new expert's probability, 1: that of the first choice */
    int64_t dropped;          /* mf_dropped */
    int64_t unit_gates;       /* gates are p / detach(p) */
    int64_t shared_experts, shared_hidden; /* shared_hidden 0: as the option of [expert] */
    /* multiplies outputs of shared experts by sigmoid(w x) */
    int64_t shared_gate;
    int64_t
        renormalize;   /* mf_renormalize; of a loaded configuration MF_RENORMALIZE_NO or _YES */
    double gate_scale; /* factor on all gates; default 1 */
    int64_t force_causal; /* allows routers and experts that read later tokens in a decoder */
} mf_moe_config;

/* [task.NAME]: one more prediction for each example, by its own head on the same encoder, in
 * addition to model.task. */
typedef struct mf_task_section {
    const char *section, *name; /* "task.score", "score" */
    int64_t task;               /* mf_further_task */
    const char *column;         /* column of the data; NAME unless the section sets it */
    double weight;              /* factor on its loss; default 1; live as task.NAME.weight */
    int64_t classes;            /* classify: 0 = from the data */
} mf_task_section;
typedef enum mf_further_task {
    MF_FURTHER_CLASSIFY,
    MF_FURTHER_REGRESS,
    MF_FURTHER_NONE
} mf_further_task;

/* Everything from which a model is made. Pointers point into the configuration and live as long
 * as it does. */
typedef struct mf_model_settings {
    mf_model_config model;
    mf_moe_config moe;
    const mf_task_section *tasks; /* in order of appearance, without those of task = none */
    int n_tasks;
    mf_plugin_section router, expert;
    const mf_plugin_section *routers; /* [router.NAME], in order of appearance */
    int n_routers;
    const mf_plugin_section *regularizers, *controllers, *adapters; /* in order of appearance */
    int n_regularizers, n_controllers, n_adapters;
    mf_ini *ini; /* the plugins read their own keys from it */
} mf_model_settings;

extern const mf_section mf_model_section, mf_task_sections, mf_moe_section, mf_router_section,
    mf_router_sections, mf_expert_section, mf_adapter_sections, mf_regularizer_sections,
    mf_controller_sections;

/* The width of a head, which auto sets to dim / heads. */
static inline int64_t mf_model_head_dim(const mf_model_config *m)
{
    return m->head_dim > 0 ? m->head_dim : m->dim / m->heads;
}
/* The width of a head's value. */
static inline int64_t mf_model_value_dim(const mf_model_config *m)
{
    return m->value_dim > 0 ? m->value_dim : mf_model_head_dim(m);
}
/* Whether a list of blocks like "all", "3" or "0-2, 5" contains block `layer`. Sets *ret_bad to
 * whether the text is no such list; the result is then false. */
bool mf_model_in_layers(const char *layers, int64_t layer, bool *ret_bad);
/* Whether queries and keys of the block are rotated. */
static inline bool mf_model_has_rope(const mf_model_config *c, int64_t layer)
{
    bool bad;
    return c->position == MF_POS_ROPE && mf_model_in_layers(c->rope_layers, layer, &bad);
}
/* The section of a block's router: the last [router.NAME] whose layers have it, else
 * [router]. */
const mf_plugin_section *mf_model_router(const mf_model_settings *c, int64_t layer);
/* Replaces auto (0) of kv_heads and ffn_hidden by numbers. Call this after loading. */
void mf_model_config_settle(mf_model_config *m);
/* Replaces the automatic values of [moe]. */
void mf_moe_config_settle(mf_moe_config *m);
/* Checks the rules between keys of these sections, such as top_k <= experts. */
void mf_model_config_judge(mf_config_faults *j, const mf_model_settings *s);

#endif
