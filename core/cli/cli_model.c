#include "cli/cli_model.h"

#include <string.h>

int mf_cli_model_open(mf_config *config, bool training, mf_session **ret)
{
    mf_model_facts facts = {.vocab = (int32_t)config->model.vocab,
                            .classes = (int32_t)config->model.classes};
    if (facts.vocab == 0 && strcmp(config->data.tokenizer, "byte") == 0) facts.vocab = 256;
    const mf_session_options o = {
        .training = training, .bare = true, .spare = facts.vocab > 0 ? &facts : NULL};
    return mf_session_open(config, &o, ret);
}
