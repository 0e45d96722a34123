/* cli/cli_model.h: a model for verbs that inspect it and do not train. */
#ifndef MF_CLI_MODEL_H
#define MF_CLI_MODEL_H

#include "run/session.h"

/* Opens a bare session (run/session.h) of a configuration. Takes ownership of config, also on
 * failure. If the data cannot be read, but the vocabulary size is known without them, the
 * session has no data. training: the session has gradients and moments, if it has data. */
int mf_cli_model_open(mf_config *config, bool training, mf_session **ret);

/* Like mf_cli_model_open without training, but parameters have values, so graphs can run. */
int mf_cli_model_open_whole(mf_config *config, mf_session **ret);

/* For a failure with out of memory: adds to the recorded error how much memory training of the
 * configuration needs, if this machine has less. Takes ownership of config, which may be NULL.
 * Returns MF_ENOMEM. */
int mf_cli_model_too_large(mf_config *config);

#endif
