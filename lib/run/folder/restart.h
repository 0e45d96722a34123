/* run/folder/restart.h: runs that ended before their first checkpoint. A step is a function
 * of configuration, seed and step number, so such a run begins again at step 0 and
 * loses nothing. */
#ifndef MF_RUN_RESTART_H
#define MF_RUN_RESTART_H

#include "run/folder/rundir.h"

/* Finds out whether the run ended before it saved anything. Then its folder ckpt contains no
 * checkpoint, also no damaged or replaced one, and its metrics end before the step of the first
 * checkpoint, which follows from save_every and steps (0: none, unknown). *ret is false if the
 * run has a checkpoint, had one that is lost, or if an error is returned: MF_EIO or MF_EINPUT
 * if the folder or the metrics cannot be read, MF_ENOMEM. */
int mf_restart_possible(const mf_rundir *dir, int64_t save_every, int64_t steps, bool *ret);
/* Removes all files of the run except its configuration and its tokenizer. The caller must hold
 * the lock. */
int mf_restart_clear(const mf_rundir *dir);

#endif
