#include "cli/cli_model.h"

#include "base/error.h"

#include <string.h>

/* Codes of data that cannot be read, in contrast to a configuration that is wrong. */
static bool no_data(int rc)
{
    return rc == MF_EINPUT || rc == MF_EIO || rc == MF_ENOTFOUND;
}

int mf_cli_model_open(mf_config *config, bool training, mf_session **ret)
{
    mf_session_options with = {.training = training}, without = {.no_data = true};
    mf_model_facts facts = {.classes = (int32_t)config->model.classes};
    facts.vocab = (int32_t)config->model.vocab;
    if (facts.vocab == 0 && strcmp(config->data.tokenizer, "byte") == 0) facts.vocab = 256;
    /* A missing file is found out before the session takes the configuration. */
    mf_corpus *corpus = NULL;
    mf_corpus_spec spec;
    mf_corpus_defaults(&spec);
    spec.path = config->data.path;
    spec.val_path = config->data.val_path;
    spec.format = config->data.format;
    spec.tokenizer = config->data.tokenizer;
    spec.split = config->data.split;
    spec.task = (mf_task)config->model.task;
    spec.classes = (int32_t)config->model.classes;
    int rc = mf_corpus_load(&spec, &corpus);
    mf_corpus_free(corpus);
    if (no_data(rc) && facts.vocab > 0) {
        without.facts = &facts;
        return mf_session_open(config, &without, ret);
    }
    return mf_session_open(config, &with, ret);
}

int mf_cli_model_cost(mf_session *s, bool training, mf_cli_cost *ret)
{
    const mf_config *c = s->config;
    const mf_model_shape shape = {.mode = training ? MF_MODE_TRAIN : MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .accumulate = training && c->train.accumulate > 1};
    mf_model_graph *mg = NULL;
    mf_graph_info info;
    mf_model_count(s->model, &ret->params, &ret->params_active);
    int rc = mf_model_graph_new(s->model, &shape, &mg);
    if (rc != MF_OK) return rc;
    mf_graph_get_info(mg->g, &info);
    const double a_parameter = training ? 16 : 4; /* value, gradient, two moments */
    ret->memory_mib = ((double)ret->params * a_parameter + (double)info.arena_bytes) / 1048576;
    mf_model_graph_free(mg);
    return MF_OK;
}
