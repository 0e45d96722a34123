/* ops/ops.h: what the files of this folder share: the op table, and building with ops in core.
 *
 * Including this gives core the same typed functions that plugins have (moefw/ops.h), bound to
 * core's own host table instead of a plugin's slot.
 */
#ifndef MF_OPS_OPS_H
#define MF_OPS_OPS_H

#include <moefw/host.h>
#include "graph/graph.h"

extern const mf_host mf_core_graph_host; /* only the graph part is filled */
#define MF_HOST_SLOT (&mf_core_graph_host)
#include <moefw/ops.h>

#define MF_OP(name) extern const mf_opdef mf_op_##name;
#include "ops/ops.def"
#undef MF_OP

#endif
