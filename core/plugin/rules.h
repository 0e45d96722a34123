/* plugin/rules.h: the rules of mf_host that all its functions check. A broken rule is recorded
 * with plugin, path and running function. The instance's call then fails even if the plugin
 * ignores the result. This header is only for the files that implement mf_host. */
#ifndef MF_PLUGIN_RULES_H
#define MF_PLUGIN_RULES_H

#include "base/error.h"
#include "plugin/instance_internal.h"

/* Records a broken rule. Returns MF_EPLUGIN. */
MF_PRINTF(2, 3) int mf_rule_broken(mf_ctx *ctx, const char *fmt, ...);
/* Checks that the function is called in this phase. */
int mf_rule_phase(mf_ctx *ctx, mf_phase phase, const char *function);
/* Like mf_rule_phase, for functions that build graphs. It also checks that the graph is the
 * graph that was passed to the plugin. */
int mf_rule_graph(mf_ctx *ctx, const mf_graph *g, const char *function);
/* Checks a name of a parameter, buffer, tally or metric: 1 to 64 letters, digits, '_' and '.'.
 * `function`: name for the message. */
int mf_rule_name(mf_ctx *ctx, const char *function, const char *name);
/* Checks the shape of a parameter, buffer or tally. */
int mf_rule_shape(mf_ctx *ctx, const char *function, const char *name, mf_shape shape);
/* Writes the full name of the instance's parameter, buffer or tally. */
enum { MF_FULL_NAME = 256 };
int mf_rule_full_name(mf_ctx *ctx, const char *function, const char *name,
                      char ret[MF_FULL_NAME]);

#endif
