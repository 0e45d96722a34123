/* moefw/plugin.h: the descriptor that every plugin exports, and the four kinds.
 *
 * A plugin is one shared object with one exported symbol, the constant `moefw_plugin`. It is
 * data: the loader reads and judges all of it before it calls any function. This is a whole
 * router:
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
 * Memory: the host allocates conf and self, zeroed and 64-byte aligned, and frees them. One
 * instance is never entered twice at once. A plugin is loaded once and never unloaded.
 */
#ifndef MOEFW_PLUGIN_H
#define MOEFW_PLUGIN_H

#include <moefw/host.h>
#include <moefw/routing.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MF_MAGIC 0x6d6f6566u /* "moef" */
/* Raised only when an old plugin could misbehave; appending fields never raises it. */
#define MF_ABI 1u

typedef enum mf_kind {
    MF_ROUTER = 1,
    MF_EXPERT = 2,
    MF_REGULARIZER = 3,
    MF_CONTROLLER = 4
} mf_kind;

/* ---- options ---- */

typedef enum mf_option_type {
    MF_OPT_INT = 1,  /* int64_t in conf */
    MF_OPT_REAL = 2, /* double */
    MF_OPT_BOOL = 3, /* int64_t, 0 or 1 */
    MF_OPT_STR = 4,  /* const char *, owned by the host */
    MF_OPT_ENUM = 5  /* int64_t, index into choices */
} mf_option_type;

#define MF_OPT_LIVE 1u /* may be turned while training runs (numbers and booleans) */

typedef struct mf_option {
    const char *name;  /* key in the INI section, [a-z0-9_]+ */
    const char *help;  /* one line */
    const char *value; /* default as INI text; NULL: must be given */
    uint32_t type;     /* mf_option_type */
    uint32_t flags;    /* MF_OPT_LIVE */
    size_t offset;     /* into conf */
    double lo, hi;     /* inclusive bounds of numbers, enforced by the host */
    /* MF_OPT_ENUM: its values. MF_OPT_INT: words that stand for 0, 1, ... ("auto"), or NULL.
     * Ends with NULL. */
    const char *const *choices;
} mf_option;

#define MF_OPTION_INT(conf, field, def, lo, hi, flags, help)                                   \
    {#field, help, def, MF_OPT_INT, flags, offsetof(conf, field), lo, hi, NULL}
#define MF_OPTION_REAL(conf, field, def, lo, hi, flags, help)                                  \
    {#field, help, def, MF_OPT_REAL, flags, offsetof(conf, field), lo, hi, NULL}
#define MF_OPTION_BOOL(conf, field, def, flags, help)                                          \
    {#field, help, def, MF_OPT_BOOL, flags, offsetof(conf, field), 0, 1, NULL}
#define MF_OPTION_STR(conf, field, def, help)                                                  \
    {#field, help, def, MF_OPT_STR, 0, offsetof(conf, field), 0, 0, NULL}
#define MF_OPTION_ENUM(conf, field, def, choices, help)                                        \
    {#field, help, def, MF_OPT_ENUM, 0, offsetof(conf, field), 0, 0, choices}
#define MF_END_OPTIONS {NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL}

/* ---- what an instance is told about its place ---- */

typedef struct mf_dims {
    uint32_t size;
    int32_t layer, n_layers;   /* layer: index of the block; -1 for model-wide instances */
    int32_t dim;               /* d: width of the residual stream */
    int32_t experts, top_k;    /* E, k */
    int32_t heads, kv_heads;
    int32_t vocab;             /* number of token ids */
    int32_t seq;               /* longest sequence; a graph's own length is in what it is
                                  given */
    int32_t causal;            /* 1 in a decoder: routing must not look ahead */
    int32_t moe_layers;        /* how many layers have a router */
    int32_t labels;            /* number of label values the corpus knows, 0 if none */
    int64_t train_steps;       /* planned length of the run, 0 if unknown */
    int32_t raw_gates;         /* layers.N.attention.gate: 1: gates, cut to 0 .. 1; 0: their
                                  logits */
} mf_dims;

/* ---- the four kinds; each table begins with its size ---- */

/* init declares parameters and buffers and checks options against dims. fini may be NULL. */
typedef int (*mf_init_fn)(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims);
typedef void (*mf_fini_fn)(void *self);
/* Between steps, after the optimizer: update buffers (running statistics). May be NULL. */
typedef int (*mf_after_step_fn)(void *self, mf_ctx *ctx, const struct mf_step *step);

typedef struct mf_router {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* Called for every graph (training, evaluation, decoding). Fills logits, or prob, or the
     * whole choice: see mf_routing. */
    int (*route)(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out);
    mf_after_step_fn after_step;
} mf_router;

#define MF_ROUTER_NOT_CAUSAL 1u /* looks at later tokens: refused in a decoder unless forced */
#define MF_ROUTER_STATS      2u /* after_step reads step->layers: they are measured in every
                                   step */

typedef struct mf_expert {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* All experts of the layer in one call: rows grouped by expert in, rows out. */
    int (*forward)(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y);
    mf_after_step_fn after_step;
} mf_expert;

#define MF_EXPERT_SEQUENCE 1u /* reads in->seq_x, the whole sequence, and the mask */
/* Where in->gate is set, y is to come times it. An expert that ends with a product does so in
 * front of that, W (g h) = g (W h): the gates' gradient then comes from h, and y need not be
 * kept for it. */
#define MF_EXPERT_GATES 2u

typedef struct mf_regularizer {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* routing[0 .. n): the records of all MoE layers, in order. One scalar out, unweighted. */
    int (*loss)(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss);
    mf_after_step_fn after_step;
} mf_regularizer;

#define MF_REGULARIZER_ANY_MODEL 1u /* adds its term in models without MoE layers too (n = 0) */

typedef struct mf_controller {
    uint32_t size;
    uint32_t flags;
    mf_init_fn init;
    mf_fini_fn fini;
    /* After every `every`-th optimizer step, off the graph. */
    int (*on_step)(void *self, mf_ctx *ctx, const struct mf_step *step);
} mf_controller;

#define MF_CONTROLLER_SELECT_BIAS 1u /* wants /layers.N.moe.select_bias to exist (see
                                        routing.h) */
#define MF_CONTROLLER_BLIND       2u /* reads neither step->layers nor step->heads: nothing is
                                      * measured for its sake */

typedef struct mf_plugin {
    uint32_t magic, abi;                   /* judged first; these two never move */
    uint32_t size, host_size, option_size; /* sizeof of this, of mf_host, of mf_option */
    uint32_t vtable_size;                  /* sizeof of the kind's table */
    uint32_t kind;                         /* mf_kind */
    uint32_t reserved;
    const char *name, *version, *license, *brief; /* none may be NULL; name = [a-z0-9_]+ */
    const mf_option *options;              /* ends with a NULL name */
    size_t conf_size, self_size;           /* bytes the host allocates per instance */
    const void *vtable;                    /* mf_router, mf_expert, ... by kind */
    const mf_host **host;                  /* slot that the loader fills */
} mf_plugin;

#if defined(__GNUC__)
#define MF_VISIBLE __attribute__((visibility("default")))
#else
#define MF_VISIBLE
#endif
#ifdef __cplusplus
#define MF_EXPORT_PLUGIN extern "C" MF_VISIBLE const mf_plugin moefw_plugin
#else
#define MF_EXPORT_PLUGIN                                                                       \
    extern MF_VISIBLE const mf_plugin moefw_plugin;                                            \
    const mf_plugin moefw_plugin
#endif
/* kind: MF_ROUTER ...; kind_type: mf_router ...; conf, self: types (char when there is nothing
 * to keep). The slot is the `mf` that moefw/ops.h declares. */
#define MF_PLUGIN_INIT(kind, kind_type, name, version, license, brief, options, conf, self,    \
                       vt)                                                                     \
    {                                                                                          \
        MF_MAGIC, MF_ABI, (uint32_t)sizeof(mf_plugin), (uint32_t)sizeof(mf_host),              \
            (uint32_t)sizeof(mf_option), (uint32_t)sizeof(kind_type), kind, 0, name, version,  \
            license, brief, options, sizeof(conf), sizeof(self), vt, &mf                       \
    }

#ifdef __cplusplus
}
#endif
#endif
