/* run/launch_check.h: checks before the ranks of a run begin to train together. */
#ifndef MF_RUN_LAUNCH_CHECK_H
#define MF_RUN_LAUNCH_CHECK_H

#include "comm/world.h"
#include "run/session.h"

/* Compares program, configuration, plugins, kernels and data of all ranks, and checks whether
 * the run can be divided. All ranks return the same status. MF_EPLUGIN: a rank differs.
 * MF_ECONFIG: there are more ranks than micro-batches, or the device is not the host. */
int mf_launch_check(mf_world *w, mf_session *s);
/* Computes *ret, the number of threads that this rank should use if the configuration does not
 * set it. It is the number of usable cores of the node, divided by the number of ranks that may
 * use the same cores. 0: as without ranks, also if OMP_NUM_THREADS is set. Warns on rank 0 if
 * the launcher has bound each rank to one core although the node has more. All ranks must call
 * this. Errors: those of mf_world_gather. */
int mf_launch_threads(mf_world *w, int *ret);

/* Computes how many of `ranks` ranks share the experts (parallel.expert). Neighbouring ranks
 * share them, in ranks / *ret groups. *ret 1: each rank has all experts. MF_ECONFIG if the
 * configuration does not allow it. */
int mf_launch_shares(const mf_config *c, int ranks, int *ret);
/* Call this before the ranks join. Among the ranks that share the experts (parallel.expert),
 * computes the index of this rank and the number of ranks from the numbers of the launcher.
 * *ret_ranks 1: each rank has all experts. MF_ECONFIG if the configuration does not allow it.
 * mf_launch_check later sets the world of the model. */
int mf_launch_experts(const mf_config *c, int *ret_rank, int *ret_ranks);

#endif
