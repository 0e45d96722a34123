/* train/load.h: a run on disk, opened again: its configuration, tokenizer and newest weights. */
#ifndef MF_TRAIN_LOAD_H
#define MF_TRAIN_LOAD_H

#include "train/session.h"

/* dir: a run directory. options: tokenizer_file is set here. *ret_step: of the weights.
 * MF_EINPUT when dir is no run, MF_ECHECKPOINT when it has no checkpoint that verifies. */
int mf_load_run(const char *dir, const mf_session_options *options, mf_session **ret,
                int64_t *ret_step);
/* The same with the weights after `step` updates; -1: the newest. */
int mf_load_run_at(const char *dir, const mf_session_options *options, int64_t step,
                   mf_session **ret, int64_t *ret_step);
/* Does the path look like a run directory (it holds config.ini)? */
bool mf_load_is_run(const char *path);

#endif
