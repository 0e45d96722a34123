/* heads_model.h: a small model with two layers of heads, for tests of heads and their gates. */
#ifndef MF_TESTS_HEADS_MODEL_H
#define MF_TESTS_HEADS_MODEL_H

#include <check.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/heads.h"
#include "run/observers/head_tally.h"
#include "run/run_config.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

enum { BATCH = 2, SEQ = 5, VOCAB = 11, LAYERS = 2, HEADS = 8 };

typedef struct {
    mf_config *config;
    mf_model *model;
} made;

static inline void make(made *x, const char *more)
{
    const char *path = scratch_path("model.ini");
    char *text = mf_strf("[model]\ndim = 32\nlayers = 2\nseq = %d\nmoe_every = 0\n"
                         "init_std = 0.3\n%s[router]\nplugin = none\n[expert]\nplugin = none\n",
                         SEQ, more);
    const mf_model_dims dims = {.vocab = VOCAB, .train_steps = 1};
    const mf_model_options options = {.training = true, .seed = 1};
    scratch_write(path, text, strlen(text));
    ck_assert_msg(mf_config_load(path, 0, NULL, &x->config) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    const mf_model_settings settings = mf_config_model(x->config);
    ck_assert_msg(mf_model_new(&settings, &dims, &options, &x->model) == MF_OK, "%s",
                  mf_error_message());
    mf_free(text);
}

static inline void unmake(made *x)
{
    mf_model_free(x->model);
    mf_config_free(x->config);
}

static inline void feed(const mf_model_graph *mg)
{
    int32_t *tokens = mf_tensor_data(mg->tokens), *at = mf_tensor_data(mg->positions),
            *targets = mf_tensor_data(mg->targets), *ids = mf_tensor_data(mg->sequence_ids);
    for (int i = 0; i < mg->shape.batch * SEQ; i++) {
        tokens[i] = (i * 7 + 3) % VOCAB;
        targets[i] = (i * 5 + 1) % VOCAB;
        at[i] = i % SEQ;
        if (ids) ids[i] = i / SEQ;
    }
}

/* Runs one training graph and returns its loss; afterwards the store contains the gradients. */
static inline double run(const made *x, mf_head_tally *tally)
{
    const mf_model_shape shape = {.mode = MF_MODE_TRAIN, .batch = BATCH, .seq = SEQ};
    const mf_run how = {.metrics = true};
    mf_model_graph *mg;
    ck_assert_msg(mf_model_graph_new(x->model, &shape, &mg) == MF_OK, "%s", mf_error_message());
    feed(mg);
    ck_assert_msg(mf_graph_run(mg->g, &how) == MF_OK, "%s", mf_error_message());
    const double loss = (double)*(float *)mf_tensor_data(mg->loss);
    mf_head_tally_add(tally, mg);
    mf_model_graph_free(mg);
    return loss;
}

static inline void set(const made *x, int layer, const char *what, int head, float value)
{
    mf_head_param(x->model, layer, what)->value[head] = value;
}

#endif
