/* cli/cli_model.h: a model built to be looked at, for verbs that train nothing. */
#ifndef MF_CLI_MODEL_H
#define MF_CLI_MODEL_H

#include "train/session.h"

/* The session of a configuration, which it takes over also when it fails. Where the data cannot be
 * read, a vocabulary that is known without them will do, and then the session has no data.
 * training: with gradients and moments, if there are data. */
int mf_cli_model_open(mf_config *config, bool training, mf_session **ret);

typedef struct mf_cli_cost {
    int64_t params, params_active;
    double memory_mib; /* parameters, gradients, moments and the planned arena of one step */
} mf_cli_cost;
/* training: of a training step, else of an evaluation. */
int mf_cli_model_cost(mf_session *s, bool training, mf_cli_cost *ret);

#endif
