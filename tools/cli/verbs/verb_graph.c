/* moefw graph: prints the model's graph of ops as Graphviz text. The model has shapes but no
 * values, so this works for models of any size. */
#include "cli/cli.h"
#include "cli/cli_model.h"

#include "base/error.h"

#include <stdio.h>

static int draw(const mf_cli *cli, mf_session *s)
{
    const bool training = mf_cli_flag(cli, "training");
    const mf_model_shape shape = {.mode = training ? MF_MODE_TRAIN : MF_MODE_EVAL,
                                  .batch = (int32_t)mf_cli_int(cli, "batch", 1),
                                  .seq = (int32_t)mf_cli_int(cli, "seq", s->config->model.seq)};
    mf_model_graph *mg = NULL;
    if (shape.seq > s->config->model.seq)
        return mf_fail(MF_EUSAGE, "--seq: expected at most the model's %lld, found %d",
                       (long long)s->config->model.seq, shape.seq);
    if (training && !s->train)
        return mf_fail(MF_EINPUT, "--training needs the data of the configuration: %s",
                       s->config->data.path);
    int rc = mf_model_graph_new(s->model, &shape, &mg);
    if (rc == MF_OK) rc = mf_graph_dot(mg->g, training, stdout);
    mf_model_graph_free(mg);
    return rc;
}

static int run(const mf_cli *cli)
{
    mf_config *config;
    mf_session *s = NULL;
    int rc = mf_cli_no_json(cli, "DOT");
    if (rc == MF_OK) rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
    if (rc == MF_OK) rc = mf_cli_model_open(config, mf_cli_flag(cli, "training"), &s);
    if (rc == MF_OK) rc = draw(cli, s);
    mf_session_close(s);
    return rc;
}

static const mf_cli_form forms[] = {{NULL, "[CONFIG|PRESET|RUN]", 0, 1, NULL}, MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "training",
     .kind = MF_CLI_FLAG,
     .help = "the graph of a training step, gradients and all"},
    {.name = "batch",
     .arg = "N",
     .kind = MF_CLI_INT,
     .lo = 1,
     .hi = 65536,
     .help = "sequences; 1 by default"},
    {.name = "seq",
     .arg = "N",
     .kind = MF_CLI_INT,
     .lo = 1,
     .hi = 1048576,
     .help = "tokens a sequence; as the model has by default"},
    MF_CLI_DATA_FILES,
    MF_CLI_END};

const mf_verb mf_verb_graph = {
    .name = "graph",
    .brief = "print the model's graph of ops in DOT",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "moefw graph --seq 8 | dot -Tsvg >graph.svg\n",
};
