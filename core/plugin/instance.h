/* plugin/instance.h: one use of a plugin: its options, its memory, its place in the model.
 *
 * A host (mf_plughost) is what all instances of one model share: the store in which they
 * declare, the registry of live options, and what the trainer supplies (history, rebuild). An
 * instance is the mf_ctx that plugin functions get. Every call into a plugin goes through the
 * functions here, which set the phase (declaring, building, stepping), check what comes back,
 * and put plugin and layer into messages.
 */
#ifndef MF_PLUGIN_INSTANCE_H
#define MF_PLUGIN_INSTANCE_H

#include <moefw/plugin.h>
#include "base/ini.h"
#include "graph/graph.h"
#include "plugin/live.h"

typedef struct mf_loaded mf_loaded; /* a judged plugin (plugin/open.h) */

mf_plughost *mf_plughost_new(mf_store *store);
void mf_plughost_free(mf_plughost *h); /* after its instances */

/* What the trainer supplies; may be absent (checks). step: stamps turns. */
void mf_plughost_set_step(mf_plughost *h, int64_t step);
void mf_plughost_set_history(mf_plughost *h, void *arg,
                             int32_t (*history)(void *arg, const char *metric, int32_t n,
                                                double *out));
/* importance: see mf_host.head_importance. */
void mf_plughost_set_importance(mf_plughost *h, void *arg,
                                int (*importance)(void *arg, int32_t n, float *out,
                                                  int32_t *ret_n));
/* A reason when a controller asked for a rebuild or froze parameters since the last call; else
 * NULL. */
const char *mf_plughost_rebuild(mf_plughost *h);

/* Makes an instance and calls init. path: prefix of its parameters, "layers.3.router". section:
 * the INI section with its options; reserved: keys there that are not the plugin's own
 * (NULL-terminated). live: prefix of its live options, "router", "regularizer.balance". */
int mf_instance_new(mf_plughost *h, const mf_loaded *plugin, const char *path, mf_ini *ini,
                    const char *section, const char *const *reserved, const char *live,
                    const mf_dims *dims, mf_ctx **ret);
void mf_instance_free(mf_ctx *instance); /* calls fini */
const char *mf_instance_path(const mf_ctx *instance);
const mf_loaded *mf_instance_plugin(const mf_ctx *instance);
const void *mf_instance_conf(const mf_ctx *instance);

/* Calls, by kind. The graph functions work inside a scope "PATH NAME"; a leading "layers.N." of
 * the path is left out there, because whoever builds the block has put it. */
int mf_instance_route(mf_ctx *router, mf_graph *g, const mf_router_in *in, mf_routing *out);
int mf_instance_expert(mf_ctx *expert, mf_graph *g, const mf_expert_in *in, mf_tensor **ret_y);
int mf_instance_loss(mf_ctx *regularizer, mf_graph *g, const mf_routing *const *routing,
                     int32_t n, mf_tensor **ret_loss);
int mf_instance_on_step(mf_ctx *controller, const mf_step *step);
int mf_instance_after_step(mf_ctx *instance, const mf_step *step); /* MF_OK if it has none */

/* Values that plugins keep as metrics in a graph (mf_host.metric): i-th, NULL past the end. The
 * tensor is a kept scalar or a kept tensor whose mean is meant. */
const char *mf_plughost_metric(const mf_plughost *h, const mf_graph *g, int i, mf_tensor **ret);
/* Drops what is kept of a graph: to be called for each new one, because it may have the address
 * of one that is gone. */
void mf_plughost_forget(mf_plughost *h, const mf_graph *g);

#endif
