/* run/folder/restart.h: runs that ended before their first checkpoint. A step is a function of
 * configuration, seed and number, so such a run begins again at step 0 and loses nothing. */
#ifndef MF_RUN_RESTART_H
#define MF_RUN_RESTART_H

#include "run/folder/rundir.h"

/* Whether the run ended before it saved anything: its folder ckpt has no checkpoint, also no
 * damaged or replaced one, and its metrics end before the step of the first checkpoint, by
 * save_every and steps (0: none, not known). *ret false: it has one, or had one that is gone,
 * or an error is returned: MF_EIO or MF_EINPUT if the folder or the metrics cannot be read,
 * MF_ENOMEM. */
int mf_restart_possible(const mf_rundir *dir, int64_t save_every, int64_t steps, bool *ret);
/* Removes all files of the run except its configuration and its tokenizer. Needs the lock. */
int mf_restart_clear(const mf_rundir *dir);

#endif
