/* train/parallel/launch_check.h: what must hold before the ranks of a run begin together. */
#ifndef MF_TRAIN_LAUNCH_CHECK_H
#define MF_TRAIN_LAUNCH_CHECK_H

#include "comm/world.h"
#include "train/run/session.h"

/* Compares program, configuration, plugins, kernels and data of all ranks, and judges whether
 * the run can be divided. All ranks return the same. MF_EPLUGIN: a rank has something else.
 * MF_ECONFIG: there are more ranks than micro-batches, or the device is not the host. */
int mf_launch_check(mf_world *w, mf_session *s);
/* *ret: the threads that this rank should use if the configuration does not say: the usable
 * cores of its node, divided by the ranks that may use the same ones; 0: as without ranks, also
 * if OMP_NUM_THREADS is set. Warns on rank 0 if the launcher has bound ranks to one core each
 * while the node has more. All ranks must call this. Errors: those of mf_world_gather. */
int mf_launch_threads(mf_world *w, int *ret);

#endif
