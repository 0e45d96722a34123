/* Builds a model for verbs that only inspect it. Data are optional: if they cannot be read, the
 * model is built when the vocabulary size is known from elsewhere. */
#include "cli/cli_model.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "run/cost.h"

static int open_spare(mf_config *config, bool training, bool bare, mf_session **ret)
{
    mf_model_dims dims = {.vocab = (int32_t)config->model.vocab,
                          .classes = (int32_t)config->model.classes};
    for (int i = 0; i < config->n_tasks; i++)
        dims.more_classes[i] = (int32_t)config->tasks[i].classes;
    if (dims.vocab == 0 && strcmp(config->data.tokenizer, "byte") == 0) dims.vocab = 256;
    const mf_session_options o = {
        .training = training, .bare = bare, .spare = dims.vocab > 0 ? &dims : NULL};
    return mf_session_open(config, &o, ret);
}

int mf_cli_model_open(mf_config *config, bool training, mf_session **ret)
{
    return open_spare(config, training, true, ret);
}

int mf_cli_model_open_whole(mf_config *config, mf_session **ret)
{
    return open_spare(config, false, false, ret);
}

int mf_cli_model_too_large(mf_config *config)
{
    char why[1024], need[512];
    mf_session *s = NULL;
    mf_cost cost;
    snprintf(why, sizeof why, "%s", mf_error_message());
    const bool known =
        config && mf_cli_model_open(config, true, &s) == MF_OK && mf_cost_of(s, &cost) == MF_OK;
    const bool exceeds = known && mf_cost_exceeds(&cost, need, sizeof need);
    mf_session_close(s);
    return mf_fail(MF_ENOMEM, "%s%s%s", why, exceeds ? ": " : "", exceeds ? need : "");
}
