/* model/config.h: a run's configuration: every INI key of core, typed and judged.
 *
 * One option table a section is the only list of keys: it parses, checks bounds, names the
 * nearest key, prints the resolved INI, and makes etc/moefw.ini and the manual's key lists.
 * Sections of plugins ([router], [expert], [regularizer.NAME], [controller.NAME]) keep the keys
 * that their plugin's schema knows as they stand in the INI; core reads only its own few.
 */
#ifndef MF_MODEL_CONFIG_H
#define MF_MODEL_CONFIG_H

#include "base/ini.h"
#include "plugin/option.h"
#include <stdint.h>
#include <stdio.h>

typedef enum mf_task { MF_TASK_LM, MF_TASK_CLASSIFY, MF_TASK_MLM, MF_TASK_REGRESS } mf_task;
typedef enum mf_best_by {
    MF_BEST_LOSS, MF_BEST_ACCURACY, MF_BEST_MACRO_F1, MF_BEST_MSE, MF_BEST_PEARSON,
    MF_BEST_SPEARMAN
} mf_best_by;
typedef enum mf_norm { MF_NORM_RMS, MF_NORM_LAYER } mf_norm;
typedef enum mf_norm_place { MF_NORM_PRE, MF_NORM_POST } mf_norm_place;
typedef enum mf_position {
    MF_POS_ROPE, MF_POS_SINUSOIDAL, MF_POS_LEARNED, MF_POS_NONE
} mf_position;
typedef enum mf_skip { MF_SKIP_NONE, MF_SKIP_UNET } mf_skip;
typedef enum mf_skip_form { MF_SKIP_LINEAR, MF_SKIP_RESIDUAL } mf_skip_form;
typedef enum mf_skip_rule {
    MF_SKIP_DEEPER_LESS, MF_SKIP_DEEPER_MORE, MF_SKIP_CONSTANT
} mf_skip_rule;
typedef enum mf_gate_form { MF_GATE_SIGMOID, MF_GATE_RAW } mf_gate_form;
typedef enum mf_gate_start { MF_GATES_EVEN, MF_GATES_MIDDLE } mf_gate_start;
typedef enum mf_head_norm {
    MF_HEAD_NORM_NONE, MF_HEAD_NORM_TOKEN, MF_HEAD_NORM_BATCH
} mf_head_norm;
typedef enum mf_pool { MF_POOL_FIRST, MF_POOL_MEAN } mf_pool;
typedef enum mf_film { MF_FILM_OFF, MF_FILM_PER_EXPERT, MF_FILM_SHARED } mf_film;
typedef enum mf_film_around { MF_FILM_AROUND_ONE, MF_FILM_AROUND_ZERO } mf_film_around;
typedef enum mf_overflow { MF_OVERFLOW_DROP, MF_OVERFLOW_REASSIGN } mf_overflow;
typedef enum mf_priority {
    MF_PRIORITY_POSITION, MF_PRIORITY_GATE, MF_PRIORITY_IMPORTANCE, MF_PRIORITY_DRAWN,
    MF_PRIORITY_TIME
} mf_priority;
typedef enum mf_dropped { MF_DROPPED_RESIDUAL, MF_DROPPED_INPUT, MF_DROPPED_SCALED } mf_dropped;
typedef enum mf_start { MF_START_NORMAL, MF_START_UNIFORM, MF_START_XAVIER } mf_start;
typedef enum mf_schedule {
    MF_SCHEDULE_COSINE, MF_SCHEDULE_LINEAR, MF_SCHEDULE_CONSTANT, MF_SCHEDULE_STEP
} mf_schedule;

/* Integers are int64_t, booleans int64_t 0 or 1, enums int64_t: what mf_option tables write. */
typedef struct mf_model_config {
    int64_t task;              /* mf_task */
    int64_t dim, layers, heads, kv_heads; /* kv_heads 0: as heads */
    int64_t seq;               /* longest sequence */
    int64_t vocab;             /* 0: auto, from the tokenizer */
    int64_t norm, norm_place, position;
    double norm_eps;           /* 1e-5 */
    int64_t norm_eps_outside;  /* rmsnorm: eps outside the root (LaMoE) */
    double rope_theta;         /* 10000 */
    int64_t rope_half;         /* rotate halves instead of interleaved pairs */
    int64_t attention_bias;    /* biases on q, k, v */
    int64_t attention_out_bias;
    double attention_scale;    /* 0: as attention_scale_by says; else the factor itself */
    int64_t attention_scale_by; /* 0: 1/sqrt(dim / heads), 1: 1/sqrt(dim) */
    int64_t causal;            /* yes; lm only */
    int64_t tie_embeddings;    /* output head = embedding */
    int64_t head_bias;
    int64_t ffn_hidden;        /* hidden width of dense blocks; 0: 4 dim */
    int64_t ffn_activation;    /* 0 relu, 1 gelu, 2 swiglu */
    int64_t cache_start;       /* decoding with a cache begins at this place; 0 */
    int64_t head_gates, skip, moe_every;
    double gate_init;          /* start logit of head gates, or raw gate; 3 */
    int64_t gate_form, gate_start; /* mf_gate_form, mf_gate_start */
    int64_t gate_bias;         /* the output bias goes with the gates: b sum(g) / H */
    int64_t head_norm;         /* mf_head_norm */
    int64_t head_mean;         /* attention is the mean of its heads' outputs, not their sum */
    double logit_scale;        /* factor on the output's logits; 1 */
    double gate_lr, skip_lr;   /* factors on the learning rate of gates, and of skips; 1 */
    int64_t skip_form, skip_rule; /* mf_skip_form, mf_skip_rule */
    double skip_scale;         /* 0.1; 0: no skips; live */
    double init_std;           /* 0.02 */
    int64_t attention;         /* 0: a block has no self-attention of its own */
    int64_t init;              /* mf_start */
    int64_t share_layers;      /* blocks share all but their norms, gates and skips */
    int64_t layers_alike;      /* blocks begin with equal weights */
    int64_t classes;           /* classify: 0 = from the data */
    double task_weight;        /* of the task's loss beside those of [task.NAME]; 1; live */
    int64_t pool;              /* classify, regress: 0 first token, 1 mean over real tokens */
    double ffn_dropout;        /* within dense blocks, behind the nonlinearity */
    double head_dropout;       /* before the output head */
} mf_model_config;

typedef struct mf_moe_config {
    int64_t experts, top_k;
    double capacity_factor;    /* 0: dropless */
    int64_t overflow, priority;
    double adaptive_capacity;  /* k of C_i = C0 + k max(0, n_i - T/E); 0: off */
    double adaptive_limit;     /* at most so many C0 more; 0.5 */
    int64_t max_reassign;      /* rows a layer and run; 0: any number */
    int64_t reassign_gate;     /* 0: the new expert's probability, 1: the first choice's */
    int64_t dropped;           /* mf_dropped */
    int64_t unit_gates;        /* gates are p / detach(p) */
    int64_t shared_experts;
    int64_t renormalize;
    double gate_scale;         /* 1 */
    int64_t force_causal;      /* allow routers that look ahead in a decoder */
} mf_moe_config;

typedef struct mf_data_config {
    const char *path, *format, *tokenizer;
    double split;
    const char *val_path;      /* "" : split of path */
    int64_t limit;             /* documents or examples of path that are used; 0: all */
    int64_t pick;              /* which: 0 the first, 1 drawn */
    const char *first_column, *second_column, *label_column; /* tsv; "": the usual names */
    int64_t padding;           /* rows of examples: 0 of model.seq tokens, 1 as the batch
                                  needs */
    int64_t pad_mask;          /* 0: padding counts as tokens */
    int64_t clean;             /* text is made plain first (data/clean.h) */
    int64_t stride;            /* windows at every n-th token, once an epoch; 0: anywhere */
    int64_t split_windows;     /* windows are dealt to train and val, which so overlap */
    int64_t bin_bits;          /* ids of token files: 0 as the file says, else 16; 1: 16, 2:
                                  32 */
} mf_data_config;

/* What train.dtype can be: "f32", "bf16", NULL. */
extern const char *const mf_config_dtypes[];

typedef struct mf_train_config {
    int64_t steps;             /* 0: from epochs */
    double epochs;
    int64_t batch, accumulate;
    int64_t optimizer;         /* 0 adamw, 1 adam (no decoupled decay) */
    double lr, lr_min;         /* lr_min: fraction of lr at the end of cosine and linear */
    int64_t schedule, warmup;
    int64_t step_size;         /* schedule = step: every so many steps */
    double step_epochs;        /* the same in passes over the data; 0: step_size */
    double step_gamma;
    double weight_decay, beta1, beta2, eps, clip, dropout;
    int64_t dropout_embedding; /* also on what goes into the first block; yes */
    int64_t seed;
    int64_t log_every, eval_every, eval_batches; /* eval_batches 0: the whole split */
    double eval_epochs;        /* validate every so many passes; 0: eval_every */
    int64_t eval_train;        /* measure training data beside each validation */
    int64_t keep_best;         /* RUN/best: the checkpoint of the best validation */
    int64_t best_by;           /* mf_best_by: which that is */
    int64_t decay_all;         /* weight decay of norms, biases and embeddings, too */
    int64_t eval_context;      /* tokens that evaluation windows overlap: each is predicted with
                                  at * least so many before it */
    int64_t save_every, keep;
    double time_limit;         /* seconds, 0: none; then checkpoint and exit 75 */
    int64_t dtype;             /* mf_dtype of what products take: MF_F32 or MF_BF16 */
    const char *from;          /* run whose weights this one begins with; "": none */
    int64_t recompute;         /* mf_recompute: 0 none, 1 light, 2 block */
    const char *device;
    int64_t threads;           /* 0: all cores */
    int64_t nan_policy;        /* 0 stop, 1 skip (up to 3 in a row) */
} mf_train_config;

/* Token-conditioned modulation of what experts put out. */
typedef struct mf_film_config {
    int64_t mode;              /* 0 off, 1 per_expert, 2 shared */
    int64_t around;            /* mf_film_around: where scales begin */
} mf_film_config;

typedef struct mf_report_config {
    int64_t enabled;           /* write report.html at the end */
    int64_t samples;           /* evaluations at which routing is sampled (model/pictured.h) */
    const char *sample_at;     /* their numbers; "": samples of them */
} mf_report_config;

typedef struct mf_trace_config {
    int64_t every;             /* record routing each n-th evaluation batch; 0: off */
} mf_trace_config;

/* [task.NAME]: one more thing that is learned of each example, by a head of its own on the same
 * encoder, beside model.task. */
typedef struct mf_task_section {
    int64_t task;               /* mf_further_task */
    const char *column;         /* of the data; "": the one called NAME */
    double weight;              /* of its loss; 1; live as task.NAME.weight */
    int64_t classes;            /* classify: 0 = from the data */
    const char *section, *name; /* "task.score", "score" */
} mf_task_section;
typedef enum mf_further_task {
    MF_FURTHER_CLASSIFY, MF_FURTHER_REGRESS, MF_FURTHER_NONE
} mf_further_task;
#define MF_TASKS_MAX 8 /* [task.NAME] sections */

/* A section that belongs to a plugin: its name and core's own keys; the rest is the plugin's.
 * [regularizer.X] and [controller.X] without `plugin` mean the plugin named X; `plugin = none`
 * takes the section out. [router] and [expert] without it mean those of the default preset. */
typedef struct mf_plugin_section {
    const char *section;       /* "router", "regularizer.balance" */
    const char *label;         /* "balance"; "" for router and expert */
    const char *plugin;        /* name or path */
    double weight;             /* regularizers; 1 by default; live as
                                  regularizer.LABEL.weight */
    int64_t every;             /* controllers; 1 */
    const char *file;          /* where `plugin` was said, for messages */
    int line;
} mf_plugin_section;

typedef struct mf_config {
    mf_model_config model;
    mf_moe_config moe;
    mf_film_config film;
    mf_data_config data;
    mf_train_config train;
    mf_report_config report;
    mf_trace_config trace;
    mf_task_section tasks[MF_TASKS_MAX]; /* in order of appearance, without those of task =
                                            none */
    int n_tasks;
    mf_plugin_section router, expert;
    mf_plugin_section *regularizers, *controllers; /* in order of appearance */
    int n_regularizers, n_controllers;
    const char *name;          /* preset or file stem: names the run directory */
    mf_ini *ini;               /* all sources, for the plugins' own keys */
    struct mf_arena *arena;
} mf_config;

/* Is one thing learned of each sequence (classify, regress), not of each token? */
static inline bool mf_task_by_row(int64_t task)
{
    return task == MF_TASK_CLASSIFY || task == MF_TASK_REGRESS;
}

/* One value from the command line. */
typedef struct mf_assignment {
    const char *text;   /* "section.key=value" */
    const char *origin; /* for messages: "--set", "--steps", "--plugin" */
} mf_assignment;

/* Sources, later over earlier: built-in defaults, system INI, user INI, the preset that CONFIG
 * includes, CONFIG (a file, a folder that holds config.ini, or a preset's name; NULL: the
 * default preset), then the assignments in their order. Every key is judged; plugin sections'
 * own keys are judged by mf_config_open_plugins or when the model is built.
 *
 * Where a source names another plugin for a section than an earlier source did, the earlier
 * source's keys of that section hold only as far as the new plugin knows them.
 *
 * Errors: MF_ECONFIG with file:line, key, expected, nearest; MF_ENOTFOUND for CONFIG itself.
 * With a sink every fault of a value is told to it, *ret may be set all the same, and the first
 * code comes back. */
int mf_config_load_from(const char *config, int n, const mf_assignment *assignments,
                        const mf_problem_sink *sink, mf_config **ret);
/* The same with every origin "--set". */
int mf_config_load(const char *config, int n_set, const char *const *set, mf_config **ret);
void mf_config_free(mf_config *c);

/* Loads every plugin that the configuration names and judges the options given to it. Errors:
 * those of mf_plugin_load; MF_ECONFIG. The sink is told all of them. */
int mf_config_open_plugins(mf_config *c, const mf_problem_sink *sink);

/* Core's sections, all keys with their values; then plugin sections, with all options of their
 * plugins if those can be loaded. The text loads back to the same configuration. Relative paths
 * that exist are made absolute. */
int mf_config_write(const mf_config *c, FILE *out);
/* Rules between keys (heads divides dim, top_k <= experts, ...). Called by load as well. */
int mf_config_judge(const mf_config *c, const mf_problem_sink *sink);

/* Keys of a plugin section that are core's and not the plugin's: what mf_instance_new wants. */
const char *const *mf_config_reserved(const mf_plugin_section *s);

#endif
