/* plugin/print.h: mf_host.print, which shows the values of a tensor in each run. */
#ifndef MF_PLUGIN_PRINT_H
#define MF_PLUGIN_PRINT_H

#include "graph/graph.h"

/* Adds a node that logs shape, range, mean, the number of values that are not finite, and the
 * first elements. The node has no readers and no gradient, and is never dropped. name must stay
 * valid as long as the graph. */
void mf_print_add(mf_graph *g, mf_tensor *t, const char *name);

#endif
