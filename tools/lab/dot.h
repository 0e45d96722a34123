/* lab/dot.h: a graph as text of Graphviz. */
#ifndef MF_LAB_DOT_H
#define MF_LAB_DOT_H

#include "graph/graph.h"
#include <stdbool.h>
#include <stdio.h>

/* Writes the graph to `out`, with the nodes of gradients only if `all`. Errors: the status of
 * the graph if its construction failed; MF_EIO if `out` has an error. */
int mf_graph_dot(const mf_graph *g, bool all, FILE *out);

#endif
