/* cli/cli_model.h: a model built to be looked at, for verbs that train nothing. */
#ifndef MF_CLI_MODEL_H
#define MF_CLI_MODEL_H

#include "train/session.h"

/* The bare session (train/session.h) of a configuration, which it takes over also when it
 * fails. Where the data cannot be read, a vocabulary that is known without them will do, and
 * then the session has no data. training: with gradients and moments, if there are data. */
int mf_cli_model_open(mf_config *config, bool training, mf_session **ret);

/* The same with values, so that it can run; without gradients. */
int mf_cli_model_open_whole(mf_config *config, mf_session **ret);

#endif
