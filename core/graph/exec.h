/* graph/exec.h: the run that a call belongs to.
 *
 * Whoever calls an op's functions makes an mf_exec with this: graphs, and tests of single ops.
 */
#ifndef MF_GRAPH_EXEC_H
#define MF_GRAPH_EXEC_H

#include <moefw/op.h>

struct mf_kernels;

/* kernels may be NULL for ops that use none. */
void mf_exec_init(mf_exec *x, const struct mf_kernels *kernels, bool training, uint64_t seed,
                  uint64_t step);

#endif
