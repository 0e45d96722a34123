/* plugin/instance.h: an instance is one use of a plugin: its options, its memory, its path in
 * the model.
 *
 * A host (mf_plughost) contains what all instances of one model share: the store of parameters,
 * the registry of live options, and the functions of the trainer (history, head importance). An
 * instance is the mf_ctx that plugin functions receive. Every call into a plugin goes through
 * the functions here: they set the phase (declaring, building, stepping), check the results,
 * and add plugin and layer to messages. */
#ifndef MF_PLUGIN_INSTANCE_H
#define MF_PLUGIN_INSTANCE_H

#include <moefw/plugin.h>
#include "base/text/ini.h"
#include "graph/graph.h"
#include "plugin/live.h"

typedef struct mf_loaded mf_loaded; /* a checked plugin (plugin/load/open.h) */

mf_plughost *mf_plughost_new(mf_store *store);
void mf_plughost_free(mf_plughost *h); /* the instances of the host must be freed first */

/* These functions are for the trainer and for checks. step: the number that is recorded with
 * each change of a live option. */
void mf_plughost_set_step(mf_plughost *h, int64_t step);
void mf_plughost_set_history(mf_plughost *h, void *arg,
                             int32_t (*history)(void *arg, const char *metric, int32_t n,
                                                double *out));
/* importance: the function that implements mf_host.head_importance. */
void mf_plughost_set_importance(mf_plughost *h, void *arg,
                                int (*importance)(void *arg, int32_t n, float *out,
                                                  int32_t *ret_n));
/* Tells the host that several ranks share the experts, so an expert computes rows of other
 * ranks' micro-batches. */
void mf_plughost_share_experts(mf_plughost *h);
/* Returns the reason for a rebuild of graphs, else NULL. The reason is that since the last call
 * a controller requested a rebuild or froze parameters, or a live option changed in a way that
 * changes graphs. */
const char *mf_plughost_rebuild(mf_plughost *h);

/* Makes an instance and calls init; the caller frees it with mf_instance_free. path: prefix of
 * its parameters, "layers.3.router". section: the INI section with its options. reserved: keys
 * of the section that do not belong to the plugin (NULL-terminated). live: prefix of its live
 * options, for example "router" or "regularizer.balance". */
int mf_instance_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                    const char *section, const char *const *reserved, const char *live,
                    const mf_dims *dims, mf_ctx **ret);
/* The value of one option that core sets, regardless of the section. */
typedef struct mf_option_value {
    const char *option, *text;
    const char *key; /* key of core that requires the value, for messages */
} mf_option_value;
/* Like mf_instance_new, with one option set by core; NULL: none. MF_ECONFIG if the plugin has
 * no such option or refuses the value. */
int mf_instance_new_with(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                         const char *section, const char *const *reserved, const char *live,
                         const mf_option_value *set, const mf_dims *dims, mf_ctx **ret);
/* What an adapter requested in init, and the values that it received. */
typedef struct mf_adapter_notes {
    uint32_t wants; /* MF_ADAPTER_HEADS, MF_ADAPTER_SEQUENCE */
    struct {
        int32_t layer, point;
    } tap[MF_ADAPTER_TAPS];
    int32_t n_taps;
    mf_param *gates; /* result of mf_host.head_gates; NULL: none */
    int32_t gate_form;
    int32_t layer; /* layer of the instance */
    const mf_linear_site *sites;
    int32_t n_sites;
} mf_adapter_notes;
/* Like mf_instance_new, for an adapter. sites: its linear layers, which must stay valid as long
 * as the instance. lr: factor on the learning rate of its parameters. */
int mf_adapter_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                   const char *section, const char *const *reserved, const char *live,
                   const mf_dims *dims, const mf_linear_site *sites, int32_t n_sites, double lr,
                   mf_ctx **ret);
const mf_adapter_notes *mf_instance_notes(const mf_ctx *adapter);
void mf_instance_free(mf_ctx *instance); /* calls fini */
const char *mf_instance_path(const mf_ctx *instance);
const mf_loaded *mf_instance_plugin(const mf_ctx *instance);
const void *mf_instance_conf(const mf_ctx *instance);

/* The calls, by kind. Functions that build graphs work inside a scope "PATH NAME". A leading
 * "layers.N." of the path is omitted there, because the code that builds the block has already
 * set it. */
int mf_instance_route(mf_ctx *router, mf_graph *g, const mf_router_in *in, mf_routing *out);
int mf_instance_expert(mf_ctx *expert, mf_graph *g, const mf_expert_in *in, mf_tensor **ret_y);
int mf_instance_loss(mf_ctx *regularizer, mf_graph *g, const mf_regularizer_in *in,
                     mf_tensor **ret_loss);
/* Sets *ret_y to in->y, or to the tensor that replaces it. */
int mf_instance_apply(mf_ctx *adapter, mf_graph *g, const mf_adapter_in *in, mf_tensor **ret_y);
int mf_instance_start(mf_ctx *adapter); /* calls mf_adapter.start */
int mf_instance_adopt(mf_ctx *adapter, const char *(*option)(const void *arg, const char *key),
                      const void *arg, int32_t layers);
int mf_instance_on_step(mf_ctx *controller, const mf_step *step);
/* Returns MF_OK if the plugin has no such function. mf_instance_start and mf_instance_adopt do
 * the same. */
int mf_instance_after_step(mf_ctx *instance, const mf_step *step);

/* Sets the hook that is called after a plugin other than an adapter has added a linear op
 * (mf_op_role) whose weights are a parameter. The plugin receives the tensor that the hook
 * returns. One hook per host. */
typedef mf_tensor *(*mf_linear_hook)(void *arg, mf_graph *g, const mf_opdef *op,
                                     mf_tensor *const *in, mf_tensor *y);
void mf_plughost_set_linear(mf_plughost *h, mf_linear_hook hook, void *arg);

/* Returns the name of the i-th metric that plugins report in a graph (mf_host.metric); *ret is
 * its value, a kept scalar. NULL past the end. */
const char *mf_plughost_metric(const mf_plughost *h, const mf_graph *g, int i, mf_tensor **ret);
/* Forgets all records of a graph. Call this for each new graph, because it may have the address
 * of a graph that was freed. */
void mf_plughost_forget(mf_plughost *h, const mf_graph *g);

#endif
