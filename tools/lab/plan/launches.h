/* lab/plan/launches.h: the launches of a graph, found without running it. */
#ifndef MF_LAB_LAUNCHES_H
#define MF_LAB_LAUNCHES_H

#include "graph/graph.h"

/* For a graph that is only planned: calls the functions of its steps with kernels of `set`,
 * with `stream` in their contexts, in the order of a run without metrics. The kernels must not
 * access memory: addresses only distinguish values. *ret_hosted: the number of steps that are
 * ops of plugins, which are not called. */
int mf_graph_launches(mf_graph *g, const struct mf_kernels *set, void *stream, int *ret_hosted);

#endif
