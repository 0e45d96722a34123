/* model/adapters.h: the adapters of a model, and the calls with which a graph reaches them.
 *
 * The code that builds a block calls mf_adapt with the value at a point and continues with the
 * value that mf_adapt returns. A point without adapters adds no nodes. An environment
 * (mf_adapt_env) belongs to one graph while that graph is built; it keeps the values that
 * adapters of later points may request (taps). */
#ifndef MF_MODEL_ADAPTERS_H
#define MF_MODEL_ADAPTERS_H

#include "model/model_config.h"
#include "plugin/instance.h"

/* One instance: a section applied to one block, or to the output head. */
typedef struct mf_adapter_use {
    mf_ctx *ctx;
    const mf_plugin_section *section;
    uint32_t points; /* MF_POINT_BIT of each point at which it is called */
    int32_t n_sites; /* number of linear layers that it changes */
    const mf_linear_site *sites;
    bool *met; /* [n_sites] true: a graph has used this linear layer */
} mf_adapter_use;

/* The adapters of one block, or of the output head, in the order of their sections. */
typedef struct mf_adapters {
    mf_adapter_use *use;
    int n;
} mf_adapters;

typedef struct mf_adapt_env {
    mf_graph *g;
    int32_t layer; /* index of the block that is being built; -1: the output head */
    int32_t batch, seq, experts;
    const mf_adapters *adapters; /* adapters of the block `layer` */
    mf_tensor *mask, *positions, *sequence_ids;
    mf_tensor *token; /* token of each assignment while experts are built; otherwise NULL */
    mf_tensor *
        *values;    /* [layers MF_AT_POINTS] value at each point; NULL: values are not kept */
    bool heads_cut; /* the fields heads .. head_mask below are set */
    int32_t heads, n_active;
    const int32_t *active;
    mf_tensor *head_mask;
} mf_adapt_env;

/* Calls the adapters of a point of the current block. Returns the value that replaces y, or y
 * itself if the point has no adapter; NULL if the graph has failed or an adapter removes the
 * attention bias. more: x, offset, token and experts of expert points; NULL at other points. */
mf_tensor *mf_adapt(mf_adapt_env *env, mf_point point, mf_tensor *y, const mf_adapter_in *more);
/* Like mf_adapt, for the linear layer y = x W^T with this name. */
mf_tensor *mf_adapt_linear(mf_adapt_env *env, const char *site, mf_tensor *x, mf_tensor *y);
/* Whether the block has an adapter at that point, or at that linear layer. */
bool mf_adapters_at(const mf_adapters *a, mf_point point);
bool mf_adapters_at_linear(const mf_adapters *a, const char *site);
/* Callback for linear layers that plugins add (mf_plughost_set_linear); env: mf_adapt_env. */
mf_tensor *mf_adapt_hook(void *env, mf_graph *g, const mf_opdef *op, mf_tensor *const *in,
                         mf_tensor *y);

/* ---- instances ---- */

/* The time at which an instance declares its parameters. It fixes their order in the store. */
typedef enum mf_adapter_turn {
    MF_ADAPT_ATTENTION, /* after the parameters of attention */
    MF_ADAPT_BLOCK,     /* after the parameters of the second norm */
    MF_ADAPT_EXPERTS,   /* after the parameters of the experts */
    MF_ADAPT_LINEARS    /* after the parameters of all layers: adapters of linear layers */
} mf_adapter_turn;

struct mf_model;
/* Loads the plugins of all sections and checks their points. MF_ECONFIG for wrong points or
 * layers, MF_ENOMEM, or the error of mf_plugin_load. */
int mf_adapters_load(struct mf_model *m);
/* Makes those instances of one block (layer -1: the output head) that belong to `turn`. */
int mf_adapters_make(struct mf_model *m, int32_t layer, mf_adapter_turn turn);
/* Makes the instances of the output head. Call this after the last mf_adapters_make. MF_ECONFIG
 * if a section that names linear layers has no instance at all. */
int mf_adapters_settle(struct mf_model *m);
/* Calls mf_adapter.start of all instances, after the parameters got their initial values. */
int mf_adapters_start(struct mf_model *m);
/* Calls mf_adapter.after_step of all instances. */
int mf_adapters_after_step(const struct mf_model *m, const struct mf_step *step);
void mf_adapters_free(struct mf_model *m);
/* Fails with MF_ECONFIG if a section chose a linear layer that no graph has used. */
int mf_adapters_all_met(const struct mf_model *m);
/* Calls mf_adapter.adopt of all instances, after parameters were copied from a run with the
 * configuration `from`. */
int mf_adapters_adopt(struct mf_model *m, const mf_model_settings *from);

/* The points that a section chooses, and its patterns for names of linear layers. */
#define MF_ADAPTER_PATTERNS 16
typedef struct mf_adapter_at {
    uint32_t points;
    int n_patterns;
    const char *pattern[MF_ADAPTER_PATTERNS];
    bool met[MF_ADAPTER_PATTERNS]; /* true: a linear layer has matched the pattern */
} mf_adapter_at;
/* Reads the section's key `at`, or the plugin's `at` if the section's is empty. The arena owns
 * the patterns. MF_ECONFIG if the plugin does not support a point, or if no point is
 * given; MF_ENOMEM. */
int mf_adapter_parse_at(const mf_plugin_section *s, const mf_adapter *table, mf_arena *arena,
                        mf_adapter_at *ret);
/* Whether a pattern matches the linear layer's name, or that name without ".weight". Records in
 * `met` which pattern matched. */
bool mf_adapter_chooses(mf_adapter_at *at, const char *site);
const char *mf_point_name(mf_point point); /* returns for example "block_in" */

#endif
