/* model/adapters.h: the adapters of a model, and the points at which a graph asks them.
 *
 * Who builds a block calls mf_adapt with the value at a point and goes on with what it gets.
 * Nothing is added to a graph at points where no adapter stands. An environment (mf_adapt_env)
 * belongs to one graph while it is built; it keeps the values that adapters of later points may
 * ask for.
 */
#ifndef MF_MODEL_ADAPTERS_H
#define MF_MODEL_ADAPTERS_H

#include "model/model_config.h"
#include "plugin/instance.h"

/* One instance: a section at work in one block, or at the output head. */
typedef struct mf_adapter_use {
    mf_ctx *ctx;
    const mf_plugin_section *section;
    uint32_t points; /* MF_POINT_BIT of where it is called */
    int32_t n_sites; /* linear layers that it changes */
    const mf_linear_site *sites;
    bool *met; /* [n_sites] a graph has come by */
} mf_adapter_use;

/* Those of one block, in the order of their sections. */
typedef struct mf_adapters {
    mf_adapter_use *use;
    int n;
} mf_adapters;

typedef struct mf_adapt_env {
    mf_graph *g;
    int32_t layer; /* block at work; -1: the output head */
    int32_t batch, seq, experts;
    const mf_adapters *adapters; /* of that block */
    mf_tensor *mask, *positions, *sequence_ids;
    mf_tensor *token; /* of the assignments while experts are built, else NULL */
    mf_tensor *
        *values;    /* [layers MF_AT_POINTS] what was at each point; NULL: nothing is kept */
    bool heads_cut; /* n_heads .. below are set */
    int32_t heads, n_active;
    const int32_t *active;
    mf_tensor *head_mask;
} mf_adapt_env;

/* The value that takes the place of y at a point of the block at work: y itself where no
 * adapter stands there. more: x, offset and token of expert points; NULL: none of them. NULL
 * comes back when the graph has failed, or when an adapter takes the attention bias away. */
mf_tensor *mf_adapt(mf_adapt_env *env, mf_point point, mf_tensor *y, const mf_adapter_in *more);
/* The same for a linear layer y = x W^T of that name. */
mf_tensor *mf_adapt_linear(mf_adapt_env *env, const char *site, mf_tensor *x, mf_tensor *y);
/* Does any adapter stand there? */
bool mf_adapters_at(const mf_adapters *a, mf_point point);
bool mf_adapters_at_linear(const mf_adapters *a, const char *site);
/* What env's plugins add linear layers through (mf_plughost_set_linear): arg is the env. */
mf_tensor *mf_adapt_hook(void *env, mf_graph *g, const mf_opdef *op, mf_tensor *const *in,
                         mf_tensor *y);

/* ---- making them ---- */

/* When an instance declares its parameters: their order in the store is that of the block. */
typedef enum mf_adapter_turn {
    MF_ADAPT_ATTENTION, /* behind those of attention */
    MF_ADAPT_BLOCK,     /* behind the second norm */
    MF_ADAPT_EXPERTS,   /* behind the experts */
    MF_ADAPT_LINEARS    /* behind everything: those of linear layers */
} mf_adapter_turn;

struct mf_model;
/* Loads the plugins of all sections and judges where they shall stand. MF_ECONFIG, and what
 * mf_plugin_load gives. */
int mf_adapters_load(struct mf_model *m);
/* Makes the instances of one block (layer -1: of the output head) whose turn it is. */
int mf_adapters_make(struct mf_model *m, int32_t layer, mf_adapter_turn turn);
/* After the last: each section must have found a place. Registers the services asked for. */
int mf_adapters_settle(struct mf_model *m);
/* Start values are drawn. */
int mf_adapters_start(struct mf_model *m);
int mf_adapters_after_step(const struct mf_model *m, const struct mf_step *step);
void mf_adapters_free(struct mf_model *m);
/* A site that is chosen and that no linear layer of the graph came by is an error. */
int mf_adapters_all_met(const struct mf_model *m);
/* The parameters have been taken from a run of that configuration. */
int mf_adapters_adopt(struct mf_model *m, const mf_model_settings *from);

/* Points of a section and its patterns of linear layers. at: "" stands for the plugin's own.
 * Names that are neither point nor pattern are told with file and line of the section. */
#define MF_ADAPTER_PATTERNS 16
typedef struct mf_adapter_at {
    uint32_t points;
    int n_patterns;
    const char *pattern[MF_ADAPTER_PATTERNS];
} mf_adapter_at;
int mf_adapter_parse_at(const mf_plugin_section *s, const mf_adapter *table, mf_arena *arena,
                        mf_adapter_at *ret);
/* Does a pattern mean that linear layer, by its name or by its name without ".weight"? */
bool mf_adapter_chooses(const mf_adapter_at *at, const char *site);
const char *mf_point_name(mf_point point); /* "block_in" */

#endif
