/* run/launch_check.h: checks before the ranks of a run begin together. */
#ifndef MF_RUN_LAUNCH_CHECK_H
#define MF_RUN_LAUNCH_CHECK_H

#include "comm/world.h"
#include "run/session.h"

/* Compares program, configuration, plugins, kernels and data of all ranks, and checks whether
 * the run can be divided. All ranks return the same. MF_EPLUGIN: a rank has something else.
 * MF_ECONFIG: there are more ranks than micro-batches, or the device is not the host. */
int mf_launch_check(mf_world *w, mf_session *s);
/* *ret: the threads that this rank should use if the configuration does not say: the usable
 * cores of its node, divided by the ranks that may use the same ones; 0: as without ranks, also
 * if OMP_NUM_THREADS is set. Warns on rank 0 if the launcher has bound ranks to one core each
 * while the node has more. All ranks must call this. Errors: those of mf_world_gather. */
int mf_launch_threads(mf_world *w, int *ret);

/* How many of so many ranks share the experts (parallel.expert): neighbours do, and there are
 * ranks / *ret groups of them; *ret 1: each rank has all experts. MF_ECONFIG if the
 * configuration does not allow it. */
int mf_launch_shares(const mf_config *c, int ranks, int *ret);
/* Before the ranks join: which rank this one is of those that share the experts
 * (parallel.expert), by the numbers of the launcher; *ret_ranks 1: each has all. MF_ECONFIG if
 * the configuration does not allow it. mf_launch_check then gives the model the world. */
int mf_launch_experts(const mf_config *c, int *ret_rank, int *ret_ranks);

#endif
