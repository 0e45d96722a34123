/* ops/ops.h: the op table, and functions with which core adds ops.
 *
 * Core uses the same typed functions as plugins (moefw/ops.h). In core they call core's own
 * host table instead of the host table in a plugin's slot. */
#ifndef MF_OPS_OPS_H
#define MF_OPS_OPS_H

#include <moefw/host.h>
#include "graph/graph.h"

extern const mf_host mf_core_graph_host; /* only its graph functions are set */
#define MF_HOST_SLOT (&mf_core_graph_host)
#include <moefw/ops.h>

#define MF_OP(name) extern const mf_opdef mf_op_##name;
#include "ops/ops.def"
#undef MF_OP

#endif
