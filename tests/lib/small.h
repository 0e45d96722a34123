/* small.h: small sessions, trainers and run folders for tests of training. */
#ifndef MF_TESTS_SMALL_H
#define MF_TESTS_SMALL_H

#include "run/training.h"

/* The preset `default` with n_base settings ("model.dim=8"), then n more settings. Any error of
 * this function and of the functions below fails the test. */
mf_config *small_config(int n_base, const char *const *base, int n, const char *const *more);
/* Opens a session and takes ownership of its configuration. options NULL: for training. */
mf_session *small_session(mf_config *config, const mf_session_options *options);
/* A trainer of the session. options may be NULL. */
mf_trainer *small_trainer(mf_session *s, const mf_training_options *options);
/* A new run folder of this name in the scratch folder. */
mf_rundir *small_rundir(const char *name);

#endif
