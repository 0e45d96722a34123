/* layer_model.h: a model of one block with four small experts, for tests of MoE layers. */
#ifndef MF_TESTS_LAYER_MODEL_H
#define MF_TESTS_LAYER_MODEL_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "run/session.h"

enum { LAYER_SETTINGS = 32 };

/* Whether one of the settings chooses a router that has no weights. */
static inline bool layer_weightless(int n, const char *const *set)
{
    static const char *const routers[] = {"router.plugin=hash", "router.plugin=oracle",
                                          "router.plugin=random", "router.plugin=soft",
                                          "router.plugin=takes_all"};
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof routers / sizeof *routers; k++)
            if (strcmp(set[i], routers[k]) == 0) return true;
    return false;
}

/* Opens a model with the common settings (four experts, sequences of 24 tokens), the settings
 * of the test, and those of its case. The graph has not run yet. */
static inline void layer_open(int n, const char *const *own, int n_more,
                              const char *const *more, const mf_model_shape *shape,
                              mf_session **ret_session, mf_model_graph **ret_graph)
{
    static const char *const common[] = {"data.path=builtin:topics?bytes=4000",
                                         "model.layers=1",
                                         "model.dim=16",
                                         "model.heads=2",
                                         "model.seq=24",
                                         "train.eval_context=0",
                                         "train.batch=4",
                                         "expert.hidden=8",
                                         "moe.experts=4",
                                         "regularizer.balance.plugin=none",
                                         "regularizer.z.plugin=none",
                                         "router.init_std=2"};
    enum { COMMON = sizeof common / sizeof *common };
    const char *set[LAYER_SETTINGS], *device = getenv("MOEFW_TEST_DEVICE");
    char on[64];
    const mf_session_options options = {.training = true};
    mf_config *config = NULL;
    int all = 0;
    ck_assert_int_lt(COMMON + n + n_more, LAYER_SETTINGS);
    for (int i = 0; i < COMMON - layer_weightless(n_more, more); i++)
        set[all++] = common[i];
    for (int i = 0; i < n; i++)
        set[all++] = own[i];
    for (int i = 0; i < n_more; i++)
        set[all++] = more[i];
    snprintf(on, sizeof on, "train.device=%s", device ? device : "cpu");
    set[all++] = on;
    int rc = mf_config_load("default", all, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, ret_session);
    if (rc == MF_OK) rc = mf_model_graph_new((*ret_session)->model, shape, ret_graph);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* Runs the step that all these tests use. */
static inline void layer_run(const mf_model_graph *mg)
{
    const mf_run run = {.seed = 3, .step = 5, .metrics = true, .forward_only = true};
    ck_assert_msg(mf_graph_run(mg->g, &run) == MF_OK, "%s", mf_error_message());
}

#endif
