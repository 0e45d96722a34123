/* moefw/plugin.h: the descriptor that every plugin exports, and the five kinds.
 *
 * A plugin is one shared object with one exported symbol, the constant `moefw_plugin`. It is
 * data: the loader reads and checks all of it before it calls any function of the plugin. This
 * is a complete router:
 *
 *     #include <moefw/moefw.h>
 *
 *     typedef struct { double temperature; } conf;
 *
 *     static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
 *     {
 *         return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
 *                          MF_NORMAL(0.02));
 *     }
 *     static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
 *                      mf_routing *out)
 *     {
 *         mf_tensor *w = mf->use(ctx, g, "weight");
 *         out->logits = mf_linear(g, in->x, w, NULL);
 *         return mf->status(g);
 *     }
 *     static const mf_option options[] = {MF_END_OPTIONS};
 *     static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};
 *     MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "mine", "1.0", "MIT",
 *                                       "what it does", options, conf, char, &vtable);
 *
 * Memory: the host allocates conf and self, zeroed and 64-byte aligned, and frees them. Calls
 * into one instance never overlap. A plugin is loaded once and never unloaded. */
#ifndef MOEFW_PLUGIN_H
#define MOEFW_PLUGIN_H

#include <moefw/adapter.h>
#include <moefw/host.h>
#include <moefw/routing.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MF_MAGIC 0x6d6f6566u /* "moef" */
/* Raised only if an old plugin could misbehave; an appended field does not raise it. */
#define MF_ABI 1u

typedef enum mf_kind {
    MF_ROUTER = 1,
    MF_EXPERT = 2,
    MF_REGULARIZER = 3,
    MF_CONTROLLER = 4,
    MF_ADAPTER = 5
} mf_kind;

/* ---- options ---- */

typedef enum mf_option_type {
    MF_OPT_INT = 1,  /* int64_t in conf */
    MF_OPT_REAL = 2, /* double */
    MF_OPT_BOOL = 3, /* int64_t, 0 or 1 */
    MF_OPT_STR = 4,  /* const char *, owned by the host */
    MF_OPT_ENUM = 5  /* int64_t, index into choices */
} mf_option_type;

#define MF_OPT_LIVE 1u /* may change between steps (numbers and booleans) */
/* With MF_OPT_LIVE. Graphs that are built while the value is 0 differ from other graphs, so
 * core rebuilds the graphs when the value changes from or to 0. */
#define MF_OPT_STRUCTURAL 2u

typedef struct mf_option {
    const char *name;  /* key in the INI section, [a-z0-9_]+ */
    const char *help;  /* one line */
    const char *value; /* default as INI text; NULL: the user must set it */
    uint32_t type;     /* mf_option_type */
    uint32_t flags;    /* MF_OPT_LIVE, MF_OPT_STRUCTURAL */
    size_t offset;     /* offset of the field in conf */
    double lo, hi;     /* inclusive bounds of numbers, enforced by the host */
    /* MF_OPT_ENUM: its values. MF_OPT_INT: words that mean 0, 1, ... ("auto"), or NULL. The
     * list ends with NULL. */
    const char *const *choices;
} mf_option;

#define MF_OPTION_INIT(...)                                                                    \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#define MF_OPTION_INT(conf, field, def, lo, hi, flags, help)                                   \
    MF_OPTION_INIT(#field, help, def, MF_OPT_INT, flags, offsetof(conf, field), lo, hi, NULL)
#define MF_OPTION_REAL(conf, field, def, lo, hi, flags, help)                                  \
    MF_OPTION_INIT(#field, help, def, MF_OPT_REAL, flags, offsetof(conf, field), lo, hi, NULL)
#define MF_OPTION_BOOL(conf, field, def, flags, help)                                          \
    MF_OPTION_INIT(#field, help, def, MF_OPT_BOOL, flags, offsetof(conf, field), 0, 1, NULL)
#define MF_OPTION_STR(conf, field, def, help)                                                  \
    MF_OPTION_INIT(#field, help, def, MF_OPT_STR, 0, offsetof(conf, field), 0, 0, NULL)
#define MF_OPTION_ENUM(conf, field, def, choices, help)                                        \
    MF_OPTION_INIT(#field, help, def, MF_OPT_ENUM, 0, offsetof(conf, field), 0, 0, choices)
#define MF_END_OPTIONS                                                                         \
    {                                                                                          \
        NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL                                                  \
    }

/* ---- the model, as an instance sees it ---- */

typedef struct mf_dims {
    uint32_t size;
    /* layer: index of the block; -1 for instances of the whole model and of the output head.
     * n_layers: number of blocks */
    int32_t layer, n_layers;
    int32_t dim;            /* d: width of the residual stream */
    int32_t experts, top_k; /* E: number of experts; k: experts per token */
    int32_t heads, kv_heads;
    int32_t vocab; /* number of token ids */
    /* length of the longest sequence; the arguments of each call have the length of
     * their graph */
    int32_t seq;
    int32_t causal;      /* 1 in a decoder: routing must not depend on later tokens */
    int32_t moe_layers;  /* number of layers that have a router */
    int32_t labels;      /* number of distinct labels in the corpus, 0 if there are none */
    int64_t train_steps; /* planned length of the run, 0 if unknown */
    /* meaning of the parameters layers.N.attention.gate: 1: the gates, clamped to 0 .. 1; 0:
     * the logits of the gates */
    int32_t raw_gates;
    /* model.init: 1: weights of linear layers begin as N(0, start_std), biases at 0; 0: both
     * begin as U(-1, 1) / sqrt(inputs) */
    int32_t normal_start;
    double start_std; /* model.init_std */
    int32_t head_dim; /* width of an attention head; since 0.2 */
} mf_dims;

/* ---- the five kinds; each table begins with its size ---- */

/* init declares parameters and buffers, and checks options against dims. conf stays valid as
 * long as the instance. fini may be NULL. */
typedef int (*mf_init_fn)(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims);
typedef void (*mf_fini_fn)(void *self);
/* Called after each optimizer step, to update buffers (running statistics). May be NULL. */
typedef int (*mf_after_step_fn)(void *self, mf_ctx *ctx, const struct mf_step *step);

typedef struct mf_router {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* Called for every graph (training, evaluation, decoding). Fills in *out in one of the four
     * ways that moefw/routing.h describes. */
    int (*route)(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out);
    mf_after_step_fn after_step;
} mf_router;

/* The router reads later tokens. A decoder then needs moe.force_causal. */
#define MF_ROUTER_NOT_CAUSAL 1u
/* after_step reads step->layers. These statistics are then measured in every step. */
#define MF_ROUTER_STATS 2u
/* Since 0.2. The router reads earlier tokens of the sequence. When a text is decoded with a
 * cache, each call of route is for the whole sequence, with as many positions as the cache has
 * (in->seq). At positions without a token the mask is 0, and x and token_ids are 0 or older
 * values. Core keeps x and token_ids between runs, labels are -1, and core reads the rows of
 * the new tokens from the values that route returns. The router may not set token or dispatch.
 * Its values for a token must not depend on positions with mask 0. */
#define MF_ROUTER_SEQUENCE 4u
/* Since 0.2. In training the choice for a token depends on other tokens of the batch, for
 * example to balance experts. In evaluation it does not. */
#define MF_ROUTER_TRAIN_BATCH 8u

typedef struct mf_expert {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* Computes all experts of the layer in one call: *ret_y [R,d] f32 or bf16 from in->x, the
     * inputs of all assignments, grouped by expert. */
    int (*forward)(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y);
    mf_after_step_fn after_step;
} mf_expert;

/* The expert reads in->seq_x, all tokens of the batch, and the mask. */
#define MF_EXPERT_SEQUENCE 1u
/* If in->gate is set, the expert must multiply y by it. An expert that ends with a gemm does
 * this before the gemm, because W (g h) = g (W h), where h is the input of the gemm. The
 * gradient of the gates is then computed from h, and y need not be kept for it. */
#define MF_EXPERT_GATES 2u
/* Since 0.2. The expert reads later tokens of the sequence. A decoder then needs
 * moe.force_causal = yes. */
#define MF_EXPERT_NOT_CAUSAL 4u
/* Since 0.3. The expert reads in->prob or in->logits. Ranks then cannot share the experts
 * (parallel.expert). */
#define MF_EXPERT_PROB 8u

typedef struct mf_regularizer {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* routing[0 .. n): the records of all MoE layers, in order. *ret_loss is one f32 scalar,
     * which core multiplies by the section's weight. */
    int (*loss)(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss);
    mf_after_step_fn after_step;
    /* Since 0.3: called in place of loss, unless loss_of is NULL; loss may then be NULL. moefw
     * 0.2 refuses a table with this function. */
    int (*loss_of)(void *self, mf_ctx *ctx, mf_graph *g, const mf_regularizer_in *in,
                   mf_tensor **ret_loss);
} mf_regularizer;

/* The regularizer also has a loss in models without MoE layers (n = 0). */
#define MF_REGULARIZER_ANY_MODEL 1u
/* Since 0.3: loss or loss_of reads x, expert_out, offset, row_token and row_gate of the
 * records. The outputs of all experts are then kept until the loss is computed, and experts do
 * not apply their gates themselves. */
#define MF_REGULARIZER_OUTPUTS 2u
/* Since 0.3: loss_of reads token_loss. */
#define MF_REGULARIZER_TOKEN_LOSS 4u

typedef struct mf_controller {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* Called after every `every`-th optimizer step, outside of any graph. */
    int (*on_step)(void *self, mf_ctx *ctx, const struct mf_step *step);
} mf_controller;

/* The controller needs the buffers /layers.N.moe.select_bias (see moefw/routing.h). */
#define MF_CONTROLLER_SELECT_BIAS 1u
/* on_step reads neither step->layers nor step->heads, so nothing is measured for
 * the controller. */
#define MF_CONTROLLER_BLIND 2u
/* Since 0.3. on_step reads the tallies /layers.N.moe.token_loss [E,2]. They cover the admitted
 * assignments of tokens whose prediction counts: the sum of the tokens' losses, and the number
 * of assignments. */
#define MF_CONTROLLER_TOKEN_LOSS 4u

/* One instance per section [adapter.NAME] and block; moefw/adapter.h describes the points. */
typedef struct mf_adapter {
    uint32_t size;
    uint32_t flags; /* must be 0 */
    mf_init_fn init;
    mf_fini_fn fini;
    /* Called for every graph, once per point, in the order in which values are computed. At
     * first *ret_y is in->y; if apply does not change *ret_y, the adapter has no effect. */
    int (*apply)(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y);
    mf_after_step_fn after_step;
    uint32_t points; /* MF_POINT_BIT of each point that the plugin supports */
    uint32_t reserved;
    const char *at; /* the point that is used unless the section sets another, for
                     * example "expert_out" */
    /* The adapter's parameters are layers.N.PATH.*, at the output head adapter.PATH.*; NULL:
     * PATH is the section's NAME. */
    const char *path;
    /* Called when a model is made, after parameters got their initial values, which the plugin
     * may change here through mf_host.data. May be NULL. */
    int (*start)(void *self, mf_ctx *ctx);
    /* Called before the first step, after parameters were copied from another run that has a
     * section with this plugin. option(arg, key) returns the value of an option in that section
     * as INI text, or NULL if the option is not set there. layers: number of blocks of that
     * run. May be NULL. */
    int (*adopt)(void *self, mf_ctx *ctx,
                 const char *(*option)(const void *arg, const char *key), const void *arg,
                 int32_t layers);
} mf_adapter;

typedef struct mf_plugin {
    uint32_t magic, abi;                   /* checked first; the offsets of these two fields
                                            * never change */
    uint32_t size, host_size, option_size; /* sizeof of mf_plugin, of mf_host, of mf_option */
    uint32_t vtable_size;                  /* sizeof of the kind's table */
    uint32_t kind;                         /* mf_kind */
    uint32_t reserved;
    /* one line of text each, not empty; name: 1 to 64 characters [a-z0-9_] */
    const char *name, *version, *license, *brief;
    const mf_option *options; /* ends with an entry whose name is NULL */
    /* bytes that the host allocates for each instance */
    size_t conf_size, self_size;
    const void *vtable;   /* mf_router, mf_expert, ... by kind */
    const mf_host **host; /* slot into which the loader writes the address of mf_host */
    /* ---- since 0.2 ---- */
    /* ops with inputs for `plugin check`, each of size examples[0].size; NULL: none */
    const mf_op_example *examples;
    int32_t n_examples, reserved2;
} mf_plugin;

#if defined(__GNUC__)
#define MF_VISIBLE __attribute__((visibility("default")))
#define MF_NAMES   __attribute__((used)) static const char mf_host_names[] = MF_HOST_NAMES;
#else
#define MF_VISIBLE
#define MF_NAMES
#endif
#ifdef __cplusplus
#define MF_EXPORT_PLUGIN MF_NAMES extern "C" MF_VISIBLE const mf_plugin moefw_plugin
#else
#define MF_EXPORT_PLUGIN                                                                       \
    MF_NAMES extern MF_VISIBLE const mf_plugin moefw_plugin;                                   \
    const mf_plugin moefw_plugin
#endif
/* kind: MF_ROUTER, ...; kind_type: mf_router, ...; conf, self: types (char if there is nothing
 * to store). The slot is the variable `mf` that moefw/ops.h declares. */
#define MF_PLUGIN_INIT(kind, kind_type, name, version, license, brief, options, conf, self,    \
                       vt)                                                                     \
    MF_PLUGIN_INIT_OPS(kind, kind_type, name, version, license, brief, options, conf, self,    \
                       vt, NULL, 0)
/* The same as MF_PLUGIN_INIT, with examples of the plugin's ops (an array of mf_op_example) and
 * their number. */
#define MF_PLUGIN_INIT_OPS(kind, kind_type, name, version, license, brief, options, conf,      \
                           self, vt, examples, n_examples)                                     \
    {                                                                                          \
        MF_MAGIC, MF_ABI, (uint32_t)sizeof(mf_plugin), (uint32_t)sizeof(mf_host),              \
            (uint32_t)sizeof(mf_option), (uint32_t)sizeof(kind_type), kind, 0, name, version,  \
            license, brief, options, sizeof(conf), sizeof(self), vt, &mf, examples,            \
            n_examples, 0                                                                      \
    }

#ifdef __cplusplus
}
#endif
#endif
